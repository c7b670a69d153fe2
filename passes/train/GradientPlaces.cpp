// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts by value, and splits that follow them.

#include "passes/train/GradientPlaces.h"

using namespace mlir;

namespace cleave {

using dist::Layout;

const dist::MeshShape &GradientPlaces::shapeOf(FlatSymbolRefAttr name) {
  std::unique_ptr<dist::MeshShape> &shape = shapes[name];
  if (!shape)
    shape = std::make_unique<dist::MeshShape>(module.lookupSymbol<dist::MeshOp>(name.getAttr()));
  return *shape;
}

FailureOr<OperatorLayouts> GradientPlaces::layoutsOf(Operation *op) {
  return findLayouts(op, shapeOf(dist::getPlace(op).getMesh()));
}

/// What an operator wants of a value, as another one can follow it: whole values, not partial ones, without overlaps.
static Layout plain(Layout layout, const dist::MeshShape &mesh) {
  layout.partial.clear();
  layout.combiner = Combiner::None;
  for (dist::DimParts &parts : layout.dims)
    for (dist::Part &part : parts)
      part.reach.reset();
  layout.canonicalize(mesh);
  return layout;
}

void GradientPlaces::begin(FlatSymbolRefAttr name, StringAttr who) {
  mesh = name;
  by = who;
  layouts.clear();
}

LogicalResult GradientPlaces::follow(Operation *forward, ValueRange cotangents) {
  dist::PlaceAttr place = dist::getPlace(forward);
  begin(place.getMesh(), place.getBy());
  auto found = layoutsOf(forward);
  if (failed(found))
    return failure();
  for (auto [operand, layout] : llvm::zip_equal(forward->getOperands(), found->operands))
    hint(operand, layout);
  for (auto [result, cotangent, layout] : llvm::zip_equal(forward->getResults(), cotangents, found->results)) {
    hint(result, layout);
    if (cotangent)
      hint(cotangent, layout);
  }
  return success();
}

void GradientPlaces::hint(Value value, const Layout &layout) {
  layouts.try_emplace(value, plain(layout, shapeOf(mesh)));
}

const Layout *GradientPlaces::find(Value value) const {
  auto found = layouts.find(value);
  return found == layouts.end() ? nullptr : &found->second;
}

FailureOr<SmallVector<Value>> GradientPlaces::differentiate(Operation *op, const GradientRequest &request,
                                                            OpBuilder &builder, SmallVectorImpl<Operation *> &created) {
  if (failed(follow(op, request.cotangents)))
    return failure();
  std::vector<Layout> wanted;
  for (Value operand : op->getOperands())
    wanted.push_back(*find(operand));
  Block *block = builder.getInsertionBlock();
  Block::iterator end = builder.getInsertionPoint();
  Operation *before = end == block->begin() ? nullptr : &*std::prev(end);
  auto gradients = cast<DifferentiateInterface>(op).differentiate(builder, request);
  if (failed(gradients))
    return failure();
  SmallVector<Operation *> made;
  for (Block::iterator next = before ? std::next(before->getIterator()) : block->begin(); next != end; ++next)
    made.push_back(&*next);
  for (auto [value, layout] : llvm::zip_equal(*gradients, wanted))
    if (value)
      hint(value, layout);
  if (failed(place(made)))
    return failure();
  created.append(made);
  return gradients;
}

LogicalResult GradientPlaces::place(ArrayRef<Operation *> operators) {
  const dist::MeshShape &shape = shapeOf(mesh);
  for (Operation *op : operators) {
    if (op->hasTrait<OpTrait::ConstantLike>())
      continue;
    SmallVector<const Layout *> operands, results;
    for (Value operand : op->getOperands())
      operands.push_back(find(operand));
    for (Value result : op->getResults())
      results.push_back(find(result));
    dist::SplitAttr split = followLayouts(op, operands, results, shape);
    op->setAttr(dist::placeAttrName, dist::PlaceAttr::get(op->getContext(), mesh, by, split));
    auto found = findLayouts(op, shape);
    if (failed(found))
      return failure();
    for (auto [result, layout] : llvm::zip_equal(op->getResults(), found->results)) {
      layouts.erase(result);
      hint(result, layout);
    }
  }
  return success();
}

} // namespace cleave
