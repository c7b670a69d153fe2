// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The options that say what a plan's steps compute, kept in the plan, so that the same steps can be compiled again for
// other devices.

#ifndef CLEAVE_COMPILER_PLANSETTINGS_H
#define CLEAVE_COMPILER_PLANSETTINGS_H

#include "compiler/Options.h"

#include "runtime/Plan.h"

#include <span>

namespace cleave {

/// What the options say about the numbers that steps compute. What the compiler chose must stand in the options.
std::vector<runtime::Setting> settingsOf(const ModelOptions &model, const TargetOptions &target);

/// Gives options what settings say. Status::Rejected where they are none that settingsOf writes.
Error applySettings(std::span<const runtime::Setting> settings, ModelOptions &model, TargetOptions &target);

} // namespace cleave

#endif // CLEAVE_COMPILER_PLANSETTINGS_H
