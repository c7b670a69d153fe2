// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products.

#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

using namespace mlir;

namespace cleave {

static Value dot(NodeImporter &node, Value lhs, Value rhs, ArrayRef<int64_t> lhsBatch, ArrayRef<int64_t> rhsBatch,
                 int64_t lhsContracting, int64_t rhsContracting) {
  return node.emit<dfg::DotGeneralOp>({lhs, rhs}, {node.attr("lhs_batch", lhsBatch), node.attr("rhs_batch", rhsBatch),
                                                   node.attr("lhs_contracting", ArrayRef<int64_t>(lhsContracting)),
                                                   node.attr("rhs_contracting", ArrayRef<int64_t>(rhsContracting))});
}

static Value scaledBy(NodeImporter &node, Value value, double factor) {
  if (!value || factor == 1.0)
    return value;
  return node.emit<dfg::MulOp>({value, node.scalar(NodeImporter::elementOf(value), factor)});
}

/// alpha * A' * B' + beta * C, with A and B transposed on demand.
static ImportResults importGemm(NodeImporter &node) {
  if (node.rank(0) != 2 || node.rank(1) != 2)
    return node.error("expects matrices");
  bool transA = node.integer("transA", 0), transB = node.integer("transB", 0);
  double alpha = node.real("alpha", 1.0), beta = node.real("beta", 1.0);
  bool real = isa<FloatType>(node.type(0).getElementType());
  if (!real && (alpha != 1.0 || beta != 1.0))
    return node.unsupported("factors other than 1 are not known for integers");
  Value product =
      scaledBy(node, dot(node, node.input(0), node.input(1), {}, {}, transA ? 0 : 1, transB ? 1 : 0), alpha);
  if (!product || !node.hasInput(2))
    return oneResult(product);
  auto joined = dfg::broadcastShapes(NodeImporter::typeOf(product).getShape(), node.shape(2));
  if (failed(joined) || ArrayRef<int64_t>(*joined) != NodeImporter::typeOf(product).getShape())
    return node.error("expects C to broadcast to the product");
  if (beta == 0.0)
    return oneResult(product);
  return oneResult(node.emit<dfg::AddOp>({product, scaledBy(node, node.input(2), beta)}));
}

/// NumPy's matmul: vectors on either side, and stacks of matrices that broadcast.
static ImportResults importMatMul(NodeImporter &node) {
  Value lhs = node.input(0), rhs = node.input(1);
  int64_t left = node.rank(0), right = node.rank(1);
  if (left == 0 || right == 0)
    return node.error("expects no scalars");
  if (left == 1 || right <= 2)
    return oneResult(dot(node, lhs, rhs, {}, {}, left - 1, std::max<int64_t>(right - 2, 0)));

  ArrayRef<int64_t> leftBatch = node.shape(0).drop_back(2), rightBatch = node.shape(1).drop_back(2);
  // One matrix on the right for all: no batch.
  if (llvm::all_of(rightBatch, [](int64_t size) { return size == 1; }) && left >= right)
    return oneResult(dot(node, lhs, node.reshape(rhs, node.shape(1).take_back(2)), {}, {}, left - 1, 0));
  auto batch = dfg::broadcastShapes(leftBatch, rightBatch);
  if (failed(batch))
    return node.error("expects stacks of matrices that broadcast");
  auto expand = [&](Value value, ArrayRef<int64_t> matrix) {
    SmallVector<int64_t> shape(*batch);
    shape.append(matrix.begin(), matrix.end());
    return node.broadcast(value, shape);
  };
  lhs = expand(lhs, node.shape(0).take_back(2));
  rhs = expand(rhs, node.shape(1).take_back(2));
  int64_t rank = batch->size() + 2;
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rank - 2));
  return oneResult(dot(node, lhs, rhs, dims, dims, rank - 1, rank - 2));
}

void addContractionOperators(OperatorTable &table) {
  table.add("Gemm", {importGemm, 2, 3, Elements::Number});
  table.add("MatMul", {importMatMul, 2, 2, Elements::Number});
}

} // namespace cleave
