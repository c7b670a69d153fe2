// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the split test makes random instances of each operator.

#ifndef CLEAVE_TEST_PROPERTY_SPLIT_OPERATORTEMPLATES_H
#define CLEAVE_TEST_PROPERTY_SPLIT_OPERATORTEMPLATES_H

#include "test/property/split/GraphBuilder.h"

#include <functional>

namespace cleave::test {

/// What an operator may be computed on.
enum class Elements { Float, Number, Integer, Bool, Any };

/// Random instances of one operator: around a value, in a graph.
struct OperatorTemplate {
  /// "conv", as in the dialect.
  llvm::StringRef name;
  /// What the value must be.
  Elements elements;
  int64_t minRank, maxRank;
  Bounds bounds;
  /// Whether the result jumps where the value hardly moves; the value must then be exact.
  bool jumps;
  /// Appends the operator and whatever other operands it needs. The result is the operator's.
  std::function<mlir::Value(GraphBuilder &, mlir::Value)> build;

  bool accepts(mlir::RankedTensorType type) const;
  /// An element type for the value: f32 mostly.
  mlir::Type randomElement(mlir::Builder builder, Dice &dice) const;
};

using TemplateList = std::vector<OperatorTemplate>;
void addElementwiseTemplates(TemplateList &list);
void addContractionTemplates(TemplateList &list);
void addGradientTemplates(TemplateList &list);
void addIndexingTemplates(TemplateList &list);
void addMovementTemplates(TemplateList &list);
void addReductionTemplates(TemplateList &list);

/// Attributes of a window operator.
struct Window {
  llvm::SmallVector<int64_t> sizes, strides, pads, dilations;
  int64_t elements = 1;

  /// The shape of what the window makes of a tensor: `leading` sizes, then the window's positions in `space`.
  llvm::SmallVector<int64_t> resultShape(llvm::ArrayRef<int64_t> leading, llvm::ArrayRef<int64_t> space) const;
};

/// A window that has at least one position. A window never lies in the padding alone, of which there is none where it
/// is dilated.
Window randomWindow(GraphBuilder &g, llvm::ArrayRef<int64_t> space);

/// One, or a divisor of the number of channels.
int64_t randomGroups(GraphBuilder &g, int64_t channels);

/// All templates.
const TemplateList &operatorTemplates();

/// The operators of the dfg dialect that can be divided and have no template: there must be none.
std::vector<std::string> operatorsWithoutTemplate(mlir::MLIRContext &context);

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_SPLIT_OPERATORTEMPLATES_H
