// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The model's nodes that a kernel's location names: the anchor first, then those that are fused with it.

#ifndef CLEAVE_PASSES_SCHEDULE_NODENAMES_H
#define CLEAVE_PASSES_SCHEDULE_NODENAMES_H

#include "mlir/IR/Location.h"

namespace cleave {

/// The distinct node names in a location, in order; empty where it names none.
llvm::SmallVector<llvm::StringRef> getNodeNames(mlir::Location location);

} // namespace cleave

#endif // CLEAVE_PASSES_SCHEDULE_NODENAMES_H
