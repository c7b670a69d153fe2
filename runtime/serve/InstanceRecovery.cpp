// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether a device is left shows when a plan that needs it is loaded: every size runs then.

#include "runtime/serve/InstanceRecovery.h"

namespace cleave::runtime::serve {

/// The compute threads of the first devices of a plan.
static unsigned threadsOf(const Plan &plan, size_t devices) {
  unsigned threads = 0;
  for (size_t device = 0; device != devices; ++device)
    threads += plan->devices[device].cores;
  return threads;
}

std::vector<InstanceChoice> choicesOf(const ServedPlans &plans, size_t plan, unsigned number, unsigned count) {
  const Plan &first = plans.front()->plan.getPlan(), &own = plans[plan]->plan.getPlan();
  size_t all = first->devices.size(), needed = own->devices.size();
  unsigned threads = threadsOf(first, all);
  std::vector<InstanceChoice> choices;
  for (size_t skipped = 0; skipped == 0 || skipped + needed <= all; ++skipped)
    choices.push_back({plan,
                       {.threadsBefore = number * threads + threadsOf(first, skipped),
                        .threadsBehind = (count - 1 - number) * threads,
                        .devicesBefore = static_cast<unsigned>(number * all + skipped)}});
  return choices;
}

RecoveredInstance loadFirst(const ServedPlans &plans, const std::vector<InstanceChoice> &choices,
                            const std::function<Expected<std::unique_ptr<ModelInstance>>(const InstanceChoice &)> &load,
                            const std::function<void(const std::string &)> &report) {
  RecoveredInstance recovered;
  for (const InstanceChoice &choice : choices) {
    auto loaded = load(choice);
    if (loaded)
      return {std::move(*loaded), choice.plan, Error::success()};
    recovered.error = loaded.error();
    report("cannot be loaded from " + plans[choice.plan]->from + ": " + recovered.error.text());
  }
  return recovered;
}

} // namespace cleave::runtime::serve
