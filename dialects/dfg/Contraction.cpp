// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types, split rules and costs of matrix products, convolutions and pooling.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/TensorType.h"
#include "dialects/dfg/Window.h"

using namespace mlir;

namespace cleave::dfg {

/// The element type of sums of products of such elements: that of both, or, of `wide` ones, the type in which narrow
/// numbers are summed. Null where there is none.
static Type elementOfSums(Type lhs, Type rhs, bool wide) {
  if (!wide)
    return lhs == rhs ? lhs : Type();
  auto isByte = [](Type type) { return isa<IntegerType>(type) && type.getIntOrFloatBitWidth() == 8; };
  if (isByte(lhs) && isByte(rhs))
    return IntegerType::get(lhs.getContext(), 32);
  return lhs == rhs && (lhs.isF16() || lhs.isBF16()) ? Type(Float32Type::get(lhs.getContext())) : Type();
}

//===-- dot_general -------------------------------------------------------------------------------------------===//

static SmallVector<int64_t> freeDims(int64_t rank, ArrayRef<int64_t> batch, ArrayRef<int64_t> contracting) {
  SmallVector<int64_t> dims;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(batch, dim) && !llvm::is_contained(contracting, dim))
      dims.push_back(dim);
  return dims;
}

SmallVector<int64_t> DotGeneralOp::getLhsFree() {
  return freeDims(tensorType(getLhs()).getRank(), getLhsBatch(), getLhsContracting());
}

SmallVector<int64_t> DotGeneralOp::getRhsFree() {
  return freeDims(tensorType(getRhs()).getRank(), getRhsBatch(), getRhsContracting());
}

LogicalResult DotGeneralOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  auto lhs = tensorType(adaptor.getLhs()), rhs = tensorType(adaptor.getRhs());
  auto fail = [&](const Twine &message) {
    return emitOptionalError(location, "'dfg.dot_general' ", message, ", got ", lhs, " and ", rhs);
  };
  Type element = elementOfSums(lhs.getElementType(), rhs.getElementType(), adaptor.getWide());
  if (!element)
    return fail(adaptor.getWide() ? "expects f16, bf16 or integers of 8 bits for a wide result"
                                  : "expects one element type");
  auto distinct = [](ArrayRef<int64_t> a, ArrayRef<int64_t> b, int64_t rank) {
    SmallVector<int64_t> all(a);
    all.append(b.begin(), b.end());
    llvm::sort(all);
    return std::adjacent_find(all.begin(), all.end()) == all.end() &&
           llvm::all_of(all, [&](int64_t dim) { return dim >= 0 && dim < rank; });
  };
  if (!distinct(adaptor.getLhsBatch(), adaptor.getLhsContracting(), lhs.getRank()) ||
      !distinct(adaptor.getRhsBatch(), adaptor.getRhsContracting(), rhs.getRank()))
    return fail("expects batch and contracting dimensions to be distinct dimensions of their operand");
  if (adaptor.getLhsBatch().size() != adaptor.getRhsBatch().size() ||
      adaptor.getLhsContracting().size() != adaptor.getRhsContracting().size())
    return fail("expects as many batch and contracting dimensions on both sides");
  SmallVector<int64_t> shape;
  for (auto [l, r] : llvm::zip(adaptor.getLhsBatch(), adaptor.getRhsBatch())) {
    if (lhs.getDimSize(l) != rhs.getDimSize(r))
      return fail("expects batch dimensions of equal sizes");
    shape.push_back(lhs.getDimSize(l));
  }
  for (auto [l, r] : llvm::zip(adaptor.getLhsContracting(), adaptor.getRhsContracting()))
    if (lhs.getDimSize(l) != rhs.getDimSize(r))
      return fail("expects contracting dimensions of equal sizes");
  for (int64_t dim : freeDims(lhs.getRank(), adaptor.getLhsBatch(), adaptor.getLhsContracting()))
    shape.push_back(lhs.getDimSize(dim));
  for (int64_t dim : freeDims(rhs.getRank(), adaptor.getRhsBatch(), adaptor.getRhsContracting()))
    shape.push_back(rhs.getDimSize(dim));
  types.push_back(RankedTensorType::get(shape, element));
  return success();
}

/// What a dense layer calls its factors: rows are samples, the outermost first, or batch dimensions where there are
/// any, as samples and heads are of attention; columns and depth are channels.
static void nameAsLayer(SplitRule &rule) {
  static constexpr std::pair<StringLiteral, StringLiteral> words[] = {
      {"batch0", "batch"}, {"m", "batch"}, {"m0", "batch"}, {"n", "out_channel"}, {"k", "in_channel"}};
  for (auto [name, alias] : words)
    if (auto factor = rule.find(name); factor && !rule.findWord(alias))
      rule.factors[*factor].alias = alias.str();
}

SplitRule DotGeneralOp::getSplitRule() {
  SplitRule rule;
  auto lhs = tensorType(getLhs()), rhs = tensorType(getRhs());
  rule.operands.assign({TensorFactors(lhs.getRank()), TensorFactors(rhs.getRank())});
  rule.results.emplace_back();
  auto named = [](StringRef name, size_t index, size_t count) {
    return count == 1 ? name.str() : (name + Twine(index)).str();
  };
  for (auto [index, l] : llvm::enumerate(getLhsBatch())) {
    unsigned factor = rule.addFactor(named("batch", index, getLhsBatch().size()), lhs.getDimSize(l));
    rule.operands[0][l] = rule.operands[1][getRhsBatch()[index]] = {factor};
    rule.results[0].push_back({factor});
  }
  for (auto [index, dim] : llvm::enumerate(getLhsFree())) {
    unsigned factor = rule.addFactor(named("m", index, getLhsFree().size()), lhs.getDimSize(dim));
    rule.operands[0][dim] = {factor};
    rule.results[0].push_back({factor});
  }
  for (auto [index, dim] : llvm::enumerate(getRhsFree())) {
    unsigned factor = rule.addFactor(named("n", index, getRhsFree().size()), rhs.getDimSize(dim));
    rule.operands[1][dim] = {factor};
    rule.results[0].push_back({factor});
  }
  for (auto [index, dim] : llvm::enumerate(getLhsContracting())) {
    unsigned factor = rule.addFactor(named("k", index, getLhsContracting().size()), lhs.getDimSize(dim),
                                     FactorKind::Reduction, Combiner::Sum);
    rule.operands[0][dim] = rule.operands[1][getRhsContracting()[index]] = {factor};
  }
  rule.linear = {{0}, {1}};
  nameAsLayer(rule);
  return rule;
}

OpCost DotGeneralOp::getCost() {
  double depth = 1;
  for (int64_t dim : getLhsContracting())
    depth *= static_cast<double>(tensorType(getLhs()).getDimSize(dim));
  return elementwiseCost(*this, 2.0 * depth, CostClass::Contraction);
}

//===-- windows -----------------------------------------------------------------------------------------------===//

LogicalResult checkWindow(std::optional<Location> location, StringRef name, size_t rank, ArrayRef<int64_t> window,
                          ArrayRef<int64_t> strides, ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations) {
  if (window.size() != rank || strides.size() != rank || dilations.size() != rank || pads.size() != 2 * rank)
    return emitOptionalError(location, "'", name, "' expects ", rank, " window sizes, strides and dilations and ",
                             2 * rank, " pads, got ", window.size(), ", ", strides.size(), ", ", dilations.size(),
                             " and ", pads.size());
  auto positive = [](int64_t value) { return value > 0; };
  if (!llvm::all_of(window, positive) || !llvm::all_of(strides, positive) || !llvm::all_of(dilations, positive) ||
      llvm::any_of(pads, [](int64_t value) { return value < 0; }))
    return emitOptionalError(location, "'", name,
                             "' expects positive window sizes, strides and dilations and no negative pad");
  return success();
}

int64_t windowPositions(int64_t size, int64_t window, int64_t stride, int64_t before, int64_t after, int64_t dilation) {
  int64_t room = size + before + after - (dilation * (window - 1) + 1);
  return room < 0 ? 0 : room / stride + 1;
}

SmallVector<int64_t> windowPositions(ArrayRef<int64_t> input, ArrayRef<int64_t> window, ArrayRef<int64_t> strides,
                                     ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations) {
  SmallVector<int64_t> sizes;
  for (size_t i = 0, rank = window.size(); i < rank; ++i)
    sizes.push_back(windowPositions(input[i + 2], window[i], strides[i], pads[i], pads[rank + i], dilations[i]));
  return sizes;
}

double winogradPixels(RankedTensorType image, ArrayRef<int64_t> window, int64_t channels, ArrayRef<int64_t> strides,
                      ArrayRef<int64_t> dilations, int64_t groups) {
  // Fewer channels are filled up to a vector.
  constexpr int64_t leastChannels = 16;
  auto isOne = [](int64_t size) { return size == 1; };
  if (image.getRank() != 4 || !image.getElementType().isF32() || groups != 1 || channels < leastChannels ||
      window != ArrayRef<int64_t>{3, 3} || !llvm::all_of(strides, isOne) || !llvm::all_of(dilations, isOne))
    return 0;
  return static_cast<double>(image.getDimSize(0) * image.getDimSize(2) * image.getDimSize(3));
}

/// Appends the spatial factors that input and result share.
static void addWindowFactors(SplitRule &rule, RankedTensorType input, RankedTensorType result, ArrayRef<int64_t> window,
                             ArrayRef<int64_t> strides, ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations,
                             double fill = 0) {
  static constexpr StringRef names[] = {"height", "width", "depth"};
  for (size_t i = 0; i < window.size(); ++i) {
    std::string name = window.size() <= 3 ? names[i].str() : "space" + std::to_string(i);
    unsigned factor = rule.addFactor(name, result.getDimSize(i + 2), FactorKind::Window);
    Factor &space = rule.factors[factor];
    space.step = strides[i];
    space.haloBefore = pads[i];
    space.haloAfter = dilations[i] * (window[i] - 1) - pads[i];
    space.fill = fill;
    if (space.haloBefore == 0 && space.haloAfter == 0 && space.step == 1)
      space.kind = FactorKind::Parallel;
    rule.operands[0].push_back({factor});
    rule.results[0].push_back({factor});
  }
}

//===-- conv --------------------------------------------------------------------------------------------------===//

LogicalResult ConvOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  auto input = tensorType(adaptor.getInput()), filter = tensorType(adaptor.getFilter());
  Type element = elementOfSums(input.getElementType(), filter.getElementType(), adaptor.getWide());
  if (input.getRank() < 3 || filter.getRank() != input.getRank() || !element)
    return emitOptionalError(location, "'dfg.conv' expects input and filter of ",
                             adaptor.getWide() ? "f16, bf16 or integers of 8 bits for a wide result"
                                               : "one element type",
                             " and one rank of at least 3, got ", input, " and ", filter);
  size_t rank = input.getRank() - 2;
  if (failed(checkWindow(location, "dfg.conv", rank, filter.getShape().drop_front(2), adaptor.getStrides(),
                         adaptor.getPads(), adaptor.getDilations())))
    return failure();
  int64_t groups = adaptor.getGroups();
  if (groups < 1 || filter.getDimSize(1) * groups != input.getDimSize(1) || filter.getDimSize(0) % groups != 0)
    return emitOptionalError(location,
                             "'dfg.conv' expects input channels = groups x filter dimension 1 and filters "
                             "divisible by groups, got ",
                             input, ", ", filter, " and ", groups, " groups");
  SmallVector<int64_t> shape = {input.getDimSize(0), filter.getDimSize(0)};
  shape.append(windowPositions(input.getShape(), filter.getShape().drop_front(2), adaptor.getStrides(),
                               adaptor.getPads(), adaptor.getDilations()));
  types.push_back(RankedTensorType::get(shape, element));
  return success();
}

SplitRule ConvOp::getSplitRule() {
  SplitRule rule;
  auto input = tensorType(getInput()), filter = tensorType(getFilter()), result = tensorType(getResult());
  unsigned batch = rule.addFactor("batch", input.getDimSize(0));
  if (getGroups() == 1) {
    unsigned out = rule.addFactor("out_channel", filter.getDimSize(0));
    unsigned in = rule.addFactor("in_channel", input.getDimSize(1), FactorKind::Reduction, Combiner::Sum);
    rule.operands.assign({{{batch}, {in}}, {{out}, {in}}});
    rule.results.assign({{{batch}, {out}}});
  } else {
    unsigned group = rule.addFactor("group", getGroups());
    unsigned out = rule.addFactor("out_channel", filter.getDimSize(0) / getGroups(), FactorKind::Unsplittable);
    unsigned in = rule.addFactor("in_channel", filter.getDimSize(1), FactorKind::Unsplittable);
    rule.operands.assign({{{batch}, {group, in}}, {{group, out}, {in}}});
    rule.results.assign({{{batch}, {group, out}}});
  }
  addWindowFactors(rule, input, result, filter.getShape().drop_front(2), getStrides(), getPads(), getDilations());
  for (int64_t size : filter.getShape().drop_front(2))
    rule.operands[1].push_back(
        {rule.addFactor("window" + std::to_string(rule.operands[1].size() - 2), size, FactorKind::Unsplittable)});
  rule.linear = {{0}, {1}};
  return rule;
}

OpCost ConvOp::getCost() {
  auto filter = tensorType(getFilter());
  double depth = static_cast<double>(filter.getNumElements()) / std::max<int64_t>(filter.getDimSize(0), 1);
  OpCost cost = elementwiseCost(*this, 2.0 * depth, CostClass::Contraction);
  cost.winogradPixels = winogradPixels(getType(), filter.getShape().drop_front(2), tensorType(getInput()).getDimSize(1),
                                       getStrides(), getDilations(), static_cast<int64_t>(getGroups()));
  return cost;
}

//===-- conv_transpose ----------------------------------------------------------------------------------------===//

LogicalResult ConvTransposeOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                                SmallVectorImpl<Type> &types) {
  auto input = tensorType(adaptor.getInput()), filter = tensorType(adaptor.getFilter());
  if (input.getRank() < 3 || filter.getRank() != input.getRank() || input.getElementType() != filter.getElementType())
    return emitOptionalError(location,
                             "'dfg.conv_transpose' expects input and filter of one element type and one "
                             "rank of at least 3, got ",
                             input, " and ", filter);
  size_t rank = input.getRank() - 2;
  if (failed(checkWindow(location, "dfg.conv_transpose", rank, filter.getShape().drop_front(2), adaptor.getStrides(),
                         adaptor.getPads(), adaptor.getDilations())))
    return failure();
  int64_t groups = adaptor.getGroups();
  if (groups < 1 || filter.getDimSize(0) != input.getDimSize(1) || input.getDimSize(1) % groups != 0)
    return emitOptionalError(location,
                             "'dfg.conv_transpose' expects filter dimension 0 = input channels, divisible by "
                             "groups, got ",
                             input, ", ", filter, " and ", groups, " groups");
  if (adaptor.getOutputPadding().size() != rank ||
      llvm::any_of(adaptor.getOutputPadding(), [](int64_t value) { return value < 0; }))
    return emitOptionalError(location, "'dfg.conv_transpose' expects ", rank, " output paddings, none negative");
  SmallVector<int64_t> shape = {input.getDimSize(0), filter.getDimSize(1) * groups};
  for (size_t i = 0; i < rank; ++i) {
    int64_t size = (input.getDimSize(i + 2) - 1) * adaptor.getStrides()[i] +
                   adaptor.getDilations()[i] * (filter.getDimSize(i + 2) - 1) + 1 - adaptor.getPads()[i] -
                   adaptor.getPads()[rank + i] + adaptor.getOutputPadding()[i];
    if (size < 0)
      return emitOptionalError(location, "'dfg.conv_transpose' expects pads within the result, got a result size of ",
                               size, " in dimension ", i + 2);
    shape.push_back(size);
  }
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

SplitRule ConvTransposeOp::getSplitRule() {
  SplitRule rule;
  auto input = tensorType(getInput()), filter = tensorType(getFilter()), result = tensorType(getResult());
  unsigned batch = rule.addFactor("batch", input.getDimSize(0));
  bool grouped = getGroups() != 1;
  unsigned group = grouped ? rule.addFactor("group", getGroups()) : 0;
  unsigned out =
      rule.addFactor("out_channel", filter.getDimSize(1), grouped ? FactorKind::Unsplittable : FactorKind::Parallel);
  unsigned in = rule.addFactor("in_channel", input.getDimSize(1) / getGroups(),
                               grouped ? FactorKind::Unsplittable : FactorKind::Reduction,
                               grouped ? Combiner::None : Combiner::Sum);
  DimFactors inDim = grouped ? DimFactors{group, in} : DimFactors{in};
  DimFactors outDim = grouped ? DimFactors{group, out} : DimFactors{out};
  rule.operands.assign({{{batch}, inDim}, {inDim, {out}}});
  rule.results.assign({{{batch}, outDim}});
  for (int64_t i = 2; i < input.getRank(); ++i) {
    std::string index = std::to_string(i - 2);
    rule.operands[0].push_back({rule.addFactor("in" + index, input.getDimSize(i), FactorKind::Unsplittable)});
    rule.operands[1].push_back({rule.addFactor("window" + index, filter.getDimSize(i), FactorKind::Unsplittable)});
    rule.results[0].push_back({rule.addFactor("out" + index, result.getDimSize(i), FactorKind::Unsplittable)});
  }
  rule.linear = {{0}, {1}};
  return rule;
}

FailureOr<SmallVector<Value>> ConvTransposeOp::localize(OpBuilder &builder, const LocalInstance &instance) {
  auto groupFactor = getSplitRule().find("group");
  int64_t groups = groupFactor ? instance.sizes[*groupFactor] : getGroups();
  return SmallVector<Value>{ConvTransposeOp::create(builder, getLoc(), instance.operands[0], instance.operands[1],
                                                    getStrides(), getPads(), getDilations(), getOutputPadding(),
                                                    groups)};
}

OpCost ConvTransposeOp::getCost() {
  auto input = tensorType(getInput()), filter = tensorType(getFilter());
  OpCost cost = elementwiseCost(*this, 0.0, CostClass::Contraction);
  cost.flops = 2.0 * static_cast<double>(input.getNumElements()) * static_cast<double>(filter.getNumElements()) /
               std::max<int64_t>(filter.getDimSize(0), 1);
  cost.winogradPixels = winogradPixels(getType(), filter.getShape().drop_front(2), input.getDimSize(1), getStrides(),
                                       getDilations(), static_cast<int64_t>(getGroups()));
  return cost;
}

//===-- pool --------------------------------------------------------------------------------------------------===//

LogicalResult PoolOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  auto input = tensorType(adaptor.getInput());
  if (input.getRank() < 3)
    return emitOptionalError(location, "'dfg.pool' expects an input of rank 3 or more, got ", input);
  size_t rank = input.getRank() - 2;
  if (failed(checkWindow(location, "dfg.pool", rank, adaptor.getWindow(), adaptor.getStrides(), adaptor.getPads(),
                         adaptor.getDilations())))
    return failure();
  SmallVector<int64_t> shape(input.getShape().take_front(2));
  shape.append(windowPositions(input.getShape(), adaptor.getWindow(), adaptor.getStrides(), adaptor.getPads(),
                               adaptor.getDilations()));
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

SplitRule PoolOp::getSplitRule() {
  SplitRule rule;
  auto input = tensorType(getInput()), result = tensorType(getResult());
  unsigned batch = rule.addFactor("batch", input.getDimSize(0));
  unsigned channel = rule.addFactor("channel", input.getDimSize(1));
  rule.operands.assign({{{batch}, {channel}}});
  rule.results.assign({{{batch}, {channel}}});
  bool isMax = getKind() == PoolKind::Max;
  addWindowFactors(rule, input, result, getWindow(), getStrides(), getPads(), getDilations(),
                   isMax ? -std::numeric_limits<double>::infinity() : 0);
  if (!isMax)
    rule.linear = {{0}};
  return rule;
}

/// Pads with those of the dimensions that are cut at zero: their parts hold what lies around them.
static SmallVector<int64_t> padsOfPart(const SplitRule &rule, ArrayRef<int64_t> pads, const LocalInstance &instance) {
  SmallVector<int64_t> left(pads);
  size_t rank = pads.size() / 2;
  for (size_t i = 0; i < rank; ++i)
    if (instance.ways[rule.results[0][i + 2].front()] > 1)
      left[i] = left[rank + i] = 0;
  return left;
}

FailureOr<SmallVector<Value>> ConvOp::localize(OpBuilder &builder, const LocalInstance &instance) {
  // A group of channels less, or fewer of them: the number of groups follows from the filter.
  SplitRule rule = getSplitRule();
  auto groupFactor = rule.find("group");
  int64_t groups = groupFactor ? instance.sizes[*groupFactor] : getGroups();
  return SmallVector<Value>{ConvOp::create(builder, getLoc(), instance.operands[0], instance.operands[1], getStrides(),
                                           padsOfPart(rule, getPads(), instance), getDilations(), groups, getWide())};
}

/// How many positions of each window lie on the input, as one value a position of the result along dimension `i + 2`.
static Value windowCounts(PoolOp op, OpBuilder &builder, size_t i, int64_t size, Value start) {
  Location loc = op.getLoc();
  auto indexType = RankedTensorType::get({size}, builder.getI64Type());
  auto scalar = [&](int64_t value) -> Value {
    return ConstantOp::create(builder, loc,
                              DenseElementsAttr::get(RankedTensorType::get({}, builder.getI64Type()), {value}));
  };
  Value position = IotaOp::create(builder, loc, indexType, 0);
  if (start)
    position = AddOp::create(builder, loc, position, start);
  Value first = SubOp::create(builder, loc, MulOp::create(builder, loc, position, scalar(op.getStrides()[i])),
                              scalar(op.getPads()[i]));
  Value zero = scalar(0), limit = scalar(cast<RankedTensorType>(op.getInput().getType()).getDimSize(i + 2));
  Type element = cast<RankedTensorType>(op.getType()).getElementType();
  Value count;
  for (int64_t k = 0; k != op.getWindow()[i]; ++k) {
    Value at = AddOp::create(builder, loc, first, scalar(k * op.getDilations()[i]));
    Value inside = AndOp::create(builder, loc, CompareOp::create(builder, loc, zero, at, Comparison::LessOrEqual),
                                 CompareOp::create(builder, loc, at, limit, Comparison::Less));
    Value one = CastOp::create(builder, loc, inside, element);
    count = count ? AddOp::create(builder, loc, count, one).getResult() : one;
  }
  return count;
}

FailureOr<SmallVector<Value>> PoolOp::localize(OpBuilder &builder, const LocalInstance &instance) {
  SplitRule rule = getSplitRule();
  size_t rank = getWindow().size();
  SmallVector<int64_t> pads = padsOfPart(rule, getPads(), instance);
  bool counts = getKind() == PoolKind::Average && !getCountIncludePad() && ArrayRef(pads) != getPads();
  Value result = PoolOp::create(builder, getLoc(), instance.operands[0], getKind(), getWindow(), getStrides(), pads,
                                getDilations(), getCountIncludePad() || counts);
  if (!counts)
    return SmallVector<Value>{result};
  // Averages over whole windows, corrected by how much of each window there is: one value a row, a column, ...
  auto type = cast<RankedTensorType>(result.getType());
  for (size_t i = 0; i < rank; ++i) {
    unsigned factor = rule.results[0][i + 2].front();
    int64_t size = type.getDimSize(i + 2);
    Value start = instance.ways[factor] > 1 ? instance.start(factor) : Value();
    Value count = windowCounts(*this, builder, i, size, start);
    Value window = ConstantOp::create(
        builder, getLoc(),
        DenseElementsAttr::get(RankedTensorType::get({}, type.getElementType()),
                               builder.getFloatAttr(type.getElementType(), static_cast<double>(getWindow()[i]))));
    SmallVector<int64_t> shape(rank - i, 1);
    shape[0] = size;
    Value scale = DivOp::create(builder, getLoc(), window, count);
    scale = ReshapeOp::create(builder, getLoc(), RankedTensorType::get(shape, type.getElementType()), scale);
    result = MulOp::create(builder, getLoc(), result, scale);
  }
  return SmallVector<Value>{result};
}

OpCost PoolOp::getCost() {
  double elements = 1;
  for (int64_t size : getWindow())
    elements *= static_cast<double>(size);
  return elementwiseCost(*this, elements, CostClass::Reduction);
}

} // namespace cleave::dfg
