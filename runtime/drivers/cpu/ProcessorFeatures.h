// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether this machine's processor has the features that native code was compiled for.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_PROCESSORFEATURES_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_PROCESSORFEATURES_H

#include "runtime/Plan.h"

#include <set>

namespace cleave::runtime {

/// The processor's features as the operating system names them ("sse4_1", "avx512f", ...).
std::set<std::string> processorFlags();

/// Status::Infeasible when the object was compiled for another architecture, or for features that `flags` lacks; the
/// message names them. `features` of the object are LLVM's names, with or without "+"; those with "-" are not needed.
Error checkProcessor(const NativeObject &object, const std::set<std::string> &flags);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_PROCESSORFEATURES_H
