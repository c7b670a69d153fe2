// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the devices of each kind contribute to a plan, and what they cost.

#ifndef CLEAVE_TOOLS_CLEAVE_KINDSUMMARY_H
#define CLEAVE_TOOLS_CLEAVE_KINDSUMMARY_H

#include "tools/cleave/PlanSummary.h"

namespace cleave::tool {

/// The devices of a plan that are of one kind.
struct KindSummary {
  std::string name;
  uint32_t devices = 0, busy = 0;
  double flops = 0; ///< Of a step.
  double share = 0; ///< Of all operations of a step.
};

/// What a machine's prices make of a plan.
struct PlanPrice {
  double perHour = 0; ///< US dollars of the busy devices and of the hosts that have one.
  double perStep = 0; ///< The same for a step as long as predicted.
};

/// By kind of device, in the order of the machine's devices; empty where the machine is not known.
std::vector<KindSummary> summarizeKinds(const PlanSummary &summary);

/// Nothing where the machine has no prices, or the step no prediction.
std::optional<PlanPrice> summarizePrice(const PlanSummary &summary);

/// By kind of device, where there are several: "2 of 8 devices busy, 12.5 % of the work".
std::vector<std::pair<std::string, std::string>> kindTexts(const PlanSummary &summary);

/// "0.0123 USD, 4 USD an hour for 2 busy devices"; empty where there are no prices.
std::string priceText(const PlanSummary &summary);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_KINDSUMMARY_H
