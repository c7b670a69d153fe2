// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What this machine's processor can do, by LLVM's names.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_PROCESSORFLAGS_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_PROCESSORFLAGS_H

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::runtime {

/// The processor's features as the operating system names them ("sse4_1", "avx512f", ...).
std::set<std::string> processorFlags();

/// Whether `flags` have what a feature of LLVM's stands for; true for names that stand for no instructions.
bool hasFeature(const std::set<std::string> &flags, std::string_view feature);

/// The features among `features`, LLVM's names with or without "+", that `flags` lack, separated by commas; "" where
/// there are none. Those with "-" are not needed.
std::string missingFeatures(const std::vector<std::string> &features, const std::set<std::string> &flags);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_PROCESSORFLAGS_H
