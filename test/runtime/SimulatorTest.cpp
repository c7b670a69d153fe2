// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The simulator against closed formulas and hand-made schedules, against the null driver, and devices that stand for
// others against each device by itself.

#include "PlanBuilder.h"
#include "TileReference.h"

#include "runtime/Executor.h"
#include "runtime/Verify.h"
#include "runtime/simulator/SimulationTrace.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <sstream>

namespace cleave::runtime::test {
namespace {

/// Hosts of `perHost` devices; each device has a link out (2 d), one in (2 d + 1), and each host one out and one in.
class TableMachine : public MachineModel {
public:
  explicit TableMachine(uint32_t devices, uint32_t perHost = 1000)
      : table(2 * devices + 2 * ((devices + perHost - 1) / perHost), 1000.0), devices(devices), perHost(perHost) {}
  uint32_t kindOf(uint32_t device) const override { return kinds(device); }
  uint32_t hostOf(uint32_t device) const override { return device / perHost; }
  double seconds(uint32_t device, const LocalWork &work) const override { return work.kernel ? call(device) : 0; }
  std::span<const double> bandwidths() const override { return table; }
  void findWay(uint32_t from, uint32_t to, double, Way &way) const override {
    if (from == to)
      return;
    way.latency = latency;
    way.links = {2 * from, 2 * to + 1};
    if (hostOf(from) == hostOf(to))
      return;
    way.links.push_back(2 * devices + 2 * hostOf(from));
    way.links.push_back(2 * devices + 2 * hostOf(to) + 1);
  }
  double overlapSlowdown(uint32_t) const override { return overlap; }
  double contention(uint32_t, const LocalWork &) const override { return neighbours; }
  double coresOf(uint32_t) const override { return cores; }
  double threadsOf(uint32_t device, unsigned own) const override {
    return device < gpus ? 0 : MachineModel::threadsOf(device, own);
  }
  double wakeSeconds(uint32_t) const override { return wake; }

  /// By link: 1000 B/s, unless a test says otherwise.
  std::vector<double> table;
  double latency = 0; ///< of every way
  std::function<uint32_t(uint32_t)> kinds = [](uint32_t) { return 0; };
  std::function<double(uint32_t)> call = [](uint32_t) { return 1.0; };
  double overlap = 1, neighbours = 1, wake = 0, cores = std::numeric_limits<double>::infinity();
  uint32_t gpus = 0; ///< The first devices, which compute without their host.

private:
  const uint32_t devices, perHost;
};

SimulationResult simulated(const PlanBuilder &builder, const MachineModel &model, SimulationOptions options = {}) {
  Plan plan = builder.read();
  Error error = verifyPlan(plan);
  EXPECT_FALSE(error) << error.text();
  auto result = simulate(*plan, plan->entries[0], model, options);
  EXPECT_TRUE(result) << result.error().text();
  return result ? std::move(*result) : SimulationResult();
}

double lastEnd(const SimulationResult &result) { return result.steps.back().second; }

// In a chain of calls times add up; a second step begins when the first is over.
TEST(Simulator, AddsUpChain) {
  PlanBuilder builder("null");
  uint32_t d = builder.device("d"), x = builder.input("x", 4), kernel = builder.kernel("twice", 1, 4);
  uint32_t a = builder.buffer(d, "a", 4), b = builder.buffer(d, "b", 4);
  Point at = builder.loadInput(d, x, a);
  for (unsigned i = 0; i != 5; ++i)
    at = builder.call(d, "c" + std::to_string(i), kernel, {a, b}, {at});
  TableMachine machine(1);
  EXPECT_DOUBLE_EQ(lastEnd(simulated(builder, machine)), 5);
  SimulationResult result = simulated(builder, machine, {3, 2, false});
  EXPECT_DOUBLE_EQ(lastEnd(result), 15);
  EXPECT_DOUBLE_EQ(result.devices[0].computing, 15);
  EXPECT_DOUBLE_EQ(result.devices[0].idle, 0);
}

/// d0 loads and computes "fork"; d0 and d1 compute `left` and `right`; d0 joins them.
PlanBuilder forkJoinPlan() {
  PlanBuilder builder("null");
  uint32_t d0 = builder.device("d0"), d1 = builder.device("d1"), x = builder.input("x", 250);
  uint32_t one = builder.kernel("twice", 1, 250), two = builder.kernel("add", 2, 250);
  uint32_t in = builder.buffer(d0, "in", 250), forked = builder.buffer(d0, "forked", 250),
           left = builder.buffer(d0, "left", 250), back = builder.buffer(d0, "back", 250),
           joined = builder.buffer(d0, "joined", 250);
  uint32_t taken = builder.buffer(d1, "taken", 250), right = builder.buffer(d1, "right", 250);
  Point fork = builder.call(d0, "fork", one, {in, forked}, {builder.loadInput(d0, x, in)});
  Point sent = builder.send(d0, "fork", forked, d1, 0, {fork});
  Point here = builder.call(d0, "left", one, {forked, left}, {fork});
  Point there = builder.call(d1, "right", one, {taken, right}, {builder.receive(d1, "fork", taken, d0, 0)});
  builder.send(d1, "right", right, d0, 1, {there});
  builder.call(d0, "join", two, {left, back, joined}, {here, sent, builder.receive(d0, "right", back, d1, 1)});
  return builder;
}

// 1000 bytes take a second on a link: fork 1, there 1, right 3, back 1, join 1; left (1) is not on the longest way.
TEST(Simulator, JoinsForks) {
  TableMachine machine(2);
  machine.call = [](uint32_t device) { return device == 0 ? 1.0 : 3.0; };
  machine.kinds = [](uint32_t device) { return device; };
  PlanBuilder builder = forkJoinPlan();
  SimulationResult result = simulated(builder, machine);
  EXPECT_DOUBLE_EQ(lastEnd(result), 7);
  Plan plan = builder.read();
  auto path = criticalPath(plan->entries[0], result);
  double sum = 0;
  for (const CriticalItem &item : path) {
    sum += item.seconds;
    EXPECT_NE(item.name, "left");
  }
  EXPECT_DOUBLE_EQ(sum, 7);
  EXPECT_EQ(path.front().name, "right");
}

// While a device sends and computes, both take `overlap` times as long: of the second in which both would go on, until
// the transfer's end after 1.5 s, the call has done 1 s; it takes as long as before from then on.
TEST(Simulator, SlowsDownOverlap) {
  PlanBuilder builder("null");
  uint32_t d0 = builder.device("d0"), d1 = builder.device("d1"), x = builder.input("x", 250);
  uint32_t in = builder.buffer(d0, "in", 250), out = builder.buffer(d0, "out", 250);
  Point loaded = builder.loadInput(d0, x, in);
  builder.send(d0, "x", in, d1, 0, {loaded});
  builder.call(d0, "c", builder.kernel("twice", 1, 250), {in, out}, {loaded});
  builder.receive(d1, "x", builder.buffer(d1, "taken", 250), d0, 0);
  TableMachine machine(2);
  machine.overlap = 1.5;
  machine.call = [](uint32_t) { return 3.0; };
  EXPECT_DOUBLE_EQ(lastEnd(simulated(builder, machine)), 1.5 + 2);
}

// Devices compute a second each: with a core for each thread, with fewer, of several cores each, as GPUs but for one,
// and alone with more threads than the host has cores, which its second knows of.
TEST(Simulator, SharesCoresOfHost) {
  auto secondsOf = [](unsigned devices, unsigned cores, double coresOfHost, uint32_t gpus) {
    PlanBuilder builder("null");
    uint32_t kernel = builder.kernel("twice", 1, 4);
    for (uint32_t i = 0; i != devices; ++i) {
      std::string name = std::to_string(i);
      uint32_t device = builder.device("d" + name, cores), in = builder.buffer(device, "in", 4);
      Point loaded = builder.loadInput(device, builder.input("x" + name, 4), in);
      builder.call(device, "c", kernel, {in, builder.buffer(device, "out", 4)}, {loaded});
    }
    TableMachine machine(devices);
    machine.kinds = [gpus](uint32_t device) { return device < gpus; };
    machine.cores = coresOfHost;
    machine.gpus = gpus;
    return lastEnd(simulated(builder, machine));
  };
  EXPECT_DOUBLE_EQ(secondsOf(4, 1, 4, 0), 1);
  EXPECT_DOUBLE_EQ(secondsOf(4, 1, 2, 0), 2);
  EXPECT_DOUBLE_EQ(secondsOf(3, 1, 2, 0), 1.5);
  EXPECT_DOUBLE_EQ(secondsOf(2, 2, 2, 0), 2);
  EXPECT_DOUBLE_EQ(secondsOf(4, 1, 1, 3), 1);
  EXPECT_DOUBLE_EQ(secondsOf(1, 8, 2, 0), 1);
}

/// `pairs` transfers at once, each of 1000 bytes from device i to device pairs + i.
PlanBuilder transfersPlan(uint32_t pairs) {
  PlanBuilder builder("null");
  for (uint32_t i = 0; i != 2 * pairs; ++i)
    builder.device("d" + std::to_string(i));
  uint32_t x = builder.input("x", 250);
  for (uint32_t i = 0; i != pairs; ++i) {
    uint32_t in = builder.buffer(i, "in", 250), out = builder.buffer(pairs + i, "out", 250);
    builder.send(i, "t", in, pairs + i, i, {builder.loadInput(i, x, in)});
    builder.receive(pairs + i, "t", out, i, i);
  }
  return builder;
}

// Inside a host two transfers do not meet; between hosts they share the hosts' links.
TEST(Simulator, SharesLinks) {
  EXPECT_DOUBLE_EQ(lastEnd(simulated(transfersPlan(2), TableMachine(4))), 1);
  EXPECT_DOUBLE_EQ(lastEnd(simulated(transfersPlan(2), TableMachine(4, 2))), 2);
  EXPECT_DOUBLE_EQ(lastEnd(simulated(transfersPlan(5), TableMachine(10, 5))), 5);
}

// A short transfer leaves the link to the long one when it is over.
TEST(Simulator, GivesLinksBack) {
  PlanBuilder shorter("null");
  for (uint32_t i = 0; i != 4; ++i)
    shorter.device("d" + std::to_string(i));
  for (uint32_t i = 0; i != 2; ++i) {
    int64_t length = i == 0 ? 250 : 62;
    uint32_t x = shorter.input("x" + std::to_string(i), length);
    uint32_t in = shorter.buffer(i, "in", length), out = shorter.buffer(2 + i, "out", length);
    shorter.send(i, "t", in, 2 + i, i, {shorter.loadInput(i, x, in)});
    shorter.receive(2 + i, "t", out, i, i);
  }
  SimulationResult result = simulated(shorter, TableMachine(4, 2));
  EXPECT_DOUBLE_EQ(lastEnd(result), 1.248); // the link carries 1000 + 248 bytes without a break
}

/// One all-reduce of `bytes` over all axes of a mesh, or over one.
PlanBuilder allReducePlan(const std::vector<uint32_t> &axes, std::vector<uint32_t> over, int64_t bytes) {
  PlanBuilder builder("null");
  uint32_t mesh = builder.mesh("m", axes), x = builder.input("x", bytes / 4);
  uint32_t in = builder.buffer(mesh, "in", bytes / 4);
  fb::AllReduceT reduce;
  reduce.source = reduce.target = in;
  reduce.axes = std::move(over);
  builder.act(mesh, "sum", reduce, {builder.loadInput(mesh, x, in)});
  return builder;
}

// Ring all-reduce: 2 (n - 1) latencies and 2 (n - 1) / n of the bytes over every link.
TEST(Simulator, ReducesAlongRing) {
  for (uint32_t n : {2, 3, 5, 8}) {
    TableMachine machine(n);
    machine.latency = 2e-6;
    double expected = 2.0 * (n - 1) * 2e-6 + 2.0 * (n - 1) / n * 40000 / 1000;
    EXPECT_NEAR(lastEnd(simulated(allReducePlan({n}, {0}, 40000), machine)), expected, 1e-9) << n;
  }
}

// With few bytes a tree has fewer latencies than a ring: 2 log2(n).
TEST(Simulator, ReducesLittleAlongTree) {
  TableMachine machine(64);
  machine.table.assign(machine.table.size(), 1e6);
  machine.latency = 1;
  EXPECT_NEAR(lastEnd(simulated(allReducePlan({64}, {0}, 40), machine)), 2 * 6 * 1.0 + 2 * 40 / 1e6, 1e-9);
}

// Four rings that leave their hosts share the hosts' links: each has a quarter of it.
TEST(Simulator, SharesLinksBetweenRings) {
  double alone = lastEnd(simulated(allReducePlan({2}, {0}, 4000), TableMachine(2, 1)));
  EXPECT_NEAR(alone, 4, 1e-9);
  EXPECT_NEAR(lastEnd(simulated(allReducePlan({2, 4}, {0}, 4000), TableMachine(8, 4))), 4 * alone, 1e-9);
}

// What stands for all gives the same times as each device by itself: meshes, groups, hosts, two kinds of devices.
TEST(Simulator, RepresentsDevices) {
  struct Case {
    std::vector<uint32_t> axes, over;
    uint32_t perHost, slow;
  };
  for (const Case &c : {Case{{2, 4}, {0}, 4, 0}, Case{{2, 4}, {1}, 4, 0}, Case{{4, 4}, {0, 1}, 4, 0},
                        Case{{4, 3}, {1}, 4, 0}, Case{{4, 3}, {0}, 5, 3}, Case{{3, 4}, {1}, 2, 1}}) {
    PlanBuilder builder = allReducePlan(c.axes, c.over, 4000);
    uint32_t out = builder.buffer(0, "out", 1000), count = 1;
    builder.call(0, "c", builder.kernel("twice", 1, 1000), {0, out}, {{CollectiveQueue, 1}});
    for (uint32_t size : c.axes)
      count *= size;
    TableMachine machine(count, c.perHost);
    machine.kinds = [&](uint32_t device) { return device < c.slow ? 1 : 0; };
    machine.call = [&](uint32_t device) { return device < c.slow ? 5.0 : 1.0; };
    machine.overlap = 1.2;
    machine.neighbours = 1.1;
    SimulationResult some = simulated(builder, machine, {3, 2, false});
    SimulationResult each = simulated(builder, machine, {3, 2, true});
    EXPECT_LE(some.sites.size(), each.sites.size());
    EXPECT_EQ(each.sites.size(), count);
    for (size_t step = 0; step != 3; ++step)
      EXPECT_NEAR(some.steps[step].second, each.steps[step].second, 1e-9);
    for (uint32_t device = 0; device != count; ++device)
      EXPECT_NEAR(some.devices[some.classOfDevice[device]].computing,
                  each.devices[each.classOfDevice[device]].computing, 1e-9);
  }
}

// Sixteen thousand devices that run one program are one.
TEST(Simulator, SimulatesManyDevices) {
  SimulationResult result = simulated(allReducePlan({2048, 8}, {1}, 4000), TableMachine(16384, 8));
  EXPECT_EQ(result.sites.size(), 1u);
  EXPECT_EQ(result.sites[0].count, 16384u);
  EXPECT_NEAR(lastEnd(result), 2.0 * 7 / 8 * 4, 1e-9);
}

// A pipeline of two devices with k steps in flight: the slower one sets the pace as soon as k is 2.
TEST(Simulator, OverlapsPipeline) {
  TableMachine machine(2);
  machine.table.assign(machine.table.size(), std::numeric_limits<double>::infinity());
  machine.latency = 0.5;
  machine.kinds = [](uint32_t device) { return device; };
  machine.call = [](uint32_t device) { return device == 0 ? 1.0 : 2.0; };
  PlanBuilder builder = pipelinePlan("null");
  EXPECT_DOUBLE_EQ(lastEnd(simulated(builder, machine, {1, 1, false})), 3.5);
  EXPECT_DOUBLE_EQ(lastEnd(simulated(builder, machine, {4, 1, false})), 4 * 3.5);
  EXPECT_DOUBLE_EQ(lastEnd(simulated(builder, machine, {4, 4, false})), 1 + 4 * 2.5);
  EXPECT_NEAR(simulated(builder, machine, {5, 4, false}).stepsPerSecond(), 1 / 2.5, 1e-9);
}

// The null driver, told the same seconds, ends at the same time: calls of many lengths on a chain of devices.
TEST(Simulator, AgreesWithNullDriver) {
  std::mt19937 random(7);
  for (unsigned round = 0; round != 20; ++round) {
    uint32_t count = 2 + random() % 4;
    std::vector<unsigned> lengths(count);
    for (unsigned &length : lengths)
      length = 1 + random() % 9;
    PlanBuilder builder("null");
    uint32_t x = builder.input("x", 4), y = builder.output("y", 4), twice = builder.kernel("twice", 1, 4);
    for (uint32_t i = 0; i != count; ++i) {
      builder.device("d" + std::to_string(i));
      uint32_t in = builder.buffer(i, "in", 4), out = builder.buffer(i, "out", 4);
      Point ready = i == 0 ? builder.loadInput(i, x, in) : builder.receive(i, "t", in, i - 1, i - 1);
      Point done = builder.call(i, "c", twice, {in, out}, {ready});
      if (i + 1 == count)
        builder.storeOutput(i, y, out, {done});
      else
        builder.send(i, "t", out, i + 1, i, {done});
    }
    TableMachine machine(count);
    machine.table.assign(machine.table.size(), std::numeric_limits<double>::infinity());
    machine.latency = 0.5;
    machine.kinds = [](uint32_t device) { return device; };
    machine.call = [&](uint32_t device) { return static_cast<double>(lengths[device]); };
    unsigned steps = 5, inFlight = 1 + random() % 4;
    ExecutorOptions options;
    options.seconds = [&](uint32_t device, const Instruction &instruction) {
      if (std::holds_alternative<Call>(instruction.action))
        return static_cast<double>(lengths[device]);
      return std::holds_alternative<Send>(instruction.action) ? 0.5 : 0.0;
    };
    MemorySource none;
    auto executor = Executor::create(builder.read(), "", none, options);
    std::vector<HostTensor> tensors = {*HostTensor::allocate({ElementType::F32, {4}, {}})};
    std::vector<Ticket> tickets;
    int64_t end = 0;
    for (unsigned step = 0; step != steps + inFlight; ++step) {
      if (step >= inFlight)
        end = (*executor)->wait(tickets[step - inFlight])->end;
      if (step < steps)
        tickets.push_back(*(*executor)->submit(tensors, tensors));
    }
    EXPECT_NEAR(lastEnd(simulated(builder, machine, {steps, inFlight, false})), static_cast<double>(end) / 1e9, 1e-6);
  }
}

// Queues that slept need time to wake: here the first instruction of each of two queues, and the third again.
TEST(Simulator, WakesQueues) {
  PlanBuilder builder("null");
  uint32_t d = builder.device("d"), x = builder.input("x", 4), y = builder.output("y", 4);
  uint32_t a = builder.buffer(d, "a", 4), b = builder.buffer(d, "b", 4);
  Point called = builder.call(d, "c", builder.kernel("twice", 1, 4), {a, b}, {builder.loadInput(d, x, a)});
  builder.storeOutput(d, y, b, {called});
  TableMachine machine(1);
  machine.wake = 0.1;
  EXPECT_NEAR(lastEnd(simulated(builder, machine)), 1.3, 1e-9);
}

// Buffers count from their first instruction to their last, what was prepared always.
TEST(Simulator, AddsUpMemory) {
  PlanBuilder builder("null");
  uint32_t d = builder.device("d"), x = builder.input("x", 100), kernel = builder.kernel("twice", 1, 100);
  uint32_t w = builder.constant("w", 1000, 1), weights = builder.buffer(d, "weights", 1000);
  uint32_t a = builder.buffer(d, "a", 100), b = builder.buffer(d, "b", 100), c = builder.buffer(d, "c", 100);
  builder.into(Phase::Prepare).loadParameter(d, w, weights);
  builder.into(Phase::Body);
  Point first = builder.call(d, "first", kernel, {a, b}, {builder.loadInput(d, x, a)});
  Point second = builder.call(d, "second", kernel, {b, c}, {first});
  builder.copy(d, "uses weights", weights, builder.buffer(d, "copy", 1000), {second});
  SimulationResult result = simulated(builder, TableMachine(1));
  const SimulatedDevice &device = result.devices[0];
  EXPECT_EQ(device.memory.front().second, 4000 + 800);
  EXPECT_EQ(device.peakBytes, 8000);
  EXPECT_EQ(device.memory.back().second, 4000);
  EXPECT_GE(device.arenaBytes, device.peakBytes);
}

// A trace is JSON with a track a queue, a slice an instruction, and a counter; brackets match, numbers are finite.
TEST(Simulator, WritesTrace) {
  Plan plan = forkJoinPlan().read();
  auto result = simulate(*plan, plan->entries[0], TableMachine(2), {2, 1, false});
  Trace trace;
  traceSimulation(plan, plan->entries[0], *result, trace);
  std::ostringstream out;
  trace.write(out);
  std::string text = out.str();
  auto count = [&](const std::string &part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("\"ph\":\"X\""), result->events.size());
  EXPECT_EQ(result->events.size(), 2u * (5 + 3 + 1));
  EXPECT_GT(count("\"ph\":\"C\",\"name\":\"bytes in use\""), 4u);
  EXPECT_EQ(count("{"), count("}"));
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf"), std::string::npos);
}

// A machine that does not answer is an error, not a hang.
TEST(Simulator, RefusesMachineWithoutTime) {
  Plan plan = pipelinePlan("null").read();
  TableMachine machine(2);
  machine.call = [](uint32_t) { return std::nan(""); };
  auto result = simulate(*plan, plan->entries[0], machine, {});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("gives no time"), std::string::npos);
}

} // namespace
} // namespace cleave::runtime::test
