// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types, split rules and costs of products in which an index chooses each row's matrix.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/TensorType.h"

using namespace mlir;

namespace cleave::dfg {

/// The dimensions of `rows`, which stand in front of an operand's last one.
static bool areRowsOf(RankedTensorType operand, RankedTensorType rows) {
  if (operand.getRank() != rows.getRank() + 1)
    return false;
  for (auto [size, wanted] : llvm::zip(operand.getShape(), rows.getShape()))
    if (size != wanted && size != 1)
      return false;
  return true;
}

/// How many rows there are.
static double countRows(RankedTensorType indices) { return static_cast<double>(indices.getNumElements()); }

/// The part of all rows that have a matrix among `here`.
static double partOfRows(int64_t here, std::optional<uint64_t> total) {
  return total && *total > 0 ? std::min(1.0, static_cast<double>(here) / static_cast<double>(*total)) : 1.0;
}

namespace {
/// The rule of both operators: rows, matrices, and the factors of a row.
struct GatherRule {
  explicit GatherRule(RankedTensorType indices, FactorKind kind, Combiner combiner) : shape(indices.getShape()) {
    for (auto [index, size] : llvm::enumerate(shape)) {
      unsigned factor = rule.addFactor(shape.size() == 1 ? "m" : "m" + std::to_string(index), size, kind, combiner);
      if (index == 0)
        rule.factors[factor].alias = "batch";
      rows.push_back({factor});
    }
  }

  /// The factors of an operand of rows, of which those of size one repeat.
  TensorFactors of(RankedTensorType operand, unsigned last) const {
    TensorFactors factors;
    for (auto [size, row, whole] : llvm::zip(operand.getShape(), rows, shape))
      factors.push_back(size == whole ? row : DimFactors{});
    factors.push_back({last});
    return factors;
  }

  SplitRule rule;
  ArrayRef<int64_t> shape;
  TensorFactors rows;
};
} // namespace

/// Positions among the matrices of a part that begins at `start`, in the type of `indices`.
static Value positionsFrom(OpBuilder &builder, Location loc, Value indices, Value start) {
  Type indexType = tensorType(indices).getElementType();
  if (!indexType.isInteger(64))
    start = CastOp::create(builder, loc, start, indexType);
  return SubOp::create(builder, loc, indices, start);
}

//===-- gather_dot --------------------------------------------------------------------------------------------===//

LogicalResult GatherDotOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto lhs = tensorType(adaptor.getLhs()), rhs = tensorType(adaptor.getRhs()), rows = tensorType(adaptor.getIndices());
  if (rhs.getRank() != 3 || lhs.getElementType() != rhs.getElementType() || !areRowsOf(lhs, rows))
    return emitOptionalError(location,
                             "'dfg.gather_dot' expects rows, matrices of rank 3 and of the rows' element type, and an "
                             "index for each row, got ",
                             lhs, ", ", rhs, " and ", rows);
  int64_t depth = rhs.getDimSize(adaptor.getTransposed() ? 2 : 1);
  if (lhs.getShape().back() != depth)
    return emitOptionalError(location, "'dfg.gather_dot' expects rows of ", depth, " elements, as the matrices ", rhs,
                             " have, got ", lhs);
  SmallVector<int64_t> shape(rows.getShape());
  shape.push_back(rhs.getDimSize(adaptor.getTransposed() ? 1 : 2));
  types.push_back(RankedTensorType::get(shape, lhs.getElementType()));
  return success();
}

SplitRule GatherDotOp::getSplitRule() {
  auto lhs = tensorType(getLhs()), rhs = tensorType(getRhs());
  GatherRule gather(tensorType(getIndices()), FactorKind::Parallel, Combiner::None);
  SplitRule &rule = gather.rule;
  // Devices that have some of the matrices give zero for rows of the others.
  unsigned matrix = rule.addFactor("expert", rhs.getDimSize(0), FactorKind::Reduction, Combiner::Sum);
  unsigned column = rule.addFactor("n", tensorType(getResult()).getShape().back());
  unsigned depth = rule.addFactor("k", lhs.getShape().back(), FactorKind::Reduction, Combiner::Sum);
  rule.factors[column].alias = "out_channel";
  rule.factors[depth].alias = "in_channel";
  rule.operands = {gather.of(lhs, depth), {{matrix}, {depth}, {column}}, gather.rows};
  if (getTransposed())
    std::swap(rule.operands[1][1], rule.operands[1][2]);
  rule.results = {gather.of(tensorType(getResult()), column)};
  rule.linear = {{0}, {1}};
  return rule;
}

FailureOr<SmallVector<Value>> GatherDotOp::localize(OpBuilder &builder, const LocalInstance &instance) {
  unsigned matrix = *getSplitRule().find("expert");
  if (instance.ways[matrix] == 1)
    return localizeByCloning(*this, builder, instance);
  Value indices = positionsFrom(builder, getLoc(), instance.operands[2], instance.start(matrix));
  auto total = builder.getI64IntegerAttr(static_cast<int64_t>(getTotal().value_or(tensorType(getRhs()).getDimSize(0))));
  return SmallVector<Value>{GatherDotOp::create(builder, getLoc(), instance.operands[0], instance.operands[1], indices,
                                                getTransposedAttr(), total)};
}

/// Counts matrices that no row chooses as read, unless there are more of them than rows.
OpCost GatherDotOp::getCost() {
  auto lhs = tensorType(getLhs()), rhs = tensorType(getRhs()), indices = tensorType(getIndices());
  OpCost cost = elementwiseCost(*this, 0.0, CostClass::Contraction);
  double part = partOfRows(rhs.getDimSize(0), getTotal());
  double columns = static_cast<double>(tensorType(getResult()).getShape().back());
  double depth = static_cast<double>(lhs.getShape().back()), rows = countRows(indices) * part;
  cost.flops = 2.0 * rows * columns * depth;
  double matrices = static_cast<double>(rhs.getDimSize(0));
  if (rows < matrices)
    cost.bytesRead -= (1 - rows / matrices) * static_cast<double>(tensorBytes(rhs));
  return cost;
}

//===-- scatter_dot -------------------------------------------------------------------------------------------===//

LogicalResult ScatterDotOp::verify() {
  auto lhs = tensorType(getLhs()), rhs = tensorType(getRhs()), rows = tensorType(getIndices());
  auto result = tensorType(getResult());
  if (!areRowsOf(lhs, rows) || !areRowsOf(rhs, rows) || lhs.getElementType() != rhs.getElementType())
    return emitOpError("expects two operands of rows of one element type, and an index for each row, got ")
           << lhs << ", " << rhs << " and " << rows;
  if (result.getRank() != 3 || result.getDimSize(1) != lhs.getShape().back() ||
      result.getDimSize(2) != rhs.getShape().back() || result.getElementType() != lhs.getElementType())
    return emitOpError("expects a matrix of ")
           << lhs.getShape().back() << " x " << rhs.getShape().back() << " elements for each index, got " << result;
  return success();
}

SplitRule ScatterDotOp::getSplitRule() {
  auto lhs = tensorType(getLhs()), rhs = tensorType(getRhs()), result = tensorType(getResult());
  GatherRule gather(tensorType(getIndices()), FactorKind::Reduction, Combiner::Sum);
  SplitRule &rule = gather.rule;
  unsigned matrix = rule.addFactor("expert", result.getDimSize(0));
  unsigned row = rule.addFactor("in_channel", result.getDimSize(1));
  unsigned column = rule.addFactor("out_channel", result.getDimSize(2));
  rule.operands = {gather.of(lhs, row), gather.of(rhs, column), gather.rows};
  rule.results = {{{matrix}, {row}, {column}}};
  rule.linear = {{0}, {1}};
  return rule;
}

FailureOr<SmallVector<Value>> ScatterDotOp::localize(OpBuilder &builder, const LocalInstance &instance) {
  unsigned matrix = *getSplitRule().find("expert");
  Value indices = instance.operands[2];
  IntegerAttr total = getTotalAttr();
  if (instance.ways[matrix] != 1) {
    indices = positionsFrom(builder, getLoc(), indices, instance.start(matrix));
    total = total ? total : builder.getI64IntegerAttr(tensorType(getResult()).getDimSize(0));
  }
  return SmallVector<Value>{ScatterDotOp::create(builder, getLoc(), instance.results[0], instance.operands[0],
                                                 instance.operands[1], indices, total)};
}

OpCost ScatterDotOp::getCost() {
  auto result = tensorType(getResult());
  OpCost cost = elementwiseCost(*this, 0.0, CostClass::Contraction);
  double matrix = static_cast<double>(result.getDimSize(1)) * static_cast<double>(result.getDimSize(2));
  cost.flops = 2.0 * countRows(tensorType(getIndices())) * partOfRows(result.getDimSize(0), getTotal()) * matrix;
  return cost;
}

} // namespace cleave::dfg
