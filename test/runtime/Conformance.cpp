// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The conformance tests' fixture.

#include "Conformance.h"

#include "runtime/Verify.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace cleave::runtime::test {

Expected<std::span<const std::byte>> FragileSource::bytes(const FileSource &source) {
  if (broken)
    return makeError(Status::Failure, "the disk is gone");
  return std::as_bytes(std::span(values)).first(source.bytes);
}

std::vector<Backend> allBackends() {
  std::vector<Backend> list = {{"cpu_local", "cpu", true, {}}, {"null_simulated", "null", false, {}}};
#ifdef CLEAVE_CUDA
  list.push_back({"cuda", "cuda", true, {}});
  for (uint64_t seed = 0; seed != 12; ++seed)
    list.push_back({"cuda_simulated_" + std::to_string(seed), "cuda", true, seed});
#endif
  return list;
}

std::vector<Backend> computingBackends() {
  std::vector<Backend> list = allBackends();
  std::erase_if(list, [](const Backend &backend) { return !backend.computes; });
  return list;
}

#ifdef CLEAVE_CUDA
void ConformanceTest::SetUp() {
  if (GetParam().driver != "cuda")
    return;
  if (GetParam().seed) {
    cuda = std::make_unique<simulated::Cuda>(simulated::Options{.seed = *GetParam().seed});
    // The interpreter would take seconds; CudaPtxTest looks at the kernel.
    cuda->setKernel("nap", [](const uint64_t *arguments) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::memcpy(reinterpret_cast<void *>(arguments[1]), reinterpret_cast<const void *>(arguments[0]), 16);
    });
    return;
  }
  auto library = cudaRuntime();
  int count = 0;
  if (!library || (*library)->cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
    GTEST_SKIP() << "there is no GPU";
}

void ConformanceTest::TearDown() {
  executor.reset();
  if (cuda) {
    EXPECT_EQ(cuda->misuse(), "");
  }
}
#else
void ConformanceTest::SetUp() {}
void ConformanceTest::TearDown() {}
#endif

void ConformanceTest::create(const PlanBuilder &builder, bool traces) {
  Plan plan = builder.read();
  Error unsound = verifyPlan(plan);
  ASSERT_FALSE(unsound) << unsound.text();
  ExecutorOptions options;
  options.trace = traces ? &trace : nullptr;
  options.seconds = [plan](uint32_t, const Instruction &instruction) {
    const auto *call = std::get_if<Call>(&instruction.action);
    return call && plan->kernels[call->kernel].name == "nap" ? 0.005 : 0;
  };
  auto created = Executor::create(plan, "main", source, options);
  ASSERT_TRUE(created) << created.error().text();
  executor = std::move(*created);
}

void ConformanceTest::runSteps(size_t count) {
  std::vector<std::vector<HostTensor>> outputs(count);
  std::vector<Ticket> tickets;
  tickets.reserve(count);
  for (auto &slot : outputs)
    tickets.push_back(submit(1, slot));
  for (Ticket ticket : tickets)
    ASSERT_TRUE(executor->wait(ticket));
}

Ticket ConformanceTest::submit(float value, std::vector<HostTensor> &outputs) {
  std::vector<HostTensor> inputs;
  for (const Port &port : executor->entry().inputs) {
    inputs.push_back(*HostTensor::allocate(port.type));
    std::ranges::fill(inputs.back().as<float>(), value);
  }
  outputs.clear();
  for (const Port &port : executor->entry().outputs)
    outputs.push_back(*HostTensor::allocate(port.type));
  auto ticket = executor->submit(inputs, outputs);
  EXPECT_TRUE(ticket) << ticket.error().text();
  return ticket ? *ticket : 0;
}

std::vector<Trace::Event> ConformanceTest::events(const std::string &node, const std::string &action) const {
  std::vector<Trace::Event> found;
  for (const Trace::Track &track : trace.tracks())
    for (const Trace::Event &event : track.events)
      if (event.phase == Phase::Body && event.instruction->node == node &&
          actionName(event.instruction->action) == action)
        found.push_back(event);
  std::ranges::sort(found, {}, &Trace::Event::step);
  return found;
}

std::vector<float> valuesOf(const HostTensor &tensor) {
  auto span = tensor.as<float>();
  return {span.begin(), span.end()};
}

} // namespace cleave::runtime::test
