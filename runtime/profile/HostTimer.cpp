// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Waking is measured by a plan that does nothing else.

#include "runtime/profile/HostTimer.h"

#include "runtime/Executor.h"
#include "runtime/drivers/cpu/CpuArena.h"
#include "runtime/plan_generated.h"
#include "runtime/profile/CollectiveBench.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace cleave::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double medianOf(std::vector<double> samples) {
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}

constexpr uint64_t copySizes[] = {1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26};

/// Copies between places that change, as a step's inputs and buffers do.
Error profileCopies(Profile &profile) {
  constexpr uint64_t pool = 1 << 27;
  auto memory = CpuArena::allocate(2 * pool);
  if (!memory)
    return memory.error();
  std::byte *source = memory->bytes().data(), *target = source + pool;
  std::memset(source, 1, 2 * pool);
  for (uint64_t bytes : copySizes) {
    std::vector<double> samples;
    for (uint64_t turn = 0; turn != 25; ++turn) {
      uint64_t at = turn * bytes % (pool - bytes + 1);
      auto begin = Clock::now();
      std::memcpy(target + at, source + at, bytes);
      samples.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    profile.addPoint("copy", static_cast<double>(bytes), medianOf(std::move(samples)));
  }
  return Error::success();
}

Error profileCommunication(uint32_t devices, Profile &profile) {
  CollectiveBenchOptions options;
  options.operations = {"all_reduce", "reduce_scatter", "all_gather", "send"};
  options.sizes.clear();
  for (uint64_t bytes : {1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24})
    options.sizes.push_back(bytes / (devices * 64) * (devices * 64));
  options.devices = devices;
  options.rounds = 3;
  options.ceiling = false;
  auto results = measureCollectives(options);
  if (!results)
    return results.error();
  for (const CollectiveResult &result : *results)
    profile.addPoint(result.operation + ":" + std::to_string(devices), static_cast<double>(result.bytes),
                     result.seconds);
  return Error::success();
}

fb::InstructionT instruction(uint32_t queue, uint32_t waitsFor, uint32_t order) {
  fb::InstructionT made;
  made.node = "wake";
  made.queue = queue;
  made.order = order;
  if (waitsFor != UINT32_MAX) {
    auto wait = std::make_unique<fb::WaitT>();
    wait->queue = waitsFor;
    wait->value = 1;
    made.waits.push_back(std::move(wait));
  }
  return made;
}

/// Each device loads a number, copies it, and the first stores it: three queues' turns, each of which has to wake.
Expected<Plan> wakingPlan(size_t devices, unsigned cores) {
  fb::PlanT plan;
  plan.version = planVersion;
  auto type = [] {
    auto made = std::make_unique<fb::TensorTypeT>();
    made->element = fb::ElementType::F32;
    made->shape = {16};
    return made;
  };
  auto port = [&](const char *name) {
    auto made = std::make_unique<fb::PortT>();
    made->name = name;
    made->type = type();
    return made;
  };
  auto entry = std::make_unique<fb::EntryT>();
  entry->name = "main";
  entry->inputs.push_back(port("x"));
  for (size_t i = 0; i != devices; ++i) {
    auto device = std::make_unique<fb::DeviceT>();
    device->name = "d" + std::to_string(i);
    device->driver = "cpu";
    device->cores = cores;
    plan.devices.push_back(std::move(device));
    auto mesh = std::make_unique<fb::MeshT>();
    mesh->name = "m" + std::to_string(i);
    mesh->devices = {static_cast<uint32_t>(i)};
    plan.meshes.push_back(std::move(mesh));
    entry->outputs.push_back(port(("y" + std::to_string(i)).c_str()));
    auto program = std::make_unique<fb::ProgramT>();
    program->mesh = static_cast<uint32_t>(i);
    program->queues = {fb::QueueKind::Compute, fb::QueueKind::Host};
    program->arena_bytes = program->live_bytes = 128;
    for (uint64_t offset : {0, 64}) {
      auto buffer = std::make_unique<fb::BufferT>();
      buffer->name = "b";
      buffer->type = type();
      buffer->offset = offset;
      buffer->bytes = 64;
      program->buffers.push_back(std::move(buffer));
    }
    auto order = static_cast<uint32_t>(3 * i);
    fb::InstructionT load = instruction(1, UINT32_MAX, order), copy = instruction(0, 1, order + 1),
                     store = instruction(1, 0, order + 2);
    fb::CopyT copied;
    copied.target = 1;
    copy.action.Set(copied);
    load.action.Set(fb::LoadInputT());
    fb::StoreOutputT stored;
    stored.output = static_cast<uint32_t>(i);
    stored.buffer = 1;
    store.action.Set(stored);
    for (fb::InstructionT *made : {&load, &copy, &store})
      program->body.push_back(std::make_unique<fb::InstructionT>(std::move(*made)));
    entry->programs.push_back(std::move(program));
  }
  plan.entries.push_back(std::move(entry));
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Plan::Pack(builder, &plan), fb::PlanIdentifier());
  auto packed = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  std::vector<std::byte> bytes(packed.begin(), packed.end());
  auto seal = planSeal(bytes);
  bytes.insert(bytes.end(), seal.begin(), seal.end());
  return Plan::fromBytes(bytes);
}

class NoParameters : public ParameterSource {
public:
  Expected<std::span<const std::byte>> bytes(const FileSource &source) override {
    return makeError(Status::Failure, "there is no file \"", source.file, "\"");
  }
};

/// A step wakes its three turns and, at the end, who waits for it.
Error profileWaking(size_t devices, unsigned cores, Profile &profile) {
  auto plan = wakingPlan(devices, cores);
  if (!plan)
    return plan.error();
  NoParameters none;
  auto executor = Executor::create(*plan, "", none);
  if (!executor)
    return executor.error();
  auto allocate = [&](const std::vector<Port> &ports) {
    std::vector<HostTensor> tensors;
    for (const Port &port : ports)
      tensors.push_back(*HostTensor::allocate(port.type));
    return tensors;
  };
  std::vector<HostTensor> inputs = allocate((*plan)->entries[0].inputs),
                          outputs = allocate((*plan)->entries[0].outputs);
  std::vector<double> samples;
  for (unsigned step = 0; step != 500; ++step) {
    auto begin = Clock::now();
    auto ticket = (*executor)->submit(inputs, outputs);
    if (!ticket)
      return ticket.error();
    if (auto times = (*executor)->wait(*ticket); !times)
      return times.error();
    samples.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  profile.setNumber("wake:" + divisionName(devices, cores), medianOf(std::move(samples)) / 4);
  return Error::success();
}

} // namespace

Error profileHost(size_t devices, unsigned cores, Profile &profile) {
  if (!profile.curve("copy", 1))
    if (Error error = profileCopies(profile))
      return error;
  if (!profile.number("wake:" + divisionName(devices, cores)))
    if (Error error = profileWaking(devices, cores, profile))
      return error;
  if (devices < 2 || profile.curve("send:" + std::to_string(devices), 1))
    return Error::success();
  return profileCommunication(static_cast<uint32_t>(devices), profile);
}

} // namespace cleave::runtime
