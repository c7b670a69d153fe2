// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A value of the model while it is imported: computed by an operator, known, or made by an initializer.

#ifndef CLEAVE_PASSES_IMPORT_IMPORTEDVALUE_H
#define CLEAVE_PASSES_IMPORT_IMPORTEDVALUE_H

#include "dialects/interfaces/HostTensor.h"

#include "mlir/IR/Value.h"

#include <string>

namespace cleave {

/// One named value of the model. At least one of `value`, `known` and `init` is set.
struct ImportedValue {
  std::string name;
  mlir::RankedTensorType type;
  /// Null until an operator that is left to run time uses the value.
  mlir::Value value;
  /// The elements where they are known at import.
  HostTensor known;
  /// #dfg.normal, #dfg.uniform or #dfg.fill: elements that are generated when the graph is loaded.
  mlir::Attribute init;
  /// Comes from a weight of the model: becomes a parameter, not a constant.
  bool isWeight = false;
  /// Is an initializer of the model.
  bool isInitializer = false;
  /// Is filled in a shape that the model computes, as zeros like another tensor are: no weight, unlike what is filled
  /// or drawn in a shape that the model states.
  bool isFilling = false;
  /// Was computed at import from known values.
  bool isFolded = false;
  /// A running statistic, if it becomes a parameter.
  bool isState = false;
  /// An initializer whose elements have 4 bits in the model: integers of 8 bits here (see ModelTensor).
  bool isPacked = false;
  /// A file beside the model that holds the elements, and where; empty: none does.
  std::string file;
  uint64_t offset = 0;
  /// How many inputs of nodes still to come, and outputs, are this value: at none its elements are dropped.
  int64_t usesLeft = 0;

  /// Whether training changes the value, if it becomes a parameter of real numbers.
  bool isTrained() const { return isWeight || (init && !isFilling); }
  /// Whether the elements are known, or can be made without loss of time.
  bool isKnown() const;
  /// The elements; fills them in where `init` says what they are. Null where they are not known.
  HostTensor getKnown() const;
};

/// What an operator's import gives for one of its outputs.
struct NodeResult {
  mlir::Value value;
  HostTensor known;
  mlir::RankedTensorType type;
  mlir::Attribute init;

  /// The result of operators; null where building them failed.
  NodeResult(mlir::Value value) : value(value) {}
  NodeResult(HostTensor known) : known(std::move(known)) {}
  NodeResult(mlir::RankedTensorType type, mlir::Attribute init) : type(type), init(init) {}
};

/// One a output of the node; fewer where the others are not wanted.
using ImportResults = llvm::FailureOr<llvm::SmallVector<NodeResult, 1>>;

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_IMPORTEDVALUE_H
