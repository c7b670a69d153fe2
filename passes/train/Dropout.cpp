// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mask of a dropout as operators: positions that every device counts from the whole tensor's start, and a number
// for each of them.

#include "passes/train/Dropout.h"

#include "passes/train/Arithmetic.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace cleave {

/// The state that counts a dropout's samples, in a new parameter of the operator's module.
static dfg::ParameterOp addCounter(dfg::DropoutOp dropout) {
  auto module = dropout->getParentOfType<ModuleOp>();
  MLIRContext *context = module.getContext();
  std::string name = (dfg::getNodeName(dropout.getLoc()) + "/dropout").str();
  auto type = RankedTensorType::get({}, IntegerType::get(context, 64));
  auto zero = dfg::FillAttr::get(context, FloatAttr::get(Float64Type::get(context), 0.0));
  OpBuilder builder(context);
  auto counter = dfg::ParameterOp::create(builder, dropout.getLoc(), name, type, zero, /*state=*/true);
  // Nodes of one name get numbers.
  SymbolTable(module).insert(counter, module.getBody()->begin());
  return counter;
}

/// The position of every element in the tensor's row-major order.
static Value buildPositions(Arithmetic &math, ArrayRef<int64_t> shape) {
  auto rank = static_cast<int64_t>(shape.size());
  Value sum = math.integer(0);
  int64_t stride = 1;
  for (int64_t dim = rank - 1; dim >= 0; --dim) {
    if (shape[dim] > 1) {
      Value positions = math.positions(rank, dim, shape[dim]);
      sum = math.add(sum, stride > 1 ? math.mul(positions, math.integer(stride)) : positions);
    }
    stride *= shape[dim];
  }
  return sum;
}

Value buildTrainingDropout(OpBuilder &builder, dfg::DropoutOp dropout, uint64_t seed) {
  double ratio = dropout.getRatio().convertToDouble();
  if (ratio == 0)
    return dropout.getInput();
  Arithmetic math(builder, dropout.getLoc());
  RankedTensorType type = dropout.getInput().getType();
  int64_t samples = type.getRank() == 0 ? 1 : type.getDimSize(0);
  dfg::ParameterOp counter = addCounter(dropout);
  auto name = FlatSymbolRefAttr::get(counter.getSymNameAttr());
  Value seen = dfg::ReadOp::create(builder, dropout.getLoc(), counter.getTensorType(), name);
  Value start = math.mul(seen, math.integer(type.getNumElements() / std::max<int64_t>(samples, 1)));
  Value counters = math.add(buildPositions(math, type.getShape()), start);
  auto key = static_cast<uint32_t>(llvm::xxh3_64bits((Twine(seed) + "/" + counter.getSymName()).str()));
  Value random = dfg::RandomOp::create(builder, dropout.getLoc(), counters, math.integer(key));
  Value isKept = math.compare(random, dfg::Comparison::GreaterOrEqual, math.number(builder.getF32Type(), ratio));
  dfg::WriteOp::create(builder, dropout.getLoc(), name, math.add(seen, math.integer(samples)));
  Value scaled = math.mul(dropout.getInput(), ratio < 1 ? 1 / (1 - ratio) : 0.0);
  return math.select(isKept, scaled, math.number(type.getElementType(), 0.0));
}

static void replaceDropouts(dfg::GraphOp graph, llvm::function_ref<Value(OpBuilder &, dfg::DropoutOp)> build) {
  for (auto dropout : llvm::make_early_inc_range(graph.getOps<dfg::DropoutOp>())) {
    OpBuilder builder(dropout);
    dropout.replaceAllUsesWith(build(builder, dropout));
    dropout.erase();
  }
}

void expandDropout(dfg::GraphOp graph, uint64_t seed) {
  replaceDropouts(
      graph, [&](OpBuilder &builder, dfg::DropoutOp dropout) { return buildTrainingDropout(builder, dropout, seed); });
}

void removeDropout(dfg::GraphOp graph) {
  replaceDropouts(graph, [](OpBuilder &, dfg::DropoutOp dropout) { return dropout.getInput(); });
}

} // namespace cleave
