// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the compiler asks kernel libraries: can you compute this, in which layouts, with how much scratch memory. The
// compiler knows libraries by this interface alone; a device's driver says which one is asked.

#ifndef CLEAVE_RUNTIME_KERNELLIBRARY_H
#define CLEAVE_RUNTIME_KERNELLIBRARY_H

#include "runtime/LibraryKernelDesc.h"

#include <map>
#include <string_view>

namespace cleave::runtime {

/// A kernel without a decision on all of its layouts. A type whose flag is set (flags beyond the end are not) has no
/// layout yet; the library is free to choose. `scratchBytes`, `implementation` and `library` of `desc` are not read.
struct LibraryKernelQuery {
  LibraryKernelDesc desc;
  std::vector<bool> anyInputs, anyOutputs;
  /// Inputs that are the same in each call: what a library does to them first is done once.
  std::vector<bool> constantInputs = {};
  /// Kernels of other shapes may read these, too: they are packed in a form that does not depend on shapes, or not.
  bool sharesConstants = false;
  /// Convolutions may be computed by algorithms that transform images and weights, which takes memory and rounds more.
  bool mayTransform = true;

  bool isAnyInput(size_t index) const { return index < anyInputs.size() && anyInputs[index]; }
  bool isAnyOutput(size_t index) const { return index < anyOutputs.size() && anyOutputs[index]; }
  bool isConstant(size_t index) const { return index < constantInputs.size() && constantInputs[index]; }
};

/// How good a library's code for a kernel is, as the library knows it.
enum class KernelQuality {
  Good,
  Indirect, ///< by way of another routine, after moving the operands; other layouts may do without
  Plain     ///< loops that nobody has tuned
};

/// The complete kernel: `library`, which the runtime looks up by this name; every type with the layout to use (none
/// where dense and row-major is best), scratch bytes and the name of the implementation; and the bytes that each
/// argument's buffer needs. A type with a chosen layout may have another shape of as many elements in the same
/// row-major order: weights with groups, a bias of [1, N]. A reorder takes the dense original to it.
struct LibraryChoice {
  LibraryKernelDesc desc;
  std::vector<uint64_t> inputBytes, outputBytes;
  KernelQuality quality = KernelQuality::Good;
  /// Of constant inputs that the kernel takes packed: the kernel that packs them, from their dense type to that of the
  /// input, which holds what the library makes of them.
  std::map<size_t, LibraryKernelDesc> packings = {};
};

/// The kernel libraries of one kind of device.
class KernelLibrary {
public:
  virtual ~KernelLibrary() = default;
  /// Distinct among these objects.
  virtual std::string_view name() const = 0;
  /// Whether values may get layouts of the library's own. Where not, every value stays row-major, and the library reads
  /// transposed operands where they lie.
  virtual bool choosesLayouts() const = 0;
  /// Whether contractions have the attribute `tf32`.
  virtual bool canRoundProducts() const { return false; }
  /// Whether there are post operations for gradients of activations.
  virtual bool hasGradientPostOps() const { return false; }
  /// Whether there are kernels for attention and its gradient.
  virtual bool hasAttention() const { return false; }
  /// The kernel for a device of `threads` cores, on which a library may decide or not. Takes no more than about a
  /// millisecond and no device. Status::Unsupported when the library cannot do it or does it no better than compiled
  /// code, Status::Rejected when the description contradicts itself. Thread-safe.
  virtual Expected<LibraryChoice> choose(const LibraryKernelQuery &query, unsigned threads) const = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_KERNELLIBRARY_H
