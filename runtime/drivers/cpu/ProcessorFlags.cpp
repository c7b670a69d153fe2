// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLVM's feature names against the flags in /proc/cpuinfo. Only names that stand for instructions count: LLVM also has
// features that tune code and need nothing of the processor.

#include "runtime/drivers/cpu/ProcessorFlags.h"

#include <fstream>
#include <map>
#include <sstream>

namespace cleave::runtime {

/// LLVM's name to the operating system's, for x86-64.
static const std::map<std::string, std::string> &flagOfFeature() {
  static const std::map<std::string, std::string> table = {
      {"64bit", "lm"},
      {"adx", "adx"},
      {"aes", "aes"},
      {"amx-bf16", "amx_bf16"},
      {"amx-int8", "amx_int8"},
      {"amx-tile", "amx_tile"},
      {"avx", "avx"},
      {"avx2", "avx2"},
      {"avx512bf16", "avx512_bf16"},
      {"avx512bitalg", "avx512_bitalg"},
      {"avx512bw", "avx512bw"},
      {"avx512cd", "avx512cd"},
      {"avx512dq", "avx512dq"},
      {"avx512f", "avx512f"},
      {"avx512fp16", "avx512_fp16"},
      {"avx512ifma", "avx512ifma"},
      {"avx512vbmi", "avx512vbmi"},
      {"avx512vbmi2", "avx512_vbmi2"},
      {"avx512vl", "avx512vl"},
      {"avx512vnni", "avx512_vnni"},
      {"avx512vp2intersect", "avx512_vp2intersect"},
      {"avx512vpopcntdq", "avx512_vpopcntdq"},
      {"avxifma", "avx_ifma"},
      {"avxneconvert", "avx_ne_convert"},
      {"avxvnni", "avx_vnni"},
      {"avxvnniint16", "avx_vnni_int16"},
      {"avxvnniint8", "avx_vnni_int8"},
      {"bmi", "bmi1"},
      {"bmi2", "bmi2"},
      {"clflushopt", "clflushopt"},
      {"clwb", "clwb"},
      {"cmov", "cmov"},
      {"crc32", "sse4_2"},
      {"cx16", "cx16"},
      {"cx8", "cx8"},
      {"evex512", "avx512f"},
      {"f16c", "f16c"},
      {"fma", "fma"},
      {"fma4", "fma4"},
      {"fsgsbase", "fsgsbase"},
      {"fxsr", "fxsr"},
      {"gfni", "gfni"},
      {"lzcnt", "abm"},
      {"mmx", "mmx"},
      {"movbe", "movbe"},
      {"pclmul", "pclmulqdq"},
      {"popcnt", "popcnt"},
      {"rdrnd", "rdrand"},
      {"rdseed", "rdseed"},
      {"sahf", "lahf_lm"},
      {"sha", "sha_ni"},
      {"sha512", "sha512"},
      {"sse", "sse"},
      {"sse2", "sse2"},
      {"sse3", "pni"},
      {"sse4.1", "sse4_1"},
      {"sse4.2", "sse4_2"},
      {"sse4a", "sse4a"},
      {"ssse3", "ssse3"},
      {"tbm", "tbm"},
      {"vaes", "vaes"},
      {"vpclmulqdq", "vpclmulqdq"},
      {"x87", "fpu"},
      {"xop", "xop"},
      {"xsave", "xsave"},
      {"xsavec", "xsavec"},
      {"xsaveopt", "xsaveopt"},
      {"xsaves", "xsaves"},
  };
  return table;
}

std::set<std::string> processorFlags() {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, 5, "flags") != 0)
      continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;)
      flags.insert(word);
    break;
  }
  return flags;
}

bool hasFeature(const std::set<std::string> &flags, std::string_view feature) {
  auto flag = flagOfFeature().find(std::string(feature));
  return flag == flagOfFeature().end() || flags.count(flag->second);
}

std::string missingFeatures(const std::vector<std::string> &features, const std::set<std::string> &flags) {
  std::string missing;
  for (std::string_view feature : features) {
    if (feature.empty() || feature.front() == '-')
      continue;
    if (feature.front() == '+')
      feature.remove_prefix(1);
    if (!hasFeature(flags, feature))
      missing.append(missing.empty() ? "" : ", ").append(feature);
  }
  return missing;
}

} // namespace cleave::runtime
