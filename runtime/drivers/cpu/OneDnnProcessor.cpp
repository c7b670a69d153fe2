// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which instructions oneDNN may use. Its limit can be set once a process, before it was asked for anything.

#include "runtime/drivers/cpu/HostFeatures.h"
#include "runtime/drivers/cpu/OneDnn.h"

#include <dnnl.h>

#include <algorithm>
#include <mutex>

namespace cleave::runtime {
namespace {

/// A set of instructions that oneDNN has code for, and what LLVM calls them.
struct InstructionSet {
  dnnl_cpu_isa_t isa;
  const char *name;
  std::vector<std::string> features; ///< besides those of the sets before it, where it includes them
};

/// From the largest to the smallest.
const std::vector<InstructionSet> &instructionSets() {
  static const std::vector<std::string> wide = {"avx512f", "avx512bw", "avx512vl", "avx512dq"};
  auto with = [](std::vector<std::string> features, std::initializer_list<const char *> more) {
    features.insert(features.end(), more.begin(), more.end());
    return features;
  };
  static const std::vector<InstructionSet> sets = {
      {dnnl_cpu_isa_avx512_core_amx, "AVX-512 with AMX",
       with(wide, {"avx512vnni", "avx512bf16", "amx-tile", "amx-int8", "amx-bf16"})},
      {dnnl_cpu_isa_avx512_core_bf16, "AVX-512 with bfloat16", with(wide, {"avx512vnni", "avx512bf16"})},
      {dnnl_cpu_isa_avx512_core_vnni, "AVX-512 with VNNI", with(wide, {"avx512vnni"})},
      {dnnl_cpu_isa_avx512_core, "AVX-512", wide},
      {dnnl_cpu_isa_avx2_vnni, "AVX2 with VNNI", {"avx2", "fma", "avxvnni"}},
      {dnnl_cpu_isa_avx2, "AVX2", {"avx2", "fma"}},
      {dnnl_cpu_isa_avx, "AVX", {"avx"}},
      {dnnl_cpu_isa_sse41, "SSE4.1", {"sse4.1"}},
  };
  return sets;
}

/// The largest set all of whose features are there; null for a processor without SSE4.1.
template <typename Has> const InstructionSet *largestSet(const Has &has) {
  for (const InstructionSet &set : instructionSets())
    if (std::ranges::all_of(set.features, has))
      return &set;
  return nullptr;
}

} // namespace

Error limitOneDnn(const std::vector<std::string> &features) {
  static const std::set<std::string> offered = hostFeatures();
  static std::mutex mutex;
  static const InstructionSet *limit = nullptr; // as it was set by this function
  const InstructionSet *wanted =
      largestSet([&](const std::string &feature) { return std::ranges::count(features, feature) != 0; });
  const InstructionSet *here = largestSet([&](const std::string &feature) { return hasFeature(offered, feature); });
  if (!wanted)
    return makeError(Status::Unsupported, "oneDNN expects a processor with SSE4.1 or more to be limited to, got one "
                                          "without; compile for x86-64-v2 or newer, or with --no-libraries");
  std::lock_guard lock(mutex);
  // Sets are ordered by inclusion but for AVX2's VNNI; the smaller of the two is what both have.
  bool limits = here && wanted > here;
  if (!limits && !limit)
    return Error::success();
  if (limits && !limit && dnnl_set_max_cpu_isa(wanted->isa) == dnnl_success) {
    limit = wanted;
    return Error::success();
  }
  unsigned used = dnnl_get_effective_cpu_isa();
  const InstructionSet *meant = limits ? wanted : here;
  if (used == static_cast<unsigned>(meant->isa) || (limits && (used & ~static_cast<unsigned>(wanted->isa)) == 0))
    return Error::success();
  return makeError(Status::Infeasible, "oneDNN is limited once a process, and works with ",
                   limit ? limit->name : "all of this processor's instructions", " here already, where ", meant->name,
                   " is asked for; use a process for each processor");
}

} // namespace cleave::runtime
