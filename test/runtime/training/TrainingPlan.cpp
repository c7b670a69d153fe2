// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the plan entry by entry.

#include "TrainingPlan.h"

#include "runtime/Generator.h"
#include "runtime/tensorfile/TensorFile.h"

#include <cstring>
#include <gtest/gtest.h>

namespace cleave::runtime::test {
namespace {

using Types = std::vector<TensorType>;

std::unique_ptr<fb::TensorTypeT> typeOf(const TensorType &type) {
  auto made = std::make_unique<fb::TensorTypeT>();
  made->element = static_cast<fb::ElementType>(type.element);
  made->shape = type.shape;
  return made;
}

std::unique_ptr<fb::PortT> portOf(const std::string &name, const TensorType &type) {
  auto port = std::make_unique<fb::PortT>();
  port->name = name;
  port->type = typeOf(type);
  return port;
}

uint32_t addKernel(PlanBuilder &builder, const std::string &symbol, const Types &inputs, const Types &outputs) {
  auto kernel = std::make_unique<fb::KernelT>();
  kernel->name = symbol;
  for (const TensorType &type : inputs)
    kernel->inputs.push_back(typeOf(type));
  for (const TensorType &type : outputs)
    kernel->outputs.push_back(typeOf(type));
  fb::NativeKernelT native;
  native.symbol = symbol;
  native.parallel_extent = 1;
  kernel->body.Set(std::move(native));
  builder.plan.kernels.push_back(std::move(kernel));
  return static_cast<uint32_t>(builder.plan.kernels.size() - 1);
}

const TensorType scalar{ElementType::F32, {}, std::nullopt}, counter{ElementType::I64, {}, std::nullopt};

TensorType vector(ElementType element, int64_t length) { return {element, {length}, std::nullopt}; }

struct Kernels {
  uint32_t score, learn, judge, nap;
};

void fillEntry(PlanBuilder &builder, const TrainingPlanOptions &options, const Kernels &kernels, uint32_t parameter,
               bool learns) {
  auto size = static_cast<int64_t>(batchSize), part = size / options.devices;
  fb::EntryT &entry = builder.entry();
  entry.samples = batchSize;
  entry.inputs.push_back(portOf("x", vector(ElementType::F32, size)));
  entry.inputs.push_back(portOf("labels", vector(ElementType::I64, size)));
  entry.inputs.back()->classes = options.masks ? 2 : 0;
  entry.outputs.push_back(portOf("loss", scalar));
  entry.outputs.push_back(portOf("correct", counter));
  int32_t tile = -1;
  if (options.devices > 1)
    tile = builder.tile({{{size, {{0, part}}, part}}});
  uint32_t w = builder.buffer(0, "w", 2), x = builder.buffer(0, "x", part);
  uint32_t labels = builder.buffer(0, "labels", ElementType::I64, {part});
  uint32_t partial = builder.buffer(0, "partial", 4), loss = builder.buffer(0, "loss", ElementType::F32, {});
  uint32_t correct = builder.buffer(0, "correct", ElementType::I64, {});
  builder.keep(0, parameter, w);
  if (options.devices > 1)
    builder.keep(0, parameter + 1, builder.buffer(0, "v", part), tile);
  auto load = [&](uint32_t input, uint32_t buffer) {
    fb::LoadInputT action;
    action.input = input;
    action.buffer = buffer;
    action.tile = tile;
    return builder.act(0, entry.inputs[input]->name, action, {}, HostQueue);
  };
  load(0, x);
  Point loaded = load(1, labels);
  Point scored = builder.call(0, "score", kernels.score, {x, labels, w, partial}, {loaded});
  if (options.devices > 1) {
    fb::AllReduceT reduce;
    reduce.source = reduce.target = partial;
    reduce.axes = {0};
    scored = builder.act(0, "sum", reduce, {scored});
  }
  if (options.slow) {
    uint32_t rested = builder.buffer(0, "rested", 4);
    builder.call(0, "rest", kernels.nap, {partial, rested}, {scored});
  }
  Point done = learns ? builder.call(0, "learn", kernels.learn, {partial, w, loss, correct, w}, {scored})
                      : builder.call(0, "judge", kernels.judge, {partial, loss, correct}, {scored});
  for (uint32_t output : {0, 1}) {
    fb::StoreOutputT store;
    store.output = output;
    store.buffer = output == 0 ? loss : correct;
    builder.act(0, entry.outputs[output]->name, store, {done}, HostQueue);
  }
}

} // namespace

PlanBuilder trainingPlan(const TrainingPlanOptions &options) {
  PlanBuilder builder;
  builder.entry().name = "train";
  if (options.devices == 1)
    builder.device("one");
  else
    builder.mesh("all", {options.devices});
  auto part = static_cast<int64_t>(batchSize / options.devices);
  const TensorType sums = vector(ElementType::F32, 4), weights = vector(ElementType::F32, 2);
  Kernels kernels;
  kernels.score = addKernel(builder, options.devices == 1 ? "score4" : "score2",
                            {vector(ElementType::F32, part), vector(ElementType::I64, part), weights}, {sums});
  kernels.learn = addKernel(builder, "learn", {sums, weights}, {scalar, counter, weights});
  kernels.judge = addKernel(builder, "judge", {sums}, {scalar, counter});
  kernels.nap = builder.kernel("nap", 1, 4);
  builder.plan.kernels[kernels.nap]->body.AsNativeKernel()->parallel_extent = 1;
  uint32_t w = builder.constant("w", 2, 0.25);
  fb::GeneratedSourceT source;
  source.distribution = fb::Distribution::Normal;
  source.b = 1;
  fb::SourceUnion normal;
  normal.Set(source);
  builder.parameter("v", batchSize, normal);
  fillEntry(builder, options, kernels, w, true);
  builder.addEntry("evaluate", batchSize);
  fillEntry(builder, options, kernels, w, false);
  return builder;
}

Samples::Samples(uint64_t count) : x(count), labels(count) {
  GeneratedSource source;
  source.distribution = Distribution::Uniform;
  source.a = -1;
  source.b = 1;
  generate(source, ElementType::F32, std::as_writable_bytes(std::span(x)));
  for (uint64_t i = 0; i != count; ++i)
    labels[i] = x[i] > 0.2f;
}

void Samples::write(const std::string &name) const {
  auto count = static_cast<int64_t>(x.size());
  auto put = [&](const std::string &file, ElementType element, std::span<const std::byte> bytes) {
    HostTensor tensor = *HostTensor::allocate(vector(element, count));
    std::memcpy(tensor.bytes().data(), bytes.data(), bytes.size());
    Error error = writeTensorFile(file, tensor);
    EXPECT_FALSE(error) << error.text();
  };
  put(name + "-x.npy", ElementType::F32, std::as_bytes(std::span(x)));
  put(name + "-labels.npy", ElementType::I64, std::as_bytes(std::span(labels)));
}

float PlainTraining::step(const Samples &samples, std::span<const uint64_t> which) {
  float loss = 0, gradient[2] = {0, 0};
  for (uint64_t sample : which) {
    float error = w[0] * samples.x[sample] + w[1] - static_cast<float>(samples.labels[sample]);
    loss += error * error;
    gradient[0] += 2 * error * samples.x[sample];
    gradient[1] += 2 * error;
  }
  auto count = static_cast<float>(which.size());
  for (size_t i : {0, 1})
    w[i] -= 0.1f * gradient[i] / count;
  return loss / count;
}

std::pair<double, double> PlainTraining::evaluate(const Samples &samples) const {
  double loss = 0, right = 0;
  for (size_t i = 0; i != samples.x.size(); ++i) {
    float p = w[0] * samples.x[i] + w[1], error = p - static_cast<float>(samples.labels[i]);
    loss += error * error;
    right += (p > 0.5f) == (samples.labels[i] == 1);
  }
  auto count = static_cast<double>(samples.x.size());
  return {loss / count, right / count};
}

} // namespace cleave::runtime::test
