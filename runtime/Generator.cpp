// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The counter-based generator that Generator.h defines.

#include "runtime/Generator.h"

#include "runtime/HostTopology.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <thread>
#include <vector>

namespace cleave::runtime {

uint64_t randomWord(uint64_t seed, uint64_t counter) {
  uint64_t z = seed + (counter + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

static double unit(uint64_t seed, uint64_t counter) {
  return static_cast<double>(randomWord(seed, counter) >> 11) * 0x1p-53;
}

/// Calls store(i, value) for the elements [begin, end) of `source`.
template <typename Store>
static void produceRange(const GeneratedSource &source, uint64_t begin, uint64_t end, const Store &store) {
  switch (source.distribution) {
  case Distribution::Constant:
    for (uint64_t i = begin; i != end; ++i)
      store(i, source.a);
    return;
  case Distribution::Uniform:
    for (uint64_t i = begin; i != end; ++i)
      store(i, source.a + (source.b - source.a) * unit(source.seed, i));
    return;
  case Distribution::Normal:
    for (uint64_t i = begin & ~uint64_t(1); i < end; i += 2) {
      double radius = std::sqrt(-2 * std::log(1 - unit(source.seed, i)));
      double angle = 2 * std::numbers::pi * unit(source.seed, i + 1);
      if (i >= begin)
        store(i, source.a + source.b * radius * std::cos(angle));
      if (i + 1 < end)
        store(i + 1, source.a + source.b * radius * std::sin(angle));
    }
    return;
  }
}

/// Calls store(i, value) for `count` elements from `first` on, large numbers of them by several threads. They end with
/// it: an OpenMP team would stay, and while a process has more threads in teams than cores, all teams sleep at once
/// where they would wait a moment for each other.
template <typename Store>
static void produce(const GeneratedSource &source, uint64_t first, uint64_t count, const Store &store) {
  constexpr uint64_t worthAThread = 1 << 18;
  uint64_t threads = std::clamp<uint64_t>(count / worthAThread, 1, hostTopology().usableCores());
  auto part = [&](uint64_t i) { return first + count / threads * i + std::min(i, count % threads); };
  std::vector<std::jthread> others;
  for (uint64_t i = 1; i < threads; ++i)
    others.emplace_back([&, i] { produceRange(source, part(i), part(i + 1), store); });
  produceRange(source, first, part(1), store);
}

void generate(const GeneratedSource &source, ElementType type, std::span<std::byte> target, uint64_t first) {
  unsigned width = elementBytes(type);
  uint64_t count = target.size() / width;
  // Float parameters can be large: spare them the switch over element types.
  if (type == ElementType::F32)
    return produce(source, first, count, [&](uint64_t i, double value) {
      auto element = static_cast<float>(value);
      std::memcpy(target.data() + (i - first) * sizeof(float), &element, sizeof(float));
    });
  produce(source, first, count,
          [&](uint64_t i, double value) { storeElement(type, target.data() + (i - first) * width, value); });
}

} // namespace cleave::runtime
