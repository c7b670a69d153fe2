// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Islands of meshes, and operators on them.

#include "passes/distribute/SharesExpander.h"

#include "passes/planner/ModelNode.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace cleave {

using dist::Layout;

/// Of what an island but the first computes of a node: "conv1/share1". A node is on one mesh.
static Location locationOn(Location location, unsigned island) {
  StringRef name = dfg::getNodeName(location);
  if (island == 0 || name.empty())
    return location;
  return dfg::getNodeLocation(location.getContext(), (name + "/share" + Twine(island)).str(),
                              dfg::getNodeKind(location));
}

static RankedTensorType tensorOf(Value value) { return cast<RankedTensorType>(value.getType()); }

//===-- islands -----------------------------------------------------------------------------------------------===//

bool Islands::canCut(int64_t size) const {
  for (unsigned island = 0; island != list.size(); ++island)
    if (begin(size, island) == end(size, island))
      return false;
  return true;
}

/// The devices of a mesh whose coordinate along an axis lies in a range, in the mesh's order.
static SmallVector<int64_t> devicesAlong(dist::MeshOp mesh, size_t axis, int64_t first, int64_t last) {
  int64_t inner = 1;
  for (int64_t size : mesh.getAxisSizes().drop_front(axis + 1))
    inner *= size;
  SmallVector<int64_t> devices;
  for (auto [index, device] : llvm::enumerate(mesh.getDevices())) {
    int64_t coordinate = static_cast<int64_t>(index) / inner % mesh.getAxisSizes()[axis];
    if (coordinate >= first && coordinate < last)
      devices.push_back(device);
  }
  return devices;
}

LogicalResult IslandTable::add(dist::MeshOp mesh) {
  auto [axis, shares] = mesh.getShares();
  size_t position = llvm::find(mesh.getAxisNames(), axis) - mesh.getAxisNames().begin();
  auto made = std::make_unique<Islands>();
  made->axis = axis;
  made->shape = std::make_unique<dist::MeshShape>(mesh);
  OpBuilder builder(mesh);
  for (size_t first = 0, last = 0; first != shares.size(); first = last) {
    Island &island = made->list.emplace_back();
    island.begin = made->total;
    while (last != shares.size() && shares[last] == shares[first])
      made->total += shares[last++];
    island.end = made->total;
    SmallVector<int64_t> devices =
        devicesAlong(mesh, position, static_cast<int64_t>(first), static_cast<int64_t>(last));
    SmallVector<Attribute> names;
    SmallVector<int64_t> sizes;
    for (auto [index, name] : llvm::enumerate(mesh.getAxisNames())) {
      int64_t size = index == position ? static_cast<int64_t>(last - first) : mesh.getAxisSizes()[index];
      if (size == 1)
        continue;
      names.push_back(name);
      sizes.push_back(size);
    }
    std::string name = devices.size() == 1 ? "d" + std::to_string(devices.front())
                                           : (mesh.getSymName() + "." + Twine(made->list.size() - 1)).str();
    if (Operation *symbol = module.lookupSymbol(name)) {
      auto existing = dyn_cast<dist::MeshOp>(symbol);
      if (!existing || existing.getDevices() != ArrayRef(devices) || existing.getAxisSizes() != ArrayRef(sizes) ||
          existing.getAxisNames() != builder.getArrayAttr(names))
        return symbol->emitError("expects the name \"")
               << name << "\" to be free for a part of mesh \"" << mesh.getSymName() << "\"";
    } else {
      dist::MeshOp::create(builder, mesh.getLoc(), name, builder.getArrayAttr(names), sizes, devices, DictionaryAttr());
    }
    island.mesh = FlatSymbolRefAttr::get(module.getContext(), name);
    island.shape = std::make_unique<dist::MeshShape>(module.lookupSymbol<dist::MeshOp>(name));
  }
  known[FlatSymbolRefAttr::get(mesh.getSymNameAttr())] = std::move(made);
  return success();
}

const Islands *IslandTable::find(Attribute mesh) const {
  auto found = known.find(mesh);
  return found == known.end() ? nullptr : found->second.get();
}

const dist::MeshShape &IslandTable::shapeOf(FlatSymbolRefAttr mesh) {
  std::unique_ptr<dist::MeshShape> &shape = shapes[mesh];
  if (!shape)
    shape = std::make_unique<dist::MeshShape>(module.lookupSymbol<dist::MeshOp>(mesh.getAttr()));
  return *shape;
}

//===-- operators ---------------------------------------------------------------------------------------------===//

LogicalResult SharesExpander::run() {
  Block &body = graph.getBody().front();
  SmallVector<Operation *> before;
  for (Operation &op : body) {
    before.push_back(&op);
    if (auto write = dyn_cast<dfg::WriteOp>(op))
      written.insert(write.getParameterAttr());
  }
  dist::PlaceAttr last;
  SmallVector<Operation *> expanded;
  for (Operation *op : before) {
    builder.setInsertionPoint(op);
    dist::PlaceAttr place = dist::getPlace(op);
    last = place ? place : last;
    const Islands *islands = place ? table.find(place.getMesh()) : nullptr;
    if (islands) {
      if (failed(expand(op, *islands)))
        return failure();
      expanded.push_back(op);
    } else if (failed(readWhole(op, place ? place : last))) {
      return failure();
    }
  }
  // Users first.
  for (Operation *op : llvm::reverse(expanded))
    op->erase();
  for (Operation *op = body.getTerminator(); op;) {
    Operation *previous = op->getPrevNode();
    if (isOpTriviallyDead(op))
      op->erase();
    op = previous;
  }
  return success();
}

LogicalResult SharesExpander::readWhole(Operation *op, dist::PlaceAttr place) {
  for (OpOperand &operand : op->getOpOperands()) {
    auto found = pieces.find(operand.get());
    if (found == pieces.end())
      continue;
    bool isResult = op->hasTrait<OpTrait::IsTerminator>();
    const Pieces &known = found->second;
    // The graph gives its outputs out where they are made, or joined where the first island is.
    if (isResult && ports == SharedPorts::InParts && known.combiner == Combiner::None && !known.ranges.empty() &&
        known.ranges.front().outer == 1) {
      operand.set(dist::OutputPartsOp::create(builder, operand.get().getLoc(), operand.get().getType(), known.values,
                                              known.ranges.front().dim));
      continue;
    }
    FlatSymbolRefAttr first = known.islands->list.front().mesh;
    operand.set(get(operand.get(), {}, {place, isResult ? first : place.getMesh(), operand.get().getLoc()}));
  }
  return success();
}

std::optional<SharesExpander::Range> SharesExpander::rangeOf(const SplitRule &rule, const TensorFactors &factors,
                                                             std::optional<unsigned> factor, const Islands &islands,
                                                             unsigned island) {
  if (!factor)
    return std::nullopt;
  for (auto [dim, inDim] : llvm::enumerate(factors)) {
    auto found = llvm::find(inDim, *factor);
    if (found == inDim.end())
      continue;
    int64_t outer = 1, inner = 1, size = rule.factors[*factor].size;
    for (unsigned slower : llvm::make_range(inDim.begin(), found))
      outer *= rule.factors[slower].size;
    for (unsigned faster : llvm::make_range(std::next(found), inDim.end()))
      inner *= rule.factors[faster].size;
    return Range{static_cast<int64_t>(dim), outer, size * inner, islands.begin(size, island) * inner,
                 islands.end(size, island) * inner};
  }
  return std::nullopt;
}

LogicalResult SharesExpander::expand(Operation *op, const Islands &islands) {
  auto found = findLayouts(op, *islands.shape);
  if (failed(found))
    return failure();
  std::optional<unsigned> factor;
  for (auto [index, axes] : llvm::enumerate(found->axes)) {
    auto at = llvm::find(axes, islands.axis);
    if (at == axes.end())
      continue;
    const Factor &cut = found->rule.factors[index];
    if (at != axes.begin())
      return op->emitOpError("expects axis ")
             << islands.axis << ", which has shares, to cut '" << cut.name << "' before other axes do; name it first";
    if (cut.kind == FactorKind::Window)
      return op->emitOpError("cannot be cut along '")
             << cut.name << "' in unequal shares, because parts overlap; cut another factor, or give axis "
             << islands.axis << " no shares";
    if (islands.canCut(cut.size))
      factor = static_cast<unsigned>(index);
  }
  std::vector<Pieces> results(op->getNumResults());
  // What changes a parameter does so once.
  auto writes = isMemoryEffectFree(op) ? islands.list.size() : 1;
  for (unsigned island = 0; island != writes; ++island)
    if (failed(localize(op, *found, factor, islands, island, results)))
      return failure();
  for (auto [index, result] : llvm::enumerate(op->getResults())) {
    Pieces &made = results[index];
    made.islands = &islands;
    for (unsigned island = 0; factor && island != made.values.size(); ++island)
      if (auto range = rangeOf(found->rule, found->rule.results[index], factor, islands, island))
        made.ranges.push_back(*range);
    if (factor)
      made.combiner = found->rule.factors[*factor].combiner;
    pieces[result] = std::move(made);
  }
  return success();
}

/// The split of an operator as it is on one island: without axes that it lacks and factors that are not there.
static dist::SplitAttr restrict(dist::SplitAttr split, Operation *op, const dist::MeshShape &mesh) {
  auto splittable = dyn_cast<SplitInterface>(op);
  if (!split || !splittable)
    return {};
  SplitRule rule = splittable.getSplitRule();
  NamedAttrList factors;
  for (NamedAttribute entry : split.getFactors()) {
    SmallVector<Attribute> axes;
    for (auto axis : cast<ArrayAttr>(entry.getValue()).getAsRange<StringAttr>())
      if (mesh.find(axis))
        axes.push_back(axis);
    if (!axes.empty() && rule.find(entry.getName()))
      factors.set(entry.getName(), ArrayAttr::get(op->getContext(), axes));
  }
  return factors.empty() ? dist::SplitAttr()
                         : dist::SplitAttr::get(op->getContext(), factors.getDictionary(op->getContext()));
}

LogicalResult SharesExpander::localize(Operation *op, const OperatorLayouts &layoutsOf, std::optional<unsigned> factor,
                                       const Islands &islands, unsigned number, std::vector<Pieces> &results) {
  const Island &island = islands.list[number];
  const SplitRule &rule = layoutsOf.rule;
  dist::PlaceAttr place = dist::getPlace(op);
  Site site{place, island.mesh, locationOn(op->getLoc(), number)};
  int64_t begin = 0, end = 0;
  if (factor) {
    begin = islands.begin(rule.factors[*factor].size, number);
    end = islands.end(rule.factors[*factor].size, number);
  }
  SmallVector<Value> operands;
  for (auto [index, value] : llvm::enumerate(op->getOperands())) {
    Value operand = number == 0 ? value : fromFirst(value, place, islands.list.front());
    auto range = factor ? rangeOf(rule, rule.operands[index], factor, islands, number) : std::nullopt;
    operands.push_back(get(operand, range, site));
  }
  Operation *before = builder.getInsertionPoint()->getPrevNode();
  SmallVector<Value> made;
  if (factor) {
    SmallVector<Type> types;
    for (auto [index, result] : llvm::enumerate(op->getResults())) {
      auto type = tensorOf(result);
      SmallVector<int64_t> shape(type.getShape());
      if (auto range = rangeOf(rule, rule.results[index], factor, islands, number))
        shape[range->dim] = range->outer * (range->end - range->begin);
      types.push_back(RankedTensorType::get(shape, type.getElementType(), type.getEncoding()));
    }
    SmallVector<int64_t> ways(rule.factors.size(), 1), sizes;
    for (const Factor &known : rule.factors)
      sizes.push_back(known.size);
    ways[*factor] = static_cast<int64_t>(islands.list.size());
    sizes[*factor] = end - begin;
    auto start = [&](unsigned) -> Value {
      auto type = RankedTensorType::get({}, builder.getI64Type());
      return dfg::ConstantOp::create(builder, op->getLoc(), DenseElementsAttr::get(type, begin));
    };
    auto local = cast<SplitInterface>(op).localize(builder, {operands, types, ways, sizes, start});
    if (failed(local))
      return op->emitOpError("cannot be cut in unequal shares along '")
             << rule.factors[*factor].name << "'; cut another factor, or give axis " << islands.axis << " no shares";
    made = std::move(*local);
    for (auto [value, type] : llvm::zip_equal(made, types))
      if (value.getType() != type)
        return op->emitOpError("expects the part of an island to be ") << type << ", got " << value.getType();
  } else {
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    made = llvm::to_vector_of<Value>(copy->getResults());
  }
  Block *block = builder.getInsertionBlock();
  for (auto next = before ? std::next(before->getIterator()) : block->begin(); next != builder.getInsertionPoint();
       ++next) {
    Operation *created = &*next;
    created->setLoc(site.location);
    if (created->hasTrait<OpTrait::ConstantLike>())
      continue;
    // The operator itself is split as it was, what it took to make it a part follows.
    if (created->getName() != op->getName())
      this->place(created, site);
    else if (failed(this->place(created, site, restrict(place.getSplit(), created, *island.shape))))
      return failure();
  }
  for (auto [pieces, value] : llvm::zip_equal(results, made))
    pieces.values.push_back(value);
  return success();
}

LogicalResult SharesExpander::place(Operation *op, const Site &site, dist::SplitAttr split) {
  op->setAttr(dist::placeAttrName, dist::PlaceAttr::get(op->getContext(), site.mesh, site.of.getBy(), split));
  auto found = findLayouts(op, table.shapeOf(site.mesh));
  if (failed(found))
    return failure();
  for (auto [result, layout] : llvm::zip_equal(op->getResults(), found->results)) {
    layout.partial.clear();
    layout.combiner = Combiner::None;
    layouts[result] = {site.mesh, layout};
  }
  return success();
}

Value SharesExpander::place(Operation *op, const Site &site) {
  const dist::MeshShape &shape = table.shapeOf(site.mesh);
  SmallVector<const Layout *> operands;
  for (Value operand : op->getOperands()) {
    auto known = layouts.find(operand);
    bool isHere = known != layouts.end() && known->second.first == site.mesh;
    operands.push_back(isHere ? &known->second.second : nullptr);
  }
  LogicalResult placed = place(op, site, followOperands(op, operands, shape));
  assert(succeeded(placed) && "splits that follow operands fit");
  (void)placed;
  return op->getNumResults() ? op->getResult(0) : Value();
}

//===-- values ------------------------------------------------------------------------------------------------===//

Value SharesExpander::get(Value value, const std::optional<Range> &range, const Site &site) {
  SmallVector<Made> &known = made[value];
  auto found = llvm::find_if(known, [&](const Made &entry) { return entry.mesh == site.mesh && entry.range == range; });
  if (found != known.end())
    return found->value;
  Value result = make(value, range, site);
  made[value].push_back({site.mesh, range, result});
  return result;
}

Value SharesExpander::make(Value value, const std::optional<Range> &range, const Site &site) {
  auto found = pieces.find(value);
  if (found == pieces.end())
    return range ? slice(value, *range, site) : value;
  const Pieces &known = found->second;
  std::optional<unsigned> here;
  for (auto [index, island] : llvm::enumerate(known.islands->list))
    if (island.mesh == site.mesh)
      here = static_cast<unsigned>(index);
  if (known.combiner == Combiner::None && known.ranges.empty()) {
    Value whole = known.values[here.value_or(0)];
    return range ? slice(whole, *range, site) : whole;
  }
  if (range && here && !known.ranges.empty() && *range == known.ranges[*here])
    return known.values[*here];
  // Another part of the same dimension may be in several pieces.
  if (range && !known.ranges.empty() && range->dim == known.ranges.front().dim)
    return slice(get(value, {}, site), *range, site);
  SmallVector<Value> parts;
  for (unsigned island = 0; island != known.values.size(); ++island)
    parts.push_back(pieceOf(known, island, range, site));
  return known.ranges.empty() ? combine(parts, known.combiner, site) : concatenate(parts, known.ranges.front(), site);
}

Value SharesExpander::pieceOf(const Pieces &pieces, unsigned island, const std::optional<Range> &range,
                              const Site &site) {
  Value piece = pieces.values[island];
  // As a part of what made the piece: a node is on one mesh.
  return range ? slice(piece, *range, {site.of, pieces.islands->list[island].mesh, piece.getLoc()}) : piece;
}

Value SharesExpander::fromFirst(Value value, dist::PlaceAttr place, const Island &first) {
  auto read = value.getDefiningOp<dfg::ReadOp>();
  if (!read || !written.contains(read.getParameterAttr()))
    return value;
  Value &copy = copies[value];
  if (!copy) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfter(read);
    auto made = dfg::ReshapeOp::create(builder, read.getLoc(), tensorOf(value), value);
    copy = this->place(made, {place, first.mesh, read.getLoc()});
  }
  return copy;
}

Value SharesExpander::reshape(Value value, ArrayRef<int64_t> shape, const Site &site) {
  auto type = tensorOf(value);
  if (type.getShape() == shape)
    return value;
  return place(
      dfg::ReshapeOp::create(builder, site.location, RankedTensorType::get(shape, type.getElementType()), value), site);
}

/// The shape with a dimension as two.
static SmallVector<int64_t> withDimSplit(ArrayRef<int64_t> shape, int64_t dim, int64_t outer) {
  SmallVector<int64_t> split(shape);
  split[dim] /= outer;
  split.insert(split.begin() + dim, outer);
  return split;
}

/// The shape with a dimension and the one behind it as one.
static SmallVector<int64_t> withDimsJoined(ArrayRef<int64_t> shape, int64_t dim) {
  SmallVector<int64_t> joined(shape);
  joined[dim] *= joined[dim + 1];
  joined.erase(joined.begin() + dim + 1);
  return joined;
}

Value SharesExpander::slice(Value value, const Range &range, const Site &site) {
  bool hasBlocks = range.outer != 1;
  if (ports == SharedPorts::InParts && isa<BlockArgument>(value) && !hasBlocks) {
    SmallVector<int64_t> shape(tensorOf(value).getShape());
    shape[range.dim] = range.end - range.begin;
    return dist::InputPartOp::create(builder, site.location, tensorOf(value).clone(shape), value, range.dim,
                                     range.begin);
  }
  int64_t dim = hasBlocks ? range.dim + 1 : range.dim;
  if (hasBlocks)
    value = reshape(value, withDimSplit(tensorOf(value).getShape(), range.dim, range.outer), site);
  SmallVector<int64_t> limits(tensorOf(value).getShape()), starts(limits.size(), 0), strides(limits.size(), 1);
  starts[dim] = range.begin;
  limits[dim] = range.end;
  value = place(dfg::SliceOp::create(builder, site.location, value, starts, limits, strides), site);
  return hasBlocks ? reshape(value, withDimsJoined(tensorOf(value).getShape(), range.dim), site) : value;
}

Value SharesExpander::concatenate(ArrayRef<Value> values, const Range &range, const Site &site) {
  bool hasBlocks = range.outer != 1;
  SmallVector<Value> parts;
  for (Value value : values)
    parts.push_back(hasBlocks ? reshape(value, withDimSplit(tensorOf(value).getShape(), range.dim, range.outer), site)
                              : value);
  Value whole =
      place(dfg::ConcatOp::create(builder, site.location, parts, hasBlocks ? range.dim + 1 : range.dim), site);
  return hasBlocks ? reshape(whole, withDimsJoined(tensorOf(whole).getShape(), range.dim), site) : whole;
}

Value SharesExpander::combine(ArrayRef<Value> values, Combiner combiner, const Site &site) {
  Value joined = values.front();
  for (Value value : values.drop_front()) {
    Operation *op = nullptr;
    switch (combiner) {
    case Combiner::None:
    case Combiner::Sum:
      op = dfg::AddOp::create(builder, site.location, joined, value);
      break;
    case Combiner::Product:
      op = dfg::MulOp::create(builder, site.location, joined, value);
      break;
    case Combiner::Max:
      op = dfg::MaxOp::create(builder, site.location, joined, value);
      break;
    case Combiner::Min:
      op = dfg::MinOp::create(builder, site.location, joined, value);
      break;
    }
    joined = place(op, site);
  }
  return joined;
}

} // namespace cleave
