// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From operators to kernels.

#include "passes/planner/search/Kernels.h"

#include "passes/planner/search/AxisFactors.h"

namespace cleave::search {
namespace {

class KernelChooser {
public:
  KernelChooser(SearchGraph &graph, const Executor &executor) : graph(graph), executor(executor) {}

  void run() {
    for (unsigned index = 0; index != graph.operators.size(); ++index)
      prepare(graph.operators[index]);
    if (executor.streamsAttention)
      for (unsigned index = 0; index != graph.operators.size(); ++index)
        streamFrom(index);
    else if (executor.scorePasses > 0)
      for (unsigned index = 0; index != graph.operators.size(); ++index)
        countFrom(index);
    for (Operator &op : graph.operators)
      join(op);
    if (executor.joinsProducts)
      joinProducts();
    for (Operator &op : graph.operators)
      op.use->isLinear = isLinearLayer(op);
    // Users first: what passes its gradient on depends on what follows in the kernel.
    for (Operator &op : llvm::reverse(graph.operators))
      chooseBackward(op);
    for (Tensor &tensor : graph.tensors)
      countGradients(tensor);
  }

private:
  SearchGraph &graph;
  const Executor &executor;

  bool isProduct(const Operator &op) const { return op.cost.costClass == CostClass::Contraction; }

  bool anyLearns(const Operator &op) const {
    return llvm::any_of(op.operands, [&](const Operand &operand) { return graph.learns(operand); });
  }

  void prepare(Operator &op) {
    op.use = KernelUse();
    op.use->reads.assign(op.operands.size(), true);
    op.use->readsAgain.assign(op.operands.size(), false);
    op.use->writesGradient.assign(op.operands.size(), false);
    op.use->isFree = op.cost.costClass == CostClass::View;
    // Libraries read the operand once for both statistics of the batch.
    op.use->trainingPasses = op.findsStatistics ? 1 : 0;
  }

  /// The operator that makes an operand, where nobody else reads it; null else.
  Operator *producerOf(const Operand &operand) const {
    if (operand.tensor == none)
      return nullptr;
    const Tensor &tensor = graph.tensors[operand.tensor];
    if (tensor.producer == none || tensor.uses.size() != 1 || tensor.isOutput)
      return nullptr;
    Operator &producer = graph.operators[tensor.producer];
    return producer.once || producer.results.size() != 1 ? nullptr : &producer;
  }

  /// The operand of an operator that is no parameter, constant or tensor from before the steps; none where there are
  /// several.
  unsigned onlyData(const Operator &op) const {
    unsigned data = none;
    for (auto [number, operand] : llvm::enumerate(op.operands)) {
      if (operand.tensor == none)
        continue;
      if (data != none)
        return none;
      data = number;
    }
    return data;
  }

  /// A product with weights, which does not make an output, with a bias or without.
  bool isLinearLayer(const Operator &op) const {
    if (executor.linearLayers.products.empty() || !isProduct(op) || op.slides || op.results.size() != 1 ||
        op.operands.size() < 2 || graph.isPrepared(op.operands[0]) || !graph.isPrepared(op.operands[1]))
      return false;
    const Tensor *result = &graph.tensors[op.results.front()];
    while (!result->isOutput && result->uses.size() == 1) {
      const Operator &user = graph.operators[result->uses.front().first];
      if (user.results.size() != 1 || !(user.use->isEpilogue || user.cost.costClass == CostClass::View))
        break;
      result = &graph.tensors[user.results.front()];
    }
    return !result->isOutput;
  }

  bool isLinearIn(const Operator &op, unsigned first, unsigned second) const {
    return llvm::any_of(op.rule.linear, [&](const auto &set) {
      return llvm::is_contained(set, first) && llvm::is_contained(set, second);
    });
  }

  /// A sum: linear in all that learns, and in something besides.
  bool isSum(const Operator &op) const {
    return op.cost.costClass == CostClass::Elementwise && llvm::any_of(op.rule.linear, [&](const auto &set) {
             if (set.size() < 2)
               return false;
             for (auto [number, operand] : llvm::enumerate(op.operands))
               if (graph.learns(operand) && !llvm::is_contained(set, number))
                 return false;
             return true;
           });
  }

  /// A product with operands that are all data.
  bool isAttending(const Operator &op) const {
    return isProduct(op) && !op.slides && !op.once && op.operands.size() >= 2 &&
           llvm::all_of(op.operands, [](const Operand &operand) { return operand.tensor != none; });
  }

  /// The operators between the two products of attention that begins with this one, the second product last; empty
  /// where it begins none.
  llvm::SmallVector<unsigned> attentionFrom(unsigned first) const {
    if (!isAttending(graph.operators[first]) || graph.operators[first].results.size() != 1)
      return {};
    llvm::SmallVector<unsigned> found;
    bool reduces = false;
    unsigned at = graph.operators[first].results.front();
    while (true) {
      const Tensor &tensor = graph.tensors[at];
      if (tensor.uses.size() != 1 || tensor.isOutput)
        return {};
      unsigned next = tensor.uses.front().first;
      const Operator &op = graph.operators[next];
      found.push_back(next);
      if (isAttending(op) && reduces)
        return found;
      if (op.results.size() != 1 || isProduct(op))
        return {};
      reduces |= op.cost.costClass == CostClass::Reduction;
      at = op.results.front();
    }
  }

  /// Marks attention that begins with this product as one kernel.
  void streamFrom(unsigned first) {
    llvm::SmallVector<unsigned> found = attentionFrom(first);
    if (found.empty())
      return;
    unsigned second = found.pop_back_val();
    for (unsigned index : found)
      setStreamed(graph.operators[index], 0, 0);
    // The backward pass makes the scores once more.
    setStreamed(graph.operators[first], 1, 3);
    setStreamed(graph.operators[second], 1, 2);
    unsigned probabilities = graph.operators[found.back()].results.front();
    graph.operators[first].use->writes = false;
    graph.operators[second].use->reads[graph.tensors[probabilities].uses.front().second] = false;
  }

  /// Counts what lies between the products of attention by the executor's passes over the scores.
  void countFrom(unsigned first) {
    llvm::SmallVector<unsigned> found = attentionFrom(first);
    if (found.empty())
      return;
    found.pop_back();
    for (unsigned index : found) {
      KernelUse &use = *graph.operators[index].use;
      use.isCounted = use.isFree = true;
      use.writes = use.launches = false;
      use.reads.assign(use.reads.size(), false);
    }
    // Of the size of the scores: what reads them first.
    KernelUse &use = *graph.operators[found.front()].use;
    use.isFree = false;
    use.launches = use.launchesBackward = true;
    use.passes = executor.scorePasses;
    use.backwardPasses = executor.backwardScorePasses;
  }

  static void setStreamed(Operator &op, double forward, double backward) {
    op.use->isStreamed = true;
    if (forward == 0)
      op.use->reads.assign(op.operands.size(), false);
    op.use->forwardProducts = forward;
    op.use->backwardProducts = backward;
    if (forward == 0) {
      op.use->isFree = true;
      op.use->writes = false;
    }
  }

  /// Puts an operator into the kernel of what it reads, if it belongs there.
  void join(Operator &op) {
    if (op.once || op.use->isStreamed || op.use->isFree || op.use->isCounted)
      return;
    if (op.cost.costClass == CostClass::Movement) {
      skipMovement(op);
      return;
    }
    bool elementwise = op.cost.costClass == CostClass::Elementwise;
    if (!elementwise && op.cost.costClass != CostClass::Reduction)
      return;
    for (auto [number, operand] : llvm::enumerate(op.operands)) {
      Operator *producer = producerOf(operand);
      if (!producer || producer->use->isStreamed || producer->use->isCounted ||
          producer->cost.costClass == CostClass::View)
        continue;
      bool adjusts = elementwise && onlyData(op) == number;
      bool ownsBias = adjusts && hasParameters(op) && (isProduct(*producer) ? isSum(op) && !producer->slides : true);
      bool chains = executor.fusion == Fusion::Chains && producer->cost.costClass == CostClass::Elementwise &&
                    !producer->use->isEpilogue;
      if (producer->cost.costClass == CostClass::Movement || (!ownsBias && !chains) ||
          (isProduct(*producer) && !ownsBias))
        continue;
      op.use->reads[number] = false;
      op.use->launches = false;
      producer->use->writes = false;
      if (isProduct(*producer)) {
        // It is written as the product would be.
        op.use->isEpilogue = op.use->isFree = true;
        op.use->writes = false;
        producer->use->writes = true;
      }
    }
  }

  /// A vector or scalar of parameters or constants besides the data.
  bool hasParameters(const Operator &op) const {
    return op.operands.size() > 1 && llvm::all_of(op.operands, [&](const Operand &operand) {
             return operand.tensor != none || operand.bytes < graph.tensors[op.results.front()].bytes / 16;
           });
  }

  /// Libraries read transposed operands of products as they lie.
  void skipMovement(Operator &op) {
    if (op.operands.size() != 1 || op.results.size() != 1 || op.operands.front().tensor == none)
      return;
    const Tensor &from = graph.tensors[op.operands.front().tensor], &to = graph.tensors[op.results.front()];
    if (from.bytes == to.bytes && !to.uses.empty() &&
        llvm::all_of(to.uses, [&](auto &use) { return isProduct(graph.operators[use.first]); }))
      op.use->isFree = true;
  }

  /// Products of one tensor with weights, as query, key and value.
  void joinProducts() {
    for (const Tensor &tensor : graph.tensors) {
      llvm::SmallVector<unsigned> group;
      double columns = 0;
      for (auto [user, number] : tensor.uses) {
        const Operator &op = graph.operators[user];
        if (isProduct(op) && !op.slides && number == 0 && op.operands.size() >= 2 && op.operands[1].parameter != none) {
          group.push_back(user);
          columns += graph.tensors[op.results.front()].bytes;
        }
      }
      if (group.size() > 1)
        for (unsigned user : group)
          graph.operators[user].use->share = graph.tensors[graph.operators[user].results.front()].bytes / columns;
    }
  }

  /// Keeps a tensor; of a view or a transposed operand what it shows.
  /// `rounded`: as linear layers multiply it.
  void keep(unsigned index, bool rounded = false) {
    Tensor &tensor = graph.tensors[index];
    if (tensor.producer != none) {
      const Operator &producer = graph.operators[tensor.producer];
      bool shows = producer.cost.costClass == CostClass::View ||
                   (producer.cost.costClass == CostClass::Movement && producer.use->isFree);
      if (shows && producer.operands.front().tensor != none)
        return keep(producer.operands.front().tensor, rounded);
    }
    tensor.keptRounded = rounded && (!tensor.kept || tensor.keptRounded);
    tensor.kept = true;
  }

  /// Whether a kernel has an operand only in its registers.
  bool isInner(const Operator &op, unsigned number) const {
    return op.operands[number].tensor != none && !op.use->reads[number] && !op.use->isEpilogue && !isProduct(op);
  }

  void chooseBackward(Operator &op) {
    if (op.once || !anyLearns(op))
      return;
    if (isProduct(op)) {
      keepFactors(op);
      return;
    }
    KernelUse &use = *op.use;
    for (auto [number, operand] : llvm::enumerate(op.operands))
      if (operand.parameter != none && graph.learns(operand))
        use.gradientReads += 1; // summed over all that it was broadcast to
    if (use.isStreamed || use.isCounted || op.cost.costClass == CostClass::View)
      return;
    if (op.cost.costClass == CostClass::Movement) {
      use.gradientReads += use.isFree ? 0 : 1;
      for (auto [number, operand] : llvm::enumerate(op.operands))
        use.writesGradient[number] = !use.isFree && operand.tensor != none && graph.learns(operand);
      use.launchesBackward = !use.isFree;
      return;
    }
    // What follows and passes its gradient on has it in memory.
    bool inside = !use.writes && !use.isEpilogue && !passesOnAfter(op);
    use.passesOn = isSum(op) && !inside;
    if (use.passesOn)
      return;
    use.launchesBackward = !inside;
    if (!inside)
      use.gradientReads += 1;
    chooseDerivative(op);
  }

  bool passesOnAfter(const Operator &op) const {
    const Tensor &result = graph.tensors[op.results.front()];
    return result.uses.size() == 1 && graph.operators[result.uses.front().first].use->passesOn;
  }

  /// What the derivative of an operator that is no product depends on.
  void chooseDerivative(Operator &op) {
    KernelUse &use = *op.use;
    bool isDropout = mlir::isa<dfg::DropoutOp>(op.op);
    use.masks = isDropout;
    for (auto [number, operand] : llvm::enumerate(op.operands)) {
      if (operand.tensor == none)
        continue;
      use.writesGradient[number] = graph.learns(operand) && !isInner(op, number);
      if (!dependsOn(op, number))
        continue;
      if (op.cost.costClass == CostClass::Reduction && producesAlone(operand)) {
        use.readsResultAgain = true;
        keep(op.results.front());
      } else if (!isInner(op, number)) {
        use.readsAgain[number] = true;
        keep(operand.tensor);
      }
    }
    // What starts a kernel that computes something again reads its operands again.
    if (!use.writes && op.cost.costClass == CostClass::Elementwise && neededAfter(op))
      for (auto [number, operand] : llvm::enumerate(op.operands))
        if (operand.tensor != none && !isInner(op, number) && operand.isFloat) {
          use.readsAgain[number] = true;
          keep(operand.tensor);
        }
  }

  bool producesAlone(const Operand &operand) const {
    return producerOf(operand) && graph.tensors[operand.tensor].producer != none;
  }

  /// Whether what follows in the kernel depends on this result.
  bool neededAfter(const Operator &op) const {
    const Tensor &result = graph.tensors[op.results.front()];
    if (result.uses.size() != 1)
      return false;
    auto [user, number] = result.uses.front();
    const Operator &next = graph.operators[user];
    if (next.cost.costClass == CostClass::Reduction)
      return false;
    return dependsOn(next, number) || (!next.use->writes && neededAfter(next));
  }

  /// Whether the gradient of some operand depends on the value of operand `number`.
  bool dependsOn(const Operator &op, unsigned number) const {
    for (auto [other, operand] : llvm::enumerate(op.operands))
      if (graph.learns(operand) && !isLinearIn(op, number, other))
        // In itself it need not be linear together with another: a set of its own will do.
        if (other != number ||
            !llvm::any_of(op.rule.linear, [&](const auto &set) { return llvm::is_contained(set, number); }))
          return true;
    return false;
  }

  /// A product's gradients need its other operand.
  void keepFactors(Operator &op) {
    for (auto [number, operand] : llvm::enumerate(op.operands)) {
      if (operand.tensor == none || number > 1)
        continue;
      const Operand &other = op.operands[number == 0 ? 1 : 0];
      if (graph.learns(other) && (!op.use->isStreamed || op.use->reads[number]))
        keep(operand.tensor, op.use->isLinear);
    }
    if (op.use->isStreamed && op.use->writes)
      keep(op.results.front());
  }

  /// Gradients of a tensor that come from several kernels are added up, two at a time.
  void countGradients(Tensor &tensor) {
    if (!tensor.learns || tensor.producer == none)
      return;
    double gradients = 0, joined = 0;
    for (auto [user, number] : tensor.uses) {
      const Operator &op = graph.operators[user];
      (op.use->share < 1 && number == 0 ? joined : gradients) += 1;
    }
    gradients += joined > 0 ? 1 : 0;
    tensor.gradientSums = std::max(0.0, gradients - 1);
  }
};

} // namespace

void chooseKernels(SearchGraph &graph, const Executor &executor) {
  if (executor.fusion == Fusion::Products)
    return;
  for (Operator &op : graph.operators)
    op.fused = false;
  KernelChooser(graph, executor).run();
}

void findInnerFactors(SearchGraph &graph) {
  for (Operator &op : llvm::reverse(graph.operators)) {
    op.inner.assign(op.rule.factors.size(), false);
    for (auto [result, factors] : llvm::zip_equal(op.results, op.rule.results))
      for (auto [dim, inDim] : llvm::enumerate(factors)) {
        if (inDim.empty())
          continue;
        bool inner = llvm::any_of(graph.tensors[result].uses, [&, at = dim](auto &use) {
          const Operator &user = graph.operators[use.first];
          const TensorFactors &operand = user.rule.operands[use.second];
          if (at >= operand.size() || operand[at].empty())
            return false;
          unsigned factor = operand[at].front();
          if (user.cost.costClass != CostClass::Contraction)
            return static_cast<bool>(factor < user.inner.size() && user.inner[factor]);
          bool hasWeights = llvm::any_of(user.operands, [](const Operand &other) { return other.parameter != none; });
          if (hasWeights)
            return user.rule.factors[factor].kind == FactorKind::Reduction;
          return factor != user.sequence && llvm::all_of(user.rule.operands, [&](const TensorFactors &tensor) {
                   return mentions(tensor, factor);
                 });
        });
        if (inner)
          for (unsigned factor : inDim)
            op.inner[factor] = op.rule.factors[factor].kind == FactorKind::Parallel;
      }
    // Rows and columns of a table of weights.
    for (auto [operand, factors] : llvm::zip_equal(op.operands, op.rule.operands))
      if (operand.parameter != none && factors.size() > 1)
        for (const DimFactors &dim : factors)
          for (unsigned factor : dim)
            if (llvm::none_of(llvm::zip_equal(op.operands, op.rule.operands), [&](auto pair) {
                  return std::get<0>(pair).parameter == none && mentions(std::get<1>(pair), factor);
                }))
              op.inner[factor] = true;
  }
}

} // namespace cleave::search
