// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Defaults are those of the command line and of the optimizers' table.

#include "compiler/SettingDefaults.h"

#include "compiler/PlanSettings.h"
#include "passes/train/Optimizer.h"

#include "llvm/ADT/StringExtras.h"

namespace cleave {

/// What the settings say of training; nothing where they do not train, or are none that settingsOf writes.
static std::optional<TargetOptions> trainingOf(std::span<const runtime::Setting> settings) {
  ModelOptions model;
  TargetOptions target;
  Error error = applySettings(settings, model, target);
  return error || !target.train ? std::nullopt : std::optional(target);
}

std::vector<std::pair<std::string, double>> hyperparametersOf(std::span<const runtime::Setting> settings) {
  std::optional<TargetOptions> target = trainingOf(settings);
  if (!target)
    return {};
  auto optimizer = parseOptimizer(target->optimizer, target->optimizerOptions);
  if (!optimizer) {
    llvm::consumeError(optimizer.takeError());
    return {};
  }
  std::vector<std::pair<std::string, double>> numbers;
  numbers.emplace_back("learning-rate", target->learningRate ? target->learningRate : optimizer->learningRate.rate);
  for (auto [name, number] : hyperparametersOf(*optimizer))
    numbers.emplace_back(name, number);
  return numbers;
}

std::vector<runtime::Setting> completeSettings(std::span<const runtime::Setting> settings) {
  std::vector<runtime::Setting> all(settings.begin(), settings.end());
  auto find = [&](llvm::StringRef name) {
    return llvm::find_if(all, [&](const runtime::Setting &setting) { return setting.name == name; });
  };
  auto complete = [&](const char *name, std::string value) {
    if (find(name) == all.end())
      all.push_back({name, std::move(value)});
  };
  TargetOptions defaults;
  complete("dtype", defaults.elementType);
  auto numbers = hyperparametersOf(settings);
  if (numbers.empty())
    return all;
  complete("learning-rate", shortestText(numbers.front().second));
  complete("lr-schedule", defaults.rateSchedule);
  complete("clip-norm", shortestText(defaults.clipNorm));
  // Those that were given may be some of them.
  auto options = llvm::map_range(llvm::drop_begin(numbers),
                                 [](const auto &number) { return number.first + "=" + shortestText(number.second); });
  complete("optimizer-options", "");
  find("optimizer-options")->value = llvm::join(options, ",");
  return all;
}

} // namespace cleave
