// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What holds where a plan's settings say nothing.

#ifndef CLEAVE_COMPILER_SETTINGDEFAULTS_H
#define CLEAVE_COMPILER_SETTINGDEFAULTS_H

#include "runtime/Plan.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cleave {

/// The settings, and the defaults of what they say nothing about: the element type, and of training the learning rate
/// and its schedule, the largest norm of gradients, and all options of the optimizer.
std::vector<runtime::Setting> completeSettings(std::span<const runtime::Setting> settings);

/// The numbers of the optimizer with which the settings train, "learning-rate" first; none where they do not train.
std::vector<std::pair<std::string, double>> hyperparametersOf(std::span<const runtime::Setting> settings);

} // namespace cleave

#endif // CLEAVE_COMPILER_SETTINGDEFAULTS_H
