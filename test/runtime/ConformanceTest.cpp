// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What every driver and every communicator must do. Values are compared where the driver computes; order, overlap,
// memory and errors everywhere.

#include "Conformance.h"

#include <algorithm>

namespace cleave::runtime::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Drivers, ConformanceTest, testing::ValuesIn(allBackends()),
                         [](const auto &info) { return info.param.name; });

// A step goes through both devices and its values come out: y = x + 1, as nap copies.
TEST_P(ConformanceTest, RunsPipeline) {
  create(pipeline());
  std::vector<HostTensor> outputs;
  auto times = executor->wait(submit(5, outputs));
  ASSERT_TRUE(times) << times.error().text();
  EXPECT_GE(times->end - times->begin, 5000000);
  if (GetParam().computes) {
    EXPECT_EQ(valuesOf(outputs[0]), std::vector<float>(4, 6));
  }
}

// A step that its caller only waits for is one like others, and begins when none is in flight.
TEST_P(ConformanceTest, RunsAStepForItsCaller) {
  create(pipeline());
  auto input = *HostTensor::allocate(executor->entry().inputs[0].type),
       output = *HostTensor::allocate(executor->entry().outputs[0].type);
  for (float value : {5, 6}) {
    std::ranges::fill(input.as<float>(), value);
    auto times = executor->run(0, {input}, {output});
    ASSERT_TRUE(times) << times.error().text();
    EXPECT_GE(times->end - times->begin, 5000000);
    if (GetParam().computes) {
      EXPECT_EQ(valuesOf(output), std::vector<float>(4, value + 1));
    }
    std::vector<HostTensor> outputs;
    Ticket ticket = submit(1, outputs);
    EXPECT_EQ(executor->run(0, {input}, {output}).error().message(),
              "running a step expects none in flight, got 1; wait for them");
    EXPECT_TRUE(executor->wait(ticket));
  }
}

// What goes to the host's memory comes back, although others have had its bytes of the arena in between: of x, kept are
// 2 x; 4 x and 8 x take turns with it; y = 2 x + 8 x. Step by step, and with several in flight.
TEST_P(ConformanceTest, KeepsBuffersInTheHostsMemory) {
  PlanBuilder b(GetParam().driver);
  constexpr int64_t length = 1024;
  uint32_t device = b.device("a"), in = b.input("x", length), out = b.output("y", length);
  uint32_t twice = b.kernel("twice", 1, length), add = b.kernel("add", 2, length);
  uint32_t x = b.buffer(device, "x", length), u = b.buffer(device, "2x", length), v = b.buffer(device, "4x", length),
           w = b.bufferAt(device, "8x", length, 4096), back = b.bufferAt(device, "back", length, 0),
           y = b.bufferAt(device, "y", length, 2 * 4096), kept = b.hostBuffer(device, "2x", length);
  Point doubled = b.call(device, "u", twice, {x, u}, {b.loadInput(device, in, x)});
  Point stored = b.offload(device, "u", u, kept, {doubled});
  b.call(device, "v", twice, {u, v});
  Point eightfold = b.call(device, "w", twice, {v, w}, {stored});
  Point fetched = b.fetch(device, "u", kept, back, {stored, eightfold});
  b.storeOutput(device, out, y, {b.call(device, "y", add, {back, w, y}, {fetched})});
  create(b);
  std::vector<std::vector<HostTensor>> outputs(3);
  for (bool inFlight : {false, true}) {
    std::vector<Ticket> tickets;
    for (size_t step = 0; step != outputs.size(); ++step) {
      tickets.push_back(submit(static_cast<float>(step + 1), outputs[step]));
      if (!inFlight) {
        ASSERT_TRUE(executor->wait(tickets.back()));
      }
    }
    for (size_t step = 0; step != outputs.size(); ++step) {
      if (inFlight) {
        ASSERT_TRUE(executor->wait(tickets[step]));
      }
      if (GetParam().computes) {
        EXPECT_EQ(valuesOf(outputs[step][0]), std::vector<float>(length, 10 * static_cast<float>(step + 1)));
      }
    }
  }
}

// A parameter that steps write lies in the host's memory: each step fetches it, and moves the next value there. So with
// several in flight.
TEST_P(ConformanceTest, KeepsStateInTheHostsMemory) {
  PlanBuilder b(GetParam().driver);
  constexpr int64_t length = 1024;
  uint32_t device = b.device("a"), in = b.input("x", length), out = b.output("y", length);
  uint32_t w = b.constant("w", length, 1), add = b.kernel("add", 2, length);
  uint32_t kept = b.hostBuffer(device, "w", length), x = b.buffer(device, "x", length),
           old = b.buffer(device, "old", length), next = b.buffer(device, "next", length);
  b.keep(device, w, kept);
  Point fetched = b.fetch(device, "w", kept, old);
  Point added = b.call(device, "add", add, {old, x, next}, {b.loadInput(device, in, x), fetched});
  b.offload(device, "w", next, kept, {added});
  b.storeOutput(device, out, old, {added});
  create(b);
  std::vector<std::vector<HostTensor>> outputs(3);
  float expected = 1;
  for (unsigned round = 0; round != 2; ++round) {
    std::vector<Ticket> tickets;
    for (size_t step = 0; step != outputs.size(); ++step)
      tickets.push_back(submit(static_cast<float>(step + 1), outputs[step]));
    for (size_t step = 0; step != outputs.size(); ++step) {
      ASSERT_TRUE(executor->wait(tickets[step]));
      if (GetParam().computes) {
        EXPECT_EQ(valuesOf(outputs[step][0]), std::vector<float>(length, expected));
      }
      expected += static_cast<float>(step + 1);
    }
  }
  if (GetParam().computes) {
    HostTensor after = *HostTensor::allocate({ElementType::F32, {length}, std::nullopt});
    ASSERT_FALSE(executor->readState(w, after));
    EXPECT_EQ(valuesOf(after), std::vector<float>(length, expected));
  }
}

// The static memory plan is what is allocated. The buffers end at 80 and 144 bytes; arenas are multiples of 64.
TEST_P(ConformanceTest, AllocatesExactlyThePlan) {
  create(pipeline());
  std::vector<DeviceMemory> memory = executor->memory();
  ASSERT_EQ(memory.size(), 2u);
  EXPECT_EQ(memory[0].device, "a");
  for (size_t i : {0, 1}) {
    EXPECT_EQ(memory[i].plannedBytes, i == 0 ? 128u : 192u);
    EXPECT_EQ(memory[i].allocatedBytes, memory[i].plannedBytes);
  }
}

// An instruction begins after what it waits for has ended, within a device and across a transfer.
TEST_P(ConformanceTest, KeepsOrder) {
  create(pipeline(), /*traces=*/true);
  std::vector<HostTensor> outputs;
  ASSERT_TRUE(executor->wait(submit(1, outputs)));
  auto chain = {events("x", "load input"), events("first", "call"), events("first", "receive"),
                events("second", "call"), events("y", "store output")};
  int64_t previous = 0;
  for (const auto &link : chain) {
    ASSERT_EQ(link.size(), 1u);
    // A receive may begin to wait early; what counts is when it ends.
    if (!std::holds_alternative<Receive>(link[0].instruction->action)) {
      EXPECT_GE(link[0].begin, previous);
    }
    EXPECT_GE(link[0].end, previous);
    previous = link[0].end;
  }
  EXPECT_GE(events("first", "send")[0].end, events("first", "call")[0].end);
}

// With steps in flight the first device works on the next step while the second works on the one before.
TEST_P(ConformanceTest, OverlapsSteps) {
  PlanBuilder builder = pipeline();
  builder.program(1).body[1]->action.AsCall()->kernel = 0;
  builder.program(1).body[1]->action.AsCall()->arguments = {0, 2};
  create(builder, /*traces=*/true);
  // One after the other they would never overlap; a busy machine may keep them from it in most steps.
  unsigned overlaps = 0;
  for (unsigned round = 1; overlaps == 0 && round <= 3; ++round) {
    runSteps(40);
    auto first = events("first", "call"), second = events("second", "call");
    ASSERT_EQ(second.size(), round * 40);
    for (size_t step = 0; step + 1 != second.size(); ++step)
      overlaps += first[step + 1].begin < second[step].end && second[step].begin < first[step + 1].end;
  }
  EXPECT_GE(overlaps, 1u);
}

// On one device a step begins only after the step before has ended in all its queues: buffers are used again.
TEST_P(ConformanceTest, KeepsStepsOfADeviceApart) {
  create(pipeline(), /*traces=*/true);
  runSteps(5);
  for (uint32_t device : {0u, 1u}) {
    std::vector<int64_t> begin(5, INT64_MAX), end(5, 0);
    for (const Trace::Track &track : trace.tracks())
      for (const Trace::Event &event : track.events)
        if (track.device == device && event.phase == Phase::Body) {
          begin[event.step] = std::min(begin[event.step], event.begin);
          end[event.step] = std::max(end[event.step], event.end);
        }
    for (size_t step = 1; step != 5; ++step)
      EXPECT_GE(begin[step], end[step - 1]) << "device " << device << " step " << step;
  }
}

// Independent instructions of two devices run at the same time.
TEST_P(ConformanceTest, RunsBranchesAtTheSameTime) {
  PlanBuilder builder(GetParam().driver);
  uint32_t nap = builder.kernel("nap", 1, 4), c = builder.constant("c", 4, 2);
  for (const char *name : {"a", "b"}) {
    uint32_t device = builder.device(name), v = builder.buffer(device, "v", 4), w = builder.buffer(device, "w", 4);
    builder.into(Phase::Prepare).loadParameter(device, c, v);
    builder.into(Phase::Body).call(device, name, nap, {v, w});
  }
  create(builder, /*traces=*/true);
  std::vector<HostTensor> outputs;
  constexpr size_t steps = 40;
  for (size_t step = 0; step != steps; ++step)
    ASSERT_TRUE(executor->wait(submit(0, outputs)));
  auto a = events("a", "call"), b = events("b", "call");
  unsigned overlaps = 0;
  for (size_t step = 0; step != steps; ++step)
    overlaps += std::max(a[step].begin, b[step].begin) < std::min(a[step].end, b[step].end);
  // One after the other they would never overlap; a busy machine may keep them from it in most steps.
  EXPECT_GE(overlaps, 1u);
}

// What does not fit the ports is refused by name before anything runs.
TEST_P(ConformanceTest, ChecksInputs) {
  create(pipeline());
  auto tensor = *HostTensor::allocate({ElementType::F32, {3}, {}});
  auto good = *HostTensor::allocate({ElementType::F32, {4}, {}});
  auto none = executor->submit({}, {good});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message(), "entry \"main\" expects 1 inputs, got 0");
  auto wrong = executor->submit({tensor}, {good});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message(), "input \"x\" expects f32[4], got f32[3]");
  auto output = executor->submit({good}, {tensor});
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().message(), "output \"y\" expects f32[4], got f32[3]");
  EXPECT_FALSE(executor->wait(17));
}

// Many steps with several in flight: nothing hangs, nothing gets mixed up.
TEST_P(ConformanceTest, SurvivesManySteps) {
  create(pipelinePlan(GetParam().driver, "twice"));
  constexpr unsigned slots = 4, steps = 2000;
  std::vector<std::vector<HostTensor>> outputs(slots);
  std::vector<Ticket> tickets(slots);
  for (unsigned step = 0; step != steps + slots; ++step) {
    if (step >= slots) {
      ASSERT_TRUE(executor->wait(tickets[step % slots]));
      if (GetParam().computes) {
        ASSERT_EQ(valuesOf(outputs[step % slots][0]), std::vector<float>(4, 2.0f * (step - slots) + 1));
      }
    }
    if (step < steps)
      tickets[step % slots] = submit(static_cast<float>(step), outputs[step % slots]);
  }
#ifdef CLEAVE_CUDA
  // All but the first, which a GPU's driver runs carefully.
  if (cuda) {
    EXPECT_GE(cuda->graphLaunches(), steps - slots);
  }
#endif
}

// An executor may go while steps are in flight: it waits for them.
TEST_P(ConformanceTest, GoesWithStepsInFlight) {
  create(pipeline());
  std::vector<HostTensor> outputs, more;
  submit(1, outputs);
  submit(2, more);
  executor.reset();
  if (GetParam().computes) {
    EXPECT_EQ(valuesOf(more[0]), std::vector<float>(4, 3));
  }
}

/// Only where something is done can something fail.
class ErrorConformanceTest : public ConformanceTest {};
INSTANTIATE_TEST_SUITE_P(Drivers, ErrorConformanceTest, testing::ValuesIn(computingBackends()),
                         [](const auto &info) { return info.param.name; });

/// a: parameter from a file, loaded in the body -> send; b: receive -> twice -> y.
PlanBuilder fragilePlan(const std::string &driver) {
  PlanBuilder builder(driver);
  uint32_t a = builder.device("a"), b = builder.device("b");
  fb::FileSourceT file;
  file.file = "w.bin";
  file.bytes = 16;
  fb::SourceUnion source;
  source.Set(std::move(file));
  uint32_t w = builder.parameter("w", 4, source), y = builder.output("y", 4), twice = builder.kernel("twice", 1, 4);
  uint32_t aw = builder.buffer(a, "w", 4), bw = builder.buffer(b, "w", 4), by = builder.buffer(b, "y", 4);
  Point loaded = builder.loadParameter(a, w, aw);
  builder.send(a, "move", aw, b, 0, {loaded});
  Point received = builder.receive(b, "move", bw, a, 0);
  Point doubled = builder.call(b, "double", twice, {bw, by}, {received});
  builder.storeOutput(b, y, by, {doubled});
  return builder;
}

// An error goes with the values that depend on it, through a transfer to the other device and to the caller, with the
// node where it began; nothing hangs, and the next step is as good as ever.
TEST_P(ErrorConformanceTest, CarriesErrors) {
  create(fragilePlan(GetParam().driver));
  std::vector<HostTensor> outputs;
  for (bool broken : {false, true, true, false}) {
    source.broken = broken;
    auto times = executor->wait(submit(0, outputs));
    if (broken) {
      ASSERT_FALSE(times);
      EXPECT_EQ(times.error().message(), "parameter \"w\": the disk is gone");
      EXPECT_EQ(times.error().node(), "w");
      EXPECT_EQ(valuesOf(outputs[0]), std::vector<float>(4, 0));
    } else {
      ASSERT_TRUE(times) << times.error().text();
      EXPECT_EQ(valuesOf(outputs[0]), std::vector<float>(4, 6));
    }
  }
}

// A parameter that cannot be loaded in prepare keeps the executor from being made.
TEST_P(ErrorConformanceTest, FailsToPrepare) {
  PlanBuilder builder = fragilePlan(GetParam().driver);
  builder.program(0).prepare.push_back(std::move(builder.program(0).body[0]));
  builder.program(0).body.erase(builder.program(0).body.begin());
  builder.program(0).body[0]->waits.clear();
  source.broken = true;
  auto created = Executor::create(builder.read(), "", source);
  ASSERT_FALSE(created);
  // Some drivers say on which device.
  EXPECT_TRUE(created.error().message().ends_with("parameter \"w\": the disk is gone")) << created.error().message();
}

} // namespace
} // namespace cleave::runtime::test
