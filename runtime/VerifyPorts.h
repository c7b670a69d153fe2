// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of the verifier that looks at which parts of inputs and outputs programs load and store.

#ifndef CLEAVE_RUNTIME_VERIFYPORTS_H
#define CLEAVE_RUNTIME_VERIFYPORTS_H

#include "runtime/Plan.h"

namespace cleave::runtime {

/// Whether a tile of the entry, by index, says where a part of a tensor of type `port` lies in it: in one dimension,
/// without cuts. Status::Rejected if not.
Error checkWithin(const Entry &entry, const Mesh &mesh, int32_t within, const TensorType &port);

/// Whether every output is stored once: whole, or in parts that follow each other and cover it. Expects stores that the
/// entry's other checks accept. Status::Rejected if not.
Error checkOutputs(const Entry &entry);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_VERIFYPORTS_H
