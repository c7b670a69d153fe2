// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the numbers of masks, and the comparisons of positions that masks are made of.

#include "dialects/dfg/ScoreMasks.h"

#include "dialects/dfg/TensorType.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace cleave::dfg {

static ParameterOp parameterOf(ReadOp read) {
  return SymbolTable::lookupNearestSymbolFrom<ParameterOp>(read,
                                                           StringAttr::get(read.getContext(), read.getParameter()));
}

std::optional<double> numberOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto elements = dyn_cast<DenseFPElementsAttr>(constant.getValue());
      if (!elements || !elements.isSplat())
        return std::nullopt;
      APFloat number = elements.getSplatValue<APFloat>();
      bool loses = false;
      number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
      return number.convertToDouble();
    }
    if (auto read = dyn_cast<ReadOp>(op)) {
      ParameterOp parameter = parameterOf(read);
      auto number = parameter ? parameter->getAttrOfType<FloatAttr>(numberAttrName) : FloatAttr();
      return number ? std::optional(number.getValueAsDouble()) : std::nullopt;
    }
    if (!isa<CastOp, ReshapeOp, BroadcastOp>(op))
      return std::nullopt;
    value = op->getOperand(0);
  }
  return std::nullopt;
}

//===-- tensors -----------------------------------------------------------------------------------------------===//

static bool isReadableFloat(Type type) { return type.isF32() || type.isF64() || type.isF16() || type.isBF16(); }

/// A number of 16 bits.
static float narrowNumber(Type type, uint16_t bits) {
  return llvm::APFloat(cast<FloatType>(type).getFloatSemantics(), llvm::APInt(16, bits)).convertToFloat();
}

/// Reads an element of a tensor of floats.
static double numberAt(const HostTensor &tensor, int64_t index) {
  Type type = tensor.getElementType();
  if (type.isF32())
    return tensor.as<float>()[index];
  if (type.isF64())
    return tensor.as<double>()[index];
  return narrowNumber(type, tensor.as<uint16_t>()[index]);
}

/// Calls a function with another one, which gives the element at an index of a tensor of booleans or floats.
template <typename Use> static auto withElements(const HostTensor &tensor, Use use) {
  Type type = tensor.getElementType();
  if (type.isInteger(1))
    return use([data = tensor.data()](int64_t index) { return data[index] != 0 ? 1.0 : 0.0; });
  if (type.isF32())
    return use([data = tensor.as<float>().data()](int64_t index) -> double { return data[index]; });
  if (type.isF64())
    return use([data = tensor.as<double>().data()](int64_t index) { return data[index]; });
  // There are few such numbers, and perhaps many elements.
  std::vector<float> numbers(size_t(1) << 16);
  for (size_t bits = 0; bits != numbers.size(); ++bits)
    numbers[bits] = narrowNumber(type, bits);
  return use([data = tensor.as<uint16_t>().data(), numbers = numbers.data()](int64_t index) -> double {
    return numbers[data[index]];
  });
}

std::optional<double> numberIn(const HostTensor &tensor) {
  return isReadableFloat(tensor.getElementType()) && tensor.getNumElements() == 1 ? std::optional(numberAt(tensor, 0))
                                                                                  : std::nullopt;
}

namespace {
/// What a mask leaves: nothing outside of the band; exactly the band, where it says so.
struct Seen {
  ScoreBand band;
  bool isExact = true;
};
} // namespace

bool mayBeScoreMask(ShapedType type) {
  Type element = type.getElementType();
  ArrayRef<int64_t> shape = type.getShape();
  return (element.isInteger(1) || isReadableFloat(element)) && shape.size() >= 2 && shape.back() >= 2 &&
         shape[shape.size() - 2] >= 2 && type.getNumElements() > 0;
}

/// The band of the elements that stay of a tensor that may be a mask; none where it has both ends, of which an element
/// is at the corner of each matrix of queries and keys.
template <typename Stays> static std::optional<Seen> seenIn(const HostTensor &tensor, Stays stays) {
  ArrayRef<int64_t> shape = tensor.getShape();
  int64_t keys = shape.back(), queries = shape[shape.size() - 2], size = queries * keys;
  int64_t matrices = tensor.getNumElements() / size;
  auto isHidden = [&](int64_t corner) {
    return llvm::all_of(llvm::seq(matrices), [&](int64_t matrix) { return !stays(matrix * size + corner); });
  };
  if (!isHidden(keys - 1) && !isHidden(size - keys))
    return std::nullopt;
  int64_t lower = queries, upper = -keys, seen = 0;
  for (int64_t row = 0; row != matrices * queries; ++row) {
    int64_t query = row % queries, begin = row * keys, first = 0, last = keys - 1;
    while (first != keys && !stays(begin + first))
      ++first;
    if (first == keys)
      continue;
    while (!stays(begin + last))
      --last;
    for (int64_t key = first; key <= last; ++key)
      seen += stays(begin + key);
    lower = std::min(lower, query - last);
    upper = std::max(upper, query - first);
  }
  if (seen == 0)
    return std::nullopt;
  int64_t all = 0;
  for (int64_t query = 0; query != queries; ++query)
    all += std::max<int64_t>(0, std::min(keys - 1, query - lower) - std::max<int64_t>(0, query - upper) + 1);
  Seen found{{lower, upper}, seen == all * matrices};
  if (lower <= 1 - keys)
    found.band.lower.reset();
  if (upper >= queries - 1)
    found.band.upper.reset();
  return found;
}

std::optional<ScoreMask> findScoreMask(const HostTensor &tensor) {
  if (!mayBeScoreMask(tensor.getType()))
    return std::nullopt;
  // Two elements say of most weights that they are no masks, which then are not read.
  int64_t keys = tensor.getShape().back(), size = keys * tensor.getShape()[tensor.getShape().size() - 2];
  auto isHidden = [&](int64_t corner) { return numberAt(tensor, corner) <= hiding; };
  if (!tensor.getElementType().isInteger(1) && !isHidden(keys - 1) && !isHidden(size - keys))
    return std::nullopt;
  return withElements(tensor, [&](auto elementAt) -> std::optional<ScoreMask> {
    if (!tensor.getElementType().isInteger(1)) {
      // What is no number stays.
      auto stays = [&](int64_t index) { return !(elementAt(index) <= hiding); };
      auto seen = seenIn(tensor, stays);
      if (!seen)
        return std::nullopt;
      bool changes = false;
      for (int64_t index = 0; seen->isExact && index != tensor.getNumElements(); ++index)
        changes |= stays(index) && elementAt(index) != 0;
      return ScoreMask{MaskKind::Added, seen->band, seen->isExact && !changes};
    }
    auto whenTrue = seenIn(tensor, [&](int64_t index) { return elementAt(index) != 0; });
    auto whenFalse = seenIn(tensor, [&](int64_t index) { return elementAt(index) == 0; });
    // The complement of half a plane is one, too: queries see their own positions.
    if (whenTrue && (!whenFalse || elementAt(0) != 0))
      return ScoreMask{MaskKind::Seen, whenTrue->band, whenTrue->isExact};
    return whenFalse ? std::optional(ScoreMask{MaskKind::Hidden, whenFalse->band, whenFalse->isExact}) : std::nullopt;
  });
}

std::optional<ScoreMask> findScoreMask(Value value) {
  while (auto cast = value.getDefiningOp<CastOp>()) {
    if (!isa<FloatType>(tensorType(cast.getInput()).getElementType()) || !isa<FloatType>(cast.getTo()))
      return std::nullopt;
    value = cast.getInput();
  }
  auto marked = [](Operation *op) -> std::optional<ScoreMask> {
    auto mask = op->getAttrOfType<ScoreMaskAttr>(scoreMaskAttrName);
    return mask ? std::optional(ScoreMask{mask.getKind(), {mask.getLower(), mask.getUpper()}, mask.getExact()})
                : std::nullopt;
  };
  if (auto constant = value.getDefiningOp<ConstantOp>()) {
    if (auto known = marked(constant))
      return known;
    if (auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
        elements && !elements.isSplat() && mayBeScoreMask(elements.getType()))
      return findScoreMask(HostTensor::fromAttribute(elements));
  }
  auto read = value.getDefiningOp<ReadOp>();
  if (!read)
    return std::nullopt;
  ParameterOp parameter = parameterOf(read);
  // A part of it hides other keys.
  if (!parameter || parameter.getTensorType() != value.getType())
    return std::nullopt;
  return marked(parameter);
}

void markScoreMask(Operation *op, const HostTensor &tensor) {
  if (auto mask = findScoreMask(tensor))
    op->setAttr(scoreMaskAttrName,
                ScoreMaskAttr::get(op->getContext(), mask->kind, mask->band.lower, mask->band.upper, mask->isExact));
}

//===-- bands -------------------------------------------------------------------------------------------------===//

ScoreBand ScoreBand::operator&(const ScoreBand &other) const {
  auto choose = [](std::optional<int64_t> a, std::optional<int64_t> b, bool larger) {
    return !a ? b : !b ? a : std::optional(larger ? std::max(*a, *b) : std::min(*a, *b));
  };
  return {choose(lower, other.lower, true), choose(upper, other.upper, false)};
}

ScoreBand ScoreBand::transposed() const {
  auto negated = [](std::optional<int64_t> bound) { return bound ? std::optional(-*bound) : std::nullopt; };
  return {negated(upper), negated(lower)};
}

bool ScoreBand::leavesKeys(int64_t queries, int64_t keys) const {
  auto leaves = [&](int64_t query) {
    int64_t first = upper ? query - *upper : 0, last = lower ? query - *lower : keys - 1;
    return std::max<int64_t>(first, 0) <= std::min(last, keys - 1);
  };
  return leaves(0) && leaves(queries - 1);
}

namespace {
/// A number that grows with positions: query * its own + key * its own + offset.
struct Position {
  int64_t query = 0, key = 0, offset = 0;

  Position operator-(const Position &other) const {
    return {query - other.query, key - other.key, offset - other.offset};
  }
  Position operator+(const Position &other) const {
    return {query + other.query, key + other.key, offset + other.offset};
  }
};
} // namespace

/// Whether numbers of a type are all positions there are, their sums and differences.
static bool hasPositions(Type type) {
  return type.isF32() || type.isF64() ||
         (isa<IntegerType>(type) && type.getIntOrFloatBitWidth() >= 32 && !type.isUnsignedInteger());
}

/// What a value is made of, whose last two dimensions broadcast to queries and keys; none where something else than
/// positions and whole numbers is in it.
static std::optional<Position> positionOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !hasPositions(tensorType(value).getElementType()))
    return std::nullopt;
  if (auto iota = dyn_cast<IotaOp>(op)) {
    RankedTensorType type = tensorType(value);
    auto fromEnd = type.getRank() - static_cast<int64_t>(iota.getDim());
    if (type.getDimSize(iota.getDim()) == 1)
      return Position{};
    if (fromEnd > 2)
      return std::nullopt;
    return fromEnd == 1 ? Position{0, 1, 0} : Position{1, 0, 0};
  }
  if (auto cast = dyn_cast<CastOp>(op))
    return positionOf(cast.getInput());
  if (isa<AddOp, SubOp>(op)) {
    auto lhs = positionOf(op->getOperand(0)), rhs = positionOf(op->getOperand(1));
    if (!lhs || !rhs)
      return std::nullopt;
    return isa<AddOp>(op) ? *lhs + *rhs : *lhs - *rhs;
  }
  auto constant = dyn_cast<ConstantOp>(op);
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
  if (splat && isa<IntegerType>(splat.getElementType()))
    return Position{0, 0, splat.getSplatValue<APInt>().getSExtValue()};
  auto number = numberOf(value);
  constexpr double largest = int64_t(1) << 24;
  if (number && std::abs(*number) < largest && *number == std::trunc(*number))
    return Position{0, 0, static_cast<int64_t>(*number)};
  return std::nullopt;
}

/// The pairs for which the comparison is true, or is not.
static std::optional<Seen> seenWhere(CompareOp compare, bool isNegated) {
  auto lhs = positionOf(compare.getLhs()), rhs = positionOf(compare.getRhs());
  if (!lhs || !rhs)
    return std::nullopt;
  Position less = *lhs - *rhs;
  if (less.query + less.key != 0 || std::abs(less.query) != 1)
    return std::nullopt;
  // Of the distance d, the query's position less the key's: d + offset or -d + offset, compared with 0.
  bool isLess = false, orEqual = false;
  switch (compare.getComparison()) {
  case Comparison::Equal: {
    int64_t distance = -less.offset * less.query;
    return isNegated ? std::nullopt : std::optional(Seen{{distance, distance}});
  }
  case Comparison::Less:
  case Comparison::LessOrEqual:
    isLess = true;
    orEqual = compare.getComparison() == Comparison::LessOrEqual;
    break;
  case Comparison::Greater:
  case Comparison::GreaterOrEqual:
    orEqual = compare.getComparison() == Comparison::GreaterOrEqual;
    break;
  }
  if (isNegated) {
    isLess = !isLess;
    orEqual = !orEqual;
  }
  if (less.query < 0) {
    isLess = !isLess;
    less.offset = -less.offset;
  }
  // d + offset < 0 or d + offset > 0.
  int64_t bound = -less.offset + (orEqual ? 0 : isLess ? -1 : 1);
  return isLess ? Seen{{std::nullopt, bound}} : Seen{{bound, std::nullopt}};
}

/// The pairs for which a condition is true, or is not; none where no bound is known.
static std::optional<Seen> seenWhere(Value condition, bool isNegated) {
  if (auto mask = findScoreMask(condition); mask && mask->kind != MaskKind::Added) {
    if ((mask->kind == MaskKind::Seen) != isNegated)
      return Seen{mask->band, mask->isExact};
    // What the complement of two bounds leaves lies at both ends.
    const ScoreBand &band = mask->band;
    if (!mask->isExact || (band.lower && band.upper))
      return std::nullopt;
    return band.lower ? Seen{{std::nullopt, *band.lower - 1}} : Seen{{*band.upper + 1, std::nullopt}};
  }
  Operation *op = condition.getDefiningOp();
  if (auto compare = dyn_cast_or_null<CompareOp>(op))
    return seenWhere(compare, isNegated);
  if (auto negation = dyn_cast_or_null<NotOp>(op); negation && tensorType(condition).getElementType().isInteger(1))
    return seenWhere(negation.getInput(), !isNegated);
  bool areBoth = isNegated ? isa_and_nonnull<OrOp>(op) : isa_and_nonnull<AndOp>(op);
  if (!areBoth || !tensorType(condition).getElementType().isInteger(1))
    return std::nullopt;
  auto lhs = seenWhere(op->getOperand(0), isNegated), rhs = seenWhere(op->getOperand(1), isNegated);
  if (lhs && rhs)
    return Seen{lhs->band & rhs->band, lhs->isExact && rhs->isExact};
  if (lhs || rhs)
    return Seen{(lhs ? lhs : rhs)->band, false};
  return std::nullopt;
}

/// What numbers added to scores leave, and in `hides` the least of those that hide.
static std::optional<Seen> seenUnder(Value added, double &hides) {
  if (auto select = added.getDefiningOp<SelectOp>())
    for (bool isNegated : {false, true}) {
      auto number = numberOf(isNegated ? select.getLhs() : select.getRhs());
      auto other = numberOf(isNegated ? select.getRhs() : select.getLhs());
      if (number && other && *number <= hiding && *other > hiding) {
        hides = *number;
        return seenWhere(select.getCondition(), isNegated);
      }
    }
  hides = hiding;
  auto mask = findScoreMask(added);
  return mask && mask->kind == MaskKind::Added ? std::optional(Seen{mask->band, mask->isExact}) : std::nullopt;
}

std::optional<ScoreBand> findBand(Value condition, bool *isExact) {
  auto seen = seenWhere(condition, /*isNegated=*/false);
  if (!seen || (!seen->band.lower && !seen->band.upper))
    return std::nullopt;
  if (isExact)
    *isExact = seen->isExact;
  return seen->band;
}

std::optional<ScoreBand> findBand(const Attention &attention) {
  SoftmaxOp softmax = attention.softmax;
  ArrayRef<int64_t> shape = tensorType(softmax.getResult()).getShape();
  int64_t keys = shape.back(), queries = shape[shape.size() - 2];
  constexpr double infinite = -std::numeric_limits<double>::infinity();
  Seen all;
  bool areInfinite = true;
  auto forget = [&] {
    all = {};
    areInfinite = true;
  };
  auto hideMore = [&](const Seen &seen, double hides) {
    all = {all.band & seen.band, all.isExact && seen.isExact};
    areInfinite &= hides == infinite;
  };
  DotGeneralOp product = attention.scores;
  Value scores = product.getResult();
  for (Operation *op : attention.chain) {
    if (auto select = dyn_cast<SelectOp>(op)) {
      bool isNegated = select.getRhs() == scores;
      auto number = numberOf(isNegated ? select.getLhs() : select.getRhs());
      auto seen = number && *number <= hiding ? seenWhere(select.getCondition(), isNegated) : std::nullopt;
      if (seen)
        hideMore(*seen, *number);
      else
        forget();
    } else if (isa<AddOp>(op)) {
      double hides = 0;
      auto seen = seenUnder(op->getOperand(op->getOperand(0) == scores ? 1 : 0), hides);
      // What is infinite stays so, whatever is added.
      if (seen)
        hideMore(*seen, hides);
      else if (!areInfinite)
        forget();
    } else if (isa<MulOp, DivOp>(op)) {
      auto factor = numberOf(op->getOperand(op->getOperand(0) == scores ? 1 : 0));
      bool isDivided = isa<DivOp>(op) && op->getOperand(0) != scores;
      // A small factor may leave too little of a finite number.
      if (!factor || !(*factor > 0) || isDivided || !areInfinite)
        forget();
    } else if (!isa<ReshapeOp, CastOp, BarrierOp>(op)) {
      forget();
    }
    scores = op->getResult(0);
  }
  ScoreBand band = all.band;
  if (band.isWhole(queries, keys) || band.isEmpty())
    return std::nullopt;
  if (!areInfinite && !(all.isExact && band.leavesKeys(queries, keys)))
    return std::nullopt;
  return band;
}

double shareOfBlocks(const ScoreBand &band, int64_t rows, int64_t blocks, int64_t block) {
  int64_t seen = 0, columns = blocks * block;
  for (int64_t row = 0; row != rows; ++row) {
    int64_t first = band.upper ? std::max<int64_t>(0, row - *band.upper) : 0;
    int64_t last = band.lower ? std::min(columns - 1, row - *band.lower) : columns - 1;
    seen += first <= last ? last / block - first / block + 1 : 0;
  }
  return static_cast<double>(seen) / static_cast<double>(rows * blocks);
}

double shareOfBlocks(const Attention &attention, const std::optional<ScoreBand> &band) {
  if (!band)
    return 1;
  DotGeneralOp product = attention.result;
  SoftmaxOp softmax = attention.softmax;
  ArrayRef<int64_t> shape = tensorType(softmax.getResult()).getShape();
  int64_t block = keysInBlock(shape.back(), tensorType(product.getRhs()).getDimSize(product.getRhsFree()[0]), true);
  return shareOfBlocks(*band, shape[shape.size() - 2], llvm::divideCeil(shape.back(), block), block);
}

} // namespace cleave::dfg
