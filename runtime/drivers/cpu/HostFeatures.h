// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What this machine's processor can do, by LLVM's names.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_HOSTFEATURES_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_HOSTFEATURES_H

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::runtime {

/// The features of this machine's processor that stand for instructions, by LLVM's names ("sse4.1", "avx512f", …):
/// those that CPUID reports and whose registers the operating system saves. What the operating system lists itself, as
/// Linux does in /proc/cpuinfo, may be less: virtual machines hide flags whose instructions work.
std::set<std::string> hostFeatures();

/// Whether `features` have one of LLVM's; true for names that stand for no instructions.
bool hasFeature(const std::set<std::string> &features, std::string_view feature);

/// Those among `needed`, LLVM's names with or without "+", that `features` lack, separated by commas; "" where there
/// are none. Those with "-" are not needed.
std::string missingFeatures(const std::vector<std::string> &needed, const std::set<std::string> &features);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_HOSTFEATURES_H
