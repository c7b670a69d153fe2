// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention by kernels of a library that computes it whole, with what its gradient needs: the result and, by query, the
// logarithm of the sum of its scores' powers. In the gradient one kernel takes the place of all products.
//
// A library knows a scale and a causal mask between the first product and the softmax, and nothing else. In the
// gradient the operators between the products have to be those of exactly that formula.

#include "passes/codegen/AttentionBlocks.h"
#include "passes/codegen/KernelPasses.h"
#include "passes/codegen/LayoutTypes.h"
#include "passes/codegen/LibraryKernels.h"

#include "dialects/dfg/PlainScores.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_SELECTATTENTIONPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

bool isBFloat16(Value value) { return tensorType(value).getElementType().isBF16(); }

/// Attention as a library's kernels compute it.
class AttentionCall {
public:
  AttentionCall(dfg::Attention &found, LibraryKernels &kernels, KernelDevice device)
      : attention(found), kernels(kernels), device(device), operators(found.getAllOperators()) {}

  /// Puts launches in the place of the operators; false, with the reason, where it stays as it is.
  bool run(dfg::AttentionMiss &miss);

private:
  bool refuse(dfg::AttentionMiss &miss, Operation *op, StringRef reason) {
    miss = {op, reason};
    return false;
  }
  bool readGradient();
  bool isWeights(Value value) const;
  bool isGradientOfScores(Value value) const;
  Operation *findPlace();

  void readForm();
  SmallVector<int64_t> shapeOf(int64_t positions) const;
  Value inForm(OpBuilder &builder, const SideTensor &tensor) const;
  /// What a product gives, whose last two dimensions are positions and elements or, transposed, the other way round.
  Value fromForm(OpBuilder &builder, Value value, RankedTensorType type, bool isTransposed) const;
  runtime::LibraryKernelQuery query(StringRef routine, ArrayRef<Type> inputs, ArrayRef<RankedTensorType> outputs) const;
  ValueRange launch(OpBuilder &builder, const LibraryKernel &kernel, ValueRange operands, Operation *of) const {
    return plan::LaunchOp::create(builder, of->getLoc(), kernel.getOutputTypes(), kernel.symbol, operands).getResults();
  }

  dfg::Attention &attention;
  LibraryKernels &kernels;
  KernelDevice device;
  llvm::SetVector<Operation *> operators;
  dfg::PlainScores plain;
  /// Batches, heads and how tensors lie.
  int64_t batch = 1, heads = 1;
  bool positionsFirst = false;
  /// In the gradient: what is multiplied by the gradient of the scores, or by the weights; and the result, made again.
  OpOperand *ofQueries = nullptr, *ofKeys = nullptr, *ofValues = nullptr;
  SmallVector<OpOperand *> again;
};

bool AttentionCall::isWeights(Value value) const {
  return areSame(*attention.gradient, dfg::withoutCasts(value), attention.softmax.getResult());
}

/// Whether a value is scale * weights * (gradient of the weights - sums), masked as the scores are or not.
bool AttentionCall::isGradientOfScores(Value value) const {
  dfg::AttentionGradient &gradient = *attention.gradient;
  dfg::PlainScores found;
  while (Operation *op = value.getDefiningOp()) {
    if (auto product = dyn_cast<dfg::MulOp>(op))
      for (auto [weights, other] : {std::pair(0, 1), std::pair(1, 0)}) {
        auto centered = dfg::withoutCasts(product->getOperand(other)).getDefiningOp<dfg::SubOp>();
        if (centered && isWeights(product->getOperand(weights)))
          return dfg::withoutCasts(centered.getLhs()) == gradient.weights.getResult() &&
                 dfg::withoutCasts(centered.getRhs()) == gradient.sums.getResult() && found.scale == plain.scale &&
                 (!found.isCausal || (plain.isCausal && found.hidden == 0));
      }
    value = dfg::readPlainScores(op, found);
    if (!value)
      return false;
  }
  return false;
}

/// Finds which product gives the gradient of what.
bool AttentionCall::readGradient() {
  dfg::AttentionGradient &gradient = *attention.gradient;
  auto isSame = [&](Value a, Value b) { return areSame(gradient, a, b); };
  for (OpOperand *use : gradient.overKeys) {
    Value other = summedWith(*use, Side::Keys).value;
    if (isWeights(use->get()) && isSame(other, attention.result.getRhs()))
      again.push_back(use);
    else if (!ofQueries && isSame(other, attention.scores.getRhs()) && isGradientOfScores(use->get()))
      ofQueries = use;
    else
      return false;
  }
  for (OpOperand *use : gradient.overQueries) {
    Value other = summedWith(*use, Side::Queries).value;
    if (!ofValues && isWeights(use->get()) && isSame(other, gradient.weights.getLhs()))
      ofValues = use;
    else if (!ofKeys && isSame(other, attention.scores.getLhs()) && isGradientOfScores(use->get()))
      ofKeys = use;
    else
      return false;
  }
  auto isNarrow = [](OpOperand *use) { return isBFloat16(use->getOwner()->getResult(0)); };
  return ofQueries && ofKeys && ofValues && isNarrow(ofQueries) && isNarrow(ofKeys) && isNarrow(ofValues) &&
         llvm::all_of(again, isNarrow);
}

/// The product in whose place one kernel can compute all of them. Null where there is none.
Operation *AttentionCall::findPlace() {
  OpOperand *uses[] = {ofQueries, ofKeys, ofValues};
  SmallVector<Operation *> products = llvm::map_to_vector(uses, [](OpOperand *use) { return use->getOwner(); });
  llvm::sort(products, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *place : products) {
    auto isThere = [&](OpOperand *use) {
      Operation *op = summedWith(*use, Side::Keys).value.getDefiningOp();
      return !op || op->isBeforeInBlock(place);
    };
    auto isUnread = [&](Operation *product) {
      return llvm::all_of(product->getUsers(),
                          [&](Operation *user) { return operators.contains(user) || place->isBeforeInBlock(user); });
    };
    Operation *values = attention.gradient->weights.getRhs().getDefiningOp();
    if (attention.result->isBeforeInBlock(place) && (!values || values->isBeforeInBlock(place)) &&
        llvm::all_of(uses, isThere) && llvm::all_of(products, isUnread))
      return place;
  }
  return nullptr;
}

//===-- tensors -----------------------------------------------------------------------------------------------===//

/// Whether dimensions in that order are as some value lies of which `value` is the transpose.
bool liesInOrder(Value value, ArrayRef<int64_t> order) {
  SmallVector<int64_t> composed(order);
  while (auto transpose = value.getDefiningOp<dfg::TransposeOp>()) {
    for (int64_t &dim : composed)
      dim = transpose.getPermutation()[dim];
    value = transpose.getInput();
  }
  return llvm::is_sorted(composed);
}

SmallVector<int64_t> positionsFirstOrder(const SideTensor &tensor) {
  return {tensor.batch[0], tensor.along.back(), tensor.batch[1], tensor.size};
}

void AttentionCall::readForm() {
  SideTensor queries = lhsOf(attention.scores);
  SmallVector<int64_t> sizes;
  for (int64_t dim : queries.batch)
    sizes.push_back(tensorType(queries.value).getDimSize(dim));
  if (!sizes.empty()) {
    heads = sizes.back();
    batch = ShapedType::getNumElements(ArrayRef(sizes).drop_back());
  }
  positionsFirst = sizes.size() == 2 && liesInOrder(queries.value, positionsFirstOrder(queries));
}

SmallVector<int64_t> AttentionCall::shapeOf(int64_t positions) const {
  if (positionsFirst)
    return {batch, positions, heads, plain.headSize};
  return {batch, heads, positions, plain.headSize};
}

Value transposed(OpBuilder &builder, Value value, ArrayRef<int64_t> order) {
  if (llvm::is_sorted(order))
    return value;
  RankedTensorType type = tensorType(value);
  SmallVector<int64_t> shape;
  for (int64_t dim : order)
    shape.push_back(type.getDimSize(dim));
  return builder.createOrFold<dfg::TransposeOp>(value.getLoc(), type.clone(shape), value,
                                                builder.getDenseI64ArrayAttr(order));
}

Value reshaped(OpBuilder &builder, Value value, ArrayRef<int64_t> shape) {
  RankedTensorType type = tensorType(value);
  return type.getShape() == shape ? value
                                  : builder.createOrFold<dfg::ReshapeOp>(value.getLoc(), type.clone(shape), value);
}

Value AttentionCall::inForm(OpBuilder &builder, const SideTensor &tensor) const {
  int64_t positions = tensorType(tensor.value).getDimSize(tensor.along.back());
  if (positionsFirst && tensor.batch.size() == 2)
    return transposed(builder, tensor.value, positionsFirstOrder(tensor));
  Value byHeads = reshaped(builder, transposed(builder, tensor.value, tensor.getOrder()),
                           {batch, heads, positions, tensor.getSize()});
  return positionsFirst ? transposed(builder, byHeads, {0, 2, 1, 3}) : byHeads;
}

Value AttentionCall::fromForm(OpBuilder &builder, Value value, RankedTensorType type, bool isTransposed) const {
  SmallVector<int64_t> order = positionsFirst ? SmallVector<int64_t>{0, 2, 1, 3} : SmallVector<int64_t>{0, 1, 2, 3};
  if (isTransposed)
    std::swap(order[2], order[3]);
  return reshaped(builder, transposed(builder, value, order), type.getShape());
}

runtime::LibraryKernelQuery AttentionCall::query(StringRef routine, ArrayRef<Type> inputs,
                                                 ArrayRef<RankedTensorType> outputs) const {
  runtime::LibraryKernelQuery query;
  query.desc.operation = routine.str();
  query.desc.reals["scale"] = {plain.scale};
  query.desc.ints["causal"] = {plain.isCausal};
  query.desc.ints["positions_first"] = {positionsFirst};
  for (Type type : inputs)
    query.desc.inputs.push_back(toRuntimeType(cast<RankedTensorType>(type)));
  for (RankedTensorType type : outputs)
    query.desc.outputs.push_back(toRuntimeType(type));
  query.anyInputs.assign(inputs.size(), false);
  query.anyOutputs.assign(outputs.size(), false);
  return query;
}

//===-- launches ----------------------------------------------------------------------------------------------===//

bool AttentionCall::run(dfg::AttentionMiss &miss) {
  dfg::DotGeneralOp scores = attention.scores, result = attention.result;
  auto read = dfg::getPlainScores(attention, &miss);
  if (!read)
    return false;
  plain = *read;
  if (attention.gradient && !readGradient())
    return refuse(miss, attention.softmax, "its gradient is not that of all three operands");
  // What libraries sum up in float32 they give in bfloat16.
  if (!isBFloat16(scores.getLhs()) || !isBFloat16(result.getResult()))
    return refuse(miss, result, "the library takes and gives bfloat16");
  Operation *place = attention.gradient ? findPlace() : nullptr;
  if (attention.gradient && !place)
    return refuse(miss, attention.softmax, "products of its gradient depend on each other");
  readForm();
  RankedTensorType type = tensorType(scores.getLhs());
  SmallVector<int64_t> sizes(attention.getScoresType().getShape().take_back(2));
  RankedTensorType ofQuery = type.clone(shapeOf(sizes[0])), ofKey = type.clone(shapeOf(sizes[1]));
  auto logSums = RankedTensorType::get({batch, heads, sizes[0], 1}, Float32Type::get(type.getContext()));
  SmallVector<RankedTensorType> outputs = {ofQuery};
  if (attention.gradient)
    outputs.push_back(logSums);
  auto forward = kernels.get(query("attention", {ofQuery, ofKey, ofKey}, outputs), device);
  FailureOr<LibraryKernel> backward = failure();
  if (attention.gradient)
    backward = kernels.get(
        query("attention_gradient", {ofQuery, ofKey, ofKey, ofQuery, logSums, ofQuery}, {ofQuery, ofKey, ofKey}),
        device);
  if (failed(forward) || (attention.gradient && failed(backward)))
    return refuse(miss, scores, "the library has no kernel for these tensors");

  OpBuilder builder(result);
  SideTensor values{Side::Keys, result.getRhs(), SmallVector<int64_t>(result.getRhsBatch()),
                    SmallVector<int64_t>(result.getRhsContracting()), result.getRhsFree()[0]};
  Value made[] = {inForm(builder, lhsOf(scores)), inForm(builder, rhsOf(scores)), inForm(builder, values)};
  ValueRange given = launch(builder, *forward, made, attention.softmax);
  Value whole = given.front();
  result.replaceAllUsesWith(fromForm(builder, whole, tensorType(result.getResult()), /*isTransposed=*/false));
  if (!attention.gradient)
    return true;

  for (OpOperand *use : again) {
    builder.setInsertionPoint(use->getOwner());
    Value old = use->getOwner()->getResult(0);
    old.replaceAllUsesWith(fromForm(builder, whole, tensorType(old), use->getOperandNumber() != 0));
  }
  builder.setInsertionPoint(place);
  dfg::DotGeneralOp ofWeights = attention.gradient->weights;
  Value operands[] = {inForm(builder, summedWith(*ofKeys, Side::Queries)),
                      inForm(builder, summedWith(*ofQueries, Side::Keys)),
                      inForm(builder, rhsOf(ofWeights)),
                      whole,
                      given[1],
                      inForm(builder, lhsOf(ofWeights))};
  ValueRange gradients = launch(builder, *backward, operands, ofWeights);
  OpOperand *uses[] = {ofQueries, ofKeys, ofValues};
  for (auto [use, gradient] : llvm::zip_equal(uses, gradients)) {
    Value old = use->getOwner()->getResult(0);
    old.replaceAllUsesWith(fromForm(builder, gradient, tensorType(old), use->getOperandNumber() != 0));
  }
  return true;
}

class SelectAttention : public impl::SelectAttentionPassBase<SelectAttention> {
  void runOnOperation() override {
    LibraryKernels kernels(getOperation());
    for (auto program : getOperation().getOps<dist::ProgramOp>()) {
      KernelDevice device = kernelDeviceOf(program);
      if (device.library->hasAttention() && dfg::hasAttentionKernels(dist::getDeviceOf(program).chip))
        run(program, kernels, device);
    }
  }

  void run(dist::ProgramOp program, LibraryKernels &kernels, KernelDevice device) {
    DenseSet<Operation *> erased;
    unsigned missed = 0;
    dfg::AttentionMiss first;
    for (Operation *op : llvm::to_vector_of<Operation *>(program.getBody().getOps<dfg::SoftmaxOp>())) {
      if (erased.contains(op) || !isLarge(cast<dfg::SoftmaxOp>(op)))
        continue;
      dfg::AttentionMiss miss;
      auto attention = dfg::findAttention(op, &miss, dfg::ScoreTypes::Any);
      if (attention && AttentionCall(*attention, kernels, device).run(miss))
        erase(attention->getAllOperators().takeVector(), erased);
      if (miss.op && missed++ == 0)
        first = miss;
    }
    if (missed == 0)
      return;
    InFlightDiagnostic remark = emitRemark(first.op->getLoc()) << "program \"" << program.getSymName()
                                                               << "\": attention is not one kernel: " << first.reason
                                                               << " (" << first.op->getName().stripDialect() << ")";
    if (missed > 1)
      remark << "; " << missed << " such places in all";
  }

  /// Of a few queries or keys, or in other types, separate kernels are as good or all that there is.
  static bool isLarge(dfg::SoftmaxOp softmax) {
    RankedTensorType type = tensorType(softmax.getResult());
    ArrayRef<int64_t> shape = type.getShape();
    return type.getElementType().isBF16() && shape.size() >= 2 &&
           dfg::isOneLibraryKernel(shape[shape.size() - 2], shape.back());
  }

  static void erase(SmallVector<Operation *> operators, DenseSet<Operation *> &erased) {
    llvm::sort(operators, [](Operation *a, Operation *b) { return b->isBeforeInBlock(a); });
    for (Operation *op : operators) {
      erased.insert(op);
      op->erase();
    }
  }
};

} // namespace
} // namespace cleave
