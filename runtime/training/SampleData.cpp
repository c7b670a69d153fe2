// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads files of samples and tokens, checks them once, and converts them sample by sample.

#include "runtime/training/SampleData.h"

#include "runtime/MappedFile.h"
#include "runtime/tensorfile/TensorFile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace cleave::runtime {

static constexpr std::string_view nextSuffix = ":next";

/// The elements of one sample of an input.
static uint64_t elementsOfSample(const Port &port) {
  uint64_t product = 1;
  for (size_t dim = 1; dim < port.type.shape.size(); ++dim)
    product *= static_cast<uint64_t>(port.type.shape[dim]);
  return product;
}

/// The numbers of a file without a header, of `width` bytes each.
static Expected<HostTensor> readTokens(const std::string &file, ElementType element, unsigned width) {
  auto mapping = MappedFile::open(file);
  if (!mapping)
    return mapping.error();
  std::span<const std::byte> bytes = mapping->bytes();
  if (bytes.size() % width != 0)
    return makeError(Status::Rejected, "a file of tokens expects ", width, " bytes for each, got ", bytes.size(),
                     " bytes");
  auto tensor = HostTensor::allocate({element, {static_cast<int64_t>(bytes.size() / width)}, std::nullopt});
  if (!tensor)
    return tensor;
  unsigned target = elementBytes(element);
  for (size_t i = 0; i != bytes.size() / width; ++i)
    std::memcpy(tensor->bytes().data() + i * target, bytes.data() + i * width, width);
  return tensor;
}

/// Unsigned numbers of two and four bytes have no element type: they are read into the next larger one.
Expected<HostTensor> readNumbers(const std::string &file) {
  if (file.ends_with(".u16"))
    return readTokens(file, ElementType::I32, 2);
  if (file.ends_with(".u32"))
    return readTokens(file, ElementType::I64, 4);
  if (file.ends_with(".txt"))
    return readTokens(file, ElementType::U8, 1);
  return readTensorFile(file);
}

Expected<SampleData> SampleData::read(const std::string &file, const Port &port, std::optional<Scale> scale) {
  auto locate = [&](const Error &error) {
    return Error(error.status(), "data for \"" + port.name + "\" from \"" + file + "\": " + error.message());
  };
  bool next = file.ends_with(nextSuffix);
  auto tensor = readNumbers(next ? file.substr(0, file.size() - nextSuffix.size()) : file);
  if (!tensor)
    return locate(tensor.error());
  SampleData data(std::move(*tensor), port);
  if (Error error = data.divide(next ? 1 : 0))
    return locate(error);
  if (Error error = data.checkConversion(scale))
    return locate(error);
  for (Error error : {data.checkClasses(), data.checkFinite()})
    if (error)
      return locate(error);
  return data;
}

/// Finds out how the file's elements are divided into samples.
Error SampleData::divide(uint64_t first) {
  const std::vector<int64_t> &shape = tensor.type().shape, &wanted = port.type.shape;
  elements = elementsOfSample(port);
  shift = first;
  uint64_t available = *tensor.type().elementCount();
  if (shape.size() == 1 && elements > 1) {
    // One more, so that an input and its labels have the same samples.
    count = available == 0 ? 0 : (available - 1) / elements;
    return count != 0 ? Error::success()
                      : makeError(Status::Failure, "expects at least ", elements + 1, " tokens for a sequence of ",
                                  elements, " and their labels, got ", available);
  }
  if (first != 0)
    return makeError(Status::Failure, "\":next\" expects tokens, one after the other, for sequences, got ",
                     tensor.type().text(), " for ", port.type.text());
  auto sampleShape = [](const std::vector<int64_t> &whole, bool ones) {
    std::vector<int64_t> rest(whole.begin() + (whole.empty() ? 0 : 1), whole.end());
    if (!ones)
      std::erase(rest, 1);
    return rest;
  };
  uint64_t own = 1;
  for (int64_t size : sampleShape(shape, true))
    own *= static_cast<uint64_t>(size);
  bool flat = sampleShape(shape, true).size() <= 1 || sampleShape(wanted, true).size() <= 1;
  if (shape.empty() || own != elements || (!flat && sampleShape(shape, false) != sampleShape(wanted, false)))
    return makeError(Status::Failure, "expects samples like those of ", port.type.text(), " in dimension 0, got ",
                     tensor.type().text());
  count = static_cast<uint64_t>(shape.front());
  return count != 0 ? Error::success() : makeError(Status::Failure, "expects samples, got none");
}

Error SampleData::checkConversion(std::optional<Scale> given) {
  ElementType from = tensor.type().element, to = port.type.element;
  if (!isFloatingPoint(to) && isFloatingPoint(from))
    return makeError(Status::Failure, "expects integers for ", port.type.text(), ", got ", tensor.type().text());
  if (given && !isFloatingPoint(to))
    return makeError(Status::Usage, "--scale expects an input of floating-point numbers, got ", port.type.text());
  if (given)
    scale = *given;
  else if (from == ElementType::U8 && isFloatingPoint(to))
    scale.factor = 1.0 / 255;
  converts = from != to || scale.factor != 1 || scale.offset != 0;
  return Error::success();
}

double SampleData::valueAt(uint64_t element) const {
  ElementType type = tensor.type().element;
  return loadElement(type, tensor.bytes().data() + element * elementBytes(type));
}

/// Labels of training data have to be classes; an integer that its new type does not hold would be another one there.
Error SampleData::checkClasses() const {
  if (isFloatingPoint(port.type.element) || (port.classes == 0 && !converts))
    return Error::success();
  unsigned bits = 8 * elementBytes(port.type.element);
  double low = port.classes != 0 ? -1 : isUnsigned(port.type.element) ? 0 : -std::ldexp(1, static_cast<int>(bits) - 1);
  double high = port.classes != 0 ? static_cast<double>(port.classes)
                                  : std::ldexp(1, static_cast<int>(bits) - (isUnsigned(port.type.element) ? 0 : 1));
  uint64_t all = *tensor.type().elementCount();
  for (uint64_t i = 0; i != all; ++i)
    if (double value = valueAt(i); value < low || value >= high)
      return port.classes != 0 ? makeError(Status::Failure, "expects classes below ", port.classes,
                                           ", or -1 where there is none, got ", value, " as element ", i)
                               : makeError(Status::Failure, "expects numbers that ", elementName(port.type.element),
                                           " holds, got ", value, " as element ", i);
  return Error::success();
}

/// A number that is none, or too large for its new type, makes the loss one that is none, and from then on all
/// parameters.
Error SampleData::checkFinite() const {
  ElementType from = tensor.type().element, to = port.type.element;
  if (!isFloatingPoint(to) || (from == ElementType::U8 && scale.offset == 0 && scale.factor <= 1))
    return Error::success();
  uint64_t all = *tensor.type().elementCount(), wrong = all;
  if (!converts && from == ElementType::F32) {
    const auto *values = reinterpret_cast<const float *>(tensor.bytes().data());
    wrong = std::find_if(values, values + all, [](float value) { return !std::isfinite(value); }) - values;
  } else {
    std::array<std::byte, 8> stored{};
    for (wrong = 0; wrong != all; ++wrong) {
      storeElement(to, stored.data(), valueAt(wrong) * scale.factor + scale.offset);
      if (!std::isfinite(loadElement(to, stored.data())))
        break;
    }
  }
  if (wrong == all)
    return Error::success();
  return makeError(Status::Failure, "expects finite numbers that ", elementName(to), " holds, got ", valueAt(wrong),
                   " in sample ", wrong / elements, ", as element ", wrong, " of all");
}

uint64_t SampleData::labels(uint64_t sample) const {
  uint64_t found = 0, begin = shift + sample * elements;
  for (uint64_t i = begin; i != begin + elements; ++i)
    found += valueAt(i) >= 0;
  return found;
}

void SampleData::copy(uint64_t sample, std::span<std::byte> target) const {
  ElementType from = tensor.type().element, to = port.type.element;
  unsigned width = elementBytes(from);
  const std::byte *source = tensor.bytes().data() + (shift + sample * elements) * width;
  if (!converts) {
    std::memcpy(target.data(), source, elements * width);
    return;
  }
  if (from == ElementType::U8 && to == ElementType::F32) {
    // Images: worth a loop of its own.
    auto factor = static_cast<float>(scale.factor), offset = static_cast<float>(scale.offset);
    auto *values = reinterpret_cast<float *>(target.data());
    for (uint64_t i = 0; i != elements; ++i)
      values[i] = static_cast<float>(static_cast<uint8_t>(source[i])) * factor + offset;
    return;
  }
  for (uint64_t i = 0; i != elements; ++i)
    storeElement(to, target.data() + i * elementBytes(to),
                 loadElement(from, source + i * width) * scale.factor + scale.offset);
}

} // namespace cleave::runtime
