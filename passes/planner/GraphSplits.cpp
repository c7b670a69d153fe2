// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cuts of operators and values, and their propagation.

#include "passes/planner/GraphSplits.h"

#include "dialects/interfaces/Interfaces.h"

#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace mlir;

namespace cleave {

//===-- one operator ------------------------------------------------------------------------------------------===//

bool OperatorSplit::uses(StringRef axis) const { return factorCutBy(axis).has_value(); }

std::optional<unsigned> OperatorSplit::factorCutBy(StringRef axis) const {
  for (auto [factor, names] : llvm::enumerate(axes))
    if (llvm::is_contained(names, axis))
      return static_cast<unsigned>(factor);
  return std::nullopt;
}

int64_t OperatorSplit::ways(unsigned factor) const {
  int64_t product = 1;
  for (StringRef axis : axes[factor])
    product *= mesh->sizeOf(axis);
  return product;
}

static double bytesOf(ValueRange values) {
  double bytes = 0;
  for (Value value : values)
    bytes += static_cast<double>(tensorBytes(value.getType()));
  return bytes;
}

static bool mentions(const TensorFactors &tensor, unsigned factor) {
  return llvm::any_of(tensor, [&](const DimFactors &dim) { return llvm::is_contained(dim, factor); });
}

/// Whether an operator goes along with a cut of a factor that nobody asked it for.
static bool mayFollow(const OperatorSplit &split, unsigned factor) {
  if (split.fixed[factor])
    return false;
  switch (split.rule.factors[factor].kind) {
  case FactorKind::Parallel:
  case FactorKind::Window:
    return true;
  case FactorKind::Reduction: {
    double result = bytesOf(split.op->getResults());
    for (auto [operand, tensor] : llvm::zip_equal(split.op->getOperands(), split.rule.operands))
      if (mentions(tensor, factor) && bytesOf(operand) > result)
        return true;
    return false;
  }
  case FactorKind::Stepwise:
  case FactorKind::Unsplittable:
    return false;
  }
  return false;
}

//===-- construction ------------------------------------------------------------------------------------------===//

GraphSplits::GraphSplits(dfg::GraphOp graph, ArrayRef<ModelNode> nodes, ArrayRef<NodePlace> places)
    : nodes(nodes), places(places) {
  llvm::DenseMap<Operation *, unsigned> nodeOf;
  for (auto [index, node] : llvm::enumerate(nodes))
    for (Operation *op : node.operators)
      nodeOf[op] = index;
  for (Operation &op : graph.getBody().front().without_terminator()) {
    auto node = nodeOf.find(&op);
    if (node == nodeOf.end())
      continue;
    indices[&op] = operators.size();
    OperatorSplit &split = operators.emplace_back();
    split.op = &op;
    split.node = node->second;
    split.mesh = places[split.node].mesh;
    if (auto splittable = dyn_cast<SplitInterface>(op); splittable && !split.mesh->axes.empty())
      split.rule = splittable.getSplitRule();
    split.rule.operands.resize(op.getNumOperands());
    split.rule.results.resize(op.getNumResults());
    size_t numFactors = split.rule.factors.size();
    split.axes.resize(numFactors);
    split.fixed.resize(numFactors, false);
    for (const Factor &factor : split.rule.factors)
      split.extents.push_back(factor.size);
  }
}

OperatorSplit *GraphSplits::find(Operation *op) {
  auto found = indices.find(op);
  return found == indices.end() ? nullptr : &operators[found->second];
}

const SplitDecision *GraphSplits::decide(std::string text, unsigned node) {
  return &decisions.emplace_back(SplitDecision{std::move(text), node});
}

void GraphSplits::cut(OperatorSplit &split, unsigned factor, StringRef axis, const SplitDecision *decision,
                      int64_t extent) {
  split.axes[factor].push_back(axis);
  if (extent)
    split.extents[factor] = std::min(split.extents[factor], extent);
  split.decisions.emplace_back(axis, decision);
}

void GraphSplits::cutInput(Value input, unsigned dim, StringRef axis, const SplitDecision *decision) {
  int64_t extent = cast<RankedTensorType>(input.getType()).getDimSize(dim);
  inputCuts[input].push_back({dim, 1, extent, {axis}, {decision}});
}

//===-- values ------------------------------------------------------------------------------------------------===//

/// How a tensor lies whose dimensions carry those factors of an operator.
static SmallVector<ValueCut> cutsOf(const OperatorSplit &split, const TensorFactors &tensor) {
  SmallVector<ValueCut> cuts;
  for (auto [dim, factors] : llvm::enumerate(tensor)) {
    int64_t offset = 1;
    for (unsigned factor : factors) {
      if (!split.axes[factor].empty()) {
        ValueCut &cut = cuts.emplace_back();
        cut.dim = dim;
        cut.offset = offset;
        cut.extent = split.extents[factor];
        cut.axes = split.axes[factor];
        for (StringRef axis : cut.axes)
          cut.decisions.push_back(
              llvm::find_if(split.decisions, [&](auto &entry) { return entry.first == axis; })->second);
      }
      offset *= split.rule.factors[factor].size;
    }
  }
  return cuts;
}

SmallVector<ValueCut> GraphSplits::cutsOf(Value value) {
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return inputCuts.lookup(value);
  OperatorSplit *producer = find(result.getOwner());
  if (!producer)
    return {};
  return cleave::cutsOf(*producer, producer->rule.results[result.getResultNumber()]);
}

//===-- following ---------------------------------------------------------------------------------------------===//

std::optional<unsigned> GraphSplits::factorAt(const OperatorSplit &split, const TensorFactors &tensor,
                                              const ValueCut &cut, int64_t ways,
                                              llvm::function_ref<bool(unsigned)> mayFollow) {
  if (cut.dim >= tensor.size())
    return std::nullopt;
  std::optional<unsigned> same, even, first;
  int64_t offset = 1;
  for (unsigned factor : tensor[cut.dim]) {
    int64_t size = split.rule.factors[factor].size;
    bool inside = offset >= cut.offset && offset < cut.offset * cut.extent;
    bool allowed = (size > 1 || cut.extent == 1) && mayFollow(factor);
    if (allowed && offset == cut.offset) {
      if (split.extents[factor] == cut.extent || size == cut.extent)
        same = factor;
      first = factor;
    }
    if (allowed && inside && !even && size % (ways * split.ways(factor)) == 0)
      even = factor;
    offset *= size;
  }
  return same ? same : even ? even : first;
}

bool GraphSplits::follow(OperatorSplit &split, const TensorFactors &tensor, const ValueCut &value, bool onlyOpen) {
  bool changed = false;
  for (auto [axis, decision] : llvm::zip_equal(value.axes, value.decisions)) {
    int64_t ways = split.mesh->sizeOf(axis);
    if (!ways || split.closed || split.uses(axis) || (onlyOpen && llvm::is_contained(split.settled, axis)))
      continue;
    auto factor = factorAt(split, tensor, value, ways, [&](unsigned candidate) { return mayFollow(split, candidate); });
    if (!factor)
      continue;
    cut(split, *factor, axis, decision, value.extent);
    changed = true;
  }
  return changed;
}

bool GraphSplits::followOperands(OperatorSplit &split) {
  if (split.rule.factors.empty())
    return false;
  auto order = llvm::to_vector(llvm::seq<unsigned>(0, split.op->getNumOperands()));
  llvm::stable_sort(order, [&](unsigned left, unsigned right) {
    return tensorBytes(split.op->getOperand(left).getType()) > tensorBytes(split.op->getOperand(right).getType());
  });
  bool changed = false;
  for (unsigned operand : order)
    for (const ValueCut &value : cutsOf(split.op->getOperand(operand)))
      changed |= follow(split, split.rule.operands[operand], value, /*onlyOpen=*/false);
  return changed;
}

bool GraphSplits::followFrom(Value value, llvm::function_ref<bool(OperatorSplit &split)> visit) {
  std::set<unsigned> left;
  auto addUsers = [&](Value read) {
    for (Operation *user : read.getUsers())
      if (auto index = indices.find(user); index != indices.end())
        left.insert(index->second);
  };
  for (addUsers(value); !left.empty();) {
    OperatorSplit &split = operators[*left.begin()];
    left.erase(left.begin());
    if (!visit(split))
      return false;
    if (followOperands(split))
      for (Value result : split.op->getResults())
        addUsers(result);
  }
  return true;
}

bool GraphSplits::tryInput(Value input, unsigned dim, StringRef axis,
                           llvm::function_ref<bool(OperatorSplit &split)> visit) {
  static const SplitDecision trial;
  std::vector<std::pair<OperatorSplit *, OperatorSplit>> before;
  cutInput(input, dim, axis, &trial);
  bool all = followFrom(input, [&](OperatorSplit &split) {
    before.emplace_back(&split, split);
    return visit(split);
  });
  // An operator that was seen several times is at last as it was first.
  for (auto &[split, was] : llvm::reverse(before))
    *split = std::move(was);
  inputCuts[input].pop_back();
  if (inputCuts[input].empty())
    inputCuts.erase(input);
  return all;
}

bool GraphSplits::followUsers(OperatorSplit &split) {
  if (split.rule.factors.empty())
    return false;
  bool changed = false;
  for (OpResult result : split.op->getResults()) {
    // Uses come in no particular order: the first in the graph counts.
    SmallVector<std::pair<unsigned, unsigned>> users;
    for (OpOperand &use : result.getUses())
      if (auto user = indices.find(use.getOwner()); user != indices.end())
        users.emplace_back(user->second, use.getOperandNumber());
    llvm::sort(users);
    for (auto [user, operand] : users)
      for (const ValueCut &value : cleave::cutsOf(operators[user], operators[user].rule.operands[operand]))
        changed |= follow(split, split.rule.results[result.getResultNumber()], value, /*onlyOpen=*/true);
  }
  return changed;
}

void GraphSplits::settle(OperatorSplit &split) {
  for (const MeshAxis &axis : split.mesh->axes) {
    if (llvm::is_contained(split.settled, axis.name))
      continue;
    bool decidedBefore = llvm::any_of(split.op->getOperands(), [&](Value operand) {
      if (!operand.getDefiningOp())
        return inputCuts.contains(operand) &&
               llvm::any_of(inputCuts[operand], [&](const ValueCut &value) { return value.axes[0] == axis.name; });
      OperatorSplit *producer = find(operand.getDefiningOp());
      return producer && llvm::is_contained(producer->settled, axis.name);
    });
    if (split.closed || split.uses(axis.name) || decidedBefore)
      split.settled.push_back(axis.name);
  }
}

void GraphSplits::propagate() {
  for (bool changed = true; changed;) {
    changed = false;
    for (OperatorSplit &split : operators) {
      changed |= followOperands(split);
      settle(split);
    }
    for (OperatorSplit &split : llvm::reverse(operators))
      changed |= followUsers(split);
  }
}

//===-- who decided -------------------------------------------------------------------------------------------===//

std::string GraphSplits::decidersOf(const OperatorSplit &split) const {
  SmallVector<std::string> texts;
  for (const MeshAxis &axis : split.mesh->axes)
    for (auto [used, decision] : split.decisions) {
      if (used != axis.name)
        continue;
      bool own = decision->node == SplitDecision::everywhere || decision->node == split.node;
      std::string text = own ? decision->text : "propagation from " + nodeName(nodes[decision->node]).str();
      if (!llvm::is_contained(texts, text))
        texts.push_back(std::move(text));
    }
  return texts.empty() ? places[split.node].by : llvm::join(texts, "; ");
}

Operation *mainOperator(const ModelNode &node) {
  Operation *main = nullptr;
  double most = -1;
  for (Operation *op : node.operators) {
    auto costed = dyn_cast<CostInterface>(op);
    double flops = costed ? costed.getCost().flops : 0;
    if (flops > most) {
      main = op;
      most = flops;
    }
  }
  return main;
}

} // namespace cleave
