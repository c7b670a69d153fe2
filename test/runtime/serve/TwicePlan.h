// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A small model to serve, y = 2 x, and jobs for it.

#ifndef CLEAVE_TEST_RUNTIME_SERVE_TWICEPLAN_H
#define CLEAVE_TEST_RUNTIME_SERVE_TWICEPLAN_H

#include "../PlanBuilder.h"

#include "runtime/serve/InferenceJob.h"

#include <algorithm>

namespace cleave::runtime::serve::test {

/// In batches of these sizes, on the first of `devices`.
inline Plan twicePlan(std::initializer_list<uint32_t> sizes, uint32_t devices = 1) {
  runtime::test::PlanBuilder builder;
  for (uint32_t device = 0; device != devices; ++device)
    builder.device("d" + std::to_string(device));
  for (uint32_t samples : sizes) {
    std::string name = "batch/" + std::to_string(samples);
    if (samples != *sizes.begin())
      builder.addEntry(name, samples);
    builder.entry().name = name;
    builder.entry().samples = samples;
    uint32_t x = builder.input("x", samples), y = builder.output("y", samples);
    uint32_t given = builder.buffer(0, "given", samples), doubled = builder.buffer(0, "doubled", samples);
    runtime::test::Point loaded = builder.loadInput(0, x, given);
    runtime::test::Point called =
        builder.call(0, "twice", builder.kernel("twice", 1, samples), {given, doubled}, {loaded});
    builder.storeOutput(0, y, doubled, {called});
  }
  return builder.read();
}

/// A sample for each value; no `done`, no id.
inline std::shared_ptr<InferenceJob> jobWith(const std::vector<float> &values) {
  auto job = std::make_shared<InferenceJob>();
  job->samples = values.size();
  TensorType type{ElementType::F32, {static_cast<int64_t>(values.size())}, {}};
  job->inputs.push_back(*HostTensor::allocate(type));
  job->outputs.push_back(*HostTensor::allocate(type));
  std::ranges::copy(values, job->inputs.front().as<float>().begin());
  return job;
}

} // namespace cleave::runtime::serve::test

#endif // CLEAVE_TEST_RUNTIME_SERVE_TWICEPLAN_H
