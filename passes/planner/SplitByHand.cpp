// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From patterns and words to cuts of factors.

#include "passes/planner/SplitByHand.h"

#include "dialects/interfaces/Interfaces.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {
namespace {

/// The word for a factor in messages: "n (out_channel) of 4096".
std::string describe(const Factor &factor) {
  return factor.name + (factor.alias.empty() ? "" : " (" + factor.alias + ")") + " of " + std::to_string(factor.size);
}

/// "n (out_channel) of 4096, k (in_channel) of 9216"
std::string describeFactors(const SplitRule &rule) {
  if (rule.factors.empty())
    return "no factors";
  return llvm::join(llvm::map_range(rule.factors, describe), ", ");
}

/// "axes data of 2, model of 4 of mesh \"grid\"", or that there is no mesh.
std::string describeAxes(const MeshSpec &mesh) {
  if (mesh.devices.empty())
    return "devices that the search chooses: give it a group, or the file a \"default\"";
  if (mesh.axes.empty())
    return "device " + std::to_string(mesh.devices.front()) + " by itself, which has no axes";
  return llvm::join(llvm::map_range(
                        mesh.axes,
                        [](const MeshAxis &axis) { return "\"" + axis.name + "\" of " + std::to_string(axis.size); }),
                    ", ") +
         " of mesh \"" + mesh.name + "\"";
}

class HandSplitter {
public:
  HandSplitter(GraphSplits &splits, const Placement &placement, FileDiagnostic diagnose)
      : splits(splits), placement(placement), diagnose(diagnose) {}

  LogicalResult run() {
    findNodes();
    for (auto [pattern, nodes] : llvm::zip_equal(placement.splits, nodesOf))
      if (failed(apply(pattern, nodes)))
        return failure();
    return success();
  }

private:
  GraphSplits &splits;
  const Placement &placement;
  FileDiagnostic diagnose;
  /// By pattern: the nodes that it decides about.
  std::vector<SmallVector<unsigned>> nodesOf;

  void findNodes() {
    SmallVector<const NamePattern *> patterns =
        llvm::map_to_vector(placement.splits, [](const SplitPattern &split) { return &split.pattern; });
    SmallVector<StringRef> names =
        llvm::map_to_vector(splits.getNodes(), [](const ModelNode &node) { return StringRef(node.name); });
    PatternMatches matches = matchPatterns(patterns, names);
    nodesOf.resize(patterns.size());
    for (auto [node, pattern] : llvm::enumerate(matches.patternOf))
      if (pattern)
        nodesOf[*pattern].push_back(node);
    for (const UnusedPattern &unused : matches.unused) {
      const NamePattern &pattern = *patterns[unused.pattern];
      diagnose(pattern.position, DiagnosticSeverity::Warning)
          << "pattern \"" << pattern.text << "\" of \"splits\" " << unused.why("operator of the model", patterns);
    }
  }

  LogicalResult apply(const SplitPattern &pattern, ArrayRef<unsigned> nodes) {
    for (unsigned node : nodes)
      if (pattern.factors.empty())
        for (Operation *op : splits.getNodes()[node].operators)
          splits.find(op)->closed = true;
    for (const FactorSplit &factor : pattern.factors)
      if (failed(apply(pattern, factor, nodes)))
        return failure();
    return success();
  }

  LogicalResult apply(const SplitPattern &pattern, const FactorSplit &factor, ArrayRef<unsigned> nodes) {
    bool found = nodes.empty();
    for (unsigned node : nodes) {
      const SplitDecision *decision = splits.decide("splits " + pattern.pattern.text, node);
      for (OperatorSplit *split : operatorsWith(splits.getNodes()[node], factor.factor)) {
        found = true;
        if (failed(cut(pattern, factor, *split, decision)))
          return failure();
      }
    }
    return found ? success() : reportUnknownFactor(pattern, factor, splits.getNodes()[nodes.front()]);
  }

  /// The main operator of a node if it has the factor, else all that have it.
  SmallVector<OperatorSplit *> operatorsWith(const ModelNode &node, StringRef word) {
    // On a device by itself rules are not asked for: what is there cannot be split, and says so.
    auto has = [&](Operation *op) {
      auto rule = dyn_cast<SplitInterface>(op);
      return rule && rule.getSplitRule().findWord(word);
    };
    Operation *main = mainOperator(node);
    if (has(main))
      return {splits.find(main)};
    SmallVector<OperatorSplit *> found;
    for (Operation *op : node.operators)
      if (has(op))
        found.push_back(splits.find(op));
    return found;
  }

  LogicalResult cut(const SplitPattern &pattern, const FactorSplit &request, OperatorSplit &split,
                    const SplitDecision *decision) {
    StringRef node = nodeName(splits.getNodes()[split.node]);
    auto error = [&]() -> InFlightDiagnostic {
      return diagnose(request.position, DiagnosticSeverity::Error) << "split \"" << pattern.pattern.text << "\" ";
    };
    for (const std::string &axis : request.axes)
      if (!split.mesh->sizeOf(axis))
        return error() << "expects an axis of node \"" << node << "\", got \"" << axis << "\"; it is on "
                       << describeAxes(*split.mesh);
    if (request.axes.empty() && split.rule.factors.empty())
      return success();
    unsigned index = *split.rule.findWord(request.factor);
    const Factor &factor = split.rule.factors[index];
    if (factor.kind == FactorKind::Unsplittable && !request.axes.empty())
      return error() << "expects a factor that can be divided, got " << describe(factor) << " of node \"" << node
                     << "\", of which every device needs the whole";
    for (const std::string &axis : request.axes) {
      if (auto other = split.factorCutBy(axis))
        return error() << "expects every axis on one factor of an operator, got \"" << axis << "\" for "
                       << describe(split.rule.factors[*other]) << " and again for " << describe(factor) << " of node \""
                       << node << "\"";
      splits.cut(split, index, *axisName(split, axis), decision);
    }
    split.fixed[index] = true;
    return success();
  }

  /// The axis in the mesh's own text, which outlives the request's.
  static const std::string *axisName(const OperatorSplit &split, StringRef name) {
    return &llvm::find_if(split.mesh->axes, [&](const MeshAxis &axis) { return axis.name == name; })->name;
  }

  LogicalResult reportUnknownFactor(const SplitPattern &pattern, const FactorSplit &request, const ModelNode &node) {
    Operation *main = mainOperator(node);
    auto splittable = dyn_cast<SplitInterface>(main);
    InFlightDiagnostic diagnostic = diagnose(request.position, DiagnosticSeverity::Error);
    diagnostic << "split \"" << pattern.pattern.text << "\" expects a factor of its operators, got \"" << request.factor
               << "\"; node \"" << nodeName(node) << "\" has "
               << describeFactors(splittable ? splittable.getSplitRule() : SplitRule());
    return diagnostic;
  }
};

} // namespace

LogicalResult splitByHand(GraphSplits &splits, const Placement &placement, FileDiagnostic diagnose) {
  return HandSplitter(splits, placement, diagnose).run();
}

} // namespace cleave
