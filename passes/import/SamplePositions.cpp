// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows samples along the operators' factors.

#include "passes/import/SamplePositions.h"

#include "dialects/interfaces/Interfaces.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace cleave {

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

namespace {

/// The factor that has the samples, and how many elements of it are outside of them.
struct SampleFactor {
  unsigned factor = 0;
  int64_t outer = 1;

  bool operator==(const SampleFactor &) const = default;
};

} // namespace

/// The factor of an operand's dimension that has the samples whole.
static std::optional<SampleFactor> factorAt(const SplitRule &rule, const TensorFactors &operand,
                                            SamplePosition position, int64_t samples) {
  int64_t before = 1;
  if (position.dim >= operand.size())
    return std::nullopt;
  for (unsigned factor : operand[position.dim]) {
    int64_t size = rule.factors[factor].size;
    if (position.outer % before == 0 && before * size % (position.outer * samples) == 0)
      return SampleFactor{factor, position.outer / before};
    before *= size;
  }
  return std::nullopt;
}

static std::optional<SamplePosition> positionOf(const SplitRule &rule, const TensorFactors &result, SampleFactor at) {
  for (auto [dim, factors] : llvm::enumerate(result)) {
    int64_t before = 1;
    for (unsigned factor : factors) {
      if (factor == at.factor)
        return SamplePosition{static_cast<unsigned>(dim), before * at.outer};
      before *= rule.factors[factor].size;
    }
  }
  return std::nullopt;
}

std::optional<SamplePosition> SamplePositions::afterReshape(ArrayRef<int64_t> from, SamplePosition position,
                                                            ArrayRef<int64_t> to) const {
  int64_t outside = llvm::product_of(from.take_front(position.dim)) * position.outer, before = 1;
  for (auto [dim, size] : llvm::enumerate(to)) {
    if (outside % before == 0 && before * size % (outside * samples) == 0)
      return SamplePosition{static_cast<unsigned>(dim), outside / before};
    before *= size;
  }
  return std::nullopt;
}

/// Whether known elements are the same for each sample. Large ones are not looked through.
static bool isUniformAlong(DenseElementsAttr elements, SamplePosition position, int64_t samples) {
  constexpr int64_t mostElements = 1 << 20;
  if (elements.isSplat())
    return true;
  ArrayRef<int64_t> shape = elements.getType().getShape();
  int64_t count = elements.getNumElements();
  if (count > mostElements || shape[position.dim] % (position.outer * samples) != 0)
    return false;
  int64_t behind = llvm::product_of(shape.drop_front(position.dim + 1));
  int64_t inner = shape[position.dim] / (position.outer * samples) * behind;
  auto values = elements.value_begin<Attribute>();
  for (int64_t at = 0; at < count; ++at)
    if (int64_t sample = at / inner % samples; sample != 0 && *(values + at) != *(values + (at - sample * inner)))
      return false;
  return true;
}

bool SamplePositions::isUniform(Value value, SamplePosition position) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (DenseElementsAttr elements; matchPattern(op, m_Constant(&elements)))
    return isUniformAlong(elements, position, samples);
  if (auto read = dyn_cast<dfg::ReadOp>(op)) {
    auto parameter = SymbolTable::lookupNearestSymbolFrom<dfg::ParameterOp>(op, read.getParameterAttr());
    return parameter && parameter.getState() && isa<dfg::FillAttr>(parameter.getInit());
  }
  auto [entry, isNew] = uniform.try_emplace({value.getAsOpaquePointer(), position.dim, position.outer}, false);
  if (!isNew)
    return entry->second;
  bool &found = entry->second;
  if (auto reshape = dyn_cast<dfg::ReshapeOp>(op)) {
    auto before = afterReshape(shapeOf(value), position, shapeOf(reshape.getInput()));
    return found = before && isUniform(reshape.getInput(), *before);
  }
  auto splittable = dyn_cast<SplitInterface>(op);
  if (!splittable || op->getNumOperands() == 0)
    return false;
  SplitRule rule = splittable.getSplitRule();
  rule.operands.resize(op->getNumOperands());
  auto at = factorAt(rule, rule.results[cast<OpResult>(value).getResultNumber()], position, samples);
  if (!at || rule.factors[at->factor].kind != FactorKind::Parallel)
    return false;
  return found = llvm::all_of(llvm::zip_equal(op->getOperands(), rule.operands), [&](auto operand) {
           auto before = positionOf(rule, std::get<1>(operand), *at);
           return !before || isUniform(std::get<0>(operand), *before);
         });
}

std::optional<SmallVector<SamplePosition, 1>> SamplePositions::resultsOf(Operation *op) {
  // Splits cut whole factors; samples are followed through reshapes that have none in common, too.
  if (auto reshape = dyn_cast<dfg::ReshapeOp>(op)) {
    auto moved =
        afterReshape(shapeOf(reshape.getInput()), *known.lookup(reshape.getInput()), shapeOf(reshape.getResult()));
    return moved ? std::optional(SmallVector<SamplePosition, 1>{*moved}) : std::nullopt;
  }
  auto splittable = dyn_cast<SplitInterface>(op);
  if (!splittable)
    return std::nullopt;
  SplitRule rule = splittable.getSplitRule();
  rule.operands.resize(op->getNumOperands());
  std::optional<SampleFactor> at;
  for (auto [operand, factors] : llvm::zip_equal(op->getOperands(), rule.operands)) {
    auto position = known.lookup(operand);
    if (!position)
      continue;
    auto found = factorAt(rule, factors, *position, samples);
    if (!found || (at && *at != *found) || rule.factors[found->factor].kind != FactorKind::Parallel)
      return std::nullopt;
    at = found;
  }
  // What is given for each place in the batch would make a sample's results depend on its place, unless it is the same
  // everywhere, as an initial state is.
  for (auto [operand, factors] : llvm::zip_equal(op->getOperands(), rule.operands))
    if (at && !known.lookup(operand))
      if (auto position = positionOf(rule, factors, *at); position && !isUniform(operand, *position))
        return std::nullopt;
  SmallVector<SamplePosition, 1> results;
  for (const TensorFactors &factors : rule.results) {
    auto position = at ? positionOf(rule, factors, *at) : std::nullopt;
    if (!position)
      return std::nullopt;
    results.push_back(*position);
  }
  if (results.size() != op->getNumResults())
    return std::nullopt;
  return results;
}

/// Finds positions in the results of an operator whose operands are known.
void SamplePositions::visit(Operation *op) {
  std::optional<SmallVector<SamplePosition, 1>> results;
  if (llvm::any_of(op->getOperands(), [&](Value operand) { return known.lookup(operand).has_value(); })) {
    results = resultsOf(op);
    if (!results && !mixing)
      mixing = op;
  }
  for (auto [index, result] : llvm::enumerate(op->getResults()))
    known[result] = results ? std::optional((*results)[index]) : std::nullopt;
}

FailureOr<std::optional<SamplePosition>> SamplePositions::find(Value value) {
  SmallVector<Value> waiting = {value};
  while (!waiting.empty()) {
    Value next = waiting.back();
    if (known.contains(next)) {
      waiting.pop_back();
      continue;
    }
    if (auto argument = dyn_cast<BlockArgument>(next)) {
      known[next] = isBatched(argument) ? std::optional(SamplePosition()) : std::nullopt;
      continue;
    }
    Operation *op = next.getDefiningOp();
    size_t before = waiting.size();
    llvm::copy_if(op->getOperands(), std::back_inserter(waiting),
                  [&](Value operand) { return !known.contains(operand); });
    if (waiting.size() == before)
      visit(op);
  }
  if (mixing)
    return failure();
  return known.lookup(value);
}

/// The name of an input or output, or else its number.
static std::string portName(StringRef name, StringRef kind, size_t index) {
  return (kind + " " + (name.empty() ? std::to_string(index) : ("\"" + name + "\"").str())).str();
}

Operation *findMixing(dfg::GraphOp graph, int64_t samples) {
  SamplePositions positions(
      samples, [samples](BlockArgument input) { return !shapeOf(input).empty() && shapeOf(input).front() == samples; });
  for (Value value : graph.getBody().front().getTerminator()->getOperands())
    if (failed(positions.find(value)))
      break;
  return positions.findMixing();
}

LogicalResult checkSamples(dfg::GraphOp graph, int64_t samples) {
  auto checkPort = [&](Type type, const std::string &name) -> LogicalResult {
    auto shape = cast<RankedTensorType>(type).getShape();
    if (!shape.empty() && shape.front() == samples)
      return success();
    return emitError(UnknownLoc::get(graph.getContext()))
           << name << " expects its " << samples << " samples in dimension 0 to be batched, got " << type;
  };
  if (graph.getArgumentTypes().empty())
    return emitError(UnknownLoc::get(graph.getContext())) << "a batch expects a model with inputs, got none";
  for (auto [index, type] : llvm::enumerate(graph.getArgumentTypes()))
    if (failed(checkPort(type, portName(graph.getInputName(index), "input", index))))
      return failure();
  for (auto [index, type] : llvm::enumerate(graph.getResultTypes()))
    if (failed(checkPort(type, portName(graph.getOutputName(index), "output", index))))
      return failure();
  if (samples == 1)
    return success();
  if (Operation *op = findMixing(graph, samples))
    return op->emitError("node \"") << dfg::getNodeName(op->getLoc()) << "\" (" << dfg::getNodeKind(op->getLoc())
                                    << ") expects to compute each sample from that sample alone to be batched, but "
                                       "it takes several samples together; compile the model with the batch that it "
                                       "declares";
  SamplePositions positions(samples, [](BlockArgument) { return true; });
  for (auto [index, value] : llvm::enumerate(graph.getBody().front().getTerminator()->getOperands())) {
    auto position = positions.find(value);
    if (*position != std::optional(SamplePosition()))
      return emitError(UnknownLoc::get(graph.getContext()))
             << portName(graph.getOutputName(index), "output", index)
             << " expects one result for each sample, in dimension 0, to be batched; "
             << (*position ? "its samples do not lie there" : "it depends on no input");
  }
  return success();
}

/// The dimension of `shape` that holds the samples of which `outside` elements are outside; by preference one that is
/// nothing else, one that takes what is left, one whose outermost part they are. The last dimension is the last choice:
/// rows [sequence * samples, features] have the samples in front of the features, not in them.
static std::optional<size_t> sampleDim(ArrayRef<int64_t> shape, std::optional<size_t> open, int64_t outside,
                                       int64_t declared) {
  std::optional<size_t> best;
  int bestRank = 0;
  int64_t before = 1;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    if (outside % before == 0 && before * size % (outside * declared) == 0) {
      bool isFirst = before == outside, isLast = dim + 1 == shape.size();
      int rank = isFirst && size == declared ? 5 : open == dim ? 4 : !isFirst ? 2 : isLast ? 1 : 3;
      if (rank > bestRank) {
        best = dim;
        bestRank = rank;
      }
    }
    before *= size;
  }
  return best;
}

std::optional<size_t> findSampleDim(ArrayRef<int64_t> from, SamplePosition position, ArrayRef<int64_t> shape,
                                    int64_t samples) {
  SmallVector<int64_t> whole(shape);
  std::optional<size_t> open;
  if (const int64_t *found = llvm::find(shape, -1); found != shape.end()) {
    open = found - shape.begin();
    whole[*open] = 1;
  }
  int64_t elements = llvm::product_of(from), fixed = llvm::product_of(whole);
  if (fixed < 1 || elements % fixed != 0 || (!open && fixed != elements))
    return std::nullopt;
  if (open)
    whole[*open] = elements / fixed;
  int64_t outside = llvm::product_of(from.take_front(position.dim)) * position.outer;
  return sampleDim(whole, open, outside, samples);
}

std::optional<SmallVector<int64_t>> rebatchShape(ArrayRef<int64_t> from, SamplePosition position,
                                                 ArrayRef<int64_t> shape, int64_t declared, int64_t samples) {
  int64_t elements = llvm::product_of(from);
  if (declared < 1 || elements % samples != 0)
    return std::nullopt;
  int64_t count = elements / samples * declared;
  SmallVector<int64_t> original(shape), present(shape);
  std::optional<size_t> open;
  int64_t fixed = 1;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    if (size == -1)
      open = dim;
    else
      fixed *= size;
  }
  int64_t outside = llvm::product_of(from.take_front(position.dim)) * position.outer;
  if (fixed == 0)
    return std::nullopt;
  // A shape that the model computes is right already: it has the samples as they are.
  if (open)
    present[*open] = elements / fixed;
  if (fixed * (open ? present[*open] : 1) == elements) {
    auto dim = sampleDim(present, open, outside, samples);
    if (!open || (dim && dim != open && present[*dim] == samples))
      return std::nullopt;
  }
  if (open)
    original[*open] = count / fixed;
  if (fixed * (open ? original[*open] : 1) != count)
    return std::nullopt;
  auto dim = sampleDim(original, open, outside, declared);
  if (!dim)
    return std::nullopt;
  original[*dim] = original[*dim] / declared * samples;
  return original;
}

} // namespace cleave
