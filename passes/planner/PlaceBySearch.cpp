// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a found plan to places, splits and a report.

#include "passes/planner/PlaceBySearch.h"

#include "dialects/dist/Dist.h"

#include <cmath>

using namespace mlir;

namespace cleave {

std::vector<MeshSpec> meshesOf(const search::FoundPlan &plan, ArrayRef<MeshSpec> pinned) {
  std::vector<MeshSpec> meshes;
  for (auto [index, stage] : llvm::enumerate(plan.stages)) {
    if (stage.pin != search::none)
      meshes.push_back(pinned[stage.pin]);
    else if (stage.devices.size() == 1)
      meshes.push_back(MeshSpec::ofDevice(stage.devices.front()));
    else
      meshes.push_back({"stage" + std::to_string(index), stage.devices, stage.axes});
  }
  return meshes;
}

/// By operator: its stage; of what runs once, that of the first that reads it in steps.
static std::vector<unsigned> stagesOf(const search::SearchGraph &graph, const search::FoundPlan &plan) {
  std::vector<unsigned> stages(graph.operators.size(), 0);
  for (auto [index, stage] : llvm::enumerate(plan.stages))
    for (unsigned position = stage.first; position != stage.last; ++position)
      stages[plan.operatorAt(position)] = index;
  for (unsigned index = 0; index != stages.size(); ++index)
    stages[index] = stages[graph.placedWith(index)];
  return stages;
}

std::vector<NodePlace> placeBySearch(const search::SearchGraph &graph, const search::FoundPlan &plan,
                                     ArrayRef<MeshSpec> meshes) {
  std::vector<NodePlace> places(graph.nodes.size(), {&meshes.front(), "planner"});
  std::vector<unsigned> stages = stagesOf(graph, plan);
  // What a node computes in steps decides where it is, not what it prepares for them.
  for (bool once : {true, false})
    for (auto [index, op] : llvm::enumerate(graph.operators))
      if (op.once == once)
        places[op.node].mesh = &meshes[stages[index]];
  return places;
}

void splitBySearch(GraphSplits &splits, const search::SearchGraph &graph, const search::FoundPlan &plan) {
  // By who decided where an operator is: the planner, or whose pin it splits.
  llvm::StringMap<const SplitDecision *> decisions;
  auto decisionOf = [&](const OperatorSplit &split) {
    auto [entry, isNew] = decisions.try_emplace(splits.placedBy(split));
    if (isNew)
      entry->second = splits.decide(entry->first() == "planner" ? "planner" : entry->first().str() + "; planner");
    return entry->second;
  };
  for (const search::FoundStage &stage : plan.stages)
    for (unsigned index = stage.first; index != stage.last; ++index) {
      OperatorSplit &split = *splits.find(graph.operators[plan.operatorAt(index)].op);
      for (unsigned axis = 0; axis != split.mesh->axes.size(); ++axis)
        if (unsigned factor = stage.factors[index - stage.first][axis];
            factor != search::none && !split.rule.factors.empty() && !split.uses(split.mesh->axes[axis].name))
          splits.cut(split, factor, split.mesh->axes[axis].name, decisionOf(split));
    }
}

void markRecomputed(const search::SearchGraph &graph, const search::FoundPlan &plan) {
  for (const search::FoundStage &stage : plan.stages) {
    if (llvm::all_of(stage.recompute, [](search::Recompute own) { return own == search::Recompute::None; }))
      continue;
    unsigned position = stage.first;
    for (auto [number, segment] : llvm::enumerate(llvm::zip_equal(stage.segmentEnds, stage.recompute)))
      for (auto [end, recompute] = segment; position != end; ++position) {
        Operation *op = graph.operators[plan.operatorAt(position)].op;
        auto what = StringAttr::get(op->getContext(), recomputeName(recompute));
        op->setAttr(dist::recomputeAttrName, dist::RecomputeAttr::get(op->getContext(), number, what));
      }
  }
}

/// Whether every axis that cuts the queries of an attention also cuts its keys where they are made.
static bool keysAreCut(const search::SearchGraph &graph, const search::AttentionRow &row,
                       const search::SplitsOfGraph &splits) {
  const search::Operator &product = graph.operators[row.scores()];
  const search::Tensor &keys = graph.tensors[product.operands[1].tensor];
  if (keys.producer == search::none)
    return false;
  const TensorFactors &scores = product.rule.results.front();
  const TensorFactors &operand = product.rule.operands[1];
  unsigned keyFactor = scores[product.scores->keysDim].front();
  size_t dim = llvm::find_if(operand, [&](const DimFactors &own) { return llvm::is_contained(own, keyFactor); }) -
               operand.begin();
  const DimFactors &made = graph.operators[keys.producer].rule.results[keys.result][dim];
  return llvm::all_of(llvm::zip(splits[row.scores()], splits[keys.producer]), [&](auto pair) {
    auto [ofScores, ofKeys] = pair;
    bool isOfQueries = ofScores != search::none && llvm::is_contained(scores[product.scores->queriesDim()], ofScores);
    return !isOfQueries || (ofKeys != search::none && llvm::is_contained(made, ofKeys));
  });
}

void markKeys(const search::SearchGraph &graph, const search::FoundPlan &plan) {
  search::SplitsOfGraph splits(graph.operators.size());
  for (auto &factors : splits)
    factors.fill(search::none);
  search::KeysOfGraph decisions(graph.operators.size());
  for (const search::FoundStage &stage : plan.stages)
    for (unsigned position = stage.first; position != stage.last; ++position) {
      splits[plan.operatorAt(position)] = stage.factors[position - stage.first];
      if (!stage.keys.empty())
        decisions[plan.operatorAt(position)] = stage.keys[position - stage.first];
    }
  markKeys(graph, splits, decisions);
}

void markKeys(const search::SearchGraph &graph, const search::SplitsOfGraph &splits,
              const search::KeysOfGraph &decisions) {
  for (const search::AttentionRow &row : graph.attentions) {
    const auto &decision = decisions[row.scores()];
    if (!decision || !keysAreCut(graph, row, splits))
      continue;
    dist::setKeyExchange(graph.operators[row.softmax].op, *decision);
  }
}

/// "batch/data 2, out_channel/model 4"; "whole" where nothing is cut.
static std::string splitText(const SplitRule &rule, ArrayRef<unsigned> factors, ArrayRef<MeshAxis> axes) {
  std::string text;
  for (auto [axis, factor] : llvm::zip(axes, factors)) {
    if (factor == search::none)
      continue;
    const Factor &known = rule.factors[factor];
    text += (text.empty() ? "" : ", ") + (known.alias.empty() ? known.name : known.alias) + "/" + axis.name + " " +
            std::to_string(axis.size);
  }
  return text.empty() ? "whole" : text;
}

PlanReport reportOf(const search::SearchGraph &graph, const search::FoundPlan &plan,
                    const search::SearchRequest &request, const Machine &machine) {
  PlanReport report;
  runtime::Prediction &to = report.prediction;
  to.machine = machine.name;
  to.training = request.training;
  to.stepSeconds = plan.seconds;
  to.lowerBoundSeconds = plan.lowerBound;
  to.modelFlops = plan.modelFlops;
  to.microbatches = static_cast<uint32_t>(plan.microbatches);
  if (plan.stages.size() > 1 && request.training)
    to.schedule = plan.schedule->name;
  to.chunks = plan.chunks;
  to.memoryLimit = plan.memoryLimit;
  to.peakBytes = plan.deviceBytes();
  to.peakBytes.resize(machine.devices.size(), 0.0);
  std::map<std::string, uint32_t> degrees;
  for (const search::FoundStage &stage : plan.stages)
    for (const MeshAxis &axis : stage.axes)
      degrees[axis.name] = std::max(degrees[axis.name], static_cast<uint32_t>(axis.size));
  for (auto &[name, ways] : degrees)
    to.degrees.push_back({name, ways});
  if (plan.stages.size() > 1)
    to.degrees.push_back({pipelineDegree.str(), static_cast<uint32_t>(plan.stages.size())});
  std::vector<MeshSpec> meshes = meshesOf(plan, request.pinned);
  for (auto [stage, mesh] : llvm::zip_equal(plan.stages, meshes)) {
    runtime::PlanStage &made = to.stages.emplace_back();
    made.forward = stage.forward;
    made.backwardWeight = stage.backwardWeights;
    made.backwardInput = stage.backward - stage.backwardWeights;
    made.send = stage.send;
    made.perStep = stage.perStep;
    made.inFlight = static_cast<uint32_t>(std::lround(stage.inFlight * plan.chunks));
    made.memory = {stage.parameters,  stage.gradients, stage.optimizer,
                   stage.activations, stage.transient, stage.inHost};
    made.recompute = recomputeText(stage.recompute);
    made.zero = stage.zero;
    made.optimizerInHost = stage.optimizerInHost;
    report.stageMeshes.push_back(mesh.name);
  }
  for (const search::Considered &other : plan.considered)
    to.alternatives.push_back({other.name, other.seconds, other.bytes, other.whyNot});
  double microbatches = static_cast<double>(plan.microbatches);
  std::vector<unsigned> stages = stagesOf(graph, plan);
  for (const search::FoundStage &stage : plan.stages)
    for (unsigned index = stage.first; index != stage.last; ++index) {
      const search::Operator &op = graph.operators[plan.operatorAt(index)];
      const search::OperatorExpectation &expected = stage.operators[index - stage.first];
      OperatorReport &made = report.operators[graph.nodes[op.node].name];
      made.stage = stages[plan.operatorAt(index)];
      made.seconds = std::max(made.seconds, 0.0) + expected.seconds * microbatches;
      made.communicationSeconds = std::max(made.communicationSeconds, 0.0) + expected.exchange * microbatches;
      // The operator that speaks for the node is the one with most work.
      if (!expected.alternative || mainOperator(graph.nodes[op.node]) != op.op)
        continue;
      made.alternative = splitText(op.rule, *expected.alternative, stage.axes);
      made.alternativeSeconds = expected.alternativeSeconds;
    }
  return report;
}

} // namespace cleave
