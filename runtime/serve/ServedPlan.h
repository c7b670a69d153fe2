// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plans that a model may run by: the one that it is loaded by, and those for when devices are lost.

#ifndef CLEAVE_RUNTIME_SERVE_SERVEDPLAN_H
#define CLEAVE_RUNTIME_SERVE_SERVEDPLAN_H

#include "runtime/serve/BatchedPlan.h"

namespace cleave::runtime::serve {

/// A plan that a model may run by.
struct ServedPlan {
  std::string from; ///< what people know it by
  BatchedPlan plan;
  std::shared_ptr<ParameterSource> parameters;
  std::string explanation = {}; ///< a page of HTML; empty: this program cannot make one
};

using ServedPlans = std::vector<std::shared_ptr<const ServedPlan>>;

/// A plan that a model may run by, before it is checked.
struct ModelPlan {
  std::string from; ///< what people know it by
  Plan plan;
  std::shared_ptr<ParameterSource> parameters = nullptr; ///< where the plan's are; null: in its folder
};

/// Makes the page that explains an entry of a plan.
using PlanExplainer = std::function<std::string(const Plan &plan, const std::string &entry)>;

/// Checks the plans, and explains the fastest entry of each where `explain` is not empty. Errors: those of
/// BatchedPlan::open; Status::Usage where a plan has other inputs or outputs than the first one.
Expected<ServedPlans> openPlans(std::vector<ModelPlan> plans, const PlanExplainer &explain);

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_SERVEDPLAN_H
