// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan builder on the object API that flatc generates.

#include "PlanBuilder.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

namespace cleave::runtime::test {

static std::unique_ptr<fb::TensorTypeT> vectorType(int64_t length) {
  auto type = std::make_unique<fb::TensorTypeT>();
  type->element = fb::ElementType::F32;
  type->shape = {length};
  return type;
}

PlanBuilder::PlanBuilder(std::string driver) : driver(std::move(driver)) {
  plan.version = planVersion;
  auto entry = std::make_unique<fb::EntryT>();
  entry->name = "main";
  plan.entries.push_back(std::move(entry));
  auto object = std::make_unique<fb::NativeObjectT>();
  const char *image = CLEAVE_TEST_KERNELS;
  object->triple = "x86_64-unknown-linux-gnu";
#ifdef CLEAVE_TEST_PTX
  if (this->driver == "cuda") {
    image = CLEAVE_TEST_PTX;
    object->triple = ptxTriple;
    object->cpu = "sm_80";
  }
#endif
  std::ifstream file(image, std::ios::binary);
  object->image.assign(std::istreambuf_iterator<char>(file), {});
  object->checksum = checksum(std::as_bytes(std::span(object->image)));
  plan.objects.push_back(std::move(object));
}

uint32_t PlanBuilder::addDevice(const std::string &name, uint32_t cores) {
  auto device = std::make_unique<fb::DeviceT>();
  device->name = name;
  device->driver = driver;
  device->cores = cores;
  plan.devices.push_back(std::move(device));
  return static_cast<uint32_t>(plan.devices.size() - 1);
}

uint32_t PlanBuilder::device(const std::string &name, uint32_t cores) {
  auto mesh = std::make_unique<fb::MeshT>();
  mesh->name = name;
  mesh->devices = {addDevice(name, cores)};
  return addProgram(std::move(mesh));
}

uint32_t PlanBuilder::mesh(const std::string &name, const std::vector<uint32_t> &axes, uint32_t firstDevice) {
  auto mesh = std::make_unique<fb::MeshT>();
  mesh->name = name;
  uint32_t count = 1;
  for (uint32_t size : axes) {
    auto axis = std::make_unique<fb::AxisT>();
    axis->name = "axis" + std::to_string(mesh->axes.size());
    axis->size = size;
    mesh->axes.push_back(std::move(axis));
    count *= size;
  }
  while (plan.devices.size() < firstDevice + count)
    addDevice("d" + std::to_string(plan.devices.size()), 1);
  for (uint32_t i = 0; i != count; ++i)
    mesh->devices.push_back(firstDevice + i);
  return addProgram(std::move(mesh));
}

int32_t PlanBuilder::tile(const Tile &tile) {
  auto made = std::make_unique<fb::TileT>();
  for (const TileDim &dim : tile.dims) {
    auto &to = *made->dims.emplace_back(std::make_unique<fb::TileDimT>());
    to.size = dim.size;
    to.length = dim.length;
    to.step = dim.step;
    to.before = dim.before;
    for (const Cut &cut : dim.cuts) {
      auto &element = *to.cuts.emplace_back(std::make_unique<fb::CutT>());
      element.axis = cut.axis;
      element.block = cut.block;
      element.shift = cut.shift;
      element.ways = cut.ways;
    }
  }
  entry().tiles.push_back(std::move(made));
  return static_cast<int32_t>(entry().tiles.size() - 1);
}

static std::unique_ptr<fb::ProgramT> makeProgram(uint32_t mesh) {
  auto program = std::make_unique<fb::ProgramT>();
  program->mesh = mesh;
  program->queues = {fb::QueueKind::Compute, fb::QueueKind::Send, fb::QueueKind::Receive, fb::QueueKind::Host,
                     fb::QueueKind::Collective};
  return program;
}

uint32_t PlanBuilder::addProgram(std::unique_ptr<fb::MeshT> mesh) {
  auto index = static_cast<uint32_t>(plan.meshes.size());
  plan.meshes.push_back(std::move(mesh));
  entry().programs.push_back(makeProgram(index));
  return index;
}

void PlanBuilder::addEntry(const std::string &name, uint64_t samples) {
  auto made = std::make_unique<fb::EntryT>();
  made->name = name;
  made->samples = samples;
  for (uint32_t mesh = 0; mesh != plan.meshes.size(); ++mesh)
    made->programs.push_back(makeProgram(mesh));
  plan.entries.push_back(std::move(made));
}

void PlanBuilder::keep(uint32_t device, uint32_t parameter, uint32_t buffer, int32_t tile) {
  auto state = std::make_unique<fb::StateT>();
  state->parameter = parameter;
  state->buffer = buffer;
  state->tile = tile;
  program(device).state.push_back(std::move(state));
  fb::LoadParameterT load;
  load.parameter = parameter;
  load.buffer = buffer;
  load.tile = tile;
  Phase before = std::exchange(phase, Phase::Prepare);
  add(device, plan.parameters[parameter]->name, HostQueue, load, {});
  phase = before;
}

static uint32_t addPort(std::vector<std::unique_ptr<fb::PortT>> &ports, const std::string &name, int64_t length) {
  auto port = std::make_unique<fb::PortT>();
  port->name = name;
  port->type = vectorType(length);
  ports.push_back(std::move(port));
  return static_cast<uint32_t>(ports.size() - 1);
}

uint32_t PlanBuilder::input(const std::string &name, int64_t length) { return addPort(entry().inputs, name, length); }

uint32_t PlanBuilder::output(const std::string &name, int64_t length) { return addPort(entry().outputs, name, length); }

uint32_t PlanBuilder::constant(const std::string &name, int64_t length, double value) {
  fb::GeneratedSourceT source;
  source.a = value;
  fb::SourceUnion any;
  any.Set(source);
  return parameter(name, length, any);
}

uint32_t PlanBuilder::parameter(const std::string &name, int64_t length, fb::SourceUnion source) {
  auto parameter = std::make_unique<fb::ParameterT>();
  parameter->name = name;
  parameter->type = vectorType(length);
  parameter->source = std::move(source);
  plan.parameters.push_back(std::move(parameter));
  return static_cast<uint32_t>(plan.parameters.size() - 1);
}

uint32_t PlanBuilder::kernel(const std::string &symbol, unsigned inputs, int64_t length) {
  auto kernel = std::make_unique<fb::KernelT>();
  kernel->name = symbol;
  for (unsigned i = 0; i != inputs; ++i)
    kernel->inputs.push_back(vectorType(length));
  kernel->outputs.push_back(vectorType(length));
  if (driver == "cuda") {
    auto launch = std::make_unique<fb::GpuLaunchT>();
    launch->symbol = symbol;
    launch->threads = 128;
    while (length % launch->threads != 0)
      --launch->threads;
    launch->blocks = static_cast<uint32_t>(length) / launch->threads;
    fb::GpuKernelT compiled;
    compiled.launches.push_back(std::move(launch));
    kernel->body.Set(std::move(compiled));
  } else {
    fb::NativeKernelT native;
    native.symbol = symbol;
    native.parallel_extent = length;
    kernel->body.Set(std::move(native));
  }
  plan.kernels.push_back(std::move(kernel));
  return static_cast<uint32_t>(plan.kernels.size() - 1);
}

uint32_t PlanBuilder::buffer(uint32_t program, const std::string &name, ElementType element,
                             std::vector<int64_t> shape) {
  uint32_t index = buffer(program, name, 0);
  fb::BufferT &buffer = *this->program(program).buffers[index];
  buffer.type->element = static_cast<fb::ElementType>(element);
  buffer.bytes = elementBytes(element);
  for (int64_t size : shape)
    buffer.bytes *= static_cast<uint64_t>(size);
  buffer.type->shape = std::move(shape);
  uint64_t &arena = this->program(program).arena_bytes;
  arena = std::max(arena, (buffer.offset + buffer.bytes + 63) / 64 * 64);
  return index;
}

uint32_t PlanBuilder::buffer(uint32_t device, const std::string &name, int64_t length) {
  return bufferAt(device, name, length, program(device).arena_bytes);
}

uint32_t PlanBuilder::bufferAt(uint32_t device, const std::string &name, int64_t length, uint64_t offset,
                               int32_t viewOf) {
  fb::ProgramT &program = this->program(device);
  auto buffer = std::make_unique<fb::BufferT>();
  buffer->name = name;
  buffer->type = vectorType(length);
  buffer->offset = offset;
  buffer->bytes = static_cast<uint64_t>(length) * sizeof(float);
  buffer->view_of = viewOf;
  program.arena_bytes = std::max(program.arena_bytes, (offset + buffer->bytes + 63) / 64 * 64);
  program.buffers.push_back(std::move(buffer));
  return static_cast<uint32_t>(program.buffers.size() - 1);
}

uint32_t PlanBuilder::hostBuffer(uint32_t device, const std::string &name, int64_t length) {
  fb::ProgramT &program = this->program(device);
  uint64_t arena = program.arena_bytes;
  uint32_t index = bufferAt(device, name, length, hostOffset + program.host_bytes);
  program.host_bytes = program.arena_bytes - hostOffset;
  program.arena_bytes = arena;
  return index;
}

PlanBuilder &PlanBuilder::into(Phase phase) {
  this->phase = phase;
  return *this;
}

Point PlanBuilder::call(uint32_t device, const std::string &node, uint32_t kernel, std::vector<uint32_t> arguments,
                        std::vector<Point> waits) {
  fb::CallT call;
  call.kernel = kernel;
  call.arguments = std::move(arguments);
  return add(device, node, ComputeQueue, std::move(call), std::move(waits));
}

Point PlanBuilder::copy(uint32_t device, const std::string &node, uint32_t source, uint32_t target,
                        std::vector<Point> waits) {
  fb::CopyT copy;
  copy.source = source;
  copy.target = target;
  return add(device, node, ComputeQueue, copy, std::move(waits));
}

template <typename T> static T copyOf(uint32_t source, uint32_t target) {
  T copy;
  copy.source = source;
  copy.target = target;
  return copy;
}

Point PlanBuilder::offload(uint32_t device, const std::string &node, uint32_t source, uint32_t target,
                           std::vector<Point> waits) {
  return add(device, node, SendQueue, copyOf<fb::OffloadT>(source, target), std::move(waits));
}

Point PlanBuilder::fetch(uint32_t device, const std::string &node, uint32_t source, uint32_t target,
                         std::vector<Point> waits) {
  return add(device, node, ReceiveQueue, copyOf<fb::FetchT>(source, target), std::move(waits));
}

template <typename T> static T transfer(uint32_t buffer, uint32_t peer, uint32_t channel) {
  T transfer;
  transfer.buffer = buffer;
  transfer.mesh = peer;
  transfer.channel = channel;
  return transfer;
}

Point PlanBuilder::send(uint32_t device, const std::string &node, uint32_t buffer, uint32_t peer, uint32_t channel,
                        std::vector<Point> waits) {
  return add(device, node, SendQueue, transfer<fb::SendT>(buffer, peer, channel), std::move(waits));
}

Point PlanBuilder::receive(uint32_t device, const std::string &node, uint32_t buffer, uint32_t peer, uint32_t channel,
                           std::vector<Point> waits) {
  return add(device, node, ReceiveQueue, transfer<fb::ReceiveT>(buffer, peer, channel), std::move(waits));
}

Point PlanBuilder::loadParameter(uint32_t device, uint32_t parameter, uint32_t buffer, std::vector<Point> waits) {
  fb::LoadParameterT load;
  load.parameter = parameter;
  load.buffer = buffer;
  return add(device, plan.parameters[parameter]->name, HostQueue, load, std::move(waits));
}

Point PlanBuilder::loadInput(uint32_t device, uint32_t input, uint32_t buffer, std::vector<Point> waits) {
  fb::LoadInputT load;
  load.input = input;
  load.buffer = buffer;
  return add(device, entry().inputs[input]->name, HostQueue, load, std::move(waits));
}

Point PlanBuilder::storeOutput(uint32_t device, uint32_t output, uint32_t buffer, std::vector<Point> waits) {
  fb::StoreOutputT store;
  store.output = output;
  store.buffer = buffer;
  return add(device, entry().outputs[output]->name, HostQueue, store, std::move(waits));
}

std::vector<std::byte> PlanBuilder::bytes() const {
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishPlanBuffer(builder, fb::Plan::Pack(builder, &plan));
  return sealed(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())));
}

std::vector<std::byte> sealed(std::span<const std::byte> bytes) {
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  auto seal = planSeal(bytes);
  file.insert(file.end(), seal.begin(), seal.end());
  return file;
}

Plan PlanBuilder::read() const {
  auto plan = Plan::fromBytes(bytes());
  EXPECT_TRUE(plan) << plan.error().text();
  return plan ? *plan : Plan();
}

PlanBuilder pipelinePlan(const std::string &driver, const std::string &firstKernel) {
  constexpr int64_t length = 4;
  PlanBuilder builder(driver);
  uint32_t a = builder.device("a"), b = builder.device("b");
  uint32_t x = builder.input("x", length), y = builder.output("y", length);
  uint32_t first = builder.kernel(firstKernel, 1, length), sum = builder.kernel("add", 2, length);
  uint32_t one = builder.constant("one", length, 1);
  uint32_t ax = builder.buffer(a, "x", length), ah = builder.buffer(a, "h", length);
  uint32_t bh = builder.buffer(b, "h", length), bOne = builder.buffer(b, "one", length);
  uint32_t by = builder.buffer(b, "y", length);
  builder.into(Phase::Prepare).loadParameter(b, one, bOne);
  builder.into(Phase::Body);
  Point loaded = builder.loadInput(a, x, ax);
  Point doubled = builder.call(a, "first", first, {ax, ah}, {loaded});
  builder.send(a, "first", ah, b, 0, {doubled});
  Point received = builder.receive(b, "first", bh, a, 0);
  Point added = builder.call(b, "second", sum, {bh, bOne, by}, {received});
  builder.storeOutput(b, y, by, {added});
  return builder;
}

} // namespace cleave::runtime::test
