// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops over the runs of a box.

#include "runtime/StridedCopy.h"

#include <algorithm>
#include <cstring>

namespace cleave::runtime {

uint64_t StridedCopy::bytes() const {
  uint64_t total = runBytes;
  for (const Dim &dim : dims)
    total *= dim.count;
  return total;
}

void StridedCopy::simplify() {
  std::erase_if(dims, [](const Dim &dim) { return dim.count == 1; });
  while (!dims.empty() && dims.back().sourceStride == runBytes && dims.back().targetStride == runBytes) {
    runBytes *= dims.back().count;
    dims.pop_back();
  }
  for (size_t d = dims.size(); d-- > 1;) {
    Dim &outer = dims[d - 1];
    const Dim &inner = dims[d];
    if (outer.sourceStride != inner.count * inner.sourceStride ||
        outer.targetStride != inner.count * inner.targetStride)
      continue;
    outer = {outer.count * inner.count, inner.sourceStride, inner.targetStride};
    dims.erase(dims.begin() + static_cast<ptrdiff_t>(d));
  }
}

/// Copies runs whose length the compiler knows: most boxes that are not contiguous have runs of one element.
template <typename T> static void copyElements(const StridedCopy &copy, const std::byte *source, std::byte *target) {
  StridedCopy outer = copy;
  StridedCopy::Dim inner = copy.dims.back();
  outer.dims.pop_back();
  forEachRun(outer, [&](uint64_t from, uint64_t to) {
    for (uint64_t i = 0; i != inner.count; ++i) {
      T element;
      std::memcpy(&element, source + from + i * inner.sourceStride, sizeof(T));
      std::memcpy(target + to + i * inner.targetStride, &element, sizeof(T));
    }
  });
}

std::vector<StridedCopy> partsOf(const StridedCopy &copy, unsigned count) {
  // Parts of a run begin at pages.
  constexpr uint64_t page = 4096;
  bool byRun = copy.dims.empty();
  uint64_t whole = byRun ? (copy.runBytes + page - 1) / page : copy.dims.front().count;
  count = static_cast<unsigned>(std::min<uint64_t>(count, whole));
  std::vector<StridedCopy> parts;
  for (unsigned i = 0; i != count; ++i) {
    uint64_t begin = whole * i / count, end = whole * (i + 1) / count;
    StridedCopy part = copy;
    if (byRun) {
      part.sourceOffset += begin * page;
      part.targetOffset += begin * page;
      part.runBytes = std::min(copy.runBytes, end * page) - begin * page;
    } else {
      part.sourceOffset += begin * copy.dims.front().sourceStride;
      part.targetOffset += begin * copy.dims.front().targetStride;
      part.dims.front().count = end - begin;
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

void copyBox(const StridedCopy &copy, const std::byte *source, std::byte *target) {
  if (copy.runBytes == 0)
    return;
  if (!copy.dims.empty()) {
    switch (copy.runBytes) {
    case 1:
      return copyElements<uint8_t>(copy, source, target);
    case 2:
      return copyElements<uint16_t>(copy, source, target);
    case 4:
      return copyElements<uint32_t>(copy, source, target);
    case 8:
      return copyElements<uint64_t>(copy, source, target);
    default:
      break;
    }
  }
  forEachRun(copy, [&](uint64_t from, uint64_t to) { std::memcpy(target + to, source + from, copy.runBytes); });
}

void packBox(const StridedCopy &copy, const std::byte *source, std::byte *packed) {
  if (copy.runBytes == 0)
    return;
  forEachRun(copy, [&](uint64_t from, uint64_t) {
    std::memcpy(packed, source + from, copy.runBytes);
    packed += copy.runBytes;
  });
}

void unpackBox(const StridedCopy &copy, const std::byte *packed, std::byte *target) {
  if (copy.runBytes == 0)
    return;
  forEachRun(copy, [&](uint64_t, uint64_t to) {
    std::memcpy(target + to, packed, copy.runBytes);
    packed += copy.runBytes;
  });
}

void fillBox(const StridedCopy &box, std::span<const std::byte> element, std::byte *target) {
  if (box.runBytes == 0)
    return;
  forEachRun(box, [&](uint64_t, uint64_t to) {
    // Each copy doubles what is filled, up to what the nearest cache holds.
    constexpr uint64_t most = 4096;
    std::memcpy(target + to, element.data(), element.size());
    for (uint64_t done = element.size(); done != box.runBytes;) {
      uint64_t next = std::min({done, most, box.runBytes - done});
      std::memcpy(target + to + done, target + to, next);
      done += next;
    }
  });
}

} // namespace cleave::runtime
