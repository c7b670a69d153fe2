// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the conformance tests need of a driver with its communicator. A driver opts in by a line in ConformanceTest.cpp.

#ifndef CLEAVE_TEST_RUNTIME_CONFORMANCE_H
#define CLEAVE_TEST_RUNTIME_CONFORMANCE_H

#include "PlanBuilder.h"

#include "runtime/Executor.h"
#include "runtime/Trace.h"

#ifdef CLEAVE_CUDA
#include "cuda/SimulatedCuda.h"
#endif

#include <gtest/gtest.h>

namespace cleave::runtime::test {

/// A driver and the communicator between its devices.
struct Backend {
  std::string name, driver;
  bool computes;                ///< whether values come out
  std::optional<uint64_t> seed; ///< of the simulated CUDA, where there is one
};

/// All of them. That of the GPUs is there twice: for real ones, which are skipped where there are none, and simulated,
/// with streams in many orders.
std::vector<Backend> allBackends();
/// Those of them whose values come out.
std::vector<Backend> computingBackends();

inline void PrintTo(const Backend &backend, std::ostream *out) { *out << backend.name; }

/// A parameter source that fails while `broken`, and otherwise gives threes.
class FragileSource : public ParameterSource {
public:
  Expected<std::span<const std::byte>> bytes(const FileSource &source) override;
  std::atomic<bool> broken{false};

private:
  std::vector<float> values = std::vector<float>(1024, 3);
};

/// Makes an executor, and tensors for it.
class ConformanceTest : public testing::TestWithParam<Backend> {
protected:
  void SetUp() override;
  void TearDown() override;
  PlanBuilder pipeline() const { return pipelinePlan(GetParam().driver, "nap"); }
  /// Verifies the plan and makes `executor`, with naps of 5 ms under the null driver. Steps that are not traced may run
  /// in other ways: as graphs on GPUs.
  void create(const PlanBuilder &builder, bool traces = false);
  /// Submits a step whose inputs hold `value`; `outputs` is replaced by the step's outputs.
  Ticket submit(float value, std::vector<HostTensor> &outputs);
  /// Submits so many steps, and waits for all of them.
  void runSteps(size_t count);
  /// Of an executor that traces: the events of the body with that node and action, in the order of steps.
  std::vector<Trace::Event> events(const std::string &node, const std::string &action) const;

#ifdef CLEAVE_CUDA
  std::unique_ptr<simulated::Cuda> cuda;
#endif
  FragileSource source;
  Trace trace;
  std::unique_ptr<Executor> executor;
};

/// The tensor's elements.
std::vector<float> valuesOf(const HostTensor &tensor);

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_CONFORMANCE_H
