// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Columns lie in groups that fill registers, and these in blocks; rows are padded to whole groups of them.

#include "passes/codegen/AttentionBlocks.h"

#include <limits>

using namespace mlir;

namespace cleave {

/// Blocks of keys are divided into groups that fill the registers with vectors of scores; a group's keys and values fit
/// into the nearest cache.
static constexpr int64_t groupSize = dfg::keysInGroup;
/// Values are padded to whole vectors, and queries to whole groups of rows: to `manyRows` where that is little.
static constexpr int64_t vectorSize = 16, fewRows = 4, manyRows = 32;
/// How many operators without inputs, such as those of a causal mask, are computed for each pair of query and key.
static constexpr unsigned mostComputed = 8;

/// It needs no input: positions along queries or keys, values that are the same everywhere, and what is made of them
/// element by element in a few operators, which `count` counts.
static bool isComputed(Value value, unsigned &count) {
  Operation *op = value.getDefiningOp();
  if (!op || ++count > mostComputed)
    return false;
  if (auto constant = dyn_cast<dfg::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  if (auto iota = dyn_cast<dfg::IotaOp>(op))
    return static_cast<int64_t>(iota.getDim()) >= tensorType(value).getRank() - 2;
  return isa<ElementwiseInterface>(op) && op->getNumResults() == 1 &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isComputed(operand, count); });
}
static bool isComputed(Value value) {
  unsigned count = 0;
  return isComputed(value, count);
}

SideTensor lhsOf(dfg::DotGeneralOp product) {
  return {Side::Queries, product.getLhs(), SmallVector<int64_t>(product.getLhsBatch()), product.getLhsFree(),
          product.getLhsContracting()[0]};
}
SideTensor rhsOf(dfg::DotGeneralOp product) {
  return {Side::Keys, product.getRhs(), SmallVector<int64_t>(product.getRhsBatch()), product.getRhsFree(),
          product.getRhsContracting()[0]};
}

SideTensor summedWith(OpOperand &use, Side side) {
  auto product = cast<dfg::DotGeneralOp>(use.getOwner());
  bool isLhs = use.getOperandNumber() == 0;
  ArrayRef<int64_t> own = isLhs ? product.getLhsContracting() : product.getRhsContracting();
  ArrayRef<int64_t> others = isLhs ? product.getRhsContracting() : product.getLhsContracting();
  SmallVector<std::pair<int64_t, int64_t>> pairs;
  for (auto [first, second] : llvm::zip_equal(own, others))
    pairs.push_back({first, second});
  llvm::sort(pairs);
  SideTensor tensor{side,
                    isLhs ? product.getRhs() : product.getLhs(),
                    SmallVector<int64_t>(isLhs ? product.getRhsBatch() : product.getLhsBatch()),
                    {},
                    (isLhs ? product.getRhsFree() : product.getLhsFree())[0]};
  for (auto [first, second] : pairs)
    tensor.along.push_back(second);
  return tensor;
}

SmallVector<int64_t> SideTensor::getOrder() const {
  SmallVector<int64_t> order(batch);
  llvm::append_range(order, along);
  order.push_back(size);
  return order;
}

AttentionBlocks::AttentionBlocks(const dfg::Attention &found, Side rows, int64_t size, Operation *place,
                                 const std::optional<dfg::ScoreBand> &band)
    : attention(found), location(place->getLoc()), outside(place), inside(place->getContext()),
      type(attention.getScoresType()), rows(rows), leading(attention.leading),
      batchDims(rows == Side::Queries ? attention.batchDims : leading.size()),
      rowDim(static_cast<int64_t>(leading.size())), blockDim(rowDim + 1), numRows(sizeOf(rows)),
      paddedRows(llvm::alignTo(numRows, numRows >= 16 * manyRows ? manyRows : fewRows)),
      numColumns(sizeOf(rows == Side::Queries ? Side::Keys : Side::Queries)),
      block(dfg::keysInBlock(numColumns, size, band.has_value())), blocks(llvm::divideCeil(numColumns, block)),
      groups(block / groupSize), band(band && rows == Side::Keys ? band->transposed() : band) {
  body = new Block();
  inside.setInsertionPointToStart(body);
}

Value AttentionBlocks::reduce(Value value, dfg::ReduceKind kind, ArrayRef<int64_t> dims) {
  return make<dfg::ReduceOp>(value, kind, dims, /*keep_dims=*/false);
}

Value AttentionBlocks::expanded(Value value, unsigned count) {
  SmallVector<int64_t> shape(tensorType(value).getShape());
  shape.append(count, 1);
  return make<dfg::ReshapeOp>(tensorType(value).clone(shape), value);
}

Value AttentionBlocks::scores(Value value) {
  if (attention.gradient && attention.gradient->repeated.contains(value))
    value = attention.gradient->repeated.lookup(value);
  if (Value known = inBlocks.lookup(value))
    return known;
  Value made = makeScores(value.getDefiningOp());
  inBlocks[value] = made;
  return made;
}

Value AttentionBlocks::withoutPadding(Value scores, Value number) {
  if (blocks * block == numColumns)
    return scores;
  SmallVector<bool> are(static_cast<size_t>(blocks * block), true);
  std::fill(are.begin() + numColumns, are.end(), false);
  auto flags = RankedTensorType::get({blocks, groups, groupSize}, inside.getI1Type());
  return make<dfg::SelectOp>(make<dfg::ConstantOp>(DenseElementsAttr::get(flags, ArrayRef<bool>(are))), scores, number);
}

Value AttentionBlocks::sumBlocks(Value scores, const SideTensor &tensor) {
  SmallVector<int64_t> batch = range(0, batchDims);
  batch.push_back(blockDim);
  Value columns = readAs(tensor, Form::ColumnsFirst);
  return make<dfg::DotGeneralOp>(scores, columns, batch, range(0, batchDims + 1), columnDims(),
                                 range(batchDims + 1, batchDims + 3), /*wide=*/false);
}

Value AttentionBlocks::weighBlocks(Value weights, Value sums) {
  SmallVector<int64_t> batch = range(0, blockDim + 1);
  batch.erase(batch.begin() + batchDims);
  return make<dfg::DotGeneralOp>(weights, sums, range(0, blockDim), batch, ArrayRef<int64_t>(blockDim),
                                 ArrayRef<int64_t>(batchDims), /*wide=*/false);
}

Value AttentionBlocks::scalar(double number) {
  Type element = type.getElementType();
  return read(splat(outside, RankedTensorType::get({}, element), outside.getFloatAttr(element, number)));
}

SmallVector<Value> AttentionBlocks::finish(ArrayRef<Value> results, ArrayRef<int64_t> sizes,
                                           ArrayRef<Operation *> operators) {
  dfg::YieldOp::create(inside, location, results);
  auto locations = llvm::map_to_vector(operators, [](Operation *op) { return op->getLoc(); });
  auto fusion =
      dfg::FusionOp::create(outside, outside.getFusedLoc(locations), TypeRange(ValueRange(results)), operands);
  fusion.getBody().push_back(body);
  if (band)
    fusion->setAttr(dfg::bandAttrName, dfg::BandAttr::get(fusion.getContext(), static_cast<unsigned>(rowDim), blocks,
                                                          block, band->lower, band->upper));
  SmallVector<Value> whole;
  for (auto [index, result] : llvm::enumerate(fusion.getResults())) {
    SmallVector<int64_t> limits(leading.begin(), leading.end());
    limits.push_back(numRows);
    if (index < sizes.size())
      limits.push_back(sizes[index]);
    SmallVector<int64_t> begin(limits.size(), 0), steps(limits.size(), 1);
    bool isWhole = tensorType(result).getShape() == ArrayRef(limits);
    whole.push_back(result);
    if (!isWhole)
      whole.back() = dfg::SliceOp::create(outside, location, result, begin, limits, steps);
  }
  return whole;
}

Value AttentionBlocks::asProduct(Value sums, OpOperand &use) {
  auto product = cast<dfg::DotGeneralOp>(use.getOwner());
  int64_t size = tensorType(sums).getShape().back();
  bool isSummed = rows == Side::Keys && leading.size() > attention.batchDims;
  if (isSummed)
    sums = dfg::ReduceOp::create(outside, location, sums, dfg::ReduceKind::Sum, range(attention.batchDims, rowDim),
                                 /*keep_dims=*/false);
  SmallVector<int64_t> shape;
  ArrayRef<int64_t> scores = tensorType(use.get()).getShape();
  bool isLhs = use.getOperandNumber() == 0;
  for (int64_t dim : isLhs ? product.getLhsBatch() : product.getRhsBatch())
    shape.push_back(scores[dim]);
  auto numBatch = static_cast<int64_t>(shape.size());
  for (int64_t dim : isLhs ? product.getLhsFree() : product.getRhsFree())
    shape.push_back(scores[dim]);
  shape.push_back(size);
  Value made = reshaped(sums, shape);
  if (isLhs)
    return made;
  SmallVector<int64_t> order = range(0, numBatch);
  order.push_back(static_cast<int64_t>(shape.size()) - 1);
  llvm::append_range(order, range(numBatch, static_cast<int64_t>(shape.size()) - 1));
  return dfg::TransposeOp::create(outside, location, made, order);
}

Value AttentionBlocks::sumRows(const SideTensor &tensor, Value other, dfg::ReduceOp sums) {
  Value first = ordered(tensor);
  Value both = dfg::MulOp::create(outside, location, first, reshaped(other, tensorType(first).getShape()));
  Value sum = dfg::ReduceOp::create(outside, location, both, dfg::ReduceKind::Sum, ArrayRef<int64_t>(rowDim + 1),
                                    /*keep_dims=*/false);
  return reshaped(sum, tensorType(sums.getResult()).getShape());
}

Value AttentionBlocks::ordered(const SideTensor &tensor) {
  SmallVector<int64_t> order = tensor.getOrder();
  SmallVector<int64_t> shape(leading.begin(),
                             tensor.side == Side::Queries ? leading.end() : leading.begin() + attention.batchDims);
  shape.append({sizeOf(tensor.side), tensor.getSize()});
  Value value = tensor.value;
  if (auto transpose = value.getDefiningOp<dfg::TransposeOp>()) {
    for (int64_t &dim : order)
      dim = transpose.getPermutation()[dim];
    value = transpose.getInput();
  }
  if (!llvm::is_sorted(order))
    value = dfg::TransposeOp::create(outside, location, value, order);
  return reshaped(value, shape);
}

Value AttentionBlocks::reshaped(Value value, ArrayRef<int64_t> shape) {
  RankedTensorType wanted = tensorType(value).clone(shape);
  return wanted == value.getType() ? value : dfg::ReshapeOp::create(outside, location, wanted, value).getResult();
}

Value AttentionBlocks::splat(OpBuilder &builder, RankedTensorType type, Attribute element) {
  return dfg::ConstantOp::create(builder, location, DenseElementsAttr::get(type, element));
}

Value AttentionBlocks::read(Value value) {
  auto found = llvm::find(operands, value);
  if (found != operands.end())
    return body->getArgument(found - operands.begin());
  operands.push_back(value);
  return body->addArgument(value.getType(), value.getLoc());
}

Value AttentionBlocks::padded(Value value, int64_t dim, int64_t size) {
  SmallVector<int64_t> sizes(tensorType(value).getShape());
  sizes[dim] = size;
  return padded(value, sizes);
}

Value AttentionBlocks::padded(Value value, ArrayRef<int64_t> sizes) {
  RankedTensorType whole = tensorType(value);
  if (whole.getShape() == sizes)
    return value;
  SmallVector<int64_t> low(whole.getRank(), 0), high(sizes);
  for (auto [more, size] : llvm::zip_equal(high, whole.getShape()))
    more -= size;
  auto none = RankedTensorType::get({}, whole.getElementType());
  return dfg::PadOp::create(outside, location, value, splat(outside, none, outside.getZeroAttr(whole.getElementType())),
                            low, high);
}

Value AttentionBlocks::withBatch(Value value, Side side) {
  auto own = static_cast<int64_t>(side == Side::Queries ? leading.size() : attention.batchDims);
  if (own >= batchDims)
    return value;
  SmallVector<int64_t> whole(leading.begin(), leading.begin() + batchDims), ones(whole);
  std::fill(ones.begin() + own, ones.end(), 1);
  for (SmallVector<int64_t> *shape : {&ones, &whole})
    llvm::append_range(*shape, tensorType(value).getShape().drop_front(own));
  return dfg::BroadcastOp::create(outside, location, tensorType(value).clone(whole), reshaped(value, ones));
}

Value AttentionBlocks::readAs(const SideTensor &tensor, Form form) {
  Value &made = arranged[{tensor.value.getAsOpaquePointer(), tensor.side, tensor.getOrder(), form}];
  if (!made)
    made = form == Form::Rows ? readRows(tensor) : readColumns(tensor, form == Form::ColumnsFirst);
  return made;
}

Value AttentionBlocks::readRows(const SideTensor &tensor) {
  return read(padded(withBatch(ordered(tensor), tensor.side), rowDim, paddedRows));
}

Value AttentionBlocks::readColumns(const SideTensor &tensor, bool columnsFirst) {
  Value value = padded(withBatch(ordered(tensor), tensor.side), batchDims, blocks * block);
  int64_t size = tensorType(value).getShape().back();
  SmallVector<int64_t> shape(leading.begin(), leading.begin() + batchDims);
  shape.append({blocks, groups, groupSize, size});
  value = reshaped(value, shape);
  if (columnsFirst)
    return read(padded(value, batchDims + 3, llvm::alignTo(size, vectorSize)));
  SmallVector<int64_t> swapped = range(0, static_cast<int64_t>(shape.size()));
  std::swap(swapped[batchDims + 2], swapped[batchDims + 3]);
  return read(dfg::TransposeOp::create(outside, location, value, swapped));
}

SmallVector<int64_t> AttentionBlocks::leadingOf(ArrayRef<int64_t> scores, ArrayRef<int64_t> own) {
  SmallVector<int64_t> dims;
  ArrayRef<int64_t> rest = leading;
  for (auto [position, size] : llvm::enumerate(scores)) {
    size_t count = 0;
    for (int64_t covered = 1; covered != size; ++count)
      covered *= rest[count];
    bool isWhole = position + own.size() >= scores.size() && own[position + own.size() - scores.size()] == size;
    for (size_t i = 0; i < count; ++i)
      dims.push_back(isWhole ? rest[i] : 1);
    rest = rest.drop_front(count);
  }
  return dims;
}

SmallVector<int64_t> AttentionBlocks::withTwoDims(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> dims(shape);
  while (!dims.empty() && dims.size() < 2)
    dims.insert(dims.begin(), 1);
  return dims;
}

SmallVector<int64_t> AttentionBlocks::shapeInBlocks(ArrayRef<int64_t> scores, ArrayRef<int64_t> own) {
  SmallVector<int64_t> whole = withTwoDims(own);
  if (whole.empty())
    return {};
  SmallVector<int64_t> shape;
  if (whole.size() > 2)
    shape = leadingOf(scores.drop_back(2), ArrayRef(whole).drop_back(2));
  shape.push_back(rowsIn(whole) == numRows ? paddedRows : 1);
  bool isWhole = columnsIn(whole) == numColumns;
  for (int64_t size : {blocks, groups, groupSize})
    shape.push_back(isWhole ? size : 1);
  return shape;
}

Value AttentionBlocks::otherInBlocks(Value operand, ArrayRef<int64_t> scores) {
  SmallVector<int64_t> shape = shapeInBlocks(scores, tensorType(operand).getShape());
  Value &made = others[{operand.getAsOpaquePointer(), shape}];
  if (!made)
    made = read(arrangedInBlocks(operand, shape));
  return made;
}

Value AttentionBlocks::arrangedInBlocks(Value operand, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> whole = withTwoDims(tensorType(operand).getShape());
  if (whole.empty())
    return operand;
  operand = reshaped(operand, whole);
  auto last = static_cast<int64_t>(whole.size()) - 1;
  if (rows == Side::Keys && whole[last] != 1 && whole[last - 1] != 1) {
    SmallVector<int64_t> swapped = range(0, last + 1);
    std::swap(swapped[last], swapped[last - 1]);
    operand = dfg::TransposeOp::create(outside, location, operand, swapped);
  } else if (rows == Side::Keys) {
    std::swap(whole[last], whole[last - 1]);
    operand = reshaped(operand, whole);
  }
  ArrayRef<int64_t> now = tensorType(operand).getShape();
  bool hasRows = now[last - 1] == numRows, hasColumns = now[last] == numColumns;
  SmallVector<int64_t> sizes(now);
  if (hasColumns)
    sizes[last] = blocks * block;
  if (hasRows)
    sizes[last - 1] = paddedRows;
  return reshaped(padded(operand, sizes), shape);
}

Value AttentionBlocks::columnNumbers() {
  auto numbers = RankedTensorType::get({blocks, groups, groupSize}, inside.getI64Type());
  return make<dfg::ConstantOp>(DenseElementsAttr::get(numbers, ArrayRef(range(0, blocks * block))));
}

Value AttentionBlocks::computedInBlocks(Value value, ArrayRef<int64_t> scores) {
  RankedTensorType whole = tensorType(value);
  RankedTensorType inBlocks = whole.clone(shapeInBlocks(scores, whole.getShape()));
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast<dfg::ConstantOp>(op))
    return splat(inside, inBlocks, cast<SplatElementsAttr>(constant.getValue()).getSplatValue<Attribute>());
  if (auto iota = dyn_cast<dfg::IotaOp>(op)) {
    if (whole.getDimSize(iota.getDim()) == 1)
      return splat(inside, inBlocks, inside.getZeroAttr(whole.getElementType()));
    Side side = static_cast<int64_t>(iota.getDim()) == whole.getRank() - 1 ? Side::Keys : Side::Queries;
    return side == rows ? make<dfg::IotaOp>(inBlocks, inBlocks.getRank() - 4)
                        : make<dfg::CastOp>(columnNumbers(), whole.getElementType());
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(computedInBlocks(operand, scores));
  return copyOf(op, operands, inBlocks);
}

Value AttentionBlocks::inBand(const dfg::ScoreBand &found) {
  dfg::ScoreBand own = rows == Side::Queries ? found : found.transposed();
  Type number = inside.getI64Type();
  Value row = make<dfg::IotaOp>(RankedTensorType::get({paddedRows, blocks, groups, groupSize}, number), 0);
  auto compared = [&](int64_t bound, dfg::Comparison comparison) -> Value {
    auto from = llvm::to_vector(llvm::seq(bound, bound + blocks * block));
    auto type = RankedTensorType::get({blocks, groups, groupSize}, number);
    Value column = make<dfg::ConstantOp>(DenseElementsAttr::get(type, ArrayRef<int64_t>(from)));
    return make<dfg::CompareOp>(row, column, comparison);
  };
  Value lower = own.lower ? compared(*own.lower, dfg::Comparison::GreaterOrEqual) : Value();
  Value upper = own.upper ? compared(*own.upper, dfg::Comparison::LessOrEqual) : Value();
  return !lower ? upper : !upper ? lower : make<dfg::AndOp>(lower, upper);
}

Value AttentionBlocks::maskInBlocks(Value mask) {
  bool isExact = false;
  if (tensorType(mask).getElementType().isInteger(1)) {
    auto found = dfg::findBand(mask, &isExact);
    return found && isExact ? inBand(*found) : Value();
  }
  auto found = dfg::findScoreMask(mask);
  if (!found || found->kind != dfg::MaskKind::Added || !found->isExact ||
      !found->band.leavesKeys(sizeOf(Side::Queries), sizeOf(Side::Keys)))
    return {};
  Type element = tensorType(mask).getElementType();
  auto number = [&](double value) {
    return splat(inside, RankedTensorType::get({}, element), inside.getFloatAttr(element, value));
  };
  return make<dfg::SelectOp>(inBand(found->band), number(0), number(-std::numeric_limits<double>::infinity()));
}

Value AttentionBlocks::copyOf(Operation *op, ArrayRef<Value> operands, RankedTensorType result) {
  Operation *copy = inside.clone(*op);
  copy->setOperands(operands);
  copy->getResult(0).setType(result);
  return copy->getResult(0);
}

bool AttentionBlocks::isBetween(Operation *op) const {
  return op &&
         (op == attention.scores || op == attention.softmax || op == attention.regrouped ||
          llvm::is_contained(attention.chain, op) ||
          (attention.gradient && (op == attention.gradient->weights || attention.gradient->operators.contains(op))));
}

Value AttentionBlocks::makeScores(Operation *op) {
  if (auto product = dyn_cast<dfg::DotGeneralOp>(op)) {
    SideTensor queries = lhsOf(product), keys = rhsOf(product);
    Value own = readAs(rows == Side::Queries ? queries : keys, Form::Rows);
    Value columns = readAs(rows == Side::Queries ? keys : queries, Form::ColumnsLast);
    return make<dfg::DotGeneralOp>(own, columns, range(0, batchDims), range(0, batchDims),
                                   ArrayRef<int64_t>(rowDim + 1), ArrayRef<int64_t>(batchDims + 2), /*wide=*/false);
  }
  if (isa<dfg::ReshapeOp>(op))
    return scores(op->getOperand(0));
  ArrayRef<int64_t> shape = tensorType(op->getResult(0)).getShape();
  if (auto softmax = dyn_cast<dfg::SoftmaxOp>(op))
    return make<dfg::ExpOp>(
        make<dfg::SubOp>(scores(softmax.getInput()), otherInBlocks(replaced.lookup(softmax.getResult()), shape)));
  SmallVector<Value> made(op->getOperands());
  for (Value &operand : made)
    if (isBetween(operand.getDefiningOp()))
      operand = scores(operand);
  for (auto [operand, read] : llvm::zip(op->getOperands(), made))
    if (Value other = replaced.lookup(operand); other && !isBetween(operand.getDefiningOp()))
      read = otherInBlocks(other, shape);
    else if (!isBetween(operand.getDefiningOp())) {
      Value mask = isComputed(operand) ? Value() : maskInBlocks(operand);
      read = mask ? mask : isComputed(operand) ? computedInBlocks(operand, shape) : otherInBlocks(operand, shape);
    }
  SmallVector<int64_t> inBlocks(leading.begin(), leading.end());
  inBlocks.append({paddedRows, blocks, groups, groupSize});
  return copyOf(op, made, tensorType(op->getResult(0)).clone(inBlocks));
}

} // namespace cleave
