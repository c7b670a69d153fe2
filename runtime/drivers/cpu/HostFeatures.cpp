// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLVM's feature names against what CPUID reports. Only names that stand for instructions count: LLVM also has features
// that tune code and need nothing of the processor.

#include "runtime/drivers/cpu/HostFeatures.h"

#include <array>
#include <cpuid.h>
#include <cstdint>

namespace cleave::runtime {
namespace {

enum Register : uint8_t { eax, ebx, ecx, edx };

/// Registers that the operating system has to save, as bits of XCR0 (Intel's manual, volume 1, chapter 13).
enum State : uint32_t {
  None = 0,
  Vectors = 0x6,      // of 128 and 256 bits
  WideVectors = 0xe6, // and of 512 bits, and masks
  Tiles = 0x60000     // AMX
};

/// Where CPUID reports a feature: bit `bit` of a register of leaf `leaf`, subleaf `subleaf`.
struct Feature {
  std::string_view name;
  uint32_t leaf, subleaf;
  Register where;
  uint8_t bit;
  State state = None;
};

/// Intel's manual, volume 2, CPUID; AMD's, volume 3, appendix E, for leaves from 0x80000000.
constexpr Feature table[] = {
    {"x87", 1, 0, edx, 0},
    {"cx8", 1, 0, edx, 8},
    {"cmov", 1, 0, edx, 15},
    {"mmx", 1, 0, edx, 23},
    {"fxsr", 1, 0, edx, 24},
    {"sse", 1, 0, edx, 25},
    {"sse2", 1, 0, edx, 26},
    {"sse3", 1, 0, ecx, 0},
    {"pclmul", 1, 0, ecx, 1},
    {"ssse3", 1, 0, ecx, 9},
    {"fma", 1, 0, ecx, 12, Vectors},
    {"cx16", 1, 0, ecx, 13},
    {"sse4.1", 1, 0, ecx, 19},
    {"sse4.2", 1, 0, ecx, 20},
    {"crc32", 1, 0, ecx, 20},
    {"movbe", 1, 0, ecx, 22},
    {"popcnt", 1, 0, ecx, 23},
    {"aes", 1, 0, ecx, 25},
    {"xsave", 1, 0, ecx, 27}, // OSXSAVE: the operating system has switched it on
    {"avx", 1, 0, ecx, 28, Vectors},
    {"f16c", 1, 0, ecx, 29, Vectors},
    {"rdrnd", 1, 0, ecx, 30},
    {"fsgsbase", 7, 0, ebx, 0},
    {"bmi", 7, 0, ebx, 3},
    {"avx2", 7, 0, ebx, 5, Vectors},
    {"bmi2", 7, 0, ebx, 8},
    {"avx512f", 7, 0, ebx, 16, WideVectors},
    {"evex512", 7, 0, ebx, 16, WideVectors},
    {"avx512dq", 7, 0, ebx, 17, WideVectors},
    {"rdseed", 7, 0, ebx, 18},
    {"adx", 7, 0, ebx, 19},
    {"avx512ifma", 7, 0, ebx, 21, WideVectors},
    {"clflushopt", 7, 0, ebx, 23},
    {"clwb", 7, 0, ebx, 24},
    {"avx512cd", 7, 0, ebx, 28, WideVectors},
    {"sha", 7, 0, ebx, 29},
    {"avx512bw", 7, 0, ebx, 30, WideVectors},
    {"avx512vl", 7, 0, ebx, 31, WideVectors},
    {"avx512vbmi", 7, 0, ecx, 1, WideVectors},
    {"avx512vbmi2", 7, 0, ecx, 6, WideVectors},
    {"gfni", 7, 0, ecx, 8},
    {"vaes", 7, 0, ecx, 9, Vectors},
    {"vpclmulqdq", 7, 0, ecx, 10, Vectors},
    {"avx512vnni", 7, 0, ecx, 11, WideVectors},
    {"avx512bitalg", 7, 0, ecx, 12, WideVectors},
    {"avx512vpopcntdq", 7, 0, ecx, 14, WideVectors},
    {"avx512vp2intersect", 7, 0, edx, 8, WideVectors},
    {"amx-bf16", 7, 0, edx, 22, Tiles},
    {"avx512fp16", 7, 0, edx, 23, WideVectors},
    {"amx-tile", 7, 0, edx, 24, Tiles},
    {"amx-int8", 7, 0, edx, 25, Tiles},
    {"sha512", 7, 1, eax, 0, Vectors},
    {"avxvnni", 7, 1, eax, 4, Vectors},
    {"avx512bf16", 7, 1, eax, 5, WideVectors},
    {"avxifma", 7, 1, eax, 23, Vectors},
    {"avxvnniint8", 7, 1, edx, 4, Vectors},
    {"avxneconvert", 7, 1, edx, 5, Vectors},
    {"avxvnniint16", 7, 1, edx, 10, Vectors},
    {"xsaveopt", 13, 1, eax, 0},
    {"xsavec", 13, 1, eax, 1},
    {"xsaves", 13, 1, eax, 3},
    {"sahf", 0x80000001, 0, ecx, 0},
    {"lzcnt", 0x80000001, 0, ecx, 5},
    {"sse4a", 0x80000001, 0, ecx, 6},
    {"xop", 0x80000001, 0, ecx, 11, Vectors},
    {"fma4", 0x80000001, 0, ecx, 16, Vectors},
    {"tbm", 0x80000001, 0, ecx, 21},
    {"64bit", 0x80000001, 0, edx, 29},
};

/// Registers eax to edx of a leaf; zeros for one that the processor does not have.
std::array<uint32_t, 4> cpuid(uint32_t leaf, uint32_t subleaf) {
  std::array<uint32_t, 4> found = {};
  if (!__get_cpuid_count(leaf, subleaf, &found[eax], &found[ebx], &found[ecx], &found[edx]))
    found = {};
  return found;
}

/// XCR0: what the operating system saves when it switches threads.
uint64_t savedState() {
  constexpr uint32_t osxsave = 1U << 27;
  if ((cpuid(1, 0)[ecx] & osxsave) == 0)
    return 0;
  uint32_t low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

} // namespace

std::set<std::string> hostFeatures() {
  uint64_t saved = savedState();
  std::set<std::string> found;
  for (const Feature &feature : table)
    if ((cpuid(feature.leaf, feature.subleaf)[feature.where] >> feature.bit & 1) != 0 &&
        (saved & feature.state) == feature.state)
      found.emplace(feature.name);
  return found;
}

bool hasFeature(const std::set<std::string> &features, std::string_view feature) {
  for (const Feature &known : table)
    if (known.name == feature)
      return features.count(std::string(feature)) != 0;
  return true;
}

std::string missingFeatures(const std::vector<std::string> &needed, const std::set<std::string> &features) {
  std::string missing;
  for (std::string_view feature : needed) {
    if (feature.empty() || feature.front() == '-')
      continue;
    if (feature.front() == '+')
      feature.remove_prefix(1);
    if (!hasFeature(features, feature))
      missing.append(missing.empty() ? "" : ", ").append(feature);
  }
  return missing;
}

} // namespace cleave::runtime
