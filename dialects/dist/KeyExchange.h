// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How keys and values of attention come to devices that have a part of the queries, as the planner and the partitioner
// write it on the attention's softmax.

#ifndef CLEAVE_DIALECTS_DIST_KEYEXCHANGE_H
#define CLEAVE_DIALECTS_DIST_KEYEXCHANGE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

#include <optional>

namespace cleave::dist {

/// On a softmax of a placed graph, and of programs until a pass has done as it says: a dictionary of a KeyExchange.
///
///   dist.keys = {way = "ring", devices = 4, ring_seconds = 2.0e-3, gathered_seconds = 3.0e-3,
///                ring_bytes = 1.0e6, gathered_bytes = 2.0e6}
inline constexpr llvm::StringLiteral keysAttrName = "dist.keys";

struct KeyExchange {
  /// Those of a device at a time come from the neighbour; else all of them are gathered.
  bool isRing = false;
  /// With a part of the keys each.
  int64_t devices = 2;
  /// What both ways take: seconds of a microbatch, forward and backward, and the bytes of keys, values and scores that
  /// a device then has at once.
  double ringSeconds = 0, gatheredSeconds = 0, ringBytes = 0, gatheredBytes = 0;
};

/// What is written on an operator; nothing where nothing is.
std::optional<KeyExchange> getKeyExchange(mlir::Operation *op);
void setKeyExchange(mlir::Operation *op, const KeyExchange &exchange);

/// Reports what is wrong with the attribute, at the operator that has it.
llvm::LogicalResult verifyKeyExchange(mlir::Operation *op, mlir::Attribute attribute);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_KEYEXCHANGE_H
