// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds small plans for tests: devices and meshes with one queue of each kind, f32 vectors, an entry "main" and
// perhaps others.

#ifndef CLEAVE_TEST_RUNTIME_PLANBUILDER_H
#define CLEAVE_TEST_RUNTIME_PLANBUILDER_H

#include "runtime/Plan.h"
#include "runtime/plan_generated.h"

namespace cleave::runtime::test {

/// The queues of every device that PlanBuilder makes.
enum QueueIndex : uint32_t { ComputeQueue, SendQueue, ReceiveQueue, HostQueue, CollectiveQueue };

/// A value of a queue's timeline, to wait for.
struct Point {
  uint32_t queue, value;
};

/// Builds a plan part by part. Each part's index is returned; instructions return the point that they reach. `plan` is
/// open to tests that break it.
class PlanBuilder {
public:
  explicit PlanBuilder(std::string driver = "cpu");

  /// A device, its mesh, and its program in the entry: all three have the same index.
  uint32_t device(const std::string &name, uint32_t cores = 1);
  /// A mesh of axes of these sizes, over devices "d0", "d1", ... from `firstDevice` on (made if need be), and its
  /// program: both have the same index, which is what instructions go by.
  uint32_t mesh(const std::string &name, const std::vector<uint32_t> &axes, uint32_t firstDevice = 0);
  /// An entry that runs on the meshes that there are, with a program for each. Everything goes into it from here on.
  void addEntry(const std::string &name, uint64_t samples);
  /// A tile of the entry.
  int32_t tile(const Tile &tile);
  /// A buffer of any type after the last one of the arena.
  uint32_t buffer(uint32_t program, const std::string &name, ElementType element, std::vector<int64_t> shape);

  uint32_t input(const std::string &name, int64_t length);
  uint32_t output(const std::string &name, int64_t length);
  /// A parameter whose elements are all `value`.
  uint32_t constant(const std::string &name, int64_t length, double value);
  uint32_t parameter(const std::string &name, int64_t length, cleave::fb::SourceUnion source);
  /// A kernel of TestKernels.c, or cuda/TestKernels.cu, with inputs and outputs of `length`, parallel over all
  /// elements.
  uint32_t kernel(const std::string &symbol, unsigned inputs, int64_t length);
  /// A buffer after the last one of the device's arena, which grows.
  uint32_t buffer(uint32_t device, const std::string &name, int64_t length);
  /// A buffer in the bytes of another, or of nobody's, at `offset`.
  uint32_t bufferAt(uint32_t device, const std::string &name, int64_t length, uint64_t offset, int32_t viewOf = -1);

  /// A buffer after the last one of the program's part of the host's memory, which grows.
  uint32_t hostBuffer(uint32_t device, const std::string &name, int64_t length);

  /// Instructions go to `prepare` from here on, or to the body.
  PlanBuilder &into(Phase phase);
  Point call(uint32_t device, const std::string &node, uint32_t kernel, std::vector<uint32_t> arguments,
             std::vector<Point> waits = {});
  Point copy(uint32_t device, const std::string &node, uint32_t source, uint32_t target, std::vector<Point> waits = {});
  /// To the host's memory, on the send queue, and from it, on the receive queue.
  Point offload(uint32_t device, const std::string &node, uint32_t source, uint32_t target,
                std::vector<Point> waits = {});
  Point fetch(uint32_t device, const std::string &node, uint32_t source, uint32_t target,
              std::vector<Point> waits = {});
  Point send(uint32_t device, const std::string &node, uint32_t buffer, uint32_t peer, uint32_t channel,
             std::vector<Point> waits = {});
  Point receive(uint32_t device, const std::string &node, uint32_t buffer, uint32_t peer, uint32_t channel,
                std::vector<Point> waits = {});
  Point loadParameter(uint32_t device, uint32_t parameter, uint32_t buffer, std::vector<Point> waits = {});
  /// The buffer keeps its tile of the parameter from step to step; `prepare` loads it.
  void keep(uint32_t device, uint32_t parameter, uint32_t buffer, int32_t tile = -1);
  Point loadInput(uint32_t device, uint32_t input, uint32_t buffer, std::vector<Point> waits = {});
  Point storeOutput(uint32_t device, uint32_t output, uint32_t buffer, std::vector<Point> waits = {});

  /// Any other action, on the queue where it belongs, or another.
  template <typename T>
  Point act(uint32_t program, const std::string &node, T action, std::vector<Point> waits = {},
            uint32_t queue = CollectiveQueue) {
    return add(program, node, queue, std::move(action), std::move(waits));
  }

  std::vector<std::byte> bytes() const;
  /// The plan as the runtime reads it; a failure to read it fails the test.
  Plan read() const;

  cleave::fb::EntryT &entry() { return *plan.entries.back(); }
  cleave::fb::ProgramT &program(uint32_t device) { return *entry().programs[device]; }

  cleave::fb::PlanT plan;

private:
  uint32_t addDevice(const std::string &name, uint32_t cores);
  uint32_t addProgram(std::unique_ptr<cleave::fb::MeshT> mesh);
  template <typename T>
  Point add(uint32_t device, const std::string &node, uint32_t queue, T action, std::vector<Point> waits);

  std::string driver;
  Phase phase = Phase::Body;
};

template <typename T>
Point PlanBuilder::add(uint32_t device, const std::string &node, uint32_t queue, T action, std::vector<Point> waits) {
  auto &list = phase == Phase::Prepare ? program(device).prepare : program(device).body;
  auto instruction = std::make_unique<cleave::fb::InstructionT>();
  instruction->node = node;
  instruction->queue = queue;
  for (Point point : waits) {
    auto wait = std::make_unique<cleave::fb::WaitT>();
    wait->queue = point.queue;
    wait->value = point.value;
    instruction->waits.push_back(std::move(wait));
  }
  instruction->action.Set(std::move(action));
  list.push_back(std::move(instruction));
  uint32_t value = 0;
  for (const auto &element : list)
    value += element->queue == queue;
  return {queue, value};
}

/// A plan file from its FlatBuffer.
std::vector<std::byte> sealed(std::span<const std::byte> bytes);

/// a: x -> twice -> send; b: receive -> add a constant 1 -> y, so that y = 2 x + 1. Length 4.
PlanBuilder pipelinePlan(const std::string &driver, const std::string &firstKernel = "twice");

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_PLANBUILDER_H
