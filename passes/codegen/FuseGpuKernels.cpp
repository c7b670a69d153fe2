// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Joins kernels for GPUs with those that read their results. A cluster may have several results, and whether two
// kernels are better as one is asked of those that plan their launches:
//
//   %m = fusion %g, %m0      momentum  ┐
//   %v = fusion %g, %v0      variance  ┤ read what the others have in registers: one launch, %g is read once
//   %p = fusion %p0, %m, %v  weights   ┘

#include "passes/codegen/ConstantValues.h"
#include "passes/codegen/GpuCost.h"
#include "passes/codegen/KernelPasses.h"

#include "dialects/dist/Accumulation.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_FUSEGPUKERNELSPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

/// Operators in a kernel: more compile slowly. Operators between two kernels that are joined: over longer ways more
/// values would have to be kept. Arguments of a kernel, each of whose launches declares them all.
constexpr size_t mostOperators = 64, farthest = 128, mostArguments = 1024;

class FuseGpuKernels : public impl::FuseGpuKernelsPassBase<FuseGpuKernels> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect, math::MathDialect, scf::SCFDialect,
                    tensor::TensorDialect, dfg::DfgDialect>();
  }

  void runOnOperation() override {
    auto &costs = getAnalysis<CostAnalysis>();
    for (auto program : getOperation().getOps<dist::ProgramOp>()) {
      if (!dist::getDeviceOf(program).isGpu())
        continue;
      auto mesh = SymbolTable::lookupNearestSymbolFrom<dist::MeshOp>(program, program.getMeshAttr());
      setGpu(costs.gpuModel(mesh));
      fuseProgram(program.getBody().front());
    }
  }

  /// What is known of kernels is of one kind of GPU.
  void setGpu(GpuModel next) {
    if (gpu && !(*gpu == next))
      known.clear();
    gpu = std::move(next);
  }

  void fuseProgram(Block &block) {
    ConstantValues constants;
    isConstant.clear();
    for (Operation &op : block)
      if (isKernel(&op))
        isConstant[&op] = constants.contains(op.getResult(0));
    for (Operation *op = &block.front(); op; op = op->getNextNode())
      while (Operation *joined = joinProducer(op))
        op = joined;
  }

  /// What becomes a kernel of ours and may be joined with others.
  static bool isKernel(Operation *op) {
    auto cost = dyn_cast<CostInterface>(op);
    return op->getNumResults() > 0 && (isa<dfg::FusionOp>(op) || isa<LowerInterface>(op)) && !isa<dfg::ReshapeOp>(op) &&
           cost && cost.getCost().costClass != CostClass::Contraction;
  }

  /// Whether it adds to a sum of which nobody may make more than that.
  static bool accumulates(Operation *op) {
    auto fusion = dyn_cast<dfg::FusionOp>(op);
    return op->hasAttr(dist::accumulatesAttrName) ||
           (fusion && llvm::any_of(fusion.getBody().front(),
                                   [](Operation &inner) { return inner.hasAttr(dist::accumulatesAttrName); }));
  }

  /// `op` with the first of its producers that it is better off with; null where there is none.
  Operation *joinProducer(Operation *op) {
    if (!isConstant.contains(op))
      return nullptr;
    llvm::SetVector<Operation *> producers;
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && isConstant.contains(producer))
        producers.insert(producer);
    for (Operation *producer : producers)
      if (Operation *joined = join(producer, op))
        return joined;
    return nullptr;
  }

  Operation *join(Operation *producer, Operation *consumer) {
    // What is computed when the plan is loaded is computed again only where that reads nothing.
    bool isAgain = isConstant.lookup(producer) && !isConstant.lookup(consumer);
    bool isPossible = isAgain ? readsNothing(producer) : isConstant.lookup(producer) == isConstant.lookup(consumer);
    SmallVector<Operation *> dependents;
    auto waits = [&](OpOperand &operand) {
      return operand.get().getDefiningOp() == producer && dist::waitsForSum(operand);
    };
    if (!isPossible || accumulates(producer) || llvm::any_of(consumer->getOpOperands(), waits) ||
        operatorsOf(producer) + operatorsOf(consumer) > mostOperators ||
        producer->getNumOperands() + consumer->getNumOperands() > mostArguments ||
        (!isAgain && !findDependents(producer, consumer, dependents)))
      return nullptr;
    SmallVector<Value> replaced;
    dfg::FusionOp joined = build(producer, consumer, /*keepsResults=*/!isAgain, replaced);
    std::optional<double> before = isAgain ? 0.0 : secondsOf(producer), apart = secondsOf(consumer);
    std::optional<double> together = secondsOf(joined);
    if (!before || !apart || !together || *together >= *before + *apart) {
      joined->erase();
      return nullptr;
    }
    for (auto [from, to] : llvm::zip(replaced, joined.getResults()))
      from.replaceAllUsesWith(to);
    Operation *last = joined;
    for (Operation *dependent : dependents) {
      dependent->moveAfter(last);
      last = dependent;
    }
    isConstant[joined] = isConstant.lookup(consumer);
    for (Operation *old : {consumer, producer}) {
      if (!old->use_empty())
        continue;
      isConstant.erase(old);
      old->erase();
    }
    return joined;
  }

  /// Whether all operands are constants of one value.
  static bool readsNothing(Operation *op) {
    return llvm::all_of(op->getOperands(), [](Value operand) {
      DenseElementsAttr value;
      return matchPattern(operand, m_Constant(&value)) && value.isSplat();
    });
  }

  static size_t operatorsOf(Operation *op) {
    auto fusion = dyn_cast<dfg::FusionOp>(op);
    return fusion ? fusion.getBody().front().getOperations().size() : 1;
  }

  /// What stands between the two and needs the producer has to come after both. False where the consumer needs one of
  /// those, or where one is no operator, whose order is not for us to change.
  static bool findDependents(Operation *producer, Operation *consumer, SmallVectorImpl<Operation *> &dependents) {
    llvm::SmallPtrSet<Operation *, 16> after = {producer};
    size_t distance = 0;
    for (Operation *op = producer->getNextNode(); op != consumer; op = op->getNextNode()) {
      if (++distance > farthest)
        return false;
      if (llvm::none_of(op->getOperands(), [&](Value value) { return after.contains(value.getDefiningOp()); }))
        continue;
      if (!isPure(op) || !isa<dfg::DfgDialect, plan::PlanDialect>(op->getDialect()))
        return false;
      after.insert(op);
      dependents.push_back(op);
    }
    return llvm::none_of(consumer->getOperands(), [&](Value value) {
      return value.getDefiningOp() != producer && after.contains(value.getDefiningOp());
    });
  }

  /// Both as one before the consumer. `replaced` holds the values that its results stand for: of the producer's those
  /// that others read, unless it stays for them.
  static dfg::FusionOp build(Operation *producer, Operation *consumer, bool keepsResults,
                             SmallVectorImpl<Value> &replaced) {
    llvm::SetVector<Value> inputs;
    for (Operation *op : {producer, consumer})
      for (Value operand : op->getOperands())
        if (operand.getDefiningOp() != producer)
          inputs.insert(operand);
    for (Value result : producer->getResults())
      if (keepsResults && llvm::any_of(result.getUsers(), [&](Operation *user) { return user != consumer; }))
        replaced.push_back(result);
    llvm::append_range(replaced, consumer->getResults());

    OpBuilder builder(consumer);
    Location location = builder.getFusedLoc({consumer->getLoc(), producer->getLoc()});
    auto joined = dfg::FusionOp::create(builder, location, TypeRange(ValueRange(replaced)), inputs.getArrayRef());
    Block *body = builder.createBlock(&joined.getBody());
    IRMapping mapping;
    for (Value input : inputs)
      mapping.map(input, body->addArgument(input.getType(), input.getLoc()));
    for (Operation *op : {producer, consumer})
      copyInto(builder, op, mapping);
    SmallVector<Value> results = llvm::map_to_vector(replaced, [&](Value value) { return mapping.lookup(value); });
    dfg::YieldOp::create(builder, location, results);
    return joined;
  }

  /// Copies an operator, or those in a fusion.
  static void copyInto(OpBuilder &builder, Operation *op, IRMapping &mapping) {
    auto fusion = dyn_cast<dfg::FusionOp>(op);
    if (!fusion) {
      builder.clone(*op, mapping);
      return;
    }
    Block &inner = fusion.getBody().front();
    for (auto [argument, operand] : llvm::zip(inner.getArguments(), fusion.getOperands()))
      mapping.map(argument, mapping.lookup(operand));
    for (Operation &member : inner.without_terminator())
      builder.clone(member, mapping);
    for (auto [result, yielded] : llvm::zip(fusion.getResults(), inner.getTerminator()->getOperands()))
      mapping.map(result, mapping.lookup(yielded));
  }

  /// What a kernel takes; layers have the same ones, so that most are known already.
  std::optional<double> secondsOf(Operation *op) {
    auto [entry, isNew] = known.try_emplace(describe(op));
    if (isNew)
      entry->second = estimate(op);
    return entry->second;
  }

  /// All that a kernel depends on.
  static std::string describe(Operation *op) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    if (isa<dfg::FusionOp>(op)) {
      op->print(stream, OpPrintingFlags().useLocalScope().enableDebugInfo(false));
      return text;
    }
    // To print it by itself would number all values of the program.
    stream << op->getName() << op->getAttrDictionary() << op->getResultTypes();
    for (Value operand : op->getOperands())
      stream << operand.getType() << llvm::find(op->getOperands(), operand).getIndex();
    return text;
  }

  std::optional<double> estimate(Operation *op) const {
    if (auto fusion = dyn_cast<dfg::FusionOp>(op))
      return estimateSeconds(fusion.getBody(), *gpu);
    Region region;
    OpBuilder builder(op->getContext());
    Block *body = builder.createBlock(&region);
    IRMapping mapping;
    for (Value operand : op->getOperands())
      if (!mapping.contains(operand))
        mapping.map(operand, body->addArgument(operand.getType(), operand.getLoc()));
    Operation *copy = builder.clone(*op, mapping);
    dfg::YieldOp::create(builder, op->getLoc(), copy->getResults());
    return estimateSeconds(region, *gpu);
  }

  /// Of the kernels of a program: whether they compute what is known when the plan is loaded.
  DenseMap<Operation *, bool> isConstant;
  llvm::StringMap<std::optional<double>> known;
  std::optional<GpuModel> gpu; ///< Of the program at hand.
};

} // namespace
} // namespace cleave
