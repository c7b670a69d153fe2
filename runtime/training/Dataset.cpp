// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts samples side by side.

#include "runtime/training/Dataset.h"

#include "runtime/PortBinding.h"
#include "runtime/training/RandomOrder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace cleave::runtime {

/// "FACTOR" or "FACTOR,OFFSET".
static Expected<Scale> parseScale(const std::string &text) {
  Scale scale;
  const char *end = text.data() + text.size();
  auto parsed = std::from_chars(text.data(), end, scale.factor);
  if (parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == ',')
    parsed = std::from_chars(parsed.ptr + 1, end, scale.offset);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(scale.factor) || !std::isfinite(scale.offset))
    return makeError(Status::Usage, "--scale expects NAME=FACTOR or NAME=FACTOR,OFFSET, got \"", text, "\"");
  return scale;
}

Expected<Dataset> Dataset::read(const Entry &entry, const std::vector<std::string> &bindings,
                                const std::vector<std::string> &scales, const char *option) {
  Dataset dataset;
  dataset.batch = entry.samples;
  std::ranges::copy_if(entry.inputs, std::back_inserter(dataset.ports),
                       [](const Port &port) { return !port.parameter; });
  auto files = bindPorts(bindings, dataset.ports, option);
  if (!files)
    return files.error();
  auto scaleTexts = bindPorts(scales, dataset.ports, "--scale", "FACTOR");
  if (!scaleTexts)
    return scaleTexts.error();
  for (size_t i = 0; i != dataset.ports.size(); ++i) {
    const Port &port = dataset.ports[i];
    if (!(*files)[i])
      return makeError(Status::Usage, "input \"", port.name, "\" ", port.type.text(), " of entry \"", entry.name,
                       "\" expects data; say ", option, " ", port.name, "=FILE",
                       port.classes != 0 ? ", or FILE:next for the tokens that follow those of a file" : "");
    std::optional<Scale> scale;
    if ((*scaleTexts)[i]) {
      auto parsed = parseScale(*(*scaleTexts)[i]);
      if (!parsed)
        return parsed.error();
      scale = *parsed;
    }
    auto data = SampleData::read(*(*files)[i], port, scale);
    if (!data)
      return data.error();
    if (i != 0 && data->samples() != dataset.count)
      return makeError(Status::Failure, "data for all inputs expects as many samples, got ", dataset.count, " for \"",
                       dataset.ports[0].name, "\" in \"", *(*files)[0], "\" and ", data->samples(), " for \"",
                       port.name, "\" in \"", *(*files)[i], "\"");
    dataset.count = data->samples();
    dataset.hasLabels |= port.classes != 0;
    dataset.inputs.push_back(std::move(*data));
  }
  if (dataset.ports.empty())
    return makeError(Status::Failure, "entry \"", entry.name, "\" expects no inputs, so there is no data to train on");
  return dataset;
}

Expected<BatchOrder> Dataset::rest(uint64_t seed, uint64_t epoch, uint64_t taken) const {
  BatchOrder order{randomOrder(count, seed, epoch), {}};
  for (uint64_t begin = taken; begin + batch <= count; begin += batch)
    order.batches.push_back({0, begin, batch});
  return order;
}

BatchOrder Dataset::all() const {
  BatchOrder order{std::vector<uint64_t>(count), {}};
  std::iota(order.samples.begin(), order.samples.end(), 0);
  for (uint64_t begin = 0; begin < count; begin += batch)
    order.batches.push_back({0, begin, std::min(batch, count - begin)});
  return order;
}

Expected<Batch> Dataset::allocate() const {
  auto inputs = allocateTensors(ports);
  if (!inputs)
    return inputs.error();
  Batch made;
  made.tensors.push_back(std::move(*inputs));
  return made;
}

void Dataset::fill(Batch &filled, uint32_t bucket, std::span<const uint64_t> which) const {
  filled.bucket = bucket;
  filled.samples = which.size();
  filled.labels = hasLabels ? 0 : which.size();
  for (size_t i = 0; i != inputs.size(); ++i) {
    const Port &port = ports[i];
    std::span<std::byte> bytes = filled.inputs()[i].bytes();
    uint64_t each = bytes.size() / batch;
    for (uint64_t place = 0; place != batch; ++place) {
      bool meant = place < which.size();
      uint64_t sample = which[meant ? place : 0];
      std::span<std::byte> target = bytes.subspan(place * each, each);
      if (port.classes == 0 || meant)
        inputs[i].copy(sample, target);
      else
        for (uint64_t at = 0; at != each; at += elementBytes(port.type.element))
          storeElement(port.type.element, target.data() + at, -1);
      if (port.classes != 0 && meant)
        filled.labels += inputs[i].labels(sample);
    }
  }
}

} // namespace cleave::runtime
