// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What changes for costs when products of float32 may be rounded to TF32, which only libraries of GPUs do.

#ifndef CLEAVE_PASSES_COST_ROUNDEDPRODUCTS_H
#define CLEAVE_PASSES_COST_ROUNDEDPRODUCTS_H

#include "passes/cost/Machine.h"

namespace cleave {

namespace runtime {
struct Kernel;
}

/// Whether the machine has devices whose libraries can round products, which are GPUs.
bool canRoundProducts(const Machine &machine);

/// The machine as it computes float32 with rounded products: what its kinds of GPUs say of "tf32" takes the place of
/// what they say of "f32", where they say it. Exact for products alone: of other operators it raises the rate of
/// computing, which on GPUs is not what they wait for.
Machine withRoundedProducts(Machine machine);

/// The machine that a search or an analysis costs with: rounded products where its executor, or `libraries`, round
/// them, and what measured steps have said (Calibration.h).
Machine costedMachine(Machine machine, bool libraries = false);

/// Whether a plan's kernel rounds what it multiplies.
bool roundsProducts(const runtime::Kernel &kernel);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_ROUNDEDPRODUCTS_H
