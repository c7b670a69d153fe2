// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions go through a chunk that stays in the first-level cache: combine all sources there, then write it to all
// targets. The loops are plain, for the compiler to vectorize; so are the conversions of 16-bit floats (after Giesen,
// "Half to float done quic", 2016), which have no branches.

#include "runtime/Reduction.h"

#include "runtime/HostTopology.h"

#include <algorithm>
#include <bit>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace cleave::runtime {
namespace {

/// Elements of type `Stored` in memory, combined as `Value`.
template <typename T> struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(Stored stored) { return stored; }
  static Stored store(Value value) { return value; }
};

struct BFloat16 {
  using Stored = uint16_t;
  using Value = float;
  static Value load(Stored stored) { return std::bit_cast<float>(static_cast<uint32_t>(stored) << 16); }
  /// To the nearest, ties to even; a NaN stays one.
  static Stored store(Value value) {
    auto bits = std::bit_cast<uint32_t>(value);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return static_cast<Stored>(value != value ? (bits >> 16) | 0x40 : rounded);
  }
};

struct Float16 {
  using Stored = uint16_t;
  using Value = float;
  static Value load(Stored stored) {
    constexpr uint32_t exponents = 0x7c00u << 13, rebias = (127 - 15) << 23;
    uint32_t bits = (stored & 0x7fffu) << 13, exponent = bits & exponents;
    uint32_t normal = bits + rebias, infinite = normal + ((128 - 16) << 23);
    float small = std::bit_cast<float>(normal + (1u << 23)) - std::bit_cast<float>(113u << 23);
    uint32_t magnitude = exponent == exponents ? infinite : exponent == 0 ? std::bit_cast<uint32_t>(small) : normal;
    return std::bit_cast<float>(magnitude | static_cast<uint32_t>(stored & 0x8000u) << 16);
  }
  /// To the nearest, ties to even.
  static Stored store(Value value) {
    constexpr uint32_t infinity = 255u << 23, tooLarge = (127u + 16) << 23, smallest = 113u << 23;
    constexpr uint32_t denormal = ((127u - 15) + (23 - 10) + 1) << 23;
    auto bits = std::bit_cast<uint32_t>(value);
    uint32_t sign = bits & 0x80000000u, magnitude = bits ^ sign;
    uint32_t special = magnitude > infinity ? 0x7e00u : 0x7c00u;
    float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(denormal);
    uint32_t small = std::bit_cast<uint32_t>(shifted) - denormal;
    uint32_t normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    uint32_t half = magnitude >= tooLarge ? special : magnitude < smallest ? small : normal;
    return static_cast<Stored>(half | sign >> 16);
  }
};

/// Integers are combined without a sign where that makes no difference but that overflow wraps.
template <typename T> T wrapping(auto operation, T left, T right) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
    return static_cast<T>(operation(static_cast<Wide>(left), static_cast<Wide>(right)));
  } else {
    return operation(left, right);
  }
}
struct SumOf {
  template <typename T> T operator()(T left, T right) const {
    return wrapping([](auto a, auto b) { return a + b; }, left, right);
  }
};
struct ProductOf {
  template <typename T> T operator()(T left, T right) const {
    return wrapping([](auto a, auto b) { return a * b; }, left, right);
  }
};
struct MaxOf {
  template <typename T> T operator()(T left, T right) const { return left > right || left != left ? left : right; }
};
struct MinOf {
  template <typename T> T operator()(T left, T right) const { return left < right || left != left ? left : right; }
};

constexpr uint64_t chunkBytes = 8192;

/// The combination of `count` elements from `begin` on.
template <typename Element, typename Operation>
void combineChunk(std::span<const std::byte *const> sources, uint64_t begin, uint64_t count,
                  typename Element::Value *values) {
  using Stored = typename Element::Stored;
  auto at = [&](size_t source) { return reinterpret_cast<const Stored *>(sources[source]) + begin; };
  const Stored *first = at(0);
  if (sources.size() == 1) {
    for (uint64_t i = 0; i != count; ++i)
      values[i] = Element::load(first[i]);
  } else {
    const Stored *second = at(1);
    for (uint64_t i = 0; i != count; ++i)
      values[i] = Operation()(Element::load(first[i]), Element::load(second[i]));
  }
  for (size_t source = 2; source < sources.size(); ++source) {
    const Stored *next = at(source);
    for (uint64_t i = 0; i != count; ++i)
      values[i] = Operation()(values[i], Element::load(next[i]));
  }
}

template <typename Element, typename Operation>
void combineAs(std::span<const std::byte *const> sources, std::span<std::byte *const> targets, uint64_t elements,
               bool streams) {
  using Stored = typename Element::Stored;
  using Value = typename Element::Value;
  constexpr uint64_t chunk = chunkBytes / sizeof(Value);
  alignas(64) Value values[chunk];
  alignas(64) Stored results[chunk];
  for (uint64_t begin = 0; begin < elements; begin += chunk) {
    uint64_t count = std::min(chunk, elements - begin);
    combineChunk<Element, Operation>(sources, begin, count, values);
    for (uint64_t i = 0; i != count; ++i)
      results[i] = Element::store(values[i]);
    for (std::byte *target : targets)
      copyBytes(reinterpret_cast<const std::byte *>(results), target + begin * sizeof(Stored), count * sizeof(Stored),
                streams);
  }
}

template <typename Element, typename Operation>
void combineWideAs(std::span<const std::byte *const> sources, float *target, uint64_t elements) {
  constexpr uint64_t chunk = chunkBytes / sizeof(float);
  for (uint64_t begin = 0; begin < elements; begin += chunk)
    combineChunk<Element, Operation>(sources, begin, std::min(chunk, elements - begin), target + begin);
}

using CombineWide = void (*)(std::span<const std::byte *const>, float *, uint64_t);

template <typename Element> CombineWide wideWith(Combiner combiner) {
  switch (combiner) {
  case Combiner::Sum:
    return combineWideAs<Element, SumOf>;
  case Combiner::Product:
    return combineWideAs<Element, ProductOf>;
  case Combiner::Max:
    return combineWideAs<Element, MaxOf>;
  case Combiner::Min:
    return combineWideAs<Element, MinOf>;
  }
  return nullptr;
}

template <typename Element> void narrowAs(const float *source, std::byte *target, uint64_t elements) {
  auto *stored = reinterpret_cast<typename Element::Stored *>(target);
  for (uint64_t i = 0; i != elements; ++i)
    stored[i] = Element::store(source[i]);
}

using Combine = void (*)(std::span<const std::byte *const>, std::span<std::byte *const>, uint64_t, bool);

template <typename Element> Combine with(Combiner combiner) {
  switch (combiner) {
  case Combiner::Sum:
    return combineAs<Element, SumOf>;
  case Combiner::Product:
    return combineAs<Element, ProductOf>;
  case Combiner::Max:
    return combineAs<Element, MaxOf>;
  case Combiner::Min:
    return combineAs<Element, MinOf>;
  }
  return nullptr;
}

Combine functionFor(ElementType element, Combiner combiner) {
  switch (element) {
  case ElementType::I1:
  case ElementType::U8:
    return with<Plain<uint8_t>>(combiner);
  case ElementType::I8:
    return with<Plain<int8_t>>(combiner);
  case ElementType::I16:
    return with<Plain<int16_t>>(combiner);
  case ElementType::U16:
    return with<Plain<uint16_t>>(combiner);
  case ElementType::I32:
    return with<Plain<int32_t>>(combiner);
  case ElementType::U32:
    return with<Plain<uint32_t>>(combiner);
  case ElementType::I64:
    return with<Plain<int64_t>>(combiner);
  case ElementType::U64:
    return with<Plain<uint64_t>>(combiner);
  case ElementType::F16:
    return with<Float16>(combiner);
  case ElementType::BF16:
    return with<BFloat16>(combiner);
  case ElementType::F32:
    return with<Plain<float>>(combiner);
  case ElementType::F64:
    return with<Plain<double>>(combiner);
  }
  return nullptr;
}

} // namespace

bool combines(ElementType element, Combiner combiner) {
  return element != ElementType::I1 || combiner == Combiner::Max || combiner == Combiner::Min;
}

void combine(ElementType element, Combiner combiner, std::span<const std::byte *const> sources,
             std::span<std::byte *const> targets, uint64_t elements, bool streams) {
  functionFor(element, combiner)(sources, targets, elements, streams);
#if defined(__SSE2__)
  if (streams)
    _mm_sfence();
#endif
}

void combineWide(ElementType element, Combiner combiner, std::span<const std::byte *const> sources, float *target,
                 uint64_t elements) {
  auto function = element == ElementType::F16 ? wideWith<Float16>(combiner) : wideWith<BFloat16>(combiner);
  function(sources, target, elements);
}

void narrow(ElementType element, const float *source, std::byte *target, uint64_t elements) {
  if (element == ElementType::F16)
    narrowAs<Float16>(source, target, elements);
  else
    narrowAs<BFloat16>(source, target, elements);
}

void copyBytes(const std::byte *source, std::byte *target, uint64_t bytes, bool streams) {
#if defined(__SSE2__)
  constexpr uintptr_t line = 64;
  if (streams && bytes >= 2 * line) {
    uint64_t head = (line - reinterpret_cast<uintptr_t>(target) % line) % line;
    std::memcpy(target, source, head);
    uint64_t at = head;
    for (; at + line <= bytes; at += line) {
      const auto *from = reinterpret_cast<const __m128i *>(source + at);
      auto *to = reinterpret_cast<__m128i *>(target + at);
      __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
      __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
      _mm_stream_si128(to, a);
      _mm_stream_si128(to + 1, b);
      _mm_stream_si128(to + 2, c);
      _mm_stream_si128(to + 3, d);
    }
    source += at;
    target += at;
    bytes -= at;
  }
#else
  (void)streams;
#endif
  if (bytes != 0)
    std::memcpy(target, source, bytes);
}

bool exceedsOwnCaches(uint64_t bytes) {
  const uint64_t caches = hostTopology().ownCacheBytes;
  return caches != 0 && bytes > caches;
}

} // namespace cleave::runtime
