// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether this machine's processor has the features that native code was compiled for.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_PROCESSORFEATURES_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_PROCESSORFEATURES_H

#include "runtime/Plan.h"
#include "runtime/drivers/cpu/HostFeatures.h"

namespace cleave::runtime {

/// Status::Infeasible when the plan was made for a processor with features that `features` lacks; the message names
/// them. Success where the plan does not say what it needs.
Error checkProcessor(const Processor &processor, const std::set<std::string> &features);

/// Status::Infeasible when the object was compiled for another architecture, or for features that `features` lacks; the
/// message names them. `features` of the object are LLVM's names, with or without "+"; those with "-" are not needed.
Error checkProcessor(const NativeObject &object, const std::set<std::string> &features);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_PROCESSORFEATURES_H
