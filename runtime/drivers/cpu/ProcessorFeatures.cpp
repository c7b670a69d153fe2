// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares what plans and native code need with what a processor has.

#include "runtime/drivers/cpu/ProcessorFeatures.h"

namespace cleave::runtime {

Error checkProcessor(const Processor &processor, const std::set<std::string> &features) {
  std::string missing = missingFeatures(processor.features, features);
  if (missing.empty())
    return Error::success();
  return makeError(Status::Infeasible, "the plan was made for processor \"", processor.name,
                   "\" and needs features that this machine lacks: ", missing,
                   "; compile the model on this machine, or with --cpu for a processor like it");
}

Error checkProcessor(const NativeObject &object, const std::set<std::string> &features) {
#if !defined(__x86_64__)
#error "the cpu driver knows the processor features of x86-64 only; add those of this architecture"
#endif
  if (!object.triple.empty() && object.triple.compare(0, 6, "x86_64") != 0)
    return makeError(Status::Infeasible, "native code expects a processor for \"", object.triple,
                     "\", got x86_64; compile the model for this machine");
  std::string missing = missingFeatures(object.features, features);
  if (missing.empty())
    return Error::success();
  return makeError(Status::Infeasible, "native code for \"", object.cpu,
                   "\" needs processor features that this machine ", "lacks: ", missing,
                   "; compile the model for this machine");
}

} // namespace cleave::runtime
