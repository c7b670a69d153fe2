// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Brings the rows of each matrix of gathered products together: every group of rows (a sample) has a number of places
// for each matrix, its capacity, and rows that find none are dropped. Products become one batch of products a matrix,
// and where matrices are on devices of their own, what goes there and comes back are exchanges of all with all. Source:
// Lepikhin et al., GShard, 2020.
//
//   rows S x k of a sample -> places E x capacity of a sample -> E x samples x capacity -> and back

#include "passes/graph/Passes.h"

#include "dialects/dfg/TensorType.h"

#include "llvm/ADT/MapVector.h"

#include <cmath>

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_DISPATCHEXPERTSPASS
#include "passes/graph/Passes.h.inc"

namespace {

/// Builds operators that all stand for one node of the model.
class NodeBuilder {
public:
  NodeBuilder(Operation *at) : builder(at), location(at->getLoc()) {}

  OpBuilder &getBuilder() { return builder; }

  template <typename Op, typename... Args> Value make(Args &&...args) {
    return Op::create(builder, location, std::forward<Args>(args)...);
  }
  RankedTensorType indexType(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, builder.getI64Type()); }
  Value scalar(Type element, int64_t value) {
    TypedAttr number = isa<FloatType>(element) ? TypedAttr(builder.getFloatAttr(element, static_cast<double>(value)))
                                               : TypedAttr(builder.getIntegerAttr(element, value));
    return make<dfg::ConstantOp>(DenseElementsAttr::get(RankedTensorType::get({}, element), number));
  }
  Value index(int64_t value) { return scalar(builder.getI64Type(), value); }
  Value reshape(Value value, ArrayRef<int64_t> shape) {
    RankedTensorType type = tensorType(value).clone(shape);
    return type == value.getType() ? value : make<dfg::ReshapeOp>(type, value);
  }
  Value broadcast(Value value, ArrayRef<int64_t> shape) {
    RankedTensorType type = tensorType(value).clone(shape);
    return type == value.getType() ? value : make<dfg::BroadcastOp>(type, value);
  }
  Value transpose(Value value, ArrayRef<int64_t> order) { return make<dfg::TransposeOp>(value, order); }
  Value compare(Value lhs, dfg::Comparison comparison, Value rhs) { return make<dfg::CompareOp>(lhs, rhs, comparison); }

private:
  OpBuilder builder;
  Location location;
};

/// The gathered products that share their indices, and what lies between them.
class Mixture {
public:
  Mixture(Value indices, SmallVector<dfg::GatherDotOp> products)
      : indices(indices), products(std::move(products)), rows(tensorType(indices).getShape()) {}

  /// Rows are choices of samples' tokens (groups x tokens x choices), or of tokens that are one group.
  bool canDispatch();
  void dispatch(double factor);

private:
  bool isBetween(Operation *op) const;
  /// What has an element for each matrix, where `value` is each row's; null for other values.
  Value tableOf(Value value) const;
  void findBetween();
  void findPlaces(NodeBuilder &b);
  Value toPlaces(NodeBuilder &b, Value value);
  Value fromPlaces(NodeBuilder &b, Value value);
  Value operandOf(NodeBuilder &b, Value value, const TensorFactors &factors, const SplitRule &rule);
  bool rebuild(Operation *op);
  /// The dimensions of places, then the last ones of `shape`, which begin with rows.
  SmallVector<int64_t> withPlaces(ArrayRef<int64_t> shape) const {
    SmallVector<int64_t> made =
        rows.size() == 3 ? SmallVector<int64_t>{matrices, groups, capacity} : SmallVector<int64_t>{matrices, capacity};
    llvm::append_range(made, shape.drop_front(rows.size()));
    return made;
  }
  /// The factors of an operator's rows, in order; empty where they are none.
  static SmallVector<unsigned> rowFactors(const SplitRule &rule, size_t count);

  Value indices;
  SmallVector<dfg::GatherDotOp> products;
  ArrayRef<int64_t> rows;
  int64_t matrices = 0, groups = 1, numRows = 0, capacity = 0;
  /// The products, operators on a way from one to another, and those behind that add a bias, in order.
  llvm::SetVector<Operation *> between;
  /// Values of rows as values of places.
  llvm::DenseMap<Value, Value> placed;
  /// For each row its place, and whether it has one; for each place its row, and whether it has one.
  Value placeOfRow, hasPlace, rowOfPlace, hasRow;
};

SmallVector<unsigned> Mixture::rowFactors(const SplitRule &rule, size_t count) {
  SmallVector<unsigned> factors;
  if (rule.results.size() != 1 || rule.results[0].size() < count)
    return {};
  for (const DimFactors &dim : ArrayRef(rule.results[0]).take_front(count)) {
    if (dim.size() != 1 || rule.factors[dim.front()].kind != FactorKind::Parallel)
      return {};
    factors.push_back(dim.front());
  }
  return factors;
}

/// Whether an operator computes each row of its result from the same rows of operands that have any.
bool Mixture::isBetween(Operation *op) const {
  auto split = dyn_cast<SplitInterface>(op);
  if (!split || op->getNumResults() != 1 || isa<dfg::GatherDotOp>(op) || !isMemoryEffectFree(op))
    return false;
  SplitRule rule = split.getSplitRule();
  SmallVector<unsigned> own = rowFactors(rule, rows.size());
  if (own.empty() || tensorType(op->getResult(0)).getShape().take_front(rows.size()) != rows)
    return false;
  for (const TensorFactors &operand : rule.operands)
    for (auto [index, dim] : llvm::enumerate(operand))
      for (unsigned factor : dim)
        if (auto *found = llvm::find(own, factor);
            found != own.end() && (dim.size() != 1 || found - own.begin() != static_cast<ptrdiff_t>(index)))
          return false;
  return true;
}

/// A row without a place gets no bias either, so that this is added in the places.
void Mixture::findBetween() {
  DenseSet<Operation *> after;
  SmallVector<Operation *> work(products.begin(), products.end());
  while (!work.empty())
    for (Operation *user : work.pop_back_val()->getUsers())
      if (isBetween(user) && after.insert(user).second)
        work.push_back(user);
  DenseSet<Operation *> found(products.begin(), products.end());
  for (dfg::GatherDotOp product : products)
    work.push_back(product);
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    ValueRange read = op->getOperands();
    for (Value operand : isa<dfg::GatherDotOp>(op) ? read.take_front() : read)
      if (Operation *source = operand.getDefiningOp(); source && after.contains(source) && found.insert(source).second)
        work.push_back(source);
  }
  for (Operation &op : *products.front()->getBlock()) {
    bool addsTable =
        after.contains(&op) &&
        llvm::any_of(op.getOperands(), [&](Value operand) { return found.contains(operand.getDefiningOp()); }) &&
        llvm::any_of(op.getOperands(), [&](Value operand) { return tableOf(operand) != nullptr; });
    if (addsTable)
      found.insert(&op);
    if (found.contains(&op))
      between.insert(&op);
  }
}

Value Mixture::tableOf(Value value) const {
  auto gather = value.getDefiningOp<dfg::GatherOp>();
  bool isTable = gather && gather.getIndices() == indices && gather.getDim() == 0 &&
                 tensorType(gather.getInput()).getDimSize(0) == matrices;
  return isTable ? gather.getInput() : Value();
}

bool Mixture::canDispatch() {
  matrices = tensorType(products.front().getRhs()).getDimSize(0);
  if (rows.size() < 2 || rows.size() > 3 || matrices == 0 || tensorType(indices).getNumElements() == 0)
    return false;
  groups = rows.size() == 3 ? rows.front() : 1;
  numRows = tensorType(indices).getNumElements() / groups;
  return llvm::all_of(products, [&](dfg::GatherDotOp product) {
    return tensorType(product.getRhs()).getDimSize(0) == matrices && !product.getTotal();
  });
}

/// The places of a matrix are given to its rows in their order: a row's place is how many rows before it have the same
/// matrix.
void Mixture::findPlaces(NodeBuilder &b) {
  Type counter = b.getBuilder().getI32Type();
  Value flat = b.reshape(indices, {groups, numRows});
  if (!tensorType(flat).getElementType().isInteger(64))
    flat = b.make<dfg::CastOp>(flat, b.getBuilder().getI64Type());
  Value each = b.make<dfg::IotaOp>(b.indexType({1, 1, matrices}), 2);
  Value isOf = b.compare(b.reshape(flat, {groups, numRows, 1}), dfg::Comparison::Equal, each);
  Value counts = b.make<dfg::CastOp>(isOf, counter);
  Value before = b.make<dfg::CumulativeSumOp>(counts, 1, /*exclusive=*/true);
  Value own = b.make<dfg::SelectOp>(isOf, before, b.scalar(counter, 0));
  Value position = b.make<dfg::ReduceOp>(own, dfg::ReduceKind::Sum, ArrayRef<int64_t>{2}, /*keep_dims=*/false);
  position = b.make<dfg::CastOp>(position, b.getBuilder().getI64Type());
  Value exists = b.make<dfg::AndOp>(b.compare(b.index(0), dfg::Comparison::LessOrEqual, flat),
                                    b.compare(flat, dfg::Comparison::Less, b.index(matrices)));
  Value has = b.make<dfg::AndOp>(exists, b.compare(position, dfg::Comparison::Less, b.index(capacity)));
  // The place behind the last one is none: nothing is put there.
  int64_t places = matrices * capacity;
  Value place = b.make<dfg::AddOp>(b.make<dfg::MulOp>(flat, b.index(capacity)), position);
  place = b.make<dfg::SelectOp>(has, place, b.index(places));
  Value none = b.broadcast(b.index(-1), {groups, places});
  // Made once for all samples, which shows that none depends on its place in the batch.
  Value number = b.broadcast(b.make<dfg::IotaOp>(b.indexType({1, numRows}), 1), {groups, numRows});
  Value row = b.make<dfg::ScatterElementsOp>(none, place, number, 1, dfg::ReduceKindAttr());
  placeOfRow = b.reshape(place, {groups, numRows, 1});
  hasPlace = b.reshape(has, {groups, numRows, 1});
  rowOfPlace = b.reshape(row, {groups, places, 1});
  hasRow = b.compare(rowOfPlace, dfg::Comparison::GreaterOrEqual, b.index(0));
}

/// A value of rows (rows... x rest) as one of places (matrices x groups x capacity x rest), zero where a place is free.
Value Mixture::toPlaces(NodeBuilder &b, Value value) {
  Value &made = placed[value];
  if (made)
    return made;
  ArrayRef<int64_t> shape = tensorType(value).getShape();
  SmallVector<int64_t> whole(rows), rest(shape.drop_front(rows.size()));
  int64_t width = 1;
  for (int64_t size : rest)
    width *= size;
  // Rows that repeat a token are taken from the token.
  bool repeats = shape[rows.size() - 1] == 1 && rows.back() != 1;
  if (repeats)
    whole.back() = 1;
  llvm::append_range(whole, rest);
  Value source = rowOfPlace;
  if (repeats)
    source = b.make<dfg::DivOp>(source, b.index(rows.back()));
  int64_t length = repeats ? numRows / rows.back() : numRows;
  Value flat = b.reshape(b.broadcast(value, whole), {groups, length, width});
  Value taken = b.make<dfg::GatherElementsOp>(flat, source, 1);
  taken = b.make<dfg::SelectOp>(hasRow, taken, b.scalar(tensorType(value).getElementType(), 0));
  taken = b.transpose(b.reshape(taken, {groups, matrices, capacity, width}), {1, 0, 2, 3});
  return made = b.reshape(taken, withPlaces(whole));
}

/// The other way round: zero for rows that have no place.
Value Mixture::fromPlaces(NodeBuilder &b, Value value) {
  ArrayRef<int64_t> shape = tensorType(value).getShape();
  int64_t width = tensorType(value).getNumElements() / (matrices * groups * capacity);
  Value flat = b.transpose(b.reshape(value, {matrices, groups, capacity, width}), {1, 0, 2, 3});
  Value taken = b.make<dfg::GatherElementsOp>(b.reshape(flat, {groups, matrices * capacity, width}), placeOfRow, 1);
  taken = b.make<dfg::SelectOp>(hasPlace, taken, b.scalar(tensorType(value).getElementType(), 0));
  SmallVector<int64_t> made(rows);
  llvm::append_range(made, shape.drop_front(rows.size()));
  return b.reshape(taken, made);
}

/// What stands for an operand of an operator of places.
Value Mixture::operandOf(NodeBuilder &b, Value value, const TensorFactors &factors, const SplitRule &rule) {
  if (Value made = placed.lookup(value))
    return made;
  SmallVector<unsigned> own = rowFactors(rule, rows.size());
  bool hasRows = llvm::any_of(factors, [&](const DimFactors &dim) {
    return llvm::any_of(dim, [&](unsigned factor) { return llvm::is_contained(own, factor); });
  });
  if (!hasRows)
    return value;
  // A bias of each matrix, say: all places of a matrix have the same.
  Value table = tableOf(value);
  if (!table)
    return toPlaces(b, value);
  SmallVector<int64_t> shape = withPlaces(tensorType(value).getShape());
  SmallVector<int64_t> once = shape;
  for (size_t dim = 1; dim < rows.size(); ++dim)
    once[dim] = 1;
  return placed[value] = b.broadcast(b.reshape(table, once), shape);
}

/// Builds the operator on places; false where it has to know positions among the rows.
bool Mixture::rebuild(Operation *op) {
  NodeBuilder b(op);
  SplitRule rule = cast<SplitInterface>(op).getSplitRule();
  if (auto product = dyn_cast<dfg::GatherDotOp>(op)) {
    Value lhs = placed.lookup(product.getLhs());
    if (!lhs)
      lhs = toPlaces(b, product.getLhs());
    int64_t depth = product.getTransposed() ? 2 : 1, last = tensorType(lhs).getRank() - 1;
    const SmallVector<int64_t> batch = {0};
    placed[op->getResult(0)] = b.make<dfg::DotGeneralOp>(lhs, product.getRhs(), batch, batch, ArrayRef<int64_t>{last},
                                                         ArrayRef<int64_t>{depth});
    return true;
  }
  SmallVector<Value> operands;
  for (auto [operand, factors] : llvm::zip_equal(op->getOperands(), rule.operands))
    operands.push_back(operandOf(b, operand, factors, rule));
  SmallVector<int64_t> ways(rule.factors.size(), 1), sizes;
  for (const Factor &factor : rule.factors)
    sizes.push_back(factor.size);
  RankedTensorType before = tensorType(op->getResult(0)), result = before.clone(withPlaces(before.getShape()));
  for (auto [dim, factor] : llvm::enumerate(rowFactors(rule, rows.size()))) {
    sizes[factor] = result.getDimSize(dim);
    ways[factor] = 2;
  }
  bool asksForPositions = false;
  auto start = [&](unsigned) {
    asksForPositions = true;
    return b.index(0);
  };
  auto made = cast<SplitInterface>(op).localize(b.getBuilder(), {operands, Type(result), ways, sizes, start});
  if (failed(made) || asksForPositions)
    return false;
  placed[op->getResult(0)] = made->front();
  return true;
}

void Mixture::dispatch(double factor) {
  double each = factor * static_cast<double>(numRows) / static_cast<double>(matrices);
  capacity = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(each - 1e-9)), 1, numRows);
  findBetween();
  NodeBuilder first(between.front());
  findPlaces(first);
  for (Operation *op : between)
    if (!rebuild(op))
      return;
  for (Operation *op : llvm::reverse(between)) {
    NodeBuilder b(op);
    Value back;
    for (OpOperand &use : llvm::make_early_inc_range(op->getResult(0).getUses())) {
      if (between.contains(use.getOwner()))
        continue;
      if (!back)
        back = fromPlaces(b, placed[op->getResult(0)]);
      use.set(back);
    }
  }
  for (Operation *op : llvm::reverse(between))
    op->erase();
}

class DispatchExperts : public impl::DispatchExpertsPassBase<DispatchExperts> {
public:
  using DispatchExpertsPassBase::DispatchExpertsPassBase;

private:
  void runOnOperation() override {
    llvm::MapVector<Value, SmallVector<dfg::GatherDotOp>> products;
    for (auto product : getOperation().getBody().getOps<dfg::GatherDotOp>())
      products[product.getIndices()].push_back(product);
    for (auto &[indices, sharing] : products)
      if (Mixture mixture(indices, sharing); mixture.canDispatch())
        mixture.dispatch(capacity);
  }
};

} // namespace
} // namespace cleave
