// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Settings are rows of the table of options, whose checks they pass.

#include "compiler/PlanSettings.h"

#include "llvm/ADT/StringExtras.h"

namespace cleave {

/// By groups of batch normalization: chosen by the compiler, and no option of the command line.
static constexpr const char *groupsName = "batch-norm-groups";

/// What decides about the numbers of any plan, in the order in which settings stand.
static constexpr const char *alwaysKept[] = {"dtype", "tf32", "batches", "max-batch", "batch", "expert-capacity"};
/// What decides about those of training, besides the loss and the optimizer.
static constexpr const char *keptOfTraining[] = {
    "optimizer-options", "learning-rate", "lr-schedule", "clip-norm", "buckets", "microbatches",
    "batch-norm",        "no-dropout",    "sync",        "replicas",  "keeper",  "seed"};

std::vector<runtime::Setting> settingsOf(const ModelOptions &model, const TargetOptions &target) {
  std::vector<runtime::Setting> settings;
  const TargetOptions defaults;
  auto add = [&](const char *name) {
    const TargetOption &row = *findTargetOption(name);
    if (std::string text = optionText(target, row); text != optionText(defaults, row))
      settings.push_back({name, text});
  };
  for (const std::string &dim : model.dims)
    settings.push_back({"dim", dim});
  if (!model.weights.empty())
    settings.push_back({"weights", model.weights});
  for (const char *name : alwaysKept)
    add(name);
  if (!target.train)
    return settings;
  // Without a loss it is a plan of decisions.
  settings.push_back(target.loss.empty() ? runtime::Setting{"train", "true"} : runtime::Setting{"loss", target.loss});
  settings.push_back({"optimizer", target.optimizer});
  if (target.loss.empty())
    return settings;
  for (const char *name : keptOfTraining)
    add(name);
  if (!target.batchNormGroups.empty())
    settings.push_back({groupsName, llvm::join(llvm::map_range(target.batchNormGroups,
                                                               [](int64_t parts) { return std::to_string(parts); }),
                                               ",")});
  return settings;
}

static Error unknownSetting(const runtime::Setting &setting, const std::string &why) {
  return makeError(Status::Rejected, "a plan's settings expect options of training, got \"", setting.name, "\" with \"",
                   setting.value, "\"", why.empty() ? "" : ": ", why);
}

static Error applyGroups(const runtime::Setting &setting, std::vector<int64_t> &groups) {
  for (llvm::StringRef part : llvm::split(setting.value, ',')) {
    int64_t number = 0;
    if (!llvm::to_integer(part, number, 10) || number < 1)
      return unknownSetting(setting, "");
    groups.push_back(number);
  }
  return Error::success();
}

Error applySettings(std::span<const runtime::Setting> settings, ModelOptions &model, TargetOptions &target) {
  auto isKept = [](llvm::StringRef name) {
    return name == "loss" || name == "train" || name == "optimizer" || llvm::is_contained(alwaysKept, name) ||
           llvm::is_contained(keptOfTraining, name);
  };
  for (const runtime::Setting &setting : settings) {
    if (setting.name == groupsName) {
      if (Error error = applyGroups(setting, target.batchNormGroups))
        return error;
      continue;
    }
    // Each has a value of its own, which the model's reader checks.
    if (setting.name == "dim") {
      model.dims.push_back(setting.value);
      continue;
    }
    if (setting.name == "weights") {
      if (model.weights.empty())
        model.weights = setting.value;
      continue;
    }
    if (!isKept(setting.name))
      return unknownSetting(setting, "");
    target.train |= setting.name == "loss";
    if (Error error = setOption(target, *findTargetOption(setting.name), setting.value))
      return unknownSetting(setting, error.message());
  }
  return Error::success();
}

} // namespace cleave
