// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes attention by blocks of keys, each with a softmax of its own; the blocks' results are joined by how much each
// weighs in the whole (Rabe and Staats: Self-attention Does Not Need O(n^2) Memory, 2021). Of scores s in blocks b,
// with the values v:
//
//   m_b = max s    l_b = sum e^(s - m_b)    o_b = sum e^(s - m_b) v          by block
//   m = max m_b    result = sum e^(m_b - m) o_b / sum e^(m_b - m) l_b        over blocks
//
// Here that is a fusion of operators; which loops run over blocks and queries outside of all of them, so that a few
// queries' scores with one block are all that there is at a time, is decided in NativeNests.cpp.
//
// The gradient makes the weights p once more, of the scores and what is kept of the forward pass: log sum e^s of each
// query (Dao et al.: FlashAttention, 2022). With the result's gradient do:
//
//   p = e^(s - log sum e^s)    dp = do v    ds = p (dp - sum over keys of p dp)    sum over keys of p dp = do result
//
// Blocks that masks hide whole from all of a few queries are passed over: a fusion says of which band of queries and
// keys its sums are.
//
// One kernel goes by queries and sums up over blocks of keys (the gradient of the queries), another one by keys and
// sums up over blocks of queries (those of keys and values).

#include "passes/codegen/AttentionBlocks.h"
#include "passes/codegen/KernelPasses.h"

#include "llvm/Support/FormatVariadic.h"

#include <limits>
#include <numeric>

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_FUSEATTENTIONPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

/// Attention with its gradient, if any, in the place of its operators.
class AttentionBuilder {
public:
  /// `band`: outside of which masks hide everything.
  AttentionBuilder(const dfg::Attention &found, const std::optional<dfg::ScoreBand> &band)
      : attention(found), operators(attention.getAllOperators().takeVector()), band(band) {}

  /// Gives the operators that are no more: none where the products of the gradient stand so that no kernel can take the
  /// place of several.
  ArrayRef<Operation *> run() {
    Operation *byQueries = nullptr, *byKeys = nullptr;
    if (attention.gradient) {
      byQueries = findPlace(attention.gradient->overKeys);
      byKeys = findPlace(attention.gradient->overQueries);
      if (!byKeys || (!byQueries && !attention.gradient->overKeys.empty()))
        return {};
    }
    fuseResult();
    if (byQueries)
      fuseGradient(Side::Queries, attention.gradient->overKeys, byQueries);
    if (byKeys)
      fuseGradient(Side::Keys, attention.gradient->overQueries, byKeys);
    llvm::sort(operators, [](Operation *a, Operation *b) { return b->isBeforeInBlock(a); });
    for (Operation *op : operators)
      op->erase();
    return operators;
  }

private:
  static bool isEarlier(Operation *a, Operation *b) { return a->isBeforeInBlock(b); }

  /// The product in whose place one kernel can compute all of them: its operands dominate it, and it all users of the
  /// products. Null where there is none.
  Operation *findPlace(ArrayRef<OpOperand *> uses) {
    auto products = llvm::map_to_vector(uses, [](OpOperand *use) { return use->getOwner(); });
    llvm::sort(products, isEarlier);
    DenseSet<Operation *> own(operators.begin(), operators.end());
    for (Operation *place : products) {
      auto isThere = [&](Value value) {
        Operation *op = value.getDefiningOp();
        return !op || own.contains(op) || isa<dfg::ConstantOp>(op) || op->isBeforeInBlock(place);
      };
      auto isUnread = [&](Operation *product) {
        return llvm::all_of(product->getUsers(), [&](Operation *user) { return place->isBeforeInBlock(user); });
      };
      if (attention.result->isBeforeInBlock(place) && llvm::all_of(products, isUnread) &&
          llvm::all_of(operators, [&](Operation *op) { return llvm::all_of(op->getOperands(), isThere); })) {
        moveConstants(place);
        return place;
      }
    }
    return nullptr;
  }

  void moveConstants(Operation *place) {
    for (Operation *op : operators)
      for (Value operand : op->getOperands())
        if (auto constant = operand.getDefiningOp<dfg::ConstantOp>(); constant && place->isBeforeInBlock(constant))
          constant->moveBefore(place);
  }

  void fuseResult() {
    dfg::DotGeneralOp product = attention.result;
    SideTensor values{Side::Keys, product.getRhs(), SmallVector<int64_t>(product.getRhsBatch()),
                      SmallVector<int64_t>(product.getRhsContracting()), product.getRhsFree()[0]};
    AttentionBlocks in(attention, Side::Queries, values.getSize(), product, band);
    // By block.
    Value scores = in.scores(attention.softmax.getInput());
    Value none = in.scalar(-std::numeric_limits<double>::infinity()), zero = in.scalar(0);
    scores = in.withoutPadding(scores, none);
    Value blockLargest = in.reduce(scores, dfg::ReduceKind::Max, in.columnDims());
    // Where a mask leaves nothing of a block, powers are to be 0, not those of infinity less infinity.
    Value isNothing = in.make<dfg::CompareOp>(blockLargest, none, dfg::Comparison::Equal);
    Value from = in.make<dfg::SelectOp>(isNothing, zero, blockLargest);
    Value powers = in.make<dfg::ExpOp>(in.make<dfg::SubOp>(scores, in.expanded(from, 2)));
    Value blockSum = in.reduce(powers, dfg::ReduceKind::Sum, in.columnDims());
    Value blockValues = in.sumBlocks(powers, values);
    // Over blocks.
    Value largest = in.reduce(blockLargest, dfg::ReduceKind::Max, in.getBlockDim());
    Value weights = in.make<dfg::ExpOp>(in.make<dfg::SubOp>(blockLargest, in.expanded(largest, 1)));
    Value sum = in.reduce(in.make<dfg::MulOp>(weights, blockSum), dfg::ReduceKind::Sum, in.getBlockDim());
    SmallVector<Value> results = {in.make<dfg::DivOp>(in.weighBlocks(weights, blockValues), in.expanded(sum, 1))};
    if (attention.gradient)
      results.push_back(in.make<dfg::AddOp>(largest, in.make<dfg::LogOp>(sum)));
    results = in.finish(results, values.getSize(), attention.getOperators());
    result = in.reshaped(results[0], tensorType(product.getResult()).getShape());
    product.replaceAllUsesWith(result);
    if (attention.gradient)
      logSums = in.reshaped(results[1], ofQueries(attention.softmax.getResult()));
  }

  /// The shape of scores, with one key.
  static SmallVector<int64_t> ofQueries(Value scores) {
    SmallVector<int64_t> shape(tensorType(scores).getShape());
    shape.back() = 1;
    return shape;
  }

  /// The kernel of the products that sum up over the side that is not `rows`.
  void fuseGradient(Side rows, ArrayRef<OpOperand *> uses, Operation *place) {
    Side columns = rows == Side::Queries ? Side::Keys : Side::Queries;
    dfg::AttentionGradient &gradient = *attention.gradient;
    SmallVector<int64_t> sizes;
    SmallVector<Operation *> products;
    for (OpOperand *use : uses) {
      sizes.push_back(summedWith(*use, columns).getSize());
      products.push_back(use->getOwner());
    }
    AttentionBlocks in(attention, rows, std::reduce(sizes.begin(), sizes.end()), place, band);
    in.replace(attention.softmax.getResult(), logSums);
    in.replace(gradient.sums.getResult(), in.sumRows(lhsOf(gradient.weights), result, gradient.sums));
    SmallVector<Value> results;
    for (OpOperand *use : uses) {
      Value scores = in.scores(use->get());
      results.push_back(in.sumBlocks(in.withoutPadding(scores, in.scalar(0)), summedWith(*use, columns)));
    }
    for (Value &each : results)
      each = in.reduce(each, dfg::ReduceKind::Sum, in.getBatchDims());
    results = in.finish(results, sizes, products);
    for (auto [use, made] : llvm::zip_equal(uses, results))
      use->getOwner()->getResult(0).replaceAllUsesWith(in.asProduct(made, *use));
  }

  dfg::Attention attention;
  SmallVector<Operation *> operators;
  std::optional<dfg::ScoreBand> band;
  /// What takes the place of the result; by query, the log of the sum of its scores' powers.
  Value result, logSums;
};

class FuseAttention : public impl::FuseAttentionPassBase<FuseAttention> {
  void runOnOperation() override {
    if (dist::getDeviceOf(getOperation()).isGpu())
      return;
    // Found one by one: the gradient of one may read another's result, and repeat its softmax.
    DenseSet<Operation *> erased;
    SmallVector<Missed> missed;
    for (Operation *op : llvm::to_vector_of<Operation *>(getOperation().getBody().getOps<dfg::SoftmaxOp>())) {
      if (erased.contains(op))
        continue;
      bool areLarge = streams(cast<dfg::SoftmaxOp>(op), /*share=*/1);
      dfg::AttentionMiss miss;
      auto attention = dfg::findAttention(op, areLarge ? &miss : nullptr);
      auto band = attention ? dfg::findBand(*attention) : std::nullopt;
      double share = attention && !attention->gradient ? dfg::shareOfBlocks(*attention, band) : 1;
      if (attention && streams(attention->softmax, share)) {
        AttentionBuilder builder(*attention, band);
        ArrayRef<Operation *> fused = builder.run();
        if (fused.empty())
          miss = {op, "products of its gradient depend on each other"};
        erased.insert_range(fused);
      }
      if (miss.op)
        missed.push_back({miss.op->getLoc(), miss.op->getName(), miss.reason, bytesOf(cast<dfg::SoftmaxOp>(op))});
    }
    if (!missed.empty())
      report(missed);
  }

  /// Attention that is not fused, and the operator that prevents it.
  struct Missed {
    Location location;
    OperationName name;
    StringRef reason;
    double bytes; ///< of the scores
  };

  static double bytesOf(dfg::SoftmaxOp softmax) {
    RankedTensorType type = tensorType(softmax.getResult());
    return static_cast<double>(type.getNumElements()) * type.getElementTypeBitWidth() / 8;
  }
  static bool streams(dfg::SoftmaxOp softmax, double share) {
    ArrayRef<int64_t> shape = tensorType(softmax.getResult()).getShape();
    return shape.size() >= 2 && dfg::streamsScores(bytesOf(softmax), shape[shape.size() - 2], shape.back(), share);
  }

  /// One remark for the whole program, as layers repeat.
  void report(ArrayRef<Missed> missed) {
    const Missed &first = missed.front();
    InFlightDiagnostic remark = emitRemark(first.location)
                                << "program \"" << getOperation().getSymName()
                                << "\": attention is not one kernel, its scores ("
                                << llvm::formatv("{0:F0}", first.bytes / (1 << 20)).str()
                                << " MiB) stay in memory: " << first.reason << " (" << first.name.stripDialect() << ")";
    if (missed.size() > 1)
      remark << "; " << missed.size() << " such places in all";
  }
};

} // namespace
} // namespace cleave
