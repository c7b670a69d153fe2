// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Samples are dimension 0, so that a slice is a range of bytes.

#include "runtime/serve/BatchBuffers.h"

#include <cstring>

namespace cleave::runtime::serve {

Error BatchBuffers::use(size_t size) {
  current = size;
  Set &set = sets[size];
  bool isBatched = plan.isBatched();
  uint64_t samples = plan.getTable().samples(size);
  for (bool isInput : {true, false}) {
    std::vector<HostTensor> &tensors = isInput ? set.inputs : set.outputs;
    const std::vector<ServedPort> &ports = isInput ? plan.getInputs() : plan.getOutputs();
    for (size_t i = tensors.size(); i != ports.size(); ++i) {
      auto tensor = HostTensor::allocate(ports[i].ofSamples(samples, isBatched));
      if (!tensor)
        return makeError(Status::Infeasible, "a batch of ", samples, " samples: ", tensor.error().message());
      tensors.push_back(std::move(*tensor));
    }
  }
  return Error::success();
}

/// The bytes of samples [first, first + count) of a tensor that has `of` samples.
static std::span<std::byte> samplesOf(const HostTensor &tensor, uint64_t first, uint64_t count, uint64_t of) {
  size_t each = tensor.bytes().size() / of;
  return tensor.bytes().subspan(first * each, count * each);
}

void BatchBuffers::gather(const std::vector<JobSlice> &slices) {
  uint64_t capacity = plan.getTable().samples(current);
  for (size_t port = 0; port != getInputs().size(); ++port) {
    const HostTensor &whole = getInputs()[port];
    uint64_t place = 0;
    for (const JobSlice &slice : slices) {
      auto source = samplesOf(slice.job->inputs[port], slice.first, slice.count, slice.job->samples);
      auto target = samplesOf(whole, place, slice.count, capacity);
      if (!source.empty())
        std::memcpy(target.data(), source.data(), source.size());
      place += slice.count;
    }
    // Nobody reads what comes of it; zeros are valid as indices, and give the same result every time.
    auto rest = samplesOf(whole, place, capacity - place, capacity);
    std::fill(rest.begin(), rest.end(), std::byte(0));
  }
}

void BatchBuffers::scatter(const std::vector<JobSlice> &slices) const {
  uint64_t capacity = plan.getTable().samples(current);
  for (size_t port = 0; port != getOutputs().size(); ++port) {
    uint64_t place = 0;
    for (const JobSlice &slice : slices) {
      auto target = samplesOf(slice.job->outputs[port], slice.first, slice.count, slice.job->samples);
      auto source = samplesOf(getOutputs()[port], place, slice.count, capacity);
      if (!source.empty())
        std::memcpy(target.data(), source.data(), source.size());
      place += slice.count;
    }
  }
}

} // namespace cleave::runtime::serve
