// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every error says which part of the request is wrong.

#include "runtime/serve/InferenceRequest.h"

#include "runtime/serve/Datatype.h"

#include <algorithm>
#include <cstring>

namespace cleave::runtime::serve {

/// The most samples of one request.
static constexpr int64_t mostSamples = 1 << 20;

template <typename... Parts> static Error refuse(const Parts &...parts) { return makeError(Status::Failure, parts...); }

std::string quotedName(std::string_view name) { return "\"" + std::string(name.substr(0, 80)) + "\""; }

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string list;
  for (int64_t size : shape)
    list += (list.empty() ? "" : ",") + std::to_string(size);
  return "[" + list + "]";
}

static size_t positionOf(const std::vector<ServedPort> &ports, std::string_view name) {
  return static_cast<size_t>(std::ranges::find(ports, name, &ServedPort::name) - ports.begin());
}

RequestBuilder::RequestBuilder(const BatchedPlan &plan, Time arrival) : plan(plan) {
  request.job = std::make_shared<InferenceJob>();
  request.job->times.arrival = arrival;
  request.job->inputs.resize(plan.getInputs().size());
}

Expected<size_t> RequestBuilder::findInput(std::string_view name, std::string_view datatype) const {
  size_t position = positionOf(plan.getInputs(), name);
  if (position == plan.getInputs().size())
    return refuse("the model has no input ", quotedName(name));
  if (request.job->inputs[position].bytes().data())
    return refuse("input ", quotedName(name), " expects to be given once");
  ElementType expected = plan.getInputs()[position].type.element;
  if (datatypeNamed(datatype) != expected)
    return refuse("input ", quotedName(name), " expects \"datatype\" ", quotedName(datatypeName(expected)), ", got ",
                  quotedName(datatype));
  return position;
}

Expected<TensorType> RequestBuilder::typeOf(size_t input, const std::vector<int64_t> &shape) {
  const ServedPort &port = plan.getInputs()[input];
  std::vector<int64_t> expected = port.type.shape;
  TensorType type{port.type.element, shape, {}};
  if (!plan.isBatched()) {
    if (shape != expected)
      return refuse("input ", quotedName(port.name), " expects shape ", shapeText(expected), ", got ",
                    shapeText(shape));
    return type;
  }
  bool fits = shape.size() == expected.size() + 1 && std::equal(expected.begin(), expected.end(), shape.begin() + 1) &&
              shape.front() >= 1 && shape.front() <= mostSamples;
  if (!fits) {
    expected.insert(expected.begin(), -1);
    return refuse("input ", quotedName(port.name), " expects shape ", shapeText(expected),
                  " of at least one sample, got ", shapeText(shape));
  }
  auto samples = static_cast<uint64_t>(shape.front());
  if (hasSamples && samples != request.job->samples)
    return refuse("input ", quotedName(port.name), " expects the ", request.job->samples,
                  " samples of the other inputs, got ", samples);
  request.job->samples = samples;
  hasSamples = true;
  return type;
}

Expected<HostTensor> RequestBuilder::fromBytes(const TensorType &type, std::string_view bytes,
                                               std::shared_ptr<void> owner) const {
  // As large as what came with the request, before there is memory for it.
  auto expected = type.byteSize();
  if (!expected || *expected != bytes.size())
    return refuse("expects ", expected.value_or(0), " bytes, got ", bytes.size());
  // Inputs are only read, but for BOOLs, whose bytes are made 0 or 1 below, as kernels rely on.
  if (owner && type.element != ElementType::I1) {
    auto *first = reinterpret_cast<std::byte *>(const_cast<char *>(bytes.data()));
    return HostTensor::view(type, {first, bytes.size()}, std::move(owner));
  }
  auto tensor = HostTensor::allocate(type);
  if (!tensor)
    return tensor;
  std::memcpy(tensor->bytes().data(), bytes.data(), bytes.size());
  if (type.element == ElementType::I1)
    for (std::byte &byte : tensor->bytes())
      byte = std::byte(byte != std::byte(0));
  return tensor;
}

Error RequestBuilder::want(std::string_view name, bool isBinary) {
  WantedOutput wanted{positionOf(plan.getOutputs(), name), isBinary};
  if (wanted.port == plan.getOutputs().size())
    return refuse("the model has no output ", quotedName(name));
  if (std::ranges::find(request.outputs, wanted.port, &WantedOutput::port) != request.outputs.end())
    return refuse("output ", quotedName(name), " expects to be asked for once");
  request.outputs.push_back(wanted);
  return Error::success();
}

void RequestBuilder::wantAll(bool isBinary) {
  for (size_t i = 0; i != plan.getOutputs().size(); ++i)
    request.outputs.push_back({i, isBinary});
}

Time deadlineOf(Time arrival, uint64_t microseconds) {
  bool isBounded = microseconds != 0 && microseconds < static_cast<uint64_t>(never - arrival) / 1000;
  return isBounded ? arrival + static_cast<Time>(microseconds) * 1000 : never;
}

uint64_t leastSamples(const BatchedPlan &plan, uint64_t bytes) {
  uint64_t bytesOfSample = 0;
  for (const ServedPort &port : plan.getInputs())
    bytesOfSample += port.ofSamples(1, plan.isBatched()).byteSize().value_or(0);
  return plan.isBatched() && bytesOfSample != 0 ? std::max<uint64_t>(1, bytes / bytesOfSample) : 1;
}

void RequestBuilder::setParameter(std::string_view name, uint64_t value) {
  InferenceJob &job = *request.job;
  if (name == "priority")
    job.priority = static_cast<uint32_t>(std::min<uint64_t>(value, 1000));
  else if (name == "timeout")
    job.deadline = std::min(job.deadline, deadlineOf(job.times.arrival, value));
}

Expected<InferenceRequest> RequestBuilder::finish() {
  for (size_t i = 0; i != plan.getInputs().size(); ++i)
    if (!request.job->inputs[i].bytes().data())
      return refuse("the model expects input ", quotedName(plan.getInputs()[i].name), ", which the request lacks");
  for (const ServedPort &port : plan.getOutputs()) {
    auto tensor = HostTensor::allocate(port.ofSamples(request.job->samples, plan.isBatched()));
    if (!tensor)
      return tensor.error();
    request.job->outputs.push_back(std::move(*tensor));
  }
  return std::move(request);
}

std::string missingModel(const std::string &name, const std::string &version) {
  return "no model " + quotedName(name) + (version.empty() ? "" : " of version " + quotedName(version)) + " is loaded";
}

std::string refusalOf(Outcome outcome, const InferenceJob &job) {
  switch (outcome) {
  case Outcome::Full:
    return "the model's queue is full; try again later";
  case Outcome::Late:
    return "the request cannot be answered within its timeout";
  case Outcome::Draining:
    return "the model takes no more requests, as it is about to end";
  case Outcome::Cancelled:
    return "the client has gone";
  default:
    return job.error.text();
  }
}

} // namespace cleave::runtime::serve
