// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes no rows and columns that nobody reads. A window of stride 2 over 9 elements leaves the last one out, so that
// what made the 9 need make 8 only, and may itself need less of what it reads:
//
//   %1 = conv %0 : 13 -> 9         %0' = slice %0 : 13 -> 12
//   %2 = relu %1                   %1' = conv %0' : 12 -> 8
//   %3 = pool %2 : 9 -> 4          %3  = pool (relu %1') : 8 -> 4
//
// One walk backwards finds how far each value is read, one walk forwards makes the operators anew. Split rules say what
// an operator reads for a part of its result, and their operators become smaller as on one of several devices. What is
// left out lies at the end of a dimension always: that is where windows end.

#include "passes/graph/Passes.h"

#include "dialects/dfg/TensorType.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_NARROWRESULTSPASS
#include "passes/graph/Passes.h.inc"

namespace {

/// Elements from the first one on, by dimension.
using Extents = SmallVector<int64_t>;

/// An operator that computes the first elements of its result only, and reads the first elements of its operands only.
struct Part {
  Extents result;
  SmallVector<Extents> operands;
  /// By factor of the split rule.
  SmallVector<int64_t> sizes;
};

bool isWhole(Value value, ArrayRef<int64_t> extents) { return tensorType(value).getShape() == extents; }

RankedTensorType typeOf(Value value, ArrayRef<int64_t> extents) {
  return RankedTensorType::get(extents, tensorType(value).getElementType());
}

bool isDivisible(const Factor &factor) {
  return factor.kind == FactorKind::Parallel || factor.kind == FactorKind::Window;
}

/// The operator's part for `result`.
Part partOf(SplitInterface op, ArrayRef<int64_t> result) {
  SplitRule rule = op.getSplitRule();
  Part part;
  for (const Factor &factor : rule.factors)
    part.sizes.push_back(factor.size);
  part.result = Extents(tensorType(op->getResult(0)).getShape());
  for (auto [dim, factors] : llvm::enumerate(rule.results[0]))
    if (factors.size() == 1 && isDivisible(rule.factors[factors.front()]))
      part.result[dim] = part.sizes[factors.front()] = result[dim];
  for (auto [operand, dims] : llvm::zip_equal(op->getOperands(), rule.operands)) {
    Extents &extents = part.operands.emplace_back(tensorType(operand).getShape());
    bool isFirst = part.operands.size() == 1;
    for (auto [extent, factors] : llvm::zip_equal(extents, dims)) {
      if (factors.size() != 1)
        continue;
      const Factor &factor = rule.factors[factors.front()];
      int64_t size = part.sizes[factors.front()];
      if (factor.kind == FactorKind::Window && isFirst)
        extent = std::min(extent, std::max<int64_t>(factor.step * (size - 1) + factor.haloAfter + 1, 1));
      else if (factor.kind == FactorKind::Parallel)
        extent = std::min(extent, size);
    }
  }
  return part;
}

bool isContraction(Operation *op) {
  auto cost = dyn_cast<CostInterface>(op);
  return cost && cost.getCost().costClass == CostClass::Contraction;
}

/// Elementwise operators and those with windows: the elements of their results do not depend on how many there are.
bool mayBeSmaller(Operation *op) {
  if (!isa<SplitInterface>(op) || op->getNumResults() != 1 || !isMemoryEffectFree(op) ||
      !isa<RankedTensorType>(op->getResult(0).getType()) || tensorType(op->getResult(0)).getNumElements() == 0)
    return false;
  if (isa<ElementwiseInterface>(op))
    return true;
  SplitRule rule = cast<SplitInterface>(op).getSplitRule();
  return llvm::any_of(rule.factors, [](const Factor &factor) { return factor.kind == FactorKind::Window; });
}

class NarrowResults : public impl::NarrowResultsPassBase<NarrowResults> {
  void runOnOperation() override {
    Block &body = getOperation().getBody().front();
    read.clear();
    parts.clear();
    narrowed.clear();
    for (Operation &op : llvm::reverse(body))
      findReads(&op);
    SmallVector<Operation *> replaced;
    for (Operation &op : llvm::make_early_inc_range(body))
      if (auto part = parts.find(&op); part != parts.end()) {
        replace(&op, part->second);
        replaced.push_back(&op);
      }
    for (Operation *op : llvm::reverse(replaced))
      op->erase();
  }

  /// Whether computing less of a value saves products: what makes it leads to one by operators that nobody else reads.
  static bool pays(Value value, ArrayRef<int64_t> extents) {
    Operation *op = value.getDefiningOp();
    if (!op || !value.hasOneUse() || !mayBeSmaller(op))
      return false;
    Part part = partOf(cast<SplitInterface>(op), extents);
    if (ArrayRef<int64_t>(part.result) != extents || !canBe(op, part))
      return false;
    if (isContraction(op))
      return true;
    return llvm::all_of(llvm::zip_equal(op->getOperands(), part.operands), [](auto pair) {
      auto [operand, reads] = pair;
      return isWhole(operand, reads) || pays(operand, reads);
    });
  }

  /// Whether the smaller operator makes what is expected of it: windows that end in padding do not.
  static bool canBe(Operation *op, const Part &part) {
    OpBuilder builder(op);
    SmallVector<Operation *> created;
    SmallVector<Value> operands;
    for (auto [operand, extents] : llvm::zip_equal(op->getOperands(), part.operands)) {
      operands.push_back(firstOf(builder, op->getLoc(), operand, extents));
      if (operands.back() != operand)
        created.push_back(operands.back().getDefiningOp());
    }
    Operation *before = op->getPrevNode();
    auto made = build(builder, op, part, operands);
    bool fits = succeeded(made) && made->front().getType() == typeOf(op->getResult(0), part.result);
    while (op->getPrevNode() != before)
      op->getPrevNode()->erase();
    for (Operation *slice : created)
      slice->erase();
    return fits;
  }

  static Value firstOf(OpBuilder &builder, Location location, Value value, ArrayRef<int64_t> extents) {
    if (isWhole(value, extents))
      return value;
    Extents zeros(extents.size(), 0), ones(extents.size(), 1);
    return dfg::SliceOp::create(builder, location, value, zeros, extents, ones);
  }

  static FailureOr<SmallVector<Value>> build(OpBuilder &builder, Operation *op, const Part &part, ValueRange operands) {
    SmallVector<int64_t> ways(part.sizes.size(), 1);
    Type result = typeOf(op->getResult(0), part.result);
    auto start = [](unsigned) -> Value { llvm_unreachable("nothing is divided"); };
    return cast<SplitInterface>(op).localize(builder, {operands, TypeRange(result), ways, part.sizes, start});
  }

  /// Decides on the operator, all users of which are decided on, and notes what it reads.
  void findReads(Operation *op) {
    auto readWhole = [&] {
      for (Value operand : op->getOperands())
        note(operand, tensorType(operand).getShape());
    };
    if (!mayBeSmaller(op))
      return readWhole();
    Value result = op->getResult(0);
    Extents needed = read.lookup(result);
    if (needed.empty())
      needed = Extents(tensorType(result).getShape());
    Part part = partOf(cast<SplitInterface>(op), needed);
    // Who reads less of its operands and computes the same does so only where that saves something.
    bool isSmaller = !isWhole(result, part.result);
    if (!isSmaller)
      for (auto [operand, extents] : llvm::zip_equal(op->getOperands(), part.operands))
        if (!isWhole(operand, extents) && !pays(operand, extents))
          return readWhole();
    bool readsLess = llvm::any_of(llvm::zip_equal(op->getOperands(), part.operands),
                                  [](auto pair) { return !isWhole(std::get<0>(pair), std::get<1>(pair)); });
    if ((!isSmaller && !readsLess) || !canBe(op, part))
      return readWhole();
    for (auto [operand, extents] : llvm::zip_equal(op->getOperands(), part.operands))
      note(operand, isWhole(operand, extents) || pays(operand, extents) ? ArrayRef<int64_t>(extents)
                                                                        : tensorType(operand).getShape());
    parts[op] = std::move(part);
  }

  void note(Value value, ArrayRef<int64_t> extents) {
    Extents &known = read[value];
    known.resize(extents.size(), 0);
    for (auto [most, extent] : llvm::zip_equal(known, extents))
      most = std::max(most, extent);
  }

  /// Makes the operator's part in its place. Whoever reads a result that is smaller now is replaced as well.
  void replace(Operation *op, const Part &part) {
    OpBuilder builder(op);
    SmallVector<Value> operands;
    for (auto [operand, extents] : llvm::zip_equal(op->getOperands(), part.operands))
      operands.push_back(firstOf(builder, op->getLoc(), narrowed.lookup_or(operand, operand), extents));
    auto made = build(builder, op, part, operands);
    assert(succeeded(made) && "it was built before");
    Value result = op->getResult(0);
    if (made->front().getType() == result.getType())
      result.replaceAllUsesWith(made->front());
    else
      narrowed[result] = made->front();
  }

  /// How far values are read, and the operators that are made anew.
  llvm::DenseMap<Value, Extents> read;
  llvm::DenseMap<Operation *, Part> parts;
  llvm::DenseMap<Value, Value> narrowed;
};

} // namespace
} // namespace cleave
