// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Clients see the ports of the first plan, whichever runs.

#include "runtime/serve/ServedPlan.h"

#include <algorithm>

namespace cleave::runtime::serve {

static bool isSamePort(const ServedPort &left, const ServedPort &right) {
  return left.name == right.name && left.type == right.type;
}

Expected<ServedPlans> openPlans(std::vector<ModelPlan> plans, const PlanExplainer &explain) {
  ServedPlans opened;
  for (ModelPlan &each : plans) {
    auto parameters = each.parameters ? each.parameters : std::make_shared<FolderSource>(each.plan.folder());
    auto plan = BatchedPlan::open(std::move(each.plan));
    if (!plan)
      return Error(plan.error().status(), each.from + ": " + plan.error().message(), plan.error().node());
    std::string explanation;
    if (explain)
      explanation = explain(plan->getPlan(), plan->getEntries()[plan->getTable().fastest()]);
    opened.push_back(std::make_shared<ServedPlan>(
        ServedPlan{std::move(each.from), std::move(*plan), std::move(parameters), std::move(explanation)}));
    const BatchedPlan &first = opened.front()->plan, &own = opened.back()->plan;
    if (own.isBatched() != first.isBatched() || !std::ranges::equal(own.getInputs(), first.getInputs(), isSamePort) ||
        !std::ranges::equal(own.getOutputs(), first.getOutputs(), isSamePort))
      return makeError(Status::Usage, opened.back()->from,
                       ": a further plan of a model expects the inputs and outputs of ", opened.front()->from,
                       "; compile it from the same model");
  }
  return opened;
}

} // namespace cleave::runtime::serve
