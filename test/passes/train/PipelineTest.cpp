// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Training steps of equal stages under the null driver: what the devices do with their time follows the formulas of the
// schedules, and what they keep is what the schedules promise.

#include "test/passes/train/PlacedLayers.h"

#include "passes/train/Optimizer.h"
#include "runtime/Executor.h"
#include "runtime/TraceMemory.h"
#include "runtime/Verify.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace mlir;

namespace cleave::test {
namespace {

using pipeline::findSchedule;
using pipeline::Schedule;

/// Seconds of a layer's forward, gradient of its input and gradient of its weights.
struct LayerSeconds {
  double forward = 1, input = 1, weight = 1;
  double sum() const { return forward + input + weight; }
};

/// Runs entries of a plan, all in flight, in which only products take time.
void runOnNullDevices(const runtime::Plan &plan, const std::vector<uint32_t> &entries, const LayerSeconds &seconds,
                      int64_t width, runtime::Trace &trace) {
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
    if (instruction.node == "layer0/gradient")
      return seconds.input + seconds.weight;
    return kernels[call->kernel].outputs.front().shape.front() == width ? seconds.weight : seconds.input;
  };
  options.seconds = [&](uint32_t, const runtime::Instruction &instruction) { return secondsOf(instruction); };
  runtime::MemorySource parameters;
  std::vector<std::string> names;
  for (const runtime::Entry &entry : plan->entries)
    names.push_back(entry.name);
  auto executor = runtime::Executor::create(plan, names, parameters, options);
  ASSERT_TRUE(executor) << executor.error().text();
  std::vector<std::vector<runtime::HostTensor>> tensors;
  auto allocate = [&](const std::vector<runtime::Port> &ports) {
    tensors.emplace_back();
    for (const runtime::Port &port : ports)
      tensors.back().push_back(*runtime::HostTensor::allocate(port.type));
    return tensors.back();
  };
  std::vector<runtime::Ticket> tickets;
  for (uint32_t entry : entries) {
    auto inputs = allocate(plan->entries[entry].inputs), outputs = allocate(plan->entries[entry].outputs);
    auto ticket = (*executor)->submit(entry, inputs, outputs);
    ASSERT_TRUE(ticket) << ticket.error().text();
    tickets.push_back(*ticket);
  }
  for (runtime::Ticket ticket : tickets)
    EXPECT_TRUE((*executor)->wait(ticket));
}

/// The part of the longest span of a device, from its first product to its last, that devices work on average (the
/// definition of Qi et al. 2024).
double utilisationOf(const runtime::Trace &trace) {
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

/// That of one step.
double utilisationOf(const runtime::Plan &plan, const LayerSeconds &seconds, int64_t width, runtime::Trace &trace) {
  runOnNullDevices(plan, {0}, seconds, width, trace);
  return utilisationOf(trace);
}

double utilisationOf(const runtime::Plan &plan, const LayerSeconds &seconds, int64_t width) {
  runtime::Trace trace;
  return utilisationOf(plan, seconds, width, trace);
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

void PrintTo(const Case &test, std::ostream *out) {
  *out << test.schedule->name << " of " << test.meshes.size() << " layers and " << test.microbatches
       << " microbatches, " << test.seconds.forward << " " << test.seconds.input << " " << test.seconds.weight;
}

/// The formulas of the schedules: seconds that a device is idle in a step, of p devices with v layers each. A layer
/// sends the gradient of its input before it computes those of its weights, so that these do not keep the others
/// waiting: the formulas for gradients that are one task hold for weights that take no time.
double idleSeconds(const Case &test) {
  unsigned devices = *std::max_element(test.meshes.begin(), test.meshes.end()) + 1;
  double filling = test.seconds.forward + test.seconds.input;
  if (test.schedule == *findSchedule("zb-h1"))
    return (devices - 1) * (filling - test.seconds.weight);
  if (test.schedule == *findSchedule("zb-v"))
    return (devices - 1) * 2 * (std::max(test.seconds.forward, test.seconds.input) - test.seconds.weight);
  // Of F and B that take equally long.
  if (test.schedule == *findSchedule("dualpipe-v"))
    return (devices - 1) * (filling - test.seconds.weight);
  // That is (p - 1) times all v layers of a device, or of one of them where they are interleaved.
  double layers = static_cast<double>(test.meshes.size()) / devices;
  return (devices - 1) * filling * (test.schedule == *findSchedule("interleaved") ? 1 : layers);
}

class Utilisation : public testing::TestWithParam<Case> {};

TEST_P(Utilisation, FollowsTheFormula) {
  const Case &test = GetParam();
  PlacedLayers layers;
  layers.meshes = test.meshes;
  // As in the run that follows: what the scheduler expects is what happens.
  layers.onlyProductsTakeTime = true;
  auto plan = compileStep(layers, optionsOf(test.schedule, test.microbatches));
  ASSERT_TRUE(plan);
  double work = test.microbatches * test.seconds.sum() * (static_cast<double>(test.meshes.size()) / layers.numMeshes());
  double expected = work / (work + idleSeconds(test));
  double found = utilisationOf(*plan, test.seconds, layers.width);
  // Nothing but products takes time, so the formula holds to rounding. A V may be late by a product once a step: both
  // chunks of its last device, which lie next to each other and are one stage, go forward together.
  double late = test.schedule->chunkOrder == pipeline::ChunkOrder::Turns ? test.seconds.forward : 0;
  EXPECT_LE(found, expected + 1e-9);
  EXPECT_GE(found, work / (work / expected + late) - 1e-9);
}

const std::vector<unsigned> four = {0, 1, 2, 3};
const std::vector<unsigned> twice = {0, 1, 2, 3, 0, 1, 2, 3}, twoTwice = {0, 1, 0, 1};

std::vector<Case> casesOf(Schedule schedule, const std::vector<unsigned> &meshes) {
  std::vector<Case> cases;
  for (LayerSeconds seconds : {LayerSeconds{1, 2, 0}, LayerSeconds{1, 1, 1}})
    for (unsigned microbatches : {4, 8, 16})
      cases.push_back({schedule, microbatches, meshes, seconds});
  return cases;
}

// The textbook's figures, of all forward and all backward on four stages: 57 % and 72 %.
TEST(TextbookUtilisation, IsThatOfTheFormula) {
  PlacedLayers layers;
  layers.meshes = four;
  for (auto [microbatches, expected] : {std::pair(4u, 0.57), {8u, 0.72}}) {
    auto plan = compileStep(layers, optionsOf(*findSchedule("gpipe"), microbatches));
    ASSERT_TRUE(plan);
    EXPECT_NEAR(utilisationOf(*plan, {1, 2, 0}, layers.width), expected, 0.01);
  }
}

INSTANTIATE_TEST_SUITE_P(GPipe, Utilisation, testing::ValuesIn(casesOf(*findSchedule("gpipe"), four)));
INSTANTIATE_TEST_SUITE_P(OneForwardOneBackward, Utilisation, testing::ValuesIn(casesOf(*findSchedule("1f1b"), four)));
INSTANTIATE_TEST_SUITE_P(Interleaved, Utilisation, testing::ValuesIn(casesOf(*findSchedule("interleaved"), twice)));
INSTANTIATE_TEST_SUITE_P(InterleavedOnTwo, Utilisation,
                         testing::ValuesIn(casesOf(*findSchedule("interleaved"), twoTwice)));
INSTANTIATE_TEST_SUITE_P(ZeroBubbleV, Utilisation,
                         testing::ValuesIn(casesOf(*findSchedule("zb-v"), std::vector<unsigned>{0, 1, 1, 0})));
INSTANTIATE_TEST_SUITE_P(ZeroBubbleVOnFour, Utilisation,
                         testing::Values(Case{*findSchedule("zb-v"), 8, {0, 1, 2, 3, 3, 2, 1, 0}, {1, 2, 0}},
                                         Case{*findSchedule("zb-v"), 16, {0, 1, 2, 3, 3, 2, 1, 0}, {1, 1, 1}}));
INSTANTIATE_TEST_SUITE_P(DualPipeV, Utilisation,
                         testing::Values(Case{*findSchedule("dualpipe-v"), 8, {0, 1, 1, 0}, {1, 1, 1}},
                                         Case{*findSchedule("dualpipe-v"), 16, {0, 1, 2, 3, 3, 2, 1, 0}, {1, 1, 1}}));
INSTANTIATE_TEST_SUITE_P(ZeroBubbleH1, Utilisation, testing::ValuesIn(casesOf(*findSchedule("zb-h1"), four)));

/// The bytes of a program's arena.
double arenaOf(const PlacedLayers &layers, const TrainingOptions &options, unsigned program = 0) {
  auto plan = compileStep(layers, options);
  return plan ? static_cast<double>((*plan)->entries.front().programs[program].arenaBytes) : 0;
}

/// The program of the second of four stages.
std::optional<runtime::Program> secondStage(Schedule schedule, unsigned microbatches) {
  PlacedLayers layers;
  layers.samples = 256;
  layers.meshes = four;
  auto plan = compileStep(layers, optionsOf(schedule, microbatches));
  return plan ? std::optional((*plan)->entries.front().programs[1]) : std::nullopt;
}

/// The bytes that it keeps for each further microbatch of a step: what is live at once, of which packing makes the
/// arena more or less well.
double growthOf(Schedule schedule) {
  auto more = secondStage(schedule, 16), fewer = secondStage(schedule, 8);
  return more && fewer ? (static_cast<double>(more->liveBytes) - static_cast<double>(fewer->liveBytes)) / 8
                       : std::numeric_limits<double>::quiet_NaN();
}

constexpr double activationBytes = 256 * 8 * 4;

// Steps that do not drain follow each other as if they were one with the microbatches of all: devices wait only while
// the first batch fills the pipeline and the last one leaves it.
TEST(SteadyPipeline, WaitsOnlyAtItsEnds) {
  for (auto [meshes, microbatches, steps] : {std::tuple(std::vector<unsigned>{0, 1}, 2u, 5u),
                                             {{0, 1}, 6, 3},
                                             {four, 4, 4},
                                             {four, 6, 3},
                                             {{0, 0, 1, 1}, 4, 4}}) {
    PlacedLayers layers;
    layers.meshes = meshes;
    layers.onlyProductsTakeTime = true;
    auto plan = compileStep(layers, optionsOf(*findSchedule("2bw"), microbatches));
    ASSERT_TRUE(plan);
    std::vector<std::string> names;
    for (const runtime::Entry &entry : (*plan)->entries)
      names.push_back(entry.name);
    ASSERT_EQ(names, (std::vector<std::string>{"train", "fill", "drain"}));
    std::vector<uint32_t> entries(steps + 1, 0);
    entries.front() = 1;
    entries.back() = 2;
    Case test{*findSchedule("2bw"), steps * microbatches, meshes, {2, 2, 1}};
    runtime::Trace trace;
    runOnNullDevices(*plan, entries, test.seconds, layers.width, trace);
    double work = test.microbatches * test.seconds.sum() * static_cast<double>(meshes.size()) / layers.numMeshes();
    EXPECT_NEAR(utilisationOf(trace), work / (work + idleSeconds(test)), 1e-9)
        << meshes.size() << " layers, " << microbatches << " microbatches";
  }
}

// A plan's bytes are those that its devices allocate.
TEST(PipelineMemory, IsAllocatedAsPlanned) {
  PlacedLayers layers;
  layers.meshes = {0, 1};
  layers.driver = "cpu";
  auto plan = compileStep(layers, optionsOf(*findSchedule("1f1b"), 4));
  ASSERT_TRUE(plan);
  runtime::ExecutorOptions options;
  options.pin = false;
  runtime::MemorySource parameters;
  auto executor = runtime::Executor::create(*plan, "", parameters, options);
  ASSERT_TRUE(executor) << executor.error().text();
  std::vector<runtime::DeviceMemory> memory = (*executor)->memory();
  ASSERT_EQ(memory.size(), 2u);
  for (size_t device = 0; device != memory.size(); ++device) {
    EXPECT_EQ(memory[device].plannedBytes, (*plan)->entries.front().programs[device].arenaBytes);
    EXPECT_EQ(memory[device].allocatedBytes, memory[device].plannedBytes);
  }
}

// GPipe keeps what enters and leaves the layer for each microbatch until its backward.
TEST(PipelineMemory, GrowsWithMicrobatchesUnderGPipe) { EXPECT_GE(growthOf(*findSchedule("gpipe")), activationBytes); }

// 1F1B keeps as many as there are stages behind.
TEST(PipelineMemory, StaysUnderOneForwardOneBackward) {
  EXPECT_LE(growthOf(*findSchedule("1f1b")), 0.01 * activationBytes);
  EXPECT_LE(growthOf(*findSchedule("zb-h1")), 0.01 * activationBytes);
}

// What is live at once is packed into an arena that is hardly larger.
TEST(PipelineMemory, IsPackedTightly) {
  for (Schedule schedule : {*findSchedule("gpipe"), *findSchedule("1f1b"), *findSchedule("zb-h1")})
    for (unsigned microbatches : {8, 16}) {
      auto program = secondStage(schedule, microbatches);
      ASSERT_TRUE(program);
      EXPECT_LE(static_cast<double>(program->arenaBytes), 1.02 * static_cast<double>(program->liveBytes))
          << schedule->name << " of " << microbatches;
    }
}

/// The most that the trace of a step on null devices shows in use of the device of the second of four stages.
double tracedPeak(Schedule schedule, unsigned microbatches) {
  PlacedLayers layers;
  layers.samples = 256;
  layers.meshes = four;
  auto plan = compileStep(layers, optionsOf(schedule, microbatches));
  if (!plan)
    return 0;
  runtime::Trace trace;
  utilisationOf(*plan, {}, layers.width, trace);
  double peak = 0;
  for (const runtime::Trace::Counter &counter : memoryOf(trace))
    if (counter.device == 1)
      for (auto [time, bytes] : counter.values)
        peak = std::max(peak, bytes);
  return peak;
}

// The trace shows what the schedules promise.
TEST(PipelineMemory, IsShownByTheTrace) {
  EXPECT_GE(tracedPeak(*findSchedule("gpipe"), 16) - tracedPeak(*findSchedule("gpipe"), 8), 8 * activationBytes);
  for (Schedule schedule : {*findSchedule("1f1b"), *findSchedule("zb-h1")}) {
    double growth = tracedPeak(schedule, 16) - tracedPeak(schedule, 8);
    EXPECT_LE(growth, 0.08 * activationBytes) << schedule->name;
    // As many microbatches are kept: less than one fewer.
    EXPECT_GT(growth, -activationBytes) << schedule->name;
  }
}

// Gradients are summed up as they come: there is one of each parameter, and at most two more of the layer at hand.
TEST(PipelineMemory, KeepsOneGradientOfAParameter) {
  PlacedLayers layers;
  layers.width = 128;
  layers.meshes = std::vector<unsigned>(8, 0);
  double parameter = 128 * 128 * 4;
  for (unsigned microbatches : {2, 6})
    EXPECT_LE(arenaOf(layers, optionsOf(*findSchedule("gpipe"), microbatches)), (8 + 8 + 2) * parameter * 1.1);
}

// What is computed again is not kept: of four layers only what enters the first.
TEST(PipelineMemory, FallsWithRecomputation) {
  PlacedLayers layers;
  layers.samples = 256;
  layers.meshes = std::vector<unsigned>(4, 0);
  TrainingOptions options = optionsOf(*findSchedule("gpipe"), 8);
  double all = arenaOf(layers, options);
  options.kept = KeptActivations::StageInputs;
  EXPECT_LE(arenaOf(layers, options), all - 3 * 7 * activationBytes);
}

// Two replicas share the optimizer's state, the gradients and the parameters, one more with each step: no step needs
// more than the one before, and together they save half of at least one of the three.
TEST(PipelineMemory, FallsWithSharedState) {
  PlacedLayers layers;
  layers.width = 128;
  layers.meshes = std::vector<unsigned>(8, 0);
  layers.devicesOfMesh = 2;
  layers.combines = false;
  TrainingOptions options = optionsOf(*findSchedule("gpipe"), 2);
  auto momentum = parseOptimizer("momentum", "");
  ASSERT_TRUE(static_cast<bool>(momentum));
  options.optimizer = *momentum;
  std::vector<double> bytes;
  for (options.zero = 0; options.zero <= 3; ++options.zero)
    bytes.push_back(arenaOf(layers, options));
  EXPECT_TRUE(std::is_sorted(bytes.rbegin(), bytes.rend())) << testing::PrintToString(bytes);
  EXPECT_LE(bytes.back(), bytes.front() - 8 * 128 * 128 * 4 / 2);
}

} // namespace
} // namespace cleave::test
