// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Settings are read as the command line is, so that the same is checked.

#include "tools/cleave/PlanSettings.h"

#include "tools/cleave/SettingDefaults.h"

#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>

namespace cleave::tool {

/// By groups of batch normalization: chosen by the compiler, and no option of the command line.
static constexpr const char *groupsName = "batch-norm-groups";

static std::string commaList(const std::vector<int64_t> &numbers) {
  return llvm::join(llvm::map_range(numbers, [](int64_t number) { return std::to_string(number); }), ",");
}

std::vector<runtime::Setting> settingsOf(const ModelOptions &model, const TargetOptions &target) {
  std::vector<runtime::Setting> settings;
  TargetOptions defaults;
  auto add = [&](const char *name, const auto &value, const auto &unsaid) {
    if (value == unsaid)
      return;
    if constexpr (std::is_same_v<decltype(value), const std::string &>)
      settings.push_back({name, value});
    else if constexpr (std::is_same_v<decltype(value), const double &>)
      settings.push_back({name, shortestText(value)});
    else
      settings.push_back({name, std::to_string(value)});
  };
  for (const std::string &dim : model.dims)
    settings.push_back({"dim", dim});
  if (!model.weights.empty())
    settings.push_back({"weights", model.weights});
  add("dtype", target.elementType, defaults.elementType);
  if (target.tf32)
    settings.push_back({"tf32", "true"});
  if (!target.batches.empty())
    settings.push_back({"batches", commaList(target.batches)});
  add("max-batch", target.maxBatch, defaults.maxBatch);
  add("batch", target.batch, defaults.batch);
  add("expert-capacity", target.expertCapacity, defaults.expertCapacity);
  if (!target.train)
    return settings;
  if (target.loss.empty()) {
    // What a plan of decisions is about.
    settings.push_back({"train", "true"});
    settings.push_back({"optimizer", target.optimizer});
    return settings;
  }
  settings.push_back({"loss", target.loss});
  settings.push_back({"optimizer", target.optimizer});
  add("optimizer-options", target.optimizerOptions, defaults.optimizerOptions);
  add("learning-rate", target.learningRate, defaults.learningRate);
  add("lr-schedule", target.rateSchedule, defaults.rateSchedule);
  add("clip-norm", target.clipNorm, defaults.clipNorm);
  add("buckets", target.buckets, defaults.buckets);
  add("microbatches", target.microbatches, defaults.microbatches);
  add("batch-norm", target.batchNorm, defaults.batchNorm);
  if (!target.batchNormGroups.empty())
    settings.push_back({groupsName, commaList(target.batchNormGroups)});
  if (target.noDropout)
    settings.push_back({"no-dropout", "true"});
  add("sync", target.sync, defaults.sync);
  add("replicas", target.replicas, defaults.replicas);
  add("seed", target.seed, defaults.seed);
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
  constexpr const char *names[] = {"dtype",         "loss",         "optimizer",  "optimizer-options",
                                   "learning-rate", "lr-schedule",  "clip-norm",  "buckets",
                                   "batch",         "microbatches", "batch-norm", "no-dropout",
                                   "seed",          "tf32",         "train",      "batches",
                                   "max-batch",     "sync",         "replicas",   "expert-capacity"};
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
    if (llvm::none_of(names, [&](llvm::StringRef name) { return name == setting.name; }))
      return unknownSetting(setting, "");
    target.train |= setting.name == "loss";
    CLI::App options;
    target.addTo(options);
    try {
      options.parse(std::vector<std::string>{"--" + setting.name + "=" + setting.value});
    } catch (const CLI::ParseError &error) {
      return unknownSetting(setting, error.what());
    }
  }
  return Error::success();
}

} // namespace cleave::tool
