// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan has what was decided, and its settings what it was decided about; the model has the work.

#include "tools/cleave/DecisionCost.h"
#include "tools/cleave/Diagnostics.h"

#include "compiler/PlanMachine.h"
#include "compiler/PlanSettings.h"

#include "llvm/ADT/STLExtras.h"

namespace cleave::tool {

static Expected<Decision> decisionOf(const runtime::Plan &plan, const runtime::Entry &entry) {
  const runtime::Prediction &prediction = *entry.prediction;
  auto hasSettings = llvm::any_of(plan->settings, [](auto &setting) { return setting.name == "train"; });
  auto lacksSplits = llvm::any_of(entry.operators, [&](const runtime::Operator &op) {
    return op.splits.empty() || op.stage >= prediction.stages.size();
  });
  if (!hasSettings || lacksSplits)
    return makeError(Status::Usage, "--machine expects a plan that says how each operator was split, got one without; "
                                    "compile the model again, or for the other machine");
  Decision decision;
  for (const runtime::PlanStage &stage : prediction.stages) {
    const runtime::Mesh &mesh = plan->meshes[stage.mesh];
    Decision::Stage &made = decision.stages.emplace_back();
    made.mesh = {mesh.name, {mesh.devices.begin(), mesh.devices.end()}, {}};
    for (const auto &axis : mesh.axes)
      made.mesh.axes.push_back({axis.name, axis.size});
    made.mesh.keeping.fix(search::parseRecompute(stage.recompute).value_or(std::vector{search::Recompute::None}));
    made.mesh.keeping.zero = stage.zero;
    decision.optimizerInHost |= stage.optimizerInHost;
  }
  for (const runtime::Operator &op : entry.operators)
    decision.nodes[op.name] = {op.stage, op.splits, op.keys && op.keys->ring};
  return decision;
}

/// Nodes of the same names may have another size than when the plan was made.
static Error checkWork(const CompiledModel &compiled, const runtime::Entry &entry) {
  auto plan = openPlan(compiled);
  if (!plan)
    return plan.error();
  const std::vector<runtime::Operator> &made = (*plan)->entries.front().operators;
  for (const runtime::Operator &op : entry.operators) {
    auto found = llvm::find_if(made, [&](const runtime::Operator &other) { return other.name == op.name; });
    if (found == made.end() || found->flops != op.flops || found->bytes != op.bytes)
      return makeError(Status::Usage, "a plan's decision expects the model that it was made for, got one whose node \"",
                       op.name, "\" does other work; compile the model for the other machine");
  }
  return Error::success();
}

bool isDecision(const runtime::Entry &entry) {
  bool computes = llvm::any_of(entry.programs, [](const runtime::Program &program) {
    return llvm::any_of(program.body, [](const runtime::Instruction &instruction) {
      return std::holds_alternative<runtime::Call>(instruction.action);
    });
  });
  return entry.programs.empty() || (entry.prediction && entry.prediction->training && !computes);
}

Expected<CompiledModel> costDecision(const runtime::Plan &plan, const runtime::Entry &entry,
                                     const std::string &machine) {
  if (auto known = machineOf(plan, machine); !known)
    return known.error();
  // Stages that stand in turns are none for the search.
  if (entry.prediction->chunks > 1)
    return makeError(Status::Unsupported, "costing a plan on another machine expects stages of one chunk, got ",
                     entry.prediction->chunks, " chunks a stage; compile the model for that machine");
  auto decision = decisionOf(plan, entry);
  if (!decision)
    return decision.error();
  CompileRequest request;
  request.model.model = (plan.folder() / plan->model).string();
  if (Error error = applySettings(plan->settings, request.model, request.target))
    return error;
  request.target.machine = machine;
  request.target.strategy = "auto";
  request.target.microbatches = std::to_string(entry.prediction->microbatches);
  if (!entry.prediction->schedule.empty())
    request.target.schedule = entry.prediction->schedule;
  request.decision = &*decision;
  auto compiled = compileModel(request, console());
  if (compiled)
    if (Error error = checkWork(*compiled, entry))
      return error;
  if (!compiled && compiled.error().status() != Status::Infeasible)
    printNote("another machine than the plan's is simulated with the plan's model, \"" + request.model.model +
              "\", read again");
  return compiled;
}

} // namespace cleave::tool
