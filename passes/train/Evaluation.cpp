// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Places by node, kind and number.

#include "passes/train/Evaluation.h"

#include "dialects/dist/KeyExchange.h"
#include "passes/planner/ModelNode.h"
#include "passes/train/GradientPlaces.h"

#include <map>

using namespace mlir;

namespace cleave {

namespace {

/// The n-th operator of a kind in a node of the model.
struct Position {
  StringRef node, kind;
  unsigned number;
  bool operator<(const Position &other) const {
    return std::tie(node, kind, number) < std::tie(other.node, other.kind, other.number);
  }
};

class Positions {
public:
  Position next(Operation *op) {
    Position position{dfg::getNodeName(op->getLoc()), op->getName().getStringRef(), 0};
    position.number = counts[{position.node, position.kind}]++;
    return position;
  }

private:
  std::map<std::pair<StringRef, StringRef>, unsigned> counts;
};

} // namespace

/// Whether `op` may stand where `known` does, cut as that is: the same operator, perhaps on tensors of other sizes.
static bool fits(Operation *op, Operation *known) {
  if (known->getOperandTypes() == op->getOperandTypes() && known->getResultTypes() == op->getResultTypes())
    return true;
  auto rankOf = [](Type type) { return cast<RankedTensorType>(type).getRank(); };
  if (!llvm::equal(llvm::map_range(known->getOperandTypes(), rankOf), llvm::map_range(op->getOperandTypes(), rankOf)) ||
      !llvm::equal(llvm::map_range(known->getResultTypes(), rankOf), llvm::map_range(op->getResultTypes(), rankOf)))
    return false;
  dist::SplitAttr split = dist::getPlace(known).getSplit();
  auto splittable = dyn_cast<SplitInterface>(op);
  if (!split)
    return true;
  if (!splittable)
    return false;
  SplitRule rule = splittable.getSplitRule();
  return llvm::all_of(split.getFactors(), [&](NamedAttribute factor) {
    auto found = rule.find(factor.getName());
    return found && rule.factors[*found].kind != FactorKind::Unsplittable &&
           rule.factors[*found].kind != FactorKind::Stepwise;
  });
}

LogicalResult placeLike(dfg::GraphOp graph, dfg::GraphOp placed) {
  std::map<Position, Operation *> known;
  llvm::StringMap<dist::PlaceAttr> byNode;
  Positions positions;
  for (Operation &op : placed.getBody().front().without_terminator())
    if (dist::PlaceAttr place = dist::getPlace(&op)) {
      known[positions.next(&op)] = &op;
      byNode.try_emplace(dfg::getNodeName(op.getLoc()), place);
    }
  GradientPlaces places(graph->getParentOfType<ModuleOp>());
  Positions own;
  for (Operation &op : graph.getBody().front().without_terminator()) {
    if (followsItsUsers(&op))
      continue;
    auto same = known.find(own.next(&op));
    if (same != known.end() && fits(&op, same->second)) {
      op.setAttr(dist::placeAttrName, dist::getPlace(same->second));
      if (auto keys = dist::getKeyExchange(same->second))
        dist::setKeyExchange(&op, *keys);
      continue;
    }
    dist::PlaceAttr place = byNode.lookup(dfg::getNodeName(op.getLoc()));
    SmallVector<Operation *> producers;
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && dist::getPlace(producer)) {
        producers.push_back(producer);
        place = place ? place : dist::getPlace(producer);
      }
    if (!place)
      return op.emitError("expects the operator's node, or what it reads, in the graph that is placed");
    places.begin(place.getMesh(), place.getBy());
    for (Operation *producer : producers) {
      if (dist::getPlace(producer).getMesh() != place.getMesh())
        continue;
      auto layouts = places.layoutsOf(producer);
      if (failed(layouts))
        return failure();
      for (auto [result, layout] : llvm::zip_equal(producer->getResults(), layouts->results))
        places.hint(result, layout);
    }
    if (failed(places.place(&op)))
      return failure();
  }
  return success();
}

void shareParameters(dfg::GraphOp evaluation, dfg::GraphOp step) {
  llvm::DenseMap<Attribute, Attribute> homes;
  for (auto read : step.getBody().front().getOps<dfg::ReadOp>())
    if (dist::PlaceAttr place = dist::getPlace(read))
      homes[read.getParameterAttr()] = place;
  for (auto read : evaluation.getBody().front().getOps<dfg::ReadOp>())
    if (Attribute home = homes.lookup(read.getParameterAttr()))
      read->setAttr(dist::placeAttrName, home);
}

} // namespace cleave
