// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From IR to what the search needs of it.

#include "passes/planner/search/SearchGraph.h"

#include "dialects/interfaces/Interfaces.h"
#include "passes/planner/NarrowOperators.h"
#include "passes/planner/SplitByStrategy.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace mlir;

namespace cleave::search {
namespace {

class GraphReader {
public:
  GraphReader(dfg::GraphOp graph, llvm::ArrayRef<unsigned> pins, unsigned mostBoundaries)
      : graph(graph), pins(pins), narrow(graph), mostBoundaries(mostBoundaries) {}

  SearchGraph run() {
    result.nodes = collectModelNodes(graph);
    addTensors();
    addOperators();
    findBatch();
    findGradients();
    chooseLeaders();
    findBoundaries();
    return std::move(result);
  }

private:
  dfg::GraphOp graph;
  llvm::ArrayRef<unsigned> pins;
  NarrowOperators narrow;
  unsigned mostBoundaries;
  SearchGraph result;
  llvm::DenseMap<Value, unsigned> tensorOf;
  llvm::DenseMap<Value, unsigned> parameterOf;
  llvm::StringMap<unsigned> parameterByName;

  unsigned addTensor(Value value) {
    unsigned index = result.tensors.size();
    tensorOf[value] = index;
    Tensor &tensor = result.tensors.emplace_back();
    tensor.value = value;
    tensor.bytes = static_cast<double>(tensorBytes(value.getType()));
    tensor.isFloat = isa<FloatType>(getElementTypeOrSelf(value.getType()));
    return index;
  }

  void addTensors() {
    for (BlockArgument input : graph.getBody().getArguments())
      addTensor(input);
  }

  unsigned parameterFor(Operation *source) {
    auto known = parameterOf.find(source->getResult(0));
    if (known != parameterOf.end())
      return known->second;
    auto read = dyn_cast<dfg::ReadOp>(source);
    std::string name = read ? read.getParameter().str() : "constant " + std::to_string(parameterOf.size());
    auto [entry, isNew] = parameterByName.try_emplace(name, result.parameters.size());
    parameterOf[source->getResult(0)] = entry->second;
    if (!isNew)
      return entry->second;
    Parameter &parameter = result.parameters.emplace_back();
    parameter.name = entry->first();
    parameter.bytes = static_cast<double>(tensorBytes(source->getResult(0).getType()));
    if (read)
      if (auto symbol = SymbolTable::lookupNearestSymbolFrom<dfg::ParameterOp>(source, read.getParameterAttr()))
        parameter.trained = !symbol.getState() && isa<FloatType>(symbol.getTensorType().getElementType());
    return entry->second;
  }

  void addOperators() {
    llvm::DenseMap<Operation *, unsigned> nodeOf;
    for (auto [index, node] : llvm::enumerate(result.nodes))
      for (Operation *op : node.operators)
        nodeOf[op] = index;
    for (Operation &op : graph.getBody().front()) {
      if (op.hasTrait<OpTrait::IsTerminator>()) {
        for (Value operand : op.getOperands())
          if (auto tensor = tensorOf.find(operand); tensor != tensorOf.end())
            result.tensors[tensor->second].isOutput = true;
        continue;
      }
      if (!followsItsUsers(&op))
        addOperator(op, nodeOf.lookup(&op));
    }
  }

  /// Whether a tensor is made before the first step.
  bool isPrepared(const Tensor &tensor) const {
    return tensor.producer != none && result.operators[tensor.producer].once;
  }

  void addOperator(Operation &op, unsigned node) {
    unsigned index = result.operators.size();
    Operator made;
    made.op = &op;
    made.node = node;
    made.leader = index;
    if (auto splittable = dyn_cast<SplitInterface>(op))
      made.rule = splittable.getSplitRule();
    made.rule.operands.resize(op.getNumOperands());
    made.rule.results.resize(op.getNumResults());
    if (auto costed = dyn_cast<CostInterface>(op))
      made.cost = costed.getCost();
    made.slides =
        made.cost.costClass == CostClass::Contraction && llvm::any_of(made.rule.factors, [](const Factor &factor) {
          return factor.kind == FactorKind::Window || StringRef(factor.name).starts_with("window");
        });
    made.once = true;
    for (auto [number, value] : llvm::enumerate(op.getOperands())) {
      Operand &operand = made.operands.emplace_back();
      operand.isRounded = narrow.rounds(op.getOpOperand(number));
      operand.bytes = static_cast<double>(tensorBytes(value.getType()));
      operand.isFloat = isa<FloatType>(getElementTypeOrSelf(value.getType()));
      Operation *source = value.getDefiningOp();
      if (source && followsItsUsers(source)) {
        operand.parameter = parameterFor(source);
        Parameter &parameter = result.parameters[operand.parameter];
        if (parameter.firstUse == none)
          parameter.firstUse = index;
        continue;
      }
      operand.tensor = tensorOf.lookup(value);
      Tensor &tensor = result.tensors[operand.tensor];
      tensor.uses.emplace_back(index, static_cast<unsigned>(number));
      made.once &= isPrepared(tensor);
    }
    if (!made.once)
      for (const Operand &operand : made.operands)
        if (operand.tensor != none && isPrepared(result.tensors[operand.tensor]))
          result.tensors[operand.tensor].firstUse = std::min(result.tensors[operand.tensor].firstUse, index);
    for (OpResult value : op.getResults()) {
      unsigned tensor = addTensor(value);
      result.tensors[tensor].producer = index;
      result.tensors[tensor].result = value.getResultNumber();
      made.results.push_back(tensor);
    }
    if (!pins.empty() && !made.once)
      made.pin = pins[node];
    result.operators.push_back(std::move(made));
  }

  /// The batch of every operator is what strategy data would cut.
  void findBatch() {
    MeshSpec mesh{"batch", {0, 1}, {{"data", 2}}};
    std::vector<NodePlace> places(result.nodes.size(), NodePlace{&mesh, ""});
    GraphSplits splits(graph, result.nodes, places);
    for (BlockArgument input : splitBatch(splits, graph, "data"))
      result.singleSample.push_back(graph.getInputName(input.getArgNumber()).str());
    for (Operator &op : result.operators) {
      auto factor = splits.find(op.op)->factorCutBy("data");
      if (!factor || op.once)
        continue;
      op.batch = *factor;
      for (auto [tensor, factors] : llvm::zip_equal(op.results, op.rule.results))
        result.tensors[tensor].batched = mentions(factors, *factor);
    }
    findSequence(mesh, places);
    for (Tensor &tensor : result.tensors) {
      if (tensor.producer != none)
        continue;
      for (auto [user, operand] : tensor.uses) {
        const Operator &op = result.operators[user];
        if (op.batch == none)
          continue;
        tensor.batched |= mentions(op.rule.operands[operand], op.batch);
        for (const DimFactors &dim : op.rule.operands[operand])
          if (llvm::is_contained(dim, op.batch))
            result.batch = std::max(result.batch, op.rule.factors[op.batch].size);
      }
    }
  }

  /// The dimension of an input that is its batch; none where it has none.
  unsigned batchDimOf(const Tensor &input) const {
    for (auto [user, operand] : input.uses)
      for (auto [dim, factors] : llvm::enumerate(result.operators[user].rule.operands[operand]))
        if (llvm::is_contained(factors, result.operators[user].batch))
          return dim;
    return none;
  }

  /// What follows a cut of the first dimension of every input that is not its batch.
  void findSequence(const MeshSpec &mesh, ArrayRef<NodePlace> places) {
    GraphSplits splits(graph, result.nodes, places);
    for (const Tensor &input : result.tensors) {
      auto type = cast<RankedTensorType>(input.value.getType());
      unsigned batch = input.producer == none ? batchDimOf(input) : none;
      if (batch != none && type.getRank() > 1)
        splits.cutInput(input.value, batch == 0 ? 1 : 0, mesh.axes.front().name, splits.decide(""));
    }
    for (Operator &op : result.operators) {
      OperatorSplit *split = splits.find(op.op);
      splits.followOperands(*split);
      if (auto factor = split->factorCutBy(mesh.axes.front().name); factor && *factor != op.batch && !op.once)
        op.sequence = *factor;
    }
  }

  static bool mentions(const TensorFactors &tensor, unsigned factor) {
    return llvm::any_of(tensor, [&](const DimFactors &dim) { return llvm::is_contained(dim, factor); });
  }

  void findGradients() {
    for (Operator &op : result.operators) {
      bool learns = false;
      for (const Operand &operand : op.operands)
        learns |= operand.parameter != none ? result.parameters[operand.parameter].trained
                                            : result.tensors[operand.tensor].learns;
      for (unsigned tensor : op.results)
        result.tensors[tensor].learns = learns && result.tensors[tensor].isFloat;
    }
  }

  static bool isCheap(const Operator &op) {
    return op.cost.costClass == CostClass::Elementwise || op.cost.costClass == CostClass::View ||
           op.cost.costClass == CostClass::Movement;
  }

  /// The operand that an operator follows; none where it has a choice of its own.
  unsigned followed(const Operator &op) const {
    unsigned data = none;
    for (const Operand &operand : op.operands) {
      if (operand.tensor == none)
        continue;
      if (data != none && operand.tensor != data)
        return none;
      data = operand.tensor;
    }
    return data;
  }

  static bool mayBePartial(const Operator &op) {
    return llvm::any_of(op.rule.factors,
                        [](const Factor &factor) { return factor.kind == FactorKind::Reduction && factor.size > 1; });
  }

  void chooseLeaders() {
    for (auto [index, op] : llvm::enumerate(result.operators)) {
      if (!isCheap(op) || op.results.size() != 1)
        continue;
      unsigned data = followed(op);
      if (data == none || result.tensors[data].producer == none)
        continue;
      const Tensor &tensor = result.tensors[data];
      const Operator &producer = result.operators[tensor.producer];
      op.fused =
          op.cost.costClass == CostClass::Elementwise && tensor.uses.size() == 1 &&
          (producer.cost.costClass == CostClass::Contraction || producer.cost.costClass == CostClass::Elementwise);
      if (!mayBePartial(producer) && !mayBePartial(op))
        op.leader = producer.leader;
    }
  }

  //===-- boundaries ------------------------------------------------------------------------------------------===//

  void findBoundaries() {
    // Tensors by the last operator that reads them; an output crosses everything behind it.
    findNodeExtents();
    size_t count = result.operators.size();
    std::vector<unsigned> last(result.tensors.size());
    for (auto [index, tensor] : llvm::enumerate(result.tensors))
      last[index] = tensor.uses.empty() ? 0 : tensor.uses.back().first;
    std::vector<Boundary> all;
    llvm::SmallVector<unsigned> crossing;
    all.push_back({0, none, 0, 0});
    for (unsigned at = 1; at < count; ++at) {
      for (unsigned tensor : result.operators[at - 1].results)
        if (!result.operators[at - 1].once)
          crossing.push_back(tensor);
      llvm::erase_if(crossing, [&](unsigned tensor) { return last[tensor] < at; });
      Boundary &boundary = all.emplace_back();
      boundary.at = at;
      for (unsigned tensor : crossing)
        (result.tensors[tensor].batched ? boundary.batchedBytes : boundary.otherBytes) += result.tensors[tensor].bytes;
      if (crossing.size() == 1)
        boundary.single = crossing.front();
    }
    if (count)
      all.push_back({static_cast<unsigned>(count), none, 0, 0});
    keepBoundaries(all);
  }

  /// Whether a cut there separates operators of one node, or one that is fused from its producer.
  bool separates(const Boundary &boundary) const {
    unsigned index = boundary.at;
    return index < result.operators.size() &&
           (result.operators[index].fused || result.operators[index].once || insideNode[index]);
  }

  /// By operator: some node has operators before it and from it on.
  std::vector<bool> insideNode;
  void findNodeExtents() {
    std::vector<unsigned> firstOf(result.nodes.size(), none), lastOf(result.nodes.size(), 0);
    for (auto [index, op] : llvm::enumerate(result.operators)) {
      firstOf[op.node] = std::min(firstOf[op.node], static_cast<unsigned>(index));
      lastOf[op.node] = index;
    }
    insideNode.assign(result.operators.size(), false);
    for (auto [first, last] : llvm::zip_equal(firstOf, lastOf))
      for (unsigned index = first; first != none && index < last; ++index)
        if (!result.operators[index + 1].once || !result.operators[first].once)
          insideNode[index + 1] = true;
  }

  void keepBoundaries(std::vector<Boundary> &all) {
    std::vector<Boundary> single, several;
    for (const Boundary &boundary : all) {
      bool isEnd = &boundary == &all.front() || &boundary == &all.back();
      if (isEnd || (boundary.single != none && !separates(boundary)))
        single.push_back(boundary);
    }
    // Where two single ones are far apart, the narrowest places between them.
    std::map<unsigned, Boundary> kept;
    for (const Boundary &boundary : single)
      kept[boundary.at] = boundary;
    double work = std::max(result.flops(), 1.0);
    for (size_t index = 0; index + 1 < single.size(); ++index)
      addNarrow(all, single[index].at, single[index + 1].at, work / 24, kept);
    keepEndsOfPins(all, kept);
    for (auto &[at, boundary] : kept)
      result.boundaries.push_back(boundary);
    mergeRepeated();
  }

  /// Where stages have to be cut for what is pinned: boundaries that are kept.
  llvm::DenseSet<unsigned> endsOfPins;

  /// Cuts before and behind what is pinned to one mesh, where that separates nothing that belongs together; between
  /// two pins somewhere in any case.
  void keepEndsOfPins(const std::vector<Boundary> &all, std::map<unsigned, Boundary> &kept) {
    auto keep = [&](unsigned at) {
      kept.try_emplace(at, all[at]);
      endsOfPins.insert(at);
    };
    unsigned before = none, count = result.operators.size();
    auto cutBetween = [&](unsigned first, unsigned last, bool isNeeded) {
      unsigned low = first, high = last;
      while (low != last && separates(all[low]))
        ++low;
      while (high != low && separates(all[high]))
        --high;
      if (!separates(all[low]) || isNeeded) {
        keep(low);
        keep(high);
      }
    };
    for (unsigned index = 0; index != count; ++index) {
      unsigned pin = result.operators[index].pin;
      if (pin == none)
        continue;
      if (before == none && index > 0)
        cutBetween(1, index, false);
      else if (before != none && result.operators[before].pin != pin)
        cutBetween(before + 1, index, true);
      before = index;
    }
    if (before != none && before + 1 < count)
      cutBetween(before + 1, count - 1, false);
  }

  double flopsBetween(unsigned first, unsigned last) const {
    double flops = 0;
    for (unsigned index = first; index != last; ++index)
      flops += result.operators[index].cost.flops;
    return flops;
  }

  /// Cuts operators [first, last) where the fewest bytes cross, into pieces of about `piece` operations.
  void addNarrow(const std::vector<Boundary> &all, unsigned first, unsigned last, double piece,
                 std::map<unsigned, Boundary> &kept) const {
    if (flopsBetween(first, last) < 2 * piece || last - first < 4)
      return;
    double total = flopsBetween(first, last), before = 0;
    const Boundary *best = nullptr;
    double bestBytes = 0;
    for (unsigned at = first + 1; at < last; ++at) {
      before += result.operators[at - 1].cost.flops;
      if (before < total / 4 || before > total * 3 / 4 || separates(all[at]))
        continue;
      double bytes = all[at].batchedBytes + all[at].otherBytes;
      if (!best || bytes < bestBytes) {
        best = &all[at];
        bestBytes = bytes;
      }
    }
    if (!best)
      return;
    kept[best->at] = *best;
    kept[best->at].single = none;
    addNarrow(all, first, best->at, piece, kept);
    addNarrow(all, best->at, last, piece, kept);
  }

  /// Joins neighbouring pieces until there are few enough, the most frequent pair of equal pieces first, so that what
  /// repeats in the graph still repeats afterwards (as byte-pair encoding does: Gage 1994).
  void mergeRepeated() {
    std::vector<Boundary> &boundaries = result.boundaries;
    std::map<std::string, unsigned> kinds;
    std::vector<unsigned> kind;
    for (size_t index = 0; index + 1 < boundaries.size(); ++index)
      kind.push_back(kinds.try_emplace(result.structureOf(boundaries[index].at, boundaries[index + 1].at), kinds.size())
                         .first->second);
    unsigned next = kinds.size();
    while (boundaries.size() > mostBoundaries) {
      std::map<std::pair<unsigned, unsigned>, unsigned> counts;
      for (size_t index = 0; index + 1 < kind.size(); ++index)
        if (!endsOfPins.contains(boundaries[index + 1].at))
          ++counts[{kind[index], kind[index + 1]}];
      if (counts.empty())
        return;
      auto most = std::max_element(counts.begin(), counts.end(),
                                   [](auto &left, auto &right) { return left.second < right.second; });
      auto pair = most->first;
      std::vector<Boundary> keptBoundaries = {boundaries.front()};
      std::vector<unsigned> keptKinds;
      for (size_t index = 0; index < kind.size(); ++index) {
        bool joins = index + 1 < kind.size() && std::pair(kind[index], kind[index + 1]) == pair &&
                     !endsOfPins.contains(boundaries[index + 1].at);
        keptKinds.push_back(joins ? next : kind[index]);
        index += joins;
        keptBoundaries.push_back(boundaries[index + 1]);
      }
      boundaries = std::move(keptBoundaries);
      kind = std::move(keptKinds);
      ++next;
    }
  }
};

} // namespace

double SearchGraph::flops() const {
  double total = 0;
  for (const Operator &op : operators)
    if (!op.once)
      total += op.cost.flops;
  return total;
}

double SearchGraph::parameterBytes() const {
  double total = 0;
  for (const Parameter &parameter : parameters)
    total += parameter.bytes;
  return total;
}

static void writeFactors(llvm::raw_ostream &out, const TensorFactors &tensor) {
  for (const DimFactors &dim : tensor) {
    for (unsigned factor : dim)
      out << factor << '.';
    out << ',';
  }
  out << ';';
}

std::string SearchGraph::structureOf(unsigned first, unsigned last) const {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::DenseMap<unsigned, unsigned> outside;
  for (unsigned index = first; index != last; ++index) {
    const Operator &op = operators[index];
    out << op.op->getName().getStringRef() << ' ' << op.cost.flops << ' ' << op.cost.bytesRead << ' '
        << op.cost.bytesWritten << ' ' << static_cast<int>(op.cost.costClass) << ' ' << static_cast<int>(op.batch)
        << ' ' << static_cast<int>(op.sequence) << ' ' << op.once << op.fused << ' '
        << (op.leader < first ? -1 : static_cast<int>(op.leader - first)) << ' ';
    for (const Factor &factor : op.rule.factors)
      out << factor.size << '/' << static_cast<int>(factor.kind) << '/' << factor.haloBefore << '/' << factor.haloAfter
          << ' ';
    for (auto [operand, factors] : llvm::zip_equal(op.operands, op.rule.operands)) {
      writeFactors(out, factors);
      if (operand.parameter != none) {
        const Parameter &parameter = parameters[operand.parameter];
        out << 'p' << parameter.bytes << parameter.trained << (parameter.firstUse == index) << ' ';
        continue;
      }
      const Tensor &tensor = tensors[operand.tensor];
      if (tensor.producer != none && tensor.producer >= first)
        out << 't' << tensor.producer - first << '.' << tensor.result << (tensor.firstUse == index) << ' ';
      else
        out << 'x' << outside.try_emplace(operand.tensor, outside.size()).first->second << '.' << tensor.bytes
            << tensor.batched << tensor.learns << (tensor.producer == none) << (tensor.firstUse == index) << ' ';
    }
    for (auto [tensor, factors] : llvm::zip_equal(op.results, op.rule.results)) {
      writeFactors(out, factors);
      const Tensor &value = tensors[tensor];
      out << 'r' << value.bytes << value.batched << value.learns << value.isOutput << value.uses.size() << ' ';
    }
    out << '\n';
  }
  return text;
}

SearchGraph readGraph(dfg::GraphOp graph, llvm::ArrayRef<unsigned> pins, unsigned mostBoundaries) {
  return GraphReader(graph, pins, mostBoundaries).run();
}

} // namespace cleave::search
