// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products.

#include "passes/import/ActivationFunctions.h"
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

/// Gemm, and then the function that "activation" names.
static ImportResults importFusedGemm(NodeImporter &node) {
  ImportResults product = importGemm(node);
  if (failed(product))
    return failure();
  SmallVector<float> parameters;
  if (node.hasAttribute("activation_beta") && !node.hasAttribute("activation_alpha"))
    return node.unsupported("\"activation_beta\" without \"activation_alpha\" is not known");
  for (StringRef name : {"activation_alpha", "activation_beta"})
    if (node.hasAttribute(name))
      parameters.push_back(static_cast<float>(node.exactReal(name, 0.0)));
  FailureOr<Value> result = applyActivation(node, product->front().value, parameters);
  if (failed(result))
    return failure();
  return oneResult(*result);
}

/// NumPy's matmul: vectors on either side, and stacks of matrices that broadcast. Each matrix is transposed on demand.
static Value matmul(NodeImporter &node, Value lhs, Value rhs, bool transposesLhs, bool transposesRhs) {
  if (!lhs || !rhs)
    return {};
  ArrayRef<int64_t> lhsShape = NodeImporter::typeOf(lhs).getShape(), rhsShape = NodeImporter::typeOf(rhs).getShape();
  int64_t left = lhsShape.size(), right = rhsShape.size();
  if (left == 0 || right == 0) {
    (void)node.error("expects no scalars");
    return {};
  }
  // Counted from the end; a vector has only one dimension to contract.
  int64_t lhsLast = left > 1 && transposesLhs ? 2 : 1, rhsLast = right == 1 || transposesRhs ? 1 : 2;
  if (left == 1 || right <= 2)
    return dot(node, lhs, rhs, {}, {}, left - lhsLast, right - rhsLast);

  ArrayRef<int64_t> lhsBatch = lhsShape.drop_back(2), rhsBatch = rhsShape.drop_back(2);
  // One matrix on the right for all: no batch.
  if (llvm::all_of(rhsBatch, [](int64_t size) { return size == 1; }) && left >= right)
    return dot(node, lhs, node.reshape(rhs, rhsShape.take_back(2)), {}, {}, left - lhsLast, 2 - rhsLast);
  auto batch = dfg::broadcastShapes(lhsBatch, rhsBatch);
  if (failed(batch)) {
    (void)node.error("expects stacks of matrices that broadcast");
    return {};
  }
  // A matrix on the right for several on the left: stacks that only the left has are rows of its own, which repeat
  // nothing, where they are the last ones.
  int64_t shared = right - 2;
  while (shared > 0 && rhsBatch[shared - 1] == 1)
    --shared;
  if (left == right && lhsBatch.take_front(shared) == rhsBatch.take_front(shared)) {
    SmallVector<int64_t> once(rhsShape.take_front(shared)), dims = llvm::to_vector(llvm::seq<int64_t>(0, shared));
    llvm::append_range(once, rhsShape.take_back(2));
    return dot(node, lhs, node.reshape(rhs, once), dims, dims, left - lhsLast, shared + 2 - rhsLast);
  }
  auto expand = [&](Value value, ArrayRef<int64_t> matrix) {
    SmallVector<int64_t> shape(*batch);
    shape.append(matrix.begin(), matrix.end());
    return node.broadcast(value, shape);
  };
  lhs = expand(lhs, lhsShape.take_back(2));
  rhs = expand(rhs, rhsShape.take_back(2));
  int64_t rank = batch->size() + 2;
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rank - 2));
  return dot(node, lhs, rhs, dims, dims, rank - lhsLast, rank - rhsLast);
}

static ImportResults importMatMul(NodeImporter &node) {
  return oneResult(matmul(node, node.input(0), node.input(1), /*transposesLhs=*/false, /*transposesRhs=*/false));
}

/// An operand of FusedMatMul: with `transposesBatch` its first dimension is that of the matrices' rows.
static Value rowsInPlace(NodeImporter &node, Value value, bool transposesBatch) {
  int64_t rank = NodeImporter::typeOf(value).getRank();
  if (!transposesBatch || rank < 3)
    return value;
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(1, rank - 1));
  permutation.append({0, rank - 1});
  return node.transpose(value, permutation);
}

static ImportResults importFusedMatMul(NodeImporter &node) {
  Value lhs = rowsInPlace(node, node.input(0), node.integer("transBatchA", 0));
  Value rhs = rowsInPlace(node, node.input(1), node.integer("transBatchB", 0));
  Value product = matmul(node, lhs, rhs, node.integer("transA", 0), node.integer("transB", 0));
  return oneResult(scaledBy(node, product, node.real("alpha", 1.0)));
}

/// The distances of every row of one matrix from every row of another. Squares that rounding leaves below zero are
/// zero.
static ImportResults importDistances(NodeImporter &node) {
  std::string metric = node.text("metric", "sqeuclidean");
  if (metric != "euclidean" && metric != "sqeuclidean")
    return node.unsupported("the \"metric\" \"" + metric + "\" is not known");
  if (node.rank(0) != 2 || node.rank(1) != 2 || node.shape(0)[1] != node.shape(1)[1])
    return node.error("expects two matrices of as many columns");
  auto squares = [&](unsigned index, ArrayRef<int64_t> shape) {
    Value square = node.emit<dfg::MulOp>({node.input(index), node.input(index)});
    return node.reshape(node.reduce(square, dfg::ReduceKind::Sum, {1}, /*keepDims=*/false), shape);
  };
  Value products = scaledBy(node, dot(node, node.input(0), node.input(1), {}, {}, 1, 1), -2.0);
  Value sums = node.emit<dfg::AddOp>({squares(0, {node.shape(0)[0], 1}), squares(1, {1, node.shape(1)[0]})});
  Value result = node.emit<dfg::ReluOp>(node.emit<dfg::AddOp>({products, sums}));
  return oneResult(metric == "euclidean" ? node.emit<dfg::SqrtOp>(result) : result);
}

void addContractionOperators(OperatorTable &table) {
  table.add("Gemm", {importGemm, 2, 3, Elements::Number});
  table.add("MatMul", {importMatMul, 2, 2, Elements::Number});
  table.add("com.microsoft.FusedGemm", {importFusedGemm, 2, 3, Elements::Float, 1});
  table.add("com.microsoft.FusedMatMul", {importFusedMatMul, 2, 2, Elements::Float, 1});
  table.add("com.microsoft.TransposeMatMul", {importFusedMatMul, 2, 2, Elements::Float, 1});
  table.add("com.microsoft.CDist", {importDistances, 2, 2, Elements::Float, 1});
}

} // namespace cleave
