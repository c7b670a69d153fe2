// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the meshes and splits that a strategy chose on the operators.

#include "passes/planner/PlaceOperators.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "passes/cost/ModuleMachine.h"
#include "passes/cost/RoundedProducts.h"
#include "passes/planner/GraphSplits.h"
#include "passes/planner/MeshTable.h"
#include "passes/planner/Passes.h"
#include "passes/planner/PlaceByHand.h"
#include "passes/planner/PlaceByList.h"
#include "passes/planner/PlaceByPins.h"
#include "passes/planner/PlaceBySearch.h"
#include "passes/planner/SplitByHand.h"
#include "passes/planner/SplitByStrategy.h"
#include "passes/planner/search/SplitSearch.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/ErrorHandling.h"

#include <numeric>

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_PLACEOPERATORSPASS
#include "passes/planner/Passes.h.inc"

namespace {

/// A place in a file as a location; the module's where there is none.
Location locationOf(const FilePosition &position, ModuleOp module) {
  if (!position.line)
    return module.getLoc();
  return FileLineColLoc::get(module.getContext(), position.file, position.line, position.column);
}

/// Gives a mesh of all devices the machine's, and checks that the others' are.
LogicalResult fitToMachine(MeshSpec &mesh, const Machine &machine, const Twine &subject, Location location) {
  size_t numDevices = machine.devices.size();
  for (unsigned device : mesh.devices)
    if (device >= numDevices)
      return emitError(location) << subject << " expects a device below " << numDevices << " of machine \""
                                 << machine.name << "\", got " << device;
  if (!mesh.devices.empty())
    return success();
  mesh.devices.resize(numDevices);
  std::iota(mesh.devices.begin(), mesh.devices.end(), 0u);
  if (mesh.axes.empty()) {
    mesh.nameAxes();
    return success();
  }
  int64_t product = 1;
  for (const MeshAxis &axis : mesh.axes)
    product *= axis.size;
  if (product == static_cast<int64_t>(numDevices))
    return success();
  return emitError(location) << subject << " expects axes whose sizes multiply to the " << numDevices
                             << " devices of machine \"" << machine.name << "\", got " << product;
}

/// Degrees, what stages keep and how keys come are read by the search alone.
LogicalResult checkStages(const Placement &placement, const PlaceOptions &options, ModuleOp module) {
  if (!placement.keys.empty() && options.strategy != PlaceStrategy::Auto)
    return emitError(locationOf(placement.keys.front().pattern.position, module))
           << "\"keys\" of a placement file expect strategy auto; give --keys for others";
  for (const PlacementGroup &group : placement.groups) {
    auto refuse = [&](StringRef what, StringRef expected) {
      return emitError(locationOf(group.position, module))
             << "group \"" << group.name << "\" expects " << expected << " for its " << what;
    };
    if (group.mesh.axesAreDegrees && options.strategy != PlaceStrategy::Auto)
      return refuse("degrees", "strategy auto");
    if (group.mesh.keeping.any() && (options.strategy != PlaceStrategy::Auto || !options.search.training))
      return refuse("recompute and zero", "strategy auto and training");
  }
  return success();
}

LogicalResult fitToMachine(Placement &placement, const Machine &machine, ModuleOp module) {
  for (PlacementGroup &group : placement.groups)
    if (failed(fitToMachine(group.mesh, machine, "group \"" + group.name + "\"", locationOf(group.position, module))))
      return failure();
  if (placement.defaultMesh)
    return fitToMachine(*placement.defaultMesh, machine, "\"default\"", locationOf(placement.defaultPosition, module));
  return success();
}

/// Reports what of a placement had no effect. A group that neither the file nor the model defines is an error.
LogicalResult report(const PlacedByHand &placed, ModuleOp module) {
  for (const auto &[group, pattern, why] : placed.unusedPatterns)
    emitWarning(locationOf(pattern->position, module))
        << "pattern \"" << pattern->text << "\" of group \"" << group->name << "\" " << why;
  for (StringRef group : placed.unplacedGroups)
    emitWarning(module.getLoc()) << "the model's group \"" << group
                                 << "\" has no device: give it one in the placement's \"devices\"";
  for (const PlacementGroup *group : placed.unknownGroups)
    emitError(locationOf(group->position, module))
        << "group \"" << group->name
        << "\" expects patterns in \"groups\", or operators of the model with this ctx_group; found neither";
  return success(placed.unknownGroups.empty());
}

/// Places the operators of the graphs of one module.
class Placer {
public:
  Placer(ModuleOp module, const PlaceOptions &options, std::optional<PlanReport> *report, PlaceFailure *failure)
      : module(module), options(options), meshes(module), reportTo(report), failureTo(failure) {}

  LogicalResult run() {
    if (failed(chooseMeshes()))
      return failure();
    if (options.strategy == PlaceStrategy::Auto)
      for (auto graph : module.getOps<dfg::GraphOp>())
        if (failed(search(graph)))
          return failure();
    // A graph without operators gives its inputs and parameters out: some device has to.
    if (!meshes.get(firstDevice()))
      return failure();
    for (auto graph : module.getOps<dfg::GraphOp>())
      if (failed(place(graph)))
        return failure();
    nameStages();
    meshes.write();
    return success();
  }

private:
  ModuleOp module;
  const PlaceOptions &options;
  MeshTable meshes;
  /// What the strategy distributes nodes over, in turn.
  std::vector<MeshSpec> turns;
  std::optional<PlanReport> *reportTo;
  PlaceFailure *failureTo;
  /// What the search found for a graph.
  struct Found {
    search::SearchGraph graph;
    search::FoundPlan plan;
    /// Where it is faster than the plan.
    std::optional<ListPlacement> placement;
    std::vector<MeshSpec> meshes;
    /// By node: where somebody pinned it.
    std::vector<NodePlace> pins;
  };
  llvm::MapVector<Operation *, std::unique_ptr<Found>> found;

  /// Finds a plan for a graph, unless a placement file leaves nothing to the search but splits.
  LogicalResult search(dfg::GraphOp graph) {
    auto made = std::make_unique<Found>();
    search::SearchRequest request = options.search;
    if (options.decision) {
      auto read = readDecided(graph, *options.decision, request);
      if (!read)
        return refuse(llvm::toString(read.takeError()));
      made->graph = std::move(*read);
    } else if (options.placement) {
      FailureOr<bool> leaves = readPins(graph, *made, request);
      if (failed(leaves))
        return failure();
      if (!*leaves)
        return success();
    } else {
      made->graph = search::readGraph(graph, {}, search::mostBoundaries, options.machine.executor);
    }
    if (made->graph.operators.empty())
      return success();
    auto plan = search::findPlan(made->graph, options.machine, request);
    if (auto *problem = std::get_if<search::SearchFailure>(&plan)) {
      if (failureTo)
        *failureTo = problem->infeasible ? PlaceFailure::Infeasible : PlaceFailure::Usage;
      return emitError(module.getLoc(), problem->message);
    }
    made->plan = std::move(std::get<search::FoundPlan>(plan));
    placeOnSingleDevices(*made);
    made->meshes = made->placement ? singleDeviceMeshes(options.machine) : meshesOf(made->plan, request.pinned);
    if (reportTo)
      *reportTo = made->placement ? reportOf(made->graph, *made->placement, made->plan, request, options.machine)
                                  : reportOf(made->graph, made->plan, request, options.machine);
    found[graph] = std::move(made);
    return success();
  }

  /// Reports what makes no sense to ask for.
  LogicalResult refuse(const Twine &message) {
    if (failureTo)
      *failureTo = PlaceFailure::Usage;
    return emitError(module.getLoc(), message);
  }

  /// Makes what a placement file says constraints of the search. False where devices are not for the search to choose:
  /// what is pinned cannot be stages, or all of it is pinned and there is no more than splits to find.
  FailureOr<bool> readPins(dfg::GraphOp graph, Found &made, search::SearchRequest &request) {
    std::vector<ModelNode> nodes = collectModelNodes(graph);
    PlacedByHand placed = pinByHand(nodes, *options.placement);
    Pins pins = findPins(placed.places);
    bool onlySplits = !pins.leaveNodes() && !request.training;
    if (onlySplits && !request.degrees.any())
      return false;
    made.graph = search::readGraph(graph, pins.nodes, search::mostBoundaries, options.machine.executor);
    if (std::string why = whyNoStages(made.graph, pins); !why.empty() || onlySplits) {
      if (request.degrees.any())
        return refuse("--degrees with --place and --strategy auto expects a placement file whose pins are stages of a "
                      "pipeline and leave something to the search; " +
                      (onlySplits ? "everything is pinned" : why) + "; give no --degrees, or other pins");
      if (!request.training) {
        emitWarning(module.getLoc())
            << "what the placement file pins is no pipeline, so that the search chooses splits "
               "only and not devices: "
            << why;
        return false;
      }
      return refuse("--train with --strategy auto expects a placement file whose pins are stages of a pipeline; " +
                    why + "; give --strategy place, or other pins");
    }
    if (failed(report(placed, module)))
      return failure();
    // The mesh of what is free is not known: nothing can be cut by its axes, but factors can be kept whole.
    MeshSpec open = {"", {}, {{"", 2}}};
    made.pins = placed.places;
    for (NodePlace &place : placed.places)
      if (!place.mesh)
        place.mesh = &open;
    GraphSplits splits(graph, nodes, placed.places);
    auto diagnose = [&](const FilePosition &position, DiagnosticSeverity severity) {
      return emitAt(position, severity);
    };
    if (failed(splitByHand(splits, *options.placement, diagnose)))
      return failure();
    request.pinned = pins.meshes;
    request.fixed = fixedFactors(made.graph, splits);
    fixKeys(made.graph, request.fixed);
    return true;
  }

  /// Makes what the placement file says of keys a constraint of the search.
  void fixKeys(const search::SearchGraph &graph, search::FixedFactors &fixed) {
    for (const auto &[pattern, why] : cleave::fixKeys(graph, *options.placement, fixed))
      emitWarning(locationOf(pattern->position, module)) << "pattern \"" << pattern->text << "\" of \"keys\" " << why;
  }

  /// The places that the search found, with who decided them.
  std::vector<NodePlace> placesOf(const Found &known) const {
    if (known.placement)
      return cleave::placesOf(*known.placement, known.meshes);
    std::vector<NodePlace> places = placeBySearch(known.graph, known.plan, known.meshes);
    if (!known.pins.empty())
      for (auto [place, pin] : llvm::zip_equal(places, known.pins))
        if (pin.mesh && pin.mesh->devices == place.mesh->devices)
          place.by = pin.by;
    return places;
  }

  /// The report's stages by their meshes' names in the module.
  void nameStages() {
    for (auto &[graph, known] : found)
      if (reportTo && !known->placement)
        for (auto [name, mesh] : llvm::zip_equal((*reportTo)->stageMeshes, known->meshes))
          name = meshes.get(mesh).getValue().str();
  }

  /// Emits at a place in the placement file.
  InFlightDiagnostic emitAt(const FilePosition &position, DiagnosticSeverity severity) {
    return module.getContext()->getDiagEngine().emit(locationOf(position, module), severity);
  }

  /// Operators on single devices, their branches side by side, are one more candidate for inference.
  void placeOnSingleDevices(Found &made) {
    const search::SearchRequest &request = options.search;
    if (request.training || request.degrees.any() || request.leastCost || options.machine.devices.size() < 2 ||
        !made.pins.empty())
      return;
    ListPlacement placement = placeByList(made.graph, options.machine, request, made.plan.seconds);
    // The report's bound is one of both kinds of plans.
    made.plan.lowerBound = std::min(made.plan.lowerBound, placement.lowerBound);
    if (placement.isFeasible() && placement.seconds < made.plan.seconds)
      made.placement = std::move(placement);
    else
      made.plan.considered.push_back(considered(placement));
  }

  LogicalResult chooseMeshes() {
    switch (options.strategy) {
    case PlaceStrategy::Auto:
    case PlaceStrategy::Single:
    case PlaceStrategy::Place:
      turns = {firstDevice()};
      return success();
    case PlaceStrategy::Alternate:
      for (unsigned device = 0; device < options.machine.devices.size(); ++device)
        turns.push_back(MeshSpec::ofDevice(device));
      return success();
    case PlaceStrategy::Split:
      return fitToMachine(turns.emplace_back(), options.machine, "strategy split", module.getLoc());
    case PlaceStrategy::Data:
    case PlaceStrategy::Tensor: {
      auto mesh = meshOfDegrees(options.degrees, axisOf(options.strategy), options.machine);
      if (!mesh)
        return module.emitError(llvm::toString(mesh.takeError()));
      turns = {std::move(*mesh)};
      return success();
    }
    }
    llvm_unreachable("strategies are listed above");
  }

  FailureOr<std::vector<NodePlace>> choosePlaces(dfg::GraphOp graph, ArrayRef<ModelNode> nodes) {
    auto known = found.find(graph);
    if (options.placement && known == found.end()) {
      PlacedByHand placed = placeByHand(nodes, *options.placement);
      if (failed(report(placed, module)))
        return failure();
      return std::move(placed.places);
    }
    if (options.strategy == PlaceStrategy::Auto && !nodes.empty())
      return placesOf(*known->second);
    std::vector<NodePlace> places;
    for (size_t index = 0; index < nodes.size(); ++index)
      places.push_back({&turns[index % turns.size()], ("strategy " + strategyName(options.strategy)).str()});
    return places;
  }

  LogicalResult split(GraphSplits &splits, dfg::GraphOp graph) {
    auto known = found.find(graph);
    // What has no effect was told before the search.
    auto diagnose = [&](const FilePosition &position, DiagnosticSeverity severity) {
      bool isTold = known != found.end() && severity == DiagnosticSeverity::Warning;
      return isTold ? InFlightDiagnostic() : emitAt(position, severity);
    };
    if (options.placement && failed(splitByHand(splits, *options.placement, diagnose)))
      return failure();
    if (options.strategy == PlaceStrategy::Data || options.strategy == PlaceStrategy::Tensor) {
      if (turns.front().sizeOf(dataAxis))
        for (BlockArgument input : splitBatch(splits, graph, dataAxis))
          emitWarning(module.getLoc()) << "input \"" << graph.getInputName(input.getArgNumber())
                                       << "\" has a batch of one sample, which strategy data cannot divide";
      if (turns.front().sizeOf(modelAxis))
        splitLayers(splits, modelAxis);
    }
    if (options.strategy == PlaceStrategy::Split) {
      splitEverything(splits);
      return success();
    }
    if (options.strategy == PlaceStrategy::Auto && options.placement && known == found.end())
      return splitRest(splits, graph);
    if (known != found.end()) {
      if (!known->second->placement) {
        splitBySearch(splits, known->second->graph, known->second->plan);
        markRecomputed(known->second->graph, known->second->plan);
        markKeys(known->second->graph, known->second->plan);
      }
      return success();
    }
    splits.propagate();
    return success();
  }

  /// Splits what nobody fixed as is best.
  LogicalResult splitRest(GraphSplits &splits, dfg::GraphOp graph) {
    search::SearchGraph read = search::readGraph(graph);
    std::vector<const MeshSpec *> meshes;
    for (const search::Operator &op : read.operators)
      meshes.push_back(splits.find(op.op)->mesh);
    search::FixedFactors fixed = fixedFactors(read, splits);
    fixKeys(read, fixed);
    auto best = search::findSplits(read, options.machine, meshes, fixed, options.search.keys, options.search.solver);
    if (!best) {
      if (failureTo)
        *failureTo = PlaceFailure::Infeasible;
      return emitError(module.getLoc(),
                       "no splits satisfy the placement file within the devices' memory; free some of its "
                       "\"splits\", or take more devices");
    }
    const SplitDecision *decision = splits.decide("planner");
    markKeys(read, best->splits, best->keys);
    for (auto [op, factors] : llvm::zip_equal(read.operators, best->splits)) {
      OperatorSplit &split = *splits.find(op.op);
      for (unsigned axis = 0; axis != split.mesh->axes.size(); ++axis)
        if (factors[axis] != search::none && !split.uses(split.mesh->axes[axis].name))
          splits.cut(split, factors[axis], split.mesh->axes[axis].name, decision);
    }
    return success();
  }

  LogicalResult place(dfg::GraphOp graph) {
    std::vector<ModelNode> nodes = collectModelNodes(graph);
    auto places = choosePlaces(graph, nodes);
    if (failed(places))
      return failure();
    GraphSplits splits(graph, nodes, *places);
    if (failed(split(splits, graph)))
      return failure();
    Builder builder(module.getContext());
    for (const OperatorSplit &split : splits.getOperators()) {
      FlatSymbolRefAttr mesh = meshes.get(*split.mesh);
      if (!mesh)
        return failure();
      split.op->setAttr(dist::placeAttrName,
                        dist::PlaceAttr::get(module.getContext(), mesh, builder.getStringAttr(splits.decidersOf(split)),
                                             splitAttribute(split, builder)));
    }
    return success();
  }

  /// Null where the operator is whole.
  static dist::SplitAttr splitAttribute(const OperatorSplit &split, Builder &builder) {
    SmallVector<NamedAttribute> factors;
    for (auto [factor, axes] : llvm::zip_equal(split.rule.factors, split.axes))
      if (!axes.empty())
        factors.push_back(builder.getNamedAttr(factor.name, builder.getStrArrayAttr(axes)));
    return factors.empty() ? dist::SplitAttr()
                           : dist::SplitAttr::get(builder.getContext(), builder.getDictionaryAttr(factors));
  }
};

constexpr std::pair<PlaceStrategy, StringLiteral> strategyNames[] = {
    {PlaceStrategy::Single, "single"}, {PlaceStrategy::Place, "place"},         {PlaceStrategy::Data, "data"},
    {PlaceStrategy::Tensor, "tensor"}, {PlaceStrategy::Alternate, "alternate"}, {PlaceStrategy::Split, "split"},
    {PlaceStrategy::Auto, "auto"}};

} // namespace

StringRef strategyName(PlaceStrategy strategy) {
  return llvm::find_if(strategyNames, [&](auto &entry) { return entry.first == strategy; })->second;
}

StringRef axisOf(PlaceStrategy strategy) { return strategy == PlaceStrategy::Data ? dataAxis : modelAxis; }

std::optional<PlaceStrategy> findStrategy(StringRef name) {
  auto found = llvm::find_if(strategyNames, [&](auto &entry) { return entry.second == name; });
  return found == std::end(strategyNames) ? std::nullopt : std::optional(found->first);
}

LogicalResult placeOperators(ModuleOp module, PlaceOptions options, std::optional<PlanReport> *report,
                             PlaceFailure *failureTo) {
  bool byHand = options.strategy == PlaceStrategy::Place;
  bool byDegrees = options.strategy == PlaceStrategy::Data || options.strategy == PlaceStrategy::Tensor;
  if (options.machine.devices.empty())
    return module.emitError("expects a machine with at least one device, got none");
  if (byHand && !options.placement)
    return module.emitError("strategy place expects a placement file, got none");
  if (options.placement && !byHand && options.strategy != PlaceStrategy::Auto)
    return module.emitError("a placement file expects strategy place or auto, got another strategy");
  if (!byDegrees && (options.degrees.data || options.degrees.model))
    return module.emitError("degrees expect strategy data or tensor, got " + strategyName(options.strategy));
  if (options.placement && failed(checkStages(*options.placement, options, module)))
    return failure();
  if (options.placement && failed(fitToMachine(*options.placement, options.machine, module)))
    return failure();
  Machine given = options.machine;
  options.machine = costedMachine(std::move(options.machine), options.roundsProducts);
  for (auto &[name, kind] : options.machine.kinds) {
    kind.fusesAttention &= options.fusesAttention;
    if (!options.winograd)
      std::erase_if(kind.efficiency, [](const auto &curve) { return StringRef(curve.first).starts_with("winograd"); });
  }
  if (failed(Placer(module, options, report, failureTo).run()))
    return failure();
  setMachine(module, given);
  return success();
}

namespace {

class PlaceOperators : public impl::PlaceOperatorsPassBase<PlaceOperators> {
public:
  using PlaceOperatorsPassBase::PlaceOperatorsPassBase;

private:
  void runOnOperation() override {
    PlaceOptions options;
    options.strategy = strategy;
    if (failed(take(parseMachine(machine), options.machine)))
      return signalPassFailure();
    if (!placement.empty() && failed(take(readPlacementFile(placement), options.placement)))
      return signalPassFailure();
    if (failed(take(parseDegrees(degrees), options.degrees)))
      return signalPassFailure();
    if (failed(placeOperators(getOperation(), options)))
      signalPassFailure();
  }

  /// Moves a value out, or reports why there is none.
  template <typename Value, typename Target> LogicalResult take(llvm::Expected<Value> value, Target &target) {
    if (value) {
      target = std::move(*value);
      return success();
    }
    llvm::handleAllErrors(
        value.takeError(),
        [&](const FileError &error) {
          const FilePosition &position = error.getPosition();
          InFlightDiagnostic diagnostic = emitError(locationOf(position, getOperation()));
          if (!position.line && !position.file.empty())
            diagnostic << position.file << ": ";
          diagnostic << error.getMessage();
        },
        [&](const llvm::ErrorInfoBase &error) { getOperation().emitError(error.message()); });
    return failure();
  }
};

} // namespace
} // namespace cleave
