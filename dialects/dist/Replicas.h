// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replicas of a training step that do not wait for each other (passes/train/Versions.h), as a module says it.

#ifndef CLEAVE_DIALECTS_DIST_REPLICAS_H
#define CLEAVE_DIALECTS_DIST_REPLICAS_H

#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace cleave::dist {

/// On a module: a dictionary of i64, `count`, `devices`, `local_steps`, and `bound` and `overlap` where there are some.
inline constexpr llvm::StringLiteral replicasAttrName = "dist.replicas";

/// The module's meshes are those of the first replica, on the first `devices` of the machine. The others run the same
/// programs, each on as many devices behind the one before.
struct Replicas {
  unsigned count = 1, devices = 1;
  /// Steps that one may be ahead of the slowest; nothing: any number.
  std::optional<uint64_t> bound;
  /// Steps between two exchanges; 0: each step is one.
  uint64_t localSteps = 0;
  /// Local steps that hide an exchange, fewer than `localSteps`; 0: replicas wait for it.
  uint64_t overlap = 0;
};

/// Nothing where steps have no replicas of this kind.
std::optional<Replicas> getReplicas(mlir::ModuleOp module);
void setReplicas(mlir::ModuleOp module, const Replicas &replicas);

/// What dist.replicas must say: at least two, whose devices the module has.
mlir::LogicalResult verifyReplicas(mlir::Operation *op, mlir::Attribute attribute);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_REPLICAS_H
