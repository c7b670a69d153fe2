// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buckets of collectives, sized by what messages cost on a machine.

#ifndef CLEAVE_PASSES_DISTRIBUTE_COMBINECOLLECTIVES_H
#define CLEAVE_PASSES_DISTRIBUTE_COMBINECOLLECTIVES_H

#include "llvm/ADT/STLFunctionalExtras.h"

namespace cleave {

/// The bytes at which a bucket is full, of `bytes` that are communicated in a step; `seconds` is what one collective of
/// so many bytes takes, L + b S for S bytes. Every bucket costs its latency L, and the bytes of the last one are moved
/// when there is nothing left to compute meanwhile. Buckets of S bytes of G take G/S L + S b of this, which is least
/// at S = sqrt(G L / b), as with the segments of a pipelined broadcast (Träff, Ripke, Rolf 2005).
double bucketBytes(double bytes, llvm::function_ref<double(double bytes)> seconds);

} // namespace cleave

#endif // CLEAVE_PASSES_DISTRIBUTE_COMBINECOLLECTIVES_H
