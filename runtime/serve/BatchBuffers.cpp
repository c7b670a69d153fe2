// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Samples are dimension 0, so that a slice is a range of bytes.

#include "runtime/serve/BatchBuffers.h"

#include <cstring>

namespace cleave::runtime::serve {

Error BatchBuffers::allocate() {
  uint64_t most = plan.getTable().largest();
  for (bool isInput : {true, false}) {
    std::vector<HostTensor> &tensors = isInput ? wholeInputs : wholeOutputs;
    const std::vector<ServedPort> &ports = isInput ? plan.getInputs() : plan.getOutputs();
    for (size_t i = tensors.size(); i != ports.size(); ++i) {
      auto tensor = HostTensor::allocate(ports[i].ofSamples(most, plan.isBatched()));
      if (!tensor)
        return makeError(Status::Infeasible, "a batch of ", most, " samples: ", tensor.error().message());
      tensors.push_back(std::move(*tensor));
    }
  }
  return Error::success();
}

Error BatchBuffers::use(size_t size) {
  if (Error error = allocate())
    return error;
  current = size;
  isBorrowed = false;
  uint64_t samples = plan.getTable().samples(size);
  for (bool isInput : {true, false}) {
    const std::vector<HostTensor> &whole = isInput ? wholeInputs : wholeOutputs;
    const std::vector<ServedPort> &ports = isInput ? plan.getInputs() : plan.getOutputs();
    std::vector<HostTensor> &tensors = isInput ? inputs : outputs;
    tensors.clear();
    for (size_t i = 0; i != ports.size(); ++i) {
      auto part = whole[i].part(ports[i].ofSamples(samples, plan.isBatched()), 0);
      if (!part)
        return part.error();
      tensors.push_back(std::move(*part));
    }
  }
  return Error::success();
}

/// The bytes of samples [first, first + count) of a tensor that has `of` samples.
static std::span<std::byte> samplesOf(const HostTensor &tensor, uint64_t first, uint64_t count, uint64_t of) {
  size_t each = tensor.bytes().size() / of;
  return tensor.bytes().subspan(first * each, count * each);
}

static void copy(std::span<std::byte> source, std::span<std::byte> target) {
  if (!source.empty())
    std::memcpy(target.data(), source.data(), source.size());
}

bool BatchBuffers::isPlaced(size_t index, const JobSlice &slice) const {
  return index < placed.size() && slice.job->id && placed[index] == Placed{*slice.job->id, slice.first, slice.count};
}

void BatchBuffers::copySamples(const JobSlice &slice, uint64_t place) {
  for (size_t port = 0; port != wholeInputs.size(); ++port)
    copy(samplesOf(slice.job->inputs[port], slice.first, slice.count, slice.job->samples),
         samplesOf(wholeInputs[port], place, slice.count, plan.getTable().largest()));
}

bool BatchBuffers::isGathered(const std::vector<JobSlice> &slices) const {
  for (size_t i = 0; i != slices.size(); ++i)
    if (!isPlaced(i, slices[i]))
      return false;
  return true;
}

void BatchBuffers::gatherAhead(const std::vector<JobSlice> &slices) {
  uint64_t place = 0;
  for (size_t i = 0; i != slices.size(); place += slices[i++].count) {
    if (isPlaced(i, slices[i]))
      continue;
    copySamples(slices[i], place);
    // What lay behind it may be overwritten.
    placed.resize(i);
    placed.push_back({*slices[i].job->id, slices[i].first, slices[i].count});
  }
}

/// Whether the job's tensors can take the place of the batch's.
bool BatchBuffers::borrow(const JobSlice &slice) {
  const InferenceJob &job = *slice.job;
  std::vector<HostTensor> own[2];
  for (bool isInput : {true, false}) {
    const std::vector<HostTensor> &tensors = isInput ? inputs : outputs;
    const std::vector<HostTensor> &whole = isInput ? job.inputs : job.outputs;
    for (size_t port = 0; port != tensors.size(); ++port) {
      auto part = whole[port].part(tensors[port].type(), whole[port].bytes().size() / job.samples * slice.first);
      if (!part)
        return false;
      own[isInput].push_back(std::move(*part));
    }
  }
  inputs = std::move(own[true]);
  outputs = std::move(own[false]);
  return true;
}

void BatchBuffers::gather(const std::vector<JobSlice> &slices) {
  uint64_t capacity = plan.getTable().samples(current);
  isBorrowed = slices.size() == 1 && slices.front().count == capacity && borrow(slices.front());
  if (isBorrowed)
    return;
  gatherAhead(slices);
  uint64_t place = 0;
  for (const JobSlice &slice : slices)
    place += slice.count;
  // Its results are not used; zeros are valid as indices, and give the same result every time.
  for (const HostTensor &input : inputs) {
    auto rest = samplesOf(input, place, capacity - place, capacity);
    std::fill(rest.begin(), rest.end(), std::byte(0));
  }
}

void BatchBuffers::scatter(const std::vector<JobSlice> &slices) const {
  if (isBorrowed)
    return;
  uint64_t capacity = plan.getTable().samples(current);
  for (size_t port = 0; port != outputs.size(); ++port) {
    uint64_t place = 0;
    for (const JobSlice &slice : slices) {
      copy(samplesOf(outputs[port], place, slice.count, capacity),
           samplesOf(slice.job->outputs[port], slice.first, slice.count, slice.job->samples));
      place += slice.count;
    }
  }
}

void BatchBuffers::release() {
  inputs.clear();
  outputs.clear();
  placed.clear();
}

} // namespace cleave::runtime::serve
