// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums over the devices of a kind.

#include "tools/cleave/KindSummary.h"

#include "compiler/Figures.h"
#include "compiler/PlanMachine.h"
#include "passes/cost/Price.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace cleave::tool {

static std::optional<Machine> machineOf(const PlanSummary &summary) {
  const runtime::Prediction *prediction = summary.prediction();
  return prediction ? predictedMachineOf(summary.plan, *prediction) : std::nullopt;
}

std::vector<KindSummary> summarizeKinds(const PlanSummary &summary) {
  std::vector<KindSummary> kinds;
  std::optional<Machine> machine = machineOf(summary);
  if (!machine)
    return kinds;
  double all = 0;
  // Of a decision about training, operators are those of the model's own batch, forward.
  double scale = summary.flops > 0 ? stepWork(summary) / summary.flops : 1;
  for (auto [index, device] : enumerate(summary.devices)) {
    const DeviceSpec &spec = machine->devices[index];
    const std::string &name = spec.kind.empty() ? spec.driver : spec.kind;
    auto kind = find_if(kinds, [&](const KindSummary &known) { return known.name == name; });
    if (kind == kinds.end())
      kind = kinds.insert(kinds.end(), KindSummary{name});
    ++kind->devices;
    kind->busy += summary.isBusy(index);
    kind->flops += device.flops * scale;
    all += device.flops * scale;
  }
  for (KindSummary &kind : kinds)
    kind.share = all > 0 ? kind.flops / all : 0;
  return kinds;
}

std::optional<PlanPrice> summarizePrice(const PlanSummary &summary) {
  std::optional<Machine> machine = machineOf(summary);
  if (!machine || !hasPrices(*machine) || summary.prediction()->bestSeconds() < 0)
    return std::nullopt;
  std::vector<unsigned> busy;
  for (uint32_t device = 0; device != summary.devices.size(); ++device)
    if (summary.isBusy(device))
      busy.push_back(device);
  double perHour = pricePerHour(*machine, busy);
  return PlanPrice{perHour, priceOf(perHour, summary.prediction()->bestSeconds())};
}

std::vector<std::pair<std::string, std::string>> kindTexts(const PlanSummary &summary) {
  std::vector<KindSummary> kinds = summarizeKinds(summary);
  std::vector<std::pair<std::string, std::string>> texts;
  if (kinds.size() > 1)
    for (const KindSummary &kind : kinds)
      texts.emplace_back(kind.name, std::to_string(kind.busy) + " of " + countText(kind.devices, "device") + " busy, " +
                                        fixedText(100 * kind.share, 1) + " % of the work");
  return texts;
}

std::string priceText(const PlanSummary &summary) {
  auto price = summarizePrice(summary);
  if (!price)
    return "";
  size_t busy = summary.devices.size() - summary.numIdle();
  return significantText(price->perStep) + " USD, " + significantText(price->perHour) + " USD an hour for " +
         countText(busy, busy == summary.devices.size() ? "device" : "busy device");
}

} // namespace cleave::tool
