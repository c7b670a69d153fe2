// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares two plans.

#include "tools/cleave/PlanDiff.h"

#include "tools/cleave/ScheduleNames.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace cleave::tool {

using runtime::Operator;
using runtime::PlanStage;
using runtime::Prediction;

static void compareText(std::vector<TextChange> &changes, StringRef name, const std::string &before,
                        const std::string &after) {
  if (before != after)
    changes.push_back({name.str(), before, after});
}

static void compareNumbers(std::vector<NumberChange> &changes, StringRef name, double before, double after) {
  if (before != after)
    changes.push_back({name.str(), before, after});
}

/// Differences of simulated times are not exact to the last digit.
static void compareSeconds(std::vector<NumberChange> &changes, StringRef name, double before, double after) {
  if (std::abs(before - after) > 1e-9 * std::max(std::abs(before), std::abs(after)))
    changes.push_back({name.str(), before, after});
}

PlanDiff::PlanDiff(const PlanSummary &first, const PlanSummary &second) : first(first), second(second) {
  comparePlans();
  compareOperators();
  compareStages();
  compareDevices();
}

static double transferredBytes(const PlanSummary &summary) {
  double bytes = 0;
  for (const Transfer &transfer : summary.transfers)
    bytes += static_cast<double>(transfer.bytes);
  return bytes;
}

static double collectiveBytes(const PlanSummary &summary) {
  double bytes = 0;
  for (const CollectiveSummary &collective : summary.collectives)
    bytes += static_cast<double>(collective.bytes * summary.plan.meshes[collective.mesh].devices.size());
  return bytes;
}

void PlanDiff::comparePlans() {
  const runtime::PlanContents &a = first.plan, &b = second.plan;
  compareText(plan, "model", a.model, b.model);
  compareText(plan, "strategy", a.strategy, b.strategy);
  compareText(plan, "devices", std::to_string(a.devices.size()), std::to_string(b.devices.size()));
  static const Prediction none;
  const Prediction &before = first.prediction() ? *first.prediction() : none;
  const Prediction &after = second.prediction() ? *second.prediction() : none;
  compareText(plan, "machine", before.machine, after.machine);
  compareText(plan, "degrees", degreesText(before.degrees), degreesText(after.degrees));
  auto stagesText = [](const Prediction &expected) {
    return expected.stages.empty() ? std::string() : std::to_string(expected.stages.size());
  };
  compareText(plan, "stages", stagesText(before), stagesText(after));
  compareText(plan, "microbatches", std::to_string(before.microbatches), std::to_string(after.microbatches));
  compareText(plan, "schedule", scheduleText(before), scheduleText(after));
  compareSeconds(totals, "seconds", before.bestSeconds(), after.bestSeconds());
  compareNumbers(totals, "peak bytes", first.peakBytes(), second.peakBytes());
  compareNumbers(totals, "transferred bytes", transferredBytes(first), transferredBytes(second));
  compareNumbers(totals, "collective bytes", collectiveBytes(first), collectiveBytes(second));
}

/// The first operator of each name.
static StringMap<const Operator *> operatorsByName(const PlanSummary &summary) {
  StringMap<const Operator *> operators;
  for (const Operator &op : summary.entry.operators)
    operators.try_emplace(op.name, &op);
  return operators;
}

void PlanDiff::compareOperators() {
  StringMap<const Operator *> before = operatorsByName(first), after = operatorsByName(second);
  for (const Operator &op : second.entry.operators)
    if (!before.contains(op.name))
      added.push_back(op.name);
  for (const Operator &op : first.entry.operators) {
    const Operator *other = after.lookup(op.name);
    if (!other) {
      removed.push_back(op.name);
      continue;
    }
    compareText(moved, op.name, first.deviceNames(op), second.deviceNames(*other));
    compareText(split, op.name, op.split, other->split);
    compareText(decided, op.name, op.decidedBy, other->decidedBy);
    if (first.isSearched() == second.isSearched())
      compareSeconds(seconds, op.name, op.predictedSeconds, other->predictedSeconds);
    compareNumbers(received, op.name, op.receivedBytes, other->receivedBytes);
  }
}

void PlanDiff::compareStages() {
  static const std::vector<PlanStage> none;
  const auto &before = first.prediction() ? first.prediction()->stages : none;
  const auto &after = second.prediction() ? second.prediction()->stages : none;
  auto operatorsOf = [](const PlanSummary &summary, size_t stage) {
    return static_cast<double>(
        count_if(summary.entry.operators, [&](const Operator &op) { return op.stage == stage; }));
  };
  auto secondsOf = [](const PlanStage &stage) { return stage.forward + stage.backwardInput + stage.backwardWeight; };
  for (size_t i = 0; i != std::max(before.size(), after.size()); ++i) {
    std::string name = std::to_string(i);
    bool isBefore = i < before.size(), isAfter = i < after.size();
    compareNumbers(stageOperators, name, isBefore ? operatorsOf(first, i) : -1, isAfter ? operatorsOf(second, i) : -1);
    compareNumbers(stageSeconds, name, isBefore ? secondsOf(before[i]) : -1, isAfter ? secondsOf(after[i]) : -1);
    compareNumbers(stageBytes, name, isBefore ? before[i].memory.total() : -1, isAfter ? after[i].memory.total() : -1);
  }
}

void PlanDiff::compareDevices() {
  StringMap<double> before;
  for (auto [i, device] : enumerate(first.plan.devices))
    before.try_emplace(device.name, first.peakBytes(static_cast<uint32_t>(i)));
  for (auto [i, device] : enumerate(second.plan.devices)) {
    auto found = before.find(device.name);
    compareNumbers(deviceBytes, device.name, found == before.end() ? -1 : found->second,
                   second.peakBytes(static_cast<uint32_t>(i)));
    if (found != before.end())
      found->second = -1;
  }
  for (const runtime::PlanDevice &device : first.plan.devices)
    if (double bytes = before[device.name]; bytes >= 0)
      deviceBytes.push_back({device.name, bytes, -1});
}

bool PlanDiff::isEqual() const {
  return plan.empty() && totals.empty() && removed.empty() && added.empty() && moved.empty() && split.empty() &&
         decided.empty() && seconds.empty() && received.empty() && stageSeconds.empty() && stageBytes.empty() &&
         stageOperators.empty() && deviceBytes.empty();
}

} // namespace cleave::tool
