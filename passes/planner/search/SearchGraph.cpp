// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From IR to what the search needs of it.

#include "passes/planner/search/SearchGraph.h"

#include "dialects/dfg/Attention.h"
#include "dialects/interfaces/Interfaces.h"
#include "passes/planner/NarrowOperators.h"
#include "passes/planner/search/AxisFactors.h"
#include "passes/planner/search/Kernels.h"
#include "passes/planner/search/StageBoundaries.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave::search {
namespace {

class GraphReader {
public:
  GraphReader(dfg::GraphOp graph, llvm::ArrayRef<unsigned> pins, unsigned mostBoundaries, bool wholeLayers)
      : graph(graph), pins(pins), narrow(graph), mostBoundaries(mostBoundaries), wholeLayers(wholeLayers) {}

  SearchGraph run() {
    result.nodes = collectModelNodes(graph);
    addTensors();
    addOperators();
    findAxisFactors(graph, result);
    findGradients();
    chooseLeaders();
    findScores();
    findShared();
    findBoundaries(result, mostBoundaries, wholeLayers);
    return std::move(result);
  }

private:
  dfg::GraphOp graph;
  llvm::ArrayRef<unsigned> pins;
  NarrowOperators narrow;
  unsigned mostBoundaries;
  bool wholeLayers;
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
    made.findsStatistics = mlir::isa<dfg::BatchNormOp>(op);
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
      made.once &= result.isPrepared(tensor);
    }
    if (!made.once)
      for (const Operand &operand : made.operands)
        if (operand.tensor != none && result.isPrepared(result.tensors[operand.tensor]))
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

  /// Finds the parameters that several operators of steps read.
  void findShared() {
    // By operator that runs once, and by parameter: what steps read of it.
    std::vector<llvm::SmallVector<unsigned>> sources(result.operators.size()), readers(result.parameters.size());
    for (auto [index, op] : llvm::enumerate(result.operators)) {
      llvm::SmallVector<unsigned> &own = sources[index];
      for (const Operand &operand : op.operands)
        if (operand.parameter != none)
          own.push_back(operand.parameter);
        else if (unsigned producer = result.tensors[operand.tensor].producer;
                 producer != none && result.operators[producer].once)
          own.append(sources[producer]);
      llvm::sort(own);
      own.erase(llvm::unique(own), own.end());
      if (!op.once)
        for (unsigned parameter : own)
          readers[parameter].push_back(index);
    }
    std::vector<unsigned> sharedAs(result.parameters.size(), none);
    for (auto [number, parameter] : llvm::enumerate(result.parameters))
      if (parameter.trained && readers[number].size() > 1) {
        sharedAs[number] = static_cast<unsigned>(result.shared.size());
        result.shared.push_back({parameter.bytes, readers[number], {}});
      }
    for (auto [index, op] : llvm::enumerate(result.operators)) {
      if (op.once)
        continue;
      for (Operand &operand : op.operands) {
        llvm::ArrayRef<unsigned> made;
        if (operand.parameter != none && result.parameters[operand.parameter].firstUse == index)
          made = operand.parameter;
        else if (operand.tensor != none && result.tensors[operand.tensor].firstUse == index)
          made = sources[result.tensors[operand.tensor].producer];
        bool isSum = operand.parameter != none || result.tensors[operand.tensor].learns;
        if (!isSum || made.size() != 1 || sharedAs[made.front()] == none)
          continue;
        operand.shared = sharedAs[made.front()];
        llvm::SmallVector<unsigned> &holders = result.shared[operand.shared].holders;
        if (!llvm::is_contained(holders, index))
          holders.push_back(index);
      }
    }
  }

  void findGradients() {
    for (Operator &op : result.operators) {
      bool hasGradient = false;
      for (const Operand &operand : op.operands)
        hasGradient |= learns(operand);
      for (unsigned tensor : op.results)
        result.tensors[tensor].learns = hasGradient && result.tensors[tensor].isFloat;
    }
  }

  bool learns(const Operand &operand) const {
    return operand.parameter != none ? result.parameters[operand.parameter].trained
                                     : result.tensors[operand.tensor].learns;
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

  /// Finds attention that our kernels may compute at once.
  void findScores() {
    llvm::DenseMap<mlir::Operation *, Operator *> operators;
    for (Operator &op : result.operators)
      operators[op.op] = &op;
    auto indexOf = [&](mlir::Operation *op) {
      return static_cast<unsigned>(operators.lookup(op) - result.operators.data());
    };
    for (Operator &op : result.operators) {
      auto attention = dfg::findAttention(op.op);
      if (!attention)
        continue;
      llvm::SmallVector<mlir::Operation *> row = attention->getOperators();
      if (!llvm::all_of(row, [&](mlir::Operation *member) { return operators.count(member); }))
        continue;
      bool hasGradient = !learnsBeside(row, operators);
      auto sizes = attention->getScoresType().getShape().take_back(2);
      auto lastDim = [](mlir::Value scores) {
        return static_cast<unsigned>(llvm::cast<mlir::RankedTensorType>(scores.getType()).getRank() - 1);
      };
      auto number = static_cast<unsigned>(result.attentions.size());
      auto plain = dfg::getPlainScores(*attention);
      double share = dfg::shareOfBlocks(*attention, dfg::findBand(*attention));
      operators[row.front()]->scores = Operator::Scores{
          none, true, lastDim(row.front()->getResult(0)), sizes[0], sizes[1], hasGradient, number, plain, share};
      for (size_t i = 1; i < row.size(); ++i)
        for (mlir::OpOperand &operand : row[i]->getOpOperands())
          if (operand.get() == row[i - 1]->getResult(0))
            operators[row[i]]->scores = Operator::Scores{operand.getOperandNumber(),
                                                         i + 1 < row.size(),
                                                         lastDim(operand.get()),
                                                         sizes[0],
                                                         sizes[1],
                                                         hasGradient,
                                                         number,
                                                         plain,
                                                         share};
      for (unsigned read : {operators[row.front()]->operands[0].tensor, operators[row.front()]->operands[1].tensor,
                            operators[row.back()]->operands[1].tensor})
        markMaker(read);
      AttentionRow &made = result.attentions.emplace_back();
      for (mlir::Operation *member : row)
        made.operators.push_back(indexOf(member));
      made.softmax = indexOf(op.op);
      made.mayBeRing = result.operators[made.scores()].operands[0].tensor != none &&
                       isReadAlone(result.operators[made.scores()]) && isReadAlone(result.operators[made.result()]);
    }
  }

  /// Marks who makes a tensor that attention reads: behind what only moves it, whose results are not kept.
  void markMaker(unsigned tensor) {
    while (tensor != none && result.tensors[tensor].producer != none) {
      Operator &maker = result.operators[result.tensors[tensor].producer];
      maker.isForAttention = true;
      bool moves = maker.cost.costClass == CostClass::View || maker.cost.costClass == CostClass::Movement;
      tensor = moves && !maker.operands.empty() ? maker.operands.front().tensor : none;
    }
  }

  /// Whether steps make the right operand of a product, and nothing else reads it. Inputs come as they are read, whole.
  bool isReadAlone(const Operator &product) const {
    if (product.operands[1].tensor == none)
      return false;
    const Tensor &tensor = result.tensors[product.operands[1].tensor];
    return tensor.producer != none && !result.isPrepared(tensor) && tensor.uses.size() == 1;
  }

  /// Whether anything that has a gradient is read between the products of attention, beside the scores.
  bool learnsBeside(llvm::ArrayRef<mlir::Operation *> row,
                    const llvm::DenseMap<mlir::Operation *, Operator *> &operators) const {
    return llvm::any_of(row.drop_front().drop_back(), [&](mlir::Operation *member) {
      return llvm::any_of(llvm::zip(member->getOperands(), operators.lookup(member)->operands), [&](auto pair) {
        auto &[value, operand] = pair;
        return !llvm::is_contained(row, value.getDefiningOp()) && learns(operand);
      });
    });
  }

  /// In a product's kernel, at whose end it is.
  bool isAtEnd(const Operator &op) const {
    if (op.results.size() != 1 || (op.cost.costClass != CostClass::Elementwise && !op.findsStatistics))
      return false;
    return llvm::any_of(op.operands, [&](const Operand &operand) {
      if (operand.tensor == none || result.tensors[operand.tensor].producer == none)
        return false;
      const Tensor &tensor = result.tensors[operand.tensor];
      const Operator &producer = result.operators[tensor.producer];
      return tensor.uses.size() == 1 && !producer.once &&
             (producer.cost.costClass == CostClass::Contraction || producer.endsProduct);
    });
  }

  /// In the kernel of a sum that is all that reads it. Whether later operators are is known.
  bool isPartOfReader(const Operator &op) const {
    if (op.cost.costClass != CostClass::Elementwise || op.results.size() != 1)
      return false;
    const Tensor &tensor = result.tensors[op.results.front()];
    if (tensor.uses.size() != 1 || tensor.isOutput)
      return false;
    const Operator &reader = result.operators[tensor.uses.front().first];
    if (reader.fused || reader.results.size() != 1)
      return reader.fused && reader.joinsReader;
    // Softmax and others that go over their operand more than once make as much of it.
    return reader.cost.costClass == CostClass::Reduction &&
           2 * result.tensors[reader.results.front()].bytes <= tensor.bytes;
  }

  /// A sum, whose operands all have its gradient.
  static bool handsOnGradient(const Operator &op) {
    return llvm::any_of(op.rule.linear, [](const auto &together) { return together.size() > 1; });
  }

  void chooseLeaders() {
    for (auto [index, op] : llvm::enumerate(result.operators)) {
      op.endsProduct = isAtEnd(op);
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
    for (Operator &op : llvm::reverse(result.operators))
      op.joinsReader = isPartOfReader(op);
    // Whether the operator or fused work behind it computes something of a gradient.
    std::vector<bool> works(result.operators.size());
    for (unsigned index = result.operators.size(); index-- != 0;) {
      Operator &op = result.operators[index];
      bool isBefore = op.fused && llvm::any_of(result.tensors[op.results.front()].uses, [&](const auto &use) {
                        return result.operators[use.first].fused && works[use.first];
                      });
      op.endsFused = op.fused && !isBefore && !handsOnGradient(op);
      works[index] = isBefore || op.endsFused;
    }
  }
};

} // namespace

unsigned SearchGraph::placedWith(unsigned index) const {
  while (operators[index].once) {
    unsigned reader = none;
    for (unsigned tensor : operators[index].results)
      if (!tensors[tensor].uses.empty())
        reader = std::min(reader, tensors[tensor].uses.front().first);
    if (reader == none)
      break;
    index = reader;
  }
  return index;
}

bool SearchGraph::isSummedEarlier(const Operand &operand, unsigned index, unsigned first,
                                  const std::vector<bool> *included) const {
  return operand.shared != none && llvm::any_of(shared[operand.shared].holders, [&](unsigned holder) {
           return holder >= first && holder < index && (!included || (*included)[holder]);
         });
}

double SearchGraph::flops() const {
  double total = 0;
  for (const Operator &op : operators)
    if (!op.once)
      total += op.cost.flops;
  return total;
}

bool SearchGraph::learns(const Operand &operand) const {
  return operand.isFloat &&
         (operand.parameter != none ? parameters[operand.parameter].trained : tensors[operand.tensor].learns);
}

bool SearchGraph::isFirstUse(const Operand &operand, unsigned index) const {
  return operand.parameter != none ? parameters[operand.parameter].firstUse == index
                                   : operand.tensor != none && tensors[operand.tensor].firstUse == index;
}

bool SearchGraph::isPrepared(const Operand &operand) const {
  return operand.parameter != none || (operand.tensor != none && isPrepared(tensors[operand.tensor]));
}

bool SearchGraph::isPrepared(const Tensor &tensor) const {
  return tensor.producer != none && operators[tensor.producer].once;
}

bool SearchGraph::isJoined(const Operator &op, const Operand &operand) const {
  unsigned producer = operand.tensor == none ? none : tensors[operand.tensor].producer;
  return producer != none && op.cost.costClass == CostClass::Reduction && operators[producer].joinsReader;
}

double SearchGraph::leastFlops(double batches, bool training) const {
  double total = 0;
  for (const Operator &op : operators) {
    if (op.once)
      continue;
    double products = 1;
    if (training && op.cost.costClass == CostClass::Contraction)
      products += static_cast<double>(llvm::count_if(llvm::ArrayRef(op.operands).take_front(2),
                                                     [&](const Operand &operand) { return learns(operand); }));
    total += op.cost.flops * products * (op.batch == none ? 1 : batches);
  }
  return total;
}

double SearchGraph::parameterBytes() const {
  double total = 0;
  for (const Parameter &parameter : parameters)
    total += parameter.bytes;
  return total;
}

SearchGraph readGraph(dfg::GraphOp graph, llvm::ArrayRef<unsigned> pins, unsigned most, const Executor &executor) {
  SearchGraph read = GraphReader(graph, pins, most, executor.wholeLayers).run();
  chooseKernels(read, executor);
  if (!executor.splitsSequence)
    findInnerFactors(read);
  for (Operator &op : read.operators)
    op.digest = read.digestOf(op);
  return read;
}

} // namespace cleave::search
