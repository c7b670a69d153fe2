// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Homes from first users, and the pass that writes them on a forward graph.

#include "passes/train/ParameterHomes.h"
#include "passes/train/Passes.h"

#include "llvm/Support/Error.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_PLACEHOMESPASS
#include "passes/train/Passes.h.inc"

using dist::Layout;

/// The first operator's use in the order of the graph; null where nothing but the graph's result uses the value.
static OpOperand *firstUse(dfg::ReadOp read) {
  OpOperand *first = nullptr;
  for (OpOperand &use : read->getUses())
    if (!isa<dfg::ReturnOp>(use.getOwner()) && (!first || use.getOwner()->isBeforeInBlock(first->getOwner())))
      first = &use;
  return first;
}

FailureOr<ParameterHome> findHome(dfg::ReadOp read, bool isTrained, const TrainingOptions &options,
                                  GradientPlaces &places) {
  OpOperand *first = firstUse(read);
  if (!first)
    return read.emitOpError("is given out as it is: training expects parameters to be used");
  Operation *user = first->getOwner();
  if (failed(places.follow(user, SmallVector<Value>(user->getNumResults()))))
    return failure();
  ParameterHome home;
  home.mesh = dist::getPlace(user).getMesh();
  home.used = *places.find(first->get());
  unsigned zero = isTrained ? options.of(home.mesh).zero : 0;
  Layout shared = shareReplicas(home.used, places.shapeOf(home.mesh));
  home.kept = zero >= 3 ? shared : home.used;
  home.updated = zero >= 1 ? shared : home.used;
  return home;
}

bool isTrained(dfg::ReadOp read, const SymbolTable &symbols) {
  auto parameter = symbols.lookup<dfg::ParameterOp>(read.getParameter());
  return !parameter.getState() && isa<FloatType>(cast<ShapedType>(read.getType()).getElementType());
}

namespace {

/// Places what a forward graph reads.
class HomePlacer {
public:
  HomePlacer(dfg::GraphOp forward, const TrainingOptions &options)
      : module(forward->getParentOfType<ModuleOp>()), options(options), places(module), symbols(module) {}

  LogicalResult place(dfg::ReadOp read) {
    // One that is given out alone has no home.
    if (!firstUse(read) || !seen.insert(read.getParameterAttr()).second)
      return success();
    bool trained = isTrained(read, symbols);
    auto home = findHome(read, trained, options, places);
    if (failed(home))
      return failure();
    if (failed(placeAt(read, home->kept, *home, "home")))
      return failure();
    if (!trained)
      return success();
    auto parameter = symbols.lookup<dfg::ParameterOp>(read.getParameter());
    OpBuilder declarations(parameter->getContext()), reads(read);
    declarations.setInsertionPointAfter(parameter);
    reads.setInsertionPointAfter(read);
    for (const StateSpec &spec : stateOf(options.optimizer)) {
      std::string name = (read.getParameter() + "/" + spec.suffix).str();
      Location location = dfg::getNodeLocation(module.getContext(), name, "State");
      auto type = cast<RankedTensorType>(read.getType());
      auto initial = dfg::FillAttr::get(module.getContext(), declarations.getF64FloatAttr(spec.initial));
      dfg::ParameterOp::create(declarations, location, name, type, initial, /*state=*/true);
      auto state = dfg::ReadOp::create(reads, location, type, FlatSymbolRefAttr::get(module.getContext(), name));
      if (failed(placeAt(state, home->updated, *home, "optimizer")))
        return failure();
    }
    return success();
  }

private:
  LogicalResult placeAt(dfg::ReadOp read, const Layout &layout, const ParameterHome &home, StringRef by) {
    auto mesh = symbols.lookup<dist::MeshOp>(home.mesh.getValue());
    // What unequal shares cut has no equal parts, of which layouts are.
    if (StringAttr axis = mesh.getShares().first; axis && layout.uses(axis))
      return success();
    places.begin(home.mesh, StringAttr::get(module.getContext(), by));
    places.hint(read, layout);
    return places.place(read.getOperation());
  }

  ModuleOp module;
  const TrainingOptions &options;
  GradientPlaces places;
  SymbolTable symbols;
  llvm::DenseSet<Attribute> seen;
};

} // namespace

LogicalResult placeHomes(dfg::GraphOp forward, const TrainingOptions &options) {
  HomePlacer placer(forward, options);
  for (dfg::ReadOp read : llvm::to_vector(forward.getBody().front().getOps<dfg::ReadOp>()))
    if (failed(placer.place(read)))
      return failure();
  return success();
}

namespace {

class PlaceHomes : public impl::PlaceHomesPassBase<PlaceHomes> {
public:
  using PlaceHomesPassBase::PlaceHomesPassBase;

private:
  void runOnOperation() override {
    auto known = parseOptimizer(optimizer, "");
    if (!known) {
      getOperation().emitError(llvm::toString(known.takeError()));
      return signalPassFailure();
    }
    TrainingOptions options;
    options.optimizer = *known;
    options.zero = zero;
    for (dfg::GraphOp graph : getOperation().getOps<dfg::GraphOp>())
      if (failed(placeHomes(graph, options)))
        return signalPassFailure();
  }
};

} // namespace
} // namespace cleave
