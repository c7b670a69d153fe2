// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs plans inside the process, for commands that compare or measure.

#ifndef CLEAVE_TOOLS_CLEAVE_PLANRUNNER_H
#define CLEAVE_TOOLS_CLEAVE_PLANRUNNER_H

#include "runtime/Executor.h"

namespace cleave::tool {

/// Whether a file says of itself that it is a plan.
bool isPlanFile(const std::string &path);

/// A tensor for every input: the file that a binding "NAME=FILE" or "@N=FILE" gives, else deterministic random numbers,
/// others for each `round`: floats are standard normal, labels classes, and -1 too where sequences are filled up with
/// it, other integers 0 or 1.
runtime::Expected<std::vector<runtime::HostTensor>>
makeInputs(const runtime::Entry &entry, const std::vector<std::string> &bindings, uint64_t round = 0);

/// Tensors for the outputs of one step.
runtime::Expected<std::vector<runtime::HostTensor>> makeOutputs(const runtime::Entry &entry);

/// Runs one step; `outputs` receives the results. The seconds that it took.
runtime::Expected<double> runStep(runtime::Executor &executor, const std::vector<runtime::HostTensor> &inputs,
                                  const std::vector<runtime::HostTensor> &outputs);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_PLANRUNNER_H
