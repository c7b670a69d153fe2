// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Questions about memory layouts that need no library: is it row-major, do two types hold their elements in the same
// places, what is it called.

#ifndef CLEAVE_RUNTIME_MEMORYLAYOUT_H
#define CLEAVE_RUNTIME_MEMORYLAYOUT_H

#include "runtime/TensorType.h"

#include <span>
#include <string>
#include <string_view>

namespace cleave::runtime {

/// The row-major layout of `shape`, spelled out.
Layout denseLayout(std::span<const int64_t> shape);

/// The layout of a dense tensor of `shape` whose dimensions lie in memory in `order`, outermost first: {1, 0} is a
/// transposed matrix. `order` is a permutation of the dimensions.
Layout permutedLayout(std::span<const int64_t> shape, std::span<const unsigned> order);

/// `shape` with dimension `blocked` (the channels) cut into innermost blocks of `block` values, padded: nChw16c.
Layout blockedLayout(std::span<const int64_t> shape, unsigned blocked, int64_t block);

/// The type has no layout, or the row-major one to the last stride. `type` is valid.
bool isPlain(const TensorType &type);

/// The type has no layout, or one that places every element where row-major order does. `type` is valid.
bool isDense(const TensorType &type);

/// Copying the bytes of one to the other would not do: the types, both valid and of the same shape, place elements
/// differently or pad differently. Strides of dimensions of size 1 do not count, and [1, 64, 1, 1] is the same bytes
/// row-major and in blocks of 16 channels.
bool needsReorder(const TensorType &from, const TensorType &to);

/// The layout as people write it, with one letter a dimension: "nchw", "nhwc", "nChw16c", "OIhw16i16o". Dimensions
/// stand from the outermost to the innermost, blocked ones in capitals, then the inner blocks. `letters` names the
/// dimensions and defaults to "abcdef..."; of `type` only shape and layout count.
std::string layoutText(const TensorType &type, std::string_view letters = {});

/// Letters for activations of that rank: "nc", "ncw", "nchw", "ncdhw"; "" for other ranks.
std::string_view dataLetters(size_t rank);

/// Letters for convolution weights of that rank: "oihw", or "goihw" when grouped; "" for other ranks.
std::string_view weightLetters(size_t rank, bool grouped);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_MEMORYLAYOUT_H
