// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Training steps of equal stages under the null driver: what the devices do with their time follows the formulas of the
// schedules, and what they keep is what the schedules promise.

#include "test/passes/train/PlacedLayers.h"

#include "runtime/Executor.h"
#include "runtime/Trace.h"
#include "runtime/Verify.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace mlir;

namespace cleave::test {
namespace {

using stages::Schedule;

/// Seconds of a layer's forward, gradient of its input and gradient of its weights.
struct LayerSeconds {
  double forward = 1, input = 1, weight = 1;
  double sum() const { return forward + input + weight; }
};

/// Runs one step, in which only products take time, and gives the part of the longest span of a device, from its first
/// product to its last, that devices work on average (the definition of Qi et al. 2024).
double utilisationOf(const runtime::Plan &plan, const LayerSeconds &seconds) {
  runtime::Trace trace;
  runtime::ExecutorOptions options;
  options.trace = &trace;
  const std::vector<runtime::Kernel> &kernels = plan->kernels;
  auto secondsOf = [&](const runtime::Instruction &instruction) {
    const auto *call = std::get_if<runtime::Call>(&instruction.action);
    if (!call || kernels[call->kernel].costClass != runtime::CostClass::Contraction)
      return 0.0;
    if (!instruction.node.ends_with("/gradient"))
      return seconds.forward;
    // The first layer has no gradient of its input; its other product takes as long as both.
    return instruction.node == "layer0/gradient" ? seconds.input + seconds.weight
                                                 : (seconds.input + seconds.weight) / 2;
  };
  options.seconds = [&](uint32_t, const runtime::Instruction &instruction) { return secondsOf(instruction); };
  runtime::MemorySource parameters;
  auto executor = runtime::Executor::create(plan, "", parameters, options);
  if (!executor) {
    ADD_FAILURE() << executor.error().text();
    return 0;
  }
  std::vector<runtime::HostTensor> inputs, outputs;
  for (const runtime::Port &port : (*executor)->entry().inputs)
    inputs.push_back(*runtime::HostTensor::allocate(port.type));
  for (const runtime::Port &port : (*executor)->entry().outputs)
    outputs.push_back(*runtime::HostTensor::allocate(port.type));
  auto ticket = (*executor)->submit(inputs, outputs);
  EXPECT_TRUE(ticket && (*executor)->wait(*ticket));
  double busy = 0, longest = 0;
  unsigned devices = 0;
  for (const runtime::Trace::Track &track : trace.tracks()) {
    int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
    for (const runtime::Trace::Event &event : track.events)
      if (event.end != event.begin) {
        busy += static_cast<double>(event.end - event.begin);
        begin = std::min(begin, event.begin);
        end = std::max(end, event.end);
      }
    if (end == 0)
      continue;
    longest = std::max(longest, static_cast<double>(end - begin));
    ++devices;
  }
  return busy / devices / longest;
}

TrainingOptions optionsOf(Schedule schedule, unsigned microbatches) {
  TrainingOptions options;
  options.schedule = schedule;
  options.microbatches = microbatches;
  return options;
}

struct Case {
  Schedule schedule;
  unsigned microbatches;
  std::vector<unsigned> meshes;
  LayerSeconds seconds;
};

/// The formulas of the schedules: seconds that a device is idle in a step, of p stages and v chunks.
double idleSeconds(const Case &test) {
  unsigned stages = *std::max_element(test.meshes.begin(), test.meshes.end()) + 1;
  auto chunks = static_cast<double>(test.meshes.size() / stages);
  // Of a device: all its layers.
  double all = test.seconds.sum() * chunks;
  switch (test.schedule) {
  case Schedule::Interleaved:
    return (stages - 1) * all / chunks;
  case Schedule::ZeroBubbleH1:
    return (stages - 1) * (all - 2 * test.seconds.weight);
  default:
    return (stages - 1) * all;
  }
}

class Utilisation : public testing::TestWithParam<Case> {};

TEST_P(Utilisation, FollowsTheFormula) {
  const Case &test = GetParam();
  PlacedLayers layers;
  layers.meshes = test.meshes;
  auto plan = compileStep(layers, optionsOf(test.schedule, test.microbatches));
  ASSERT_TRUE(plan);
  double work = test.microbatches * test.seconds.sum() *
                (static_cast<double>(test.meshes.size()) / layers.numMeshes());
  double expected = work / (work + idleSeconds(test));
  EXPECT_NEAR(utilisationOf(*plan, test.seconds), expected, 0.1 * expected);
}

const std::vector<unsigned> four = {0, 1, 2, 3};
const std::vector<unsigned> twice = {0, 1, 2, 3, 0, 1, 2, 3}, twoTwice = {0, 1, 0, 1};

// The textbook's 57 % and 72 % are the first two.
INSTANTIATE_TEST_SUITE_P(GPipe, Utilisation,
                         testing::Values(Case{Schedule::GPipe, 4, four, {}}, Case{Schedule::GPipe, 8, four, {}},
                                         Case{Schedule::GPipe, 16, four, {}}, Case{Schedule::GPipe, 4, {0, 1}, {}}));
INSTANTIATE_TEST_SUITE_P(OneForwardOneBackward, Utilisation,
                         testing::Values(Case{Schedule::OneForwardOneBackward, 4, four, {}},
                                         Case{Schedule::OneForwardOneBackward, 8, four, {}},
                                         Case{Schedule::OneForwardOneBackward, 16, four, {}}));
INSTANTIATE_TEST_SUITE_P(Interleaved, Utilisation,
                         testing::Values(Case{Schedule::Interleaved, 4, twice, {}},
                                         Case{Schedule::Interleaved, 8, twice, {}},
                                         Case{Schedule::Interleaved, 4, twoTwice, {}}));
INSTANTIATE_TEST_SUITE_P(ZeroBubbleH1, Utilisation,
                         testing::Values(Case{Schedule::ZeroBubbleH1, 4, four, {}},
                                         Case{Schedule::ZeroBubbleH1, 8, four, {}},
                                         Case{Schedule::ZeroBubbleH1, 16, four, {}}));

/// The bytes of each program's arena.
std::vector<double> arenasOf(const runtime::Plan &plan) {
  std::vector<double> bytes;
  for (const runtime::Program &program : plan->entries.front().programs)
    bytes.push_back(static_cast<double>(program.arenaBytes));
  return bytes;
}

/// The bytes that a stage of four keeps for each further microbatch of a step, besides the step's inputs.
double growthOf(PlacedLayers layers, TrainingOptions options, unsigned stage) {
  layers.meshes = four;
  options.microbatches = 8;
  auto few = compileStep(layers, options);
  options.microbatches = 16;
  auto many = compileStep(layers, options);
  if (!few || !many)
    return 0;
  return (arenasOf(*many)[stage] - arenasOf(*few)[stage]) / 8;
}

/// Layers whose activations outweigh all else.
PlacedLayers wideSamples() {
  PlacedLayers layers;
  layers.samples = 256;
  layers.width = 8;
  return layers;
}

double activationBytes() { return 256 * 8 * 4; }

// GPipe keeps the result of the stage for each microbatch until its backward.
TEST(PipelineMemory, GrowsWithMicrobatchesUnderGPipe) {
  EXPECT_GE(growthOf(wideSamples(), optionsOf(Schedule::GPipe, 0), 1), activationBytes());
}

// 1F1B keeps as many as there are stages behind.
TEST(PipelineMemory, StaysUnderOneForwardOneBackward) {
  EXPECT_NEAR(growthOf(wideSamples(), optionsOf(Schedule::OneForwardOneBackward, 0), 1), 0, 0.01 * activationBytes());
  EXPECT_NEAR(growthOf(wideSamples(), optionsOf(Schedule::ZeroBubbleH1, 0), 1), 0, 0.01 * activationBytes());
}

} // namespace
} // namespace cleave::test
