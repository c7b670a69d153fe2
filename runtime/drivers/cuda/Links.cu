// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of communications between GPUs: copies of boxes, filling them, and combining elements of several buffers
// in their order. All parameters are of 64 bits. Grids have one dimension; whatever their size, all units are done.

#include "CudaBox.h"
#include "Float.cuh"

using cleave::runtime::CudaBox;
using cleave::runtime::cudaBoxBlocks;
using cleave::runtime::cudaBoxRank;
using cleave::runtime::cudaBoxThreads;

namespace {

struct Offsets {
  uint64_t source, target;
};

/// Where unit `index` of the box is. Division by 32 bits is several times faster.
template <typename Index> __device__ Offsets offsetsOf(const CudaBox &box, Index index, unsigned width) {
  Index run = static_cast<Index>(box.runUnits), row = index / run;
  uint64_t within = static_cast<uint64_t>(index - row * run) * width;
  Offsets offsets = {box.source + within, box.target + within};
  for (int d = cudaBoxRank - 1; d >= 0 && row != 0; --d) {
    Index count = static_cast<Index>(box.counts[d]), next = row / count;
    uint64_t position = row - next * count;
    offsets.source += position * box.sourceStrides[d];
    offsets.target += position * box.targetStrides[d];
    row = next;
  }
  return offsets;
}

// Loops are not unrolled: there are many kernels, and the GPU's driver translates all of them when they are loaded.

/// Calls work(offsets) for this thread's share of every box.
template <typename Work>
__device__ void forEachUnit(const CudaBox *boxes, uint64_t count, unsigned width, const Work &work) {
  uint64_t first = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = 0; i != count; ++i) {
    const CudaBox &box = boxes[i];
    bool isSmall = box.units <= 0xffffffffu;
#pragma unroll 1
    for (uint64_t unit = first; unit < box.units; unit += stride)
      work(isSmall ? offsetsOf(box, static_cast<uint32_t>(unit), width) : offsetsOf(box, unit, width));
  }
}

template <typename Unit> __device__ void copyBoxes(const CudaBox *boxes, uint64_t count) {
  forEachUnit(boxes, count, sizeof(Unit),
              [](Offsets at) { *reinterpret_cast<Unit *>(at.target) = *reinterpret_cast<const Unit *>(at.source); });
}

template <typename Unit> __device__ void fillBoxes(const CudaBox *boxes, uint64_t count, uint64_t value) {
  forEachUnit(boxes, count, sizeof(Unit),
              [&](Offsets at) { *reinterpret_cast<Unit *>(at.target) = static_cast<Unit>(value); });
}

/// Elements of type `Stored` in memory, combined as `Value`.
template <typename T, typename Wide = T> struct Plain {
  using Stored = T;
  using Value = Wide;
  __device__ static Value load(Stored stored) { return static_cast<Value>(stored); }
  __device__ static Stored store(Value value) { return static_cast<Stored>(value); }
};

/// Two elements of 16 bits, which lie where one of 32 bits may.
template <typename Element> struct Pair {
  using Stored = uint32_t;
  struct Value {
    typename Element::Value first, second;
  };
  __device__ static Value load(Stored stored) {
    return {Element::load(part(stored)), Element::load(part(stored >> 16))};
  }
  __device__ static Stored store(const Value &value) { return bits(value.first) | bits(value.second) << 16; }

private:
  using Part = typename Element::Stored;
  static_assert(sizeof(Part) == 2);
  __device__ static Part part(uint32_t bits) {
    auto low = static_cast<uint16_t>(bits);
    return *reinterpret_cast<Part *>(&low);
  }
  __device__ static uint32_t bits(typename Element::Value value) {
    Part stored = Element::store(value);
    return *reinterpret_cast<uint16_t *>(&stored);
  }
};

// Products and sums must not be contracted to one operation: nvcc has none of them here to contract.
struct Sum {
  template <typename T> __device__ static T of(T left, T right) { return left + right; }
};
struct Product {
  template <typename T> __device__ static T of(T left, T right) { return left * right; }
};
/// NaN wins.
struct Max {
  template <typename T> __device__ static T of(T left, T right) { return left > right || left != left ? left : right; }
};
struct Min {
  template <typename T> __device__ static T of(T left, T right) { return left < right || left != left ? left : right; }
};

template <typename Combiner> struct OfPairs {
  template <typename T> __device__ static T of(const T &left, const T &right) {
    return {Combiner::of(left.first, right.first), Combiner::of(left.second, right.second)};
  }
};

/// Every target gets the combination of all sources; all are base addresses, to which the boxes' offsets are added. A
/// thread reads an element of all sources before it writes that of all targets, so that targets may be sources.
template <typename Element, typename Combiner>
__device__ void combineBoxes(const CudaBox *boxes, uint64_t count, const uint64_t *sources, uint64_t numSources,
                             const uint64_t *targets, uint64_t numTargets) {
  using Stored = typename Element::Stored;
  forEachUnit(boxes, count, sizeof(Stored), [&](Offsets at) {
    auto value = Element::load(*reinterpret_cast<const Stored *>(sources[0] + at.source));
#pragma unroll 1
    for (uint64_t i = 1; i != numSources; ++i)
      value = Combiner::of(value, Element::load(*reinterpret_cast<const Stored *>(sources[i] + at.source)));
    Stored stored = Element::store(value);
#pragma unroll 1
    for (uint64_t i = 0; i != numTargets; ++i)
      *reinterpret_cast<Stored *>(targets[i] + at.target) = stored;
  });
}

} // namespace

// As many threads as a GPU can have, which the registers of a kernel must leave room for: what limits them all is memory.
#define CLEAVE_KERNEL extern "C" __global__ void __launch_bounds__(cudaBoxThreads, cudaBoxBlocks)

#define CLEAVE_COPY(width, Unit)                                                                                       \
  CLEAVE_KERNEL cleave_copy_##width(const CudaBox *boxes, uint64_t count) {                               \
    copyBoxes<Unit>(boxes, count);                                                                                     \
  }
CLEAVE_COPY(1, uint8_t)
CLEAVE_COPY(2, uint16_t)
CLEAVE_COPY(4, uint32_t)
CLEAVE_COPY(8, uint64_t)
CLEAVE_COPY(16, uint4)

#define CLEAVE_FILL(width, Unit)                                                                                       \
  CLEAVE_KERNEL cleave_fill_##width(const CudaBox *boxes, uint64_t count, uint64_t value) {               \
    fillBoxes<Unit>(boxes, count, value);                                                                              \
  }
CLEAVE_FILL(1, uint8_t)
CLEAVE_FILL(2, uint16_t)
CLEAVE_FILL(4, uint32_t)
CLEAVE_FILL(8, uint64_t)

#define CLEAVE_COMBINE(element, combiner, Element, Combiner)                                                           \
  CLEAVE_KERNEL cleave_combine_##element##_##combiner(const CudaBox *boxes, uint64_t count,               \
                                                                   const uint64_t *sources, uint64_t numSources,       \
                                                                   const uint64_t *targets, uint64_t numTargets) {     \
    combineBoxes<Element, Combiner>(boxes, count, sources, numSources, targets, numTargets);                           \
  }
#define CLEAVE_COMBINE_MAX_MIN(element, ...)                                                                           \
  CLEAVE_COMBINE(element, max, __VA_ARGS__, Max)                                                                       \
  CLEAVE_COMBINE(element, min, __VA_ARGS__, Min)
#define CLEAVE_COMBINE_ALL(element, ...)                                                                               \
  CLEAVE_COMBINE(element, sum, __VA_ARGS__, Sum)                                                                       \
  CLEAVE_COMBINE(element, product, __VA_ARGS__, Product)                                                               \
  CLEAVE_COMBINE_MAX_MIN(element, __VA_ARGS__)
#define CLEAVE_COMBINE_PAIRS(element, Element)                                                                         \
  CLEAVE_COMBINE(element##_pair, sum, Pair<Element>, OfPairs<Sum>)                                                     \
  CLEAVE_COMBINE(element##_pair, product, Pair<Element>, OfPairs<Product>)                                             \
  CLEAVE_COMBINE(element##_pair, max, Pair<Element>, OfPairs<Max>)                                                     \
  CLEAVE_COMBINE(element##_pair, min, Pair<Element>, OfPairs<Min>)

// Integers wrap: they are combined in types without a sign where the sign makes no difference.
using Byte = Plain<uint8_t>;
using SignedByte = Plain<int8_t, int32_t>;
using Short = Plain<int16_t, int32_t>;
using UnsignedShort = Plain<uint16_t, uint32_t>;
using Int = Plain<int32_t>;
using UnsignedInt = Plain<uint32_t>;
using Long = Plain<int64_t>;
using UnsignedLong = Plain<uint64_t>;
using Float = Plain<float>;
using Double = Plain<double>;
CLEAVE_COMBINE_MAX_MIN(i1, Byte)
CLEAVE_COMBINE_ALL(i8, SignedByte)
CLEAVE_COMBINE_ALL(u8, Byte)
CLEAVE_COMBINE_ALL(i16, Short)
CLEAVE_COMBINE_ALL(u16, UnsignedShort)
CLEAVE_COMBINE_ALL(i32, Int)
CLEAVE_COMBINE_ALL(u32, UnsignedInt)
CLEAVE_COMBINE_ALL(i64, Long)
CLEAVE_COMBINE_ALL(u64, UnsignedLong)
CLEAVE_COMBINE_ALL(f16, Float16)
CLEAVE_COMBINE_ALL(bf16, BFloat16)
CLEAVE_COMBINE_ALL(f32, Float)
CLEAVE_COMBINE_ALL(f64, Double)
CLEAVE_COMBINE_PAIRS(f16, Float16)
CLEAVE_COMBINE_PAIRS(bf16, BFloat16)
