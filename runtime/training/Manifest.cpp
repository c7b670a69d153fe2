// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes and reads manifests. Numbers are decimal, checksums hexadecimal, the sum of losses hexadecimal floating point,
// so that nothing is lost.

#include "runtime/training/Manifest.h"

#include <charconv>
#include <cstring>

namespace cleave::runtime {
namespace {

constexpr std::string_view heading = "cleave checkpoint 1", sumWord = "checksum ";

/// No run counts so far; sums of counts below it fit in 64 bits.
constexpr uint64_t countLimit = uint64_t(1) << 62;

struct Count {
  const char *word;
  uint64_t TrainPosition::*value;
};
constexpr Count counts[] = {{"steps", &TrainPosition::steps},     {"seed", &TrainPosition::seed},
                            {"epoch", &TrainPosition::epoch},     {"sample", &TrainPosition::sample},
                            {"samples", &TrainPosition::samples}, {"epoch_steps", &TrainPosition::epochSteps},
                            {"correct", &TrainPosition::correct}, {"labels", &TrainPosition::labels}};

template <typename... Format> std::string digits(auto value, Format... format) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value, format...).ptr};
}

uint64_t sumOf(std::string_view text) {
  Fnv1a sum;
  sum.add(std::as_bytes(std::span(text)));
  return sum.value();
}

/// A name in one line: what would end it is "\n", and "\\" is one "\".
std::string escaped(std::string_view name) {
  std::string text;
  for (char c : name)
    if (c == '\n')
      text += "\\n";
    else
      text += c == '\\' ? std::string("\\\\") : std::string(1, c);
  return text;
}

std::string unescaped(std::string_view text) {
  std::string name;
  for (size_t i = 0; i != text.size(); ++i)
    if (text[i] == '\\' && i + 1 != text.size())
      name += text[++i] == 'n' ? '\n' : text[i];
    else
      name += text[i];
  return name;
}

/// Reads the words and numbers of one line.
class Line {
public:
  explicit Line(std::string_view rest) : rest(rest) {}

  bool word(std::string_view expected) {
    if (!rest.starts_with(expected) || (rest.size() > expected.size() && rest[expected.size()] != ' '))
      return false;
    rest.remove_prefix(std::min(rest.size(), expected.size() + 1));
    return true;
  }
  template <typename T, typename... Format> bool number(T &value, Format... format) {
    auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value, format...);
    if (parsed.ec != std::errc())
      return false;
    rest.remove_prefix(static_cast<size_t>(parsed.ptr - rest.data()));
    return separator();
  }
  /// "f32 [2,3]": element type and shape.
  bool type(TensorType &type) {
    auto element = elementTypeNamed(rest.substr(0, rest.find(' ')));
    if (!element)
      return false;
    type.element = *element;
    rest.remove_prefix(std::min(rest.size(), rest.find(' ') + 1));
    if (!rest.starts_with('['))
      return false;
    rest.remove_prefix(1);
    while (!rest.starts_with(']')) {
      int64_t size = 0;
      auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), size);
      rest.remove_prefix(static_cast<size_t>(parsed.ptr - rest.data()));
      if (parsed.ec != std::errc() || type.shape.size() == 64)
        return false;
      type.shape.push_back(size);
      if (rest.starts_with(','))
        rest.remove_prefix(1);
      else if (!rest.starts_with(']'))
        return false;
    }
    rest.remove_prefix(1);
    return separator();
  }
  bool ends() const { return rest.empty(); }
  std::string_view remaining() const { return rest; }

private:
  bool separator() {
    if (rest.empty())
      return true;
    bool space = rest.front() == ' ';
    rest.remove_prefix(1);
    return space;
  }

  std::string_view rest;
};

/// Whether the line says something of a checkpoint, which goes into the manifest.
bool parseLine(Line line, Manifest &manifest) {
  for (const Count &count : counts)
    if (line.word(count.word)) {
      uint64_t &value = manifest.position.*count.value;
      return line.number(value) && line.ends() && (value < countLimit || count.value == &TrainPosition::seed);
    }
  if (line.word("loss_sum"))
    return line.number(manifest.position.lossSum, std::chars_format::hex) && line.ends();
  if (line.word("tensors"))
    return line.number(manifest.tensorBytes) && line.number(manifest.tensorChecksum, 16) && line.ends();
  Manifest::Tensor tensor;
  if (!line.word("tensor") || !line.number(tensor.offset) || !line.type(tensor.type))
    return false;
  tensor.name = unescaped(line.remaining());
  manifest.tensors.push_back(std::move(tensor));
  return true;
}

} // namespace

std::string Manifest::text() const {
  std::string text = std::string(heading) + "\n";
  for (const Count &count : counts)
    text += std::string(count.word) + " " + digits(position.*count.value) + "\n";
  text += "loss_sum " + digits(position.lossSum, std::chars_format::hex) + "\n";
  text += "tensors " + digits(tensorBytes) + " " + digits(tensorChecksum, 16) + "\n";
  for (const Tensor &tensor : tensors) {
    text += "tensor " + digits(tensor.offset) + " " + std::string(elementName(tensor.type.element)) + " [";
    for (size_t dim = 0; dim != tensor.type.shape.size(); ++dim)
      text += (dim ? "," : "") + digits(tensor.type.shape[dim]);
    text += "] " + escaped(tensor.name) + "\n";
  }
  return text + std::string(sumWord) + digits(sumOf(text), 16) + "\n";
}

Expected<Manifest> Manifest::parse(std::string_view text) {
  auto reject = [](const auto &...parts) { return makeError(Status::Rejected, parts...); };
  size_t last = text.rfind(sumWord);
  if (last == std::string_view::npos || (last != 0 && text[last - 1] != '\n') ||
      text.substr(last) != std::string(sumWord) + digits(sumOf(text.substr(0, last)), 16) + "\n")
    return reject("its manifest is damaged: its checksum is missing or wrong");
  std::string_view rest = text.substr(0, last);
  Manifest manifest;
  for (size_t number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (number == 1 ? line != heading : !parseLine(Line(line), manifest))
      return reject("line ", number, " of its manifest expects what this version writes, got \"", line, "\"");
  }
  return manifest;
}

} // namespace cleave::runtime
