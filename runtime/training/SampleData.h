// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The samples of one input, from a file to the elements that a step takes.

#ifndef CLEAVE_RUNTIME_TRAINING_SAMPLEDATA_H
#define CLEAVE_RUNTIME_TRAINING_SAMPLEDATA_H

#include "runtime/HostTensor.h"
#include "runtime/Plan.h"

namespace cleave::runtime {

/// What becomes of a number on its way from the file: value * factor + offset.
struct Scale {
  double factor = 1, offset = 0;
};

/// The numbers of a tensor file, or of one of tokens without a header (see SampleData).
Expected<HostTensor> readNumbers(const std::string &file);

/// Samples in memory as the file has them. A tensor file (tensorfile/TensorFile.h) has them in its dimension 0, in the
/// shape that the input has without its own dimension 0; dimensions of 1 do not count, nor any where one of the two
/// has a single dimension. Tokens are a tensor of one dimension, or a file without any header: ".u16", ".u32"
/// (little-endian) or ".txt" (bytes). Sample s of an input of T elements a sample is then the tokens from s T on, and
/// with
/// ":next" behind the file's name those from s T + 1 on, so that each token's label is the one after it.
///
/// Integers become integers and any numbers floating-point numbers; bytes that become floating-point numbers are
/// divided by 255 where no scale is given, so that images are in [0, 1].
class SampleData {
public:
  /// Reads `file` for an input whose dimension 0 counts samples. Errors name the input and the file; where the input
  /// has classes, all values must be classes or -1, and numbers that are to be floating-point must be finite.
  static Expected<SampleData> read(const std::string &file, const Port &port, std::optional<Scale> scale);

  uint64_t samples() const { return count; }
  /// Puts the sample where the elements of one sample go.
  void copy(uint64_t sample, std::span<std::byte> target) const;
  /// How many of a sample's labels are classes.
  uint64_t labels(uint64_t sample) const;

private:
  SampleData(HostTensor tensor, const Port &port) : tensor(std::move(tensor)), port(port) {}
  Error divide(uint64_t shift);
  Error checkConversion(std::optional<Scale> given);
  Error checkClasses() const;
  Error checkFinite() const;
  double valueAt(uint64_t element) const;

  HostTensor tensor;
  Port port;
  Scale scale;
  bool converts = false;
  /// Elements: of a sample, from one sample to the next, and before the first.
  uint64_t elements = 1, shift = 0;
  uint64_t count = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_SAMPLEDATA_H
