// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Boxes of bytes inside buffers: what moves when a part of one dense tensor becomes a part of another.

#ifndef CLEAVE_RUNTIME_STRIDEDCOPY_H
#define CLEAVE_RUNTIME_STRIDEDCOPY_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cleave::runtime {

/// A box in a source buffer and one of the same shape in a target buffer, in bytes: runs of `runBytes` contiguous bytes
/// on both sides, one for each index of `dims` (outermost first).
struct StridedCopy {
  struct Dim {
    uint64_t count = 0, sourceStride = 0, targetStride = 0;
    bool operator==(const Dim &) const = default;
  };
  uint64_t sourceOffset = 0, targetOffset = 0;
  std::vector<Dim> dims;
  uint64_t runBytes = 0;

  bool operator==(const StridedCopy &) const = default;
  /// All runs together.
  uint64_t bytes() const;
  /// Moves dimensions into the run, and into each other, where the bytes allow it.
  void simplify();
};

/// The same copy in at most `count` parts of about the same size, by its outermost dimension or, where it has none, by
/// its run.
std::vector<StridedCopy> partsOf(const StridedCopy &copy, unsigned count);

/// Calls visit(sourceOffset, targetOffset) for each run, in the order of the box.
template <typename Visit> void forEachRun(const StridedCopy &copy, const Visit &visit) {
  size_t rank = copy.dims.size();
  for (const StridedCopy::Dim &dim : copy.dims)
    if (dim.count == 0)
      return;
  std::vector<uint64_t> index(rank);
  uint64_t source = copy.sourceOffset, target = copy.targetOffset;
  for (;;) {
    visit(source, target);
    size_t d = rank;
    for (; d != 0; --d) {
      const StridedCopy::Dim &dim = copy.dims[d - 1];
      source += dim.sourceStride;
      target += dim.targetStride;
      if (++index[d - 1] != dim.count)
        break;
      source -= dim.count * dim.sourceStride;
      target -= dim.count * dim.targetStride;
      index[d - 1] = 0;
    }
    if (d == 0)
      return;
  }
}

/// Copies the box; the buffers do not overlap.
void copyBox(const StridedCopy &copy, const std::byte *source, std::byte *target);

/// Copies the box's bytes, run after run, to or from contiguous memory: for transports that pack messages.
void packBox(const StridedCopy &copy, const std::byte *source, std::byte *packed);
void unpackBox(const StridedCopy &copy, const std::byte *packed, std::byte *target);

/// Fills the target's side of the box with copies of `element`, whose size divides the run.
void fillBox(const StridedCopy &box, std::span<const std::byte> element, std::byte *target);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STRIDEDCOPY_H
