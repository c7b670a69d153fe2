// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random plans on a simulated CUDA, against the cpu driver. Programs have few buffers and many instructions on all
// their queues, with exactly the waits that they need, so that there is hardly a wait of the driver's that a result
// does not depend on.

#include "../PlanBuilder.h"
#include "SimulatedCuda.h"

#include "runtime/Executor.h"
#include "runtime/Verify.h"

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>

namespace cleave::runtime::test {
namespace {

constexpr int64_t block = 6;

/// A program on a mesh, whose instructions wait for what they depend on.
class RandomProgram {
public:
  RandomProgram(const std::string &driver, uint32_t seed) : random(seed), builder(driver) {
    devices = 1 + random() % 4;
    mesh = builder.mesh("m", {devices});
    add = builder.kernel("add", 2, block);
    twice = builder.kernel("twice", 1, block);
    auto size = static_cast<int64_t>(devices) * block;
    TileDim part{size, {{0, block}}, block}, shifted = part;
    shifted.before = 1 + static_cast<int64_t>(random() % (2 * block));
    rows = builder.tile({{part}});
    neighbours = builder.tile({{shifted}});
    builder.input("x", size);
    uses.resize(5);
    for (uint32_t buffer = 0; buffer != uses.size(); ++buffer) {
      builder.buffer(mesh, "b" + std::to_string(buffer), block);
      load(buffer);
    }
    for (unsigned i = 0; i != 30; ++i)
      addInstruction();
    for (uint32_t buffer = 0; buffer != uses.size(); ++buffer)
      store(buffer);
  }
  const PlanBuilder &plan() const { return builder; }

private:
  struct Use {
    std::vector<Point> writes, reads; ///< the last write, and reads since
  };

  std::vector<Point> waitsFor(const std::vector<uint32_t> &sources, std::optional<uint32_t> target) const {
    std::vector<Point> waits;
    for (uint32_t source : sources)
      waits.insert(waits.end(), uses[source].writes.begin(), uses[source].writes.end());
    if (target)
      for (const auto *points : {&uses[*target].writes, &uses[*target].reads})
        waits.insert(waits.end(), points->begin(), points->end());
    return waits;
  }
  void note(const std::vector<uint32_t> &sources, std::optional<uint32_t> target, Point point) {
    for (uint32_t source : sources)
      uses[source].reads.push_back(point);
    if (target)
      uses[*target] = {{point}, {}};
  }

  void load(uint32_t target) {
    fb::LoadInputT load;
    load.buffer = target;
    load.tile = rows;
    note({}, target, builder.act(mesh, "load", load, waitsFor({}, target), HostQueue));
  }
  void store(uint32_t source) {
    fb::StoreOutputT store;
    store.output = builder.output("y" + std::to_string(outputs++), static_cast<int64_t>(devices) * block);
    store.buffer = source;
    store.tile = rows;
    note({source}, {}, builder.act(mesh, "store", store, waitsFor({source}, {}), HostQueue));
  }

  void addInstruction() {
    auto size = static_cast<uint32_t>(uses.size());
    uint32_t source = random() % size, other = random() % size, target = random() % size;
    auto waits = waitsFor({source}, target);
    if (target == source)
      target = (target + 1) % size, waits = waitsFor({source}, target);
    switch (random() % 8) {
    case 0:
      return load(target);
    case 1:
      return store(source);
    case 2:
      return note({source}, target, builder.copy(mesh, "copy", source, target, waits));
    case 3:
      return note({source}, target, builder.call(mesh, "twice", twice, {source, target}, waits));
    case 4:
    case 5:
      waits = waitsFor({source, other}, target);
      return note({source, other}, target, builder.call(mesh, "add", add, {source, other, target}, waits));
    case 6:
      return reduce(source, random() % 2 ? target : source);
    default:
      return exchange(source, target);
    }
  }
  void reduce(uint32_t source, uint32_t target) {
    fb::AllReduceT reduce;
    reduce.source = source;
    reduce.target = target;
    reduce.axes = {0};
    reduce.channel = channels++;
    reduce.combiner = random() % 2 ? fb::Combiner::Max : fb::Combiner::Sum;
    note({source}, target, builder.act(mesh, "reduce", reduce, waitsFor({source}, target)));
  }
  void exchange(uint32_t source, uint32_t target) {
    fb::ExchangeT exchange;
    exchange.source = source;
    exchange.target = target;
    exchange.source_tile = rows;
    exchange.target_tile = neighbours;
    exchange.channel = channels++;
    exchange.fill = 3;
    note({source}, target, builder.act(mesh, "exchange", exchange, waitsFor({source}, target)));
  }

  std::mt19937 random;
  PlanBuilder builder;
  uint32_t devices = 1, mesh = 0, add = 0, twice = 0, outputs = 0, channels = 0;
  int32_t rows = 0, neighbours = 0;
  std::vector<Use> uses; ///< by buffer
};

using Results = std::vector<std::vector<float>>;

/// The outputs of steps on x = step, step + 1, ..., several in flight.
Results run(const RandomProgram &program, unsigned steps, unsigned inFlight) {
  Plan plan = program.plan().read();
  Error unsound = verifyPlan(plan);
  EXPECT_FALSE(unsound) << unsound.text();
  MemorySource none;
  auto executor = Executor::create(plan, "main", none);
  EXPECT_TRUE(executor) << executor.error().text();
  if (unsound || !executor)
    return {};
  std::vector<std::vector<HostTensor>> outputs;
  std::vector<Ticket> tickets;
  for (unsigned step = 0; step != steps; ++step) {
    auto input = *HostTensor::allocate(plan->entries[0].inputs[0].type);
    float value = static_cast<float>(step);
    for (float &element : input.as<float>())
      element = value++;
    auto &output = outputs.emplace_back(*allocateTensors(plan->entries[0].outputs));
    tickets.push_back(*(*executor)->submit({input}, output));
    if (step + 1 >= inFlight) {
      Error error = (*executor)->wait(tickets[step + 1 - inFlight]).error();
      EXPECT_FALSE(error) << error.text();
    }
  }
  executor->reset(); // waits for the others
  Results results;
  for (const auto &output : outputs)
    for (const HostTensor &tensor : output)
      results.emplace_back(tensor.as<float>().begin(), tensor.as<float>().end());
  return results;
}

class CudaRandomPlanTest : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, CudaRandomPlanTest, testing::Range(0u, 24u));

// Graphs and eager steps, on one GPU and several, in many orders of streams, give what processors give.
TEST_P(CudaRandomPlanTest, AgreesWithCpu) {
  uint32_t seed = GetParam();
  for (uint32_t plan = 4 * seed; plan != 4 * seed + 4; ++plan) {
    Results expected = run(RandomProgram("cpu", plan), 7, 3);
    for (const char *graphs : {"0", "1"}) {
      setenv("CLEAVE_CUDA_GRAPHS", graphs, 1);
      simulated::Cuda cuda({.seed = seed, .gpus = 1 + static_cast<int>(plan % 3)});
      EXPECT_EQ(run(RandomProgram("cuda", plan), 7, 3), expected) << "plan " << plan << ", graphs " << graphs;
      unsetenv("CLEAVE_CUDA_GRAPHS");
      EXPECT_EQ(cuda.misuse(), "");
    }
  }
}

} // namespace
} // namespace cleave::runtime::test
