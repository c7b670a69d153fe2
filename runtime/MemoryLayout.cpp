// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Comparing and naming memory layouts.

#include "runtime/MemoryLayout.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace cleave::runtime {

Layout denseLayout(std::span<const int64_t> shape) {
  std::vector<unsigned> order(shape.size());
  std::iota(order.begin(), order.end(), 0u);
  return permutedLayout(shape, order);
}

Layout permutedLayout(std::span<const int64_t> shape, std::span<const unsigned> order) {
  Layout layout;
  layout.padded.assign(shape.begin(), shape.end());
  layout.strides.resize(shape.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- != 0;) {
    layout.strides[order[i]] = stride;
    stride *= std::max<int64_t>(shape[order[i]], 1);
  }
  return layout;
}

Layout blockedLayout(std::span<const int64_t> shape, unsigned blocked, int64_t block) {
  std::vector<int64_t> outer(shape.begin(), shape.end());
  outer[blocked] = (outer[blocked] + block - 1) / block;
  Layout layout = denseLayout(outer);
  layout.padded.assign(shape.begin(), shape.end());
  layout.padded[blocked] = outer[blocked] * block;
  for (int64_t &stride : layout.strides)
    stride *= block;
  layout.innerBlocks = {block};
  layout.innerDims = {static_cast<int32_t>(blocked)};
  return layout;
}

/// `extent` steps of `stride` elements along one dimension.
struct Level {
  int64_t extent, stride;
  bool operator==(const Level &) const = default;
};

/// How each dimension moves through memory, outermost first: steps of blocks, then inside them. Levels of one step are
/// left out and levels that continue each other are one, so that layouts that place every element alike compare equal.
static std::vector<std::vector<Level>> levels(const TensorType &type) {
  Layout layout = type.layout ? *type.layout : denseLayout(type.shape);
  std::vector<std::vector<Level>> result(type.shape.size());
  std::vector<int64_t> outer = layout.padded;
  auto prepend = [&](size_t d, Level level) {
    std::vector<Level> &own = result[d];
    if (level.extent == 1)
      return;
    if (!own.empty() && level.stride == own.front().extent * own.front().stride)
      own.front().extent *= level.extent;
    else
      own.insert(own.begin(), level);
  };
  int64_t inner = 1;
  for (size_t i = layout.innerBlocks.size(); i-- != 0;) {
    prepend(layout.innerDims[i], {layout.innerBlocks[i], inner});
    inner *= layout.innerBlocks[i];
    outer[layout.innerDims[i]] /= layout.innerBlocks[i];
  }
  for (size_t d = 0; d != outer.size(); ++d)
    prepend(d, {outer[d], layout.strides[d]});
  return result;
}

bool isPlain(const TensorType &type) { return !type.layout || *type.layout == denseLayout(type.shape); }

bool isDense(const TensorType &type) { return !needsReorder(type, TensorType{type.element, type.shape, std::nullopt}); }

bool needsReorder(const TensorType &from, const TensorType &to) {
  return from.layout != to.layout && levels(from) != levels(to);
}

std::string layoutText(const TensorType &type, std::string_view letters) {
  Layout layout = type.layout ? *type.layout : denseLayout(type.shape);
  size_t rank = type.shape.size();
  auto letter = [&](size_t d) { return d < letters.size() ? letters[d] : d < 26 ? static_cast<char>('a' + d) : '?'; };
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t left, size_t right) { return layout.strides[left] > layout.strides[right]; });
  std::string text;
  for (size_t d : order) {
    bool blocked = std::find(layout.innerDims.begin(), layout.innerDims.end(), d) != layout.innerDims.end();
    text += blocked ? static_cast<char>(std::toupper(letter(d))) : letter(d);
  }
  for (size_t i = 0; i != layout.innerBlocks.size(); ++i)
    text += std::to_string(layout.innerBlocks[i]) + letter(layout.innerDims[i]);
  return text;
}

std::string_view dataLetters(size_t rank) {
  static constexpr std::string_view letters[] = {"nc", "ncw", "nchw", "ncdhw"};
  return rank >= 2 && rank <= 5 ? letters[rank - 2] : std::string_view();
}

std::string_view weightLetters(size_t rank, bool grouped) {
  static constexpr std::string_view letters[] = {"goi", "goiw", "goihw", "goidhw"};
  size_t full = grouped ? rank : rank + 1;
  return full >= 3 && full <= 6 ? letters[full - 3].substr(grouped ? 0 : 1) : std::string_view();
}

} // namespace cleave::runtime
