// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flops and bytes, and the rates at which they are done.

#include "passes/schedule/WorkEstimate.h"

#include "dialects/dist/Reshard.h"

using namespace mlir;

namespace cleave {

static constexpr double flopsPerSecondAndCore = 4e10, memoryBytesPerSecond = 1e10, linkBytesPerSecond = 5e9,
                        callOverhead = 2e-6, transferOverhead = 1e-5;

double WorkEstimate::callSeconds(Operation *kernel, int64_t cores) {
  auto [entry, isNew] = works.try_emplace(kernel);
  if (isNew)
    entry->second = getKernelWork(kernel);
  const OpCost &work = entry->second;
  double flopsPerSecond = flopsPerSecondAndCore * static_cast<double>(std::max<int64_t>(cores, 1));
  return callOverhead + (work.bytesRead + work.bytesWritten) / memoryBytesPerSecond + work.flops / flopsPerSecond;
}

double WorkEstimate::transferSeconds(int64_t bytes) {
  return transferOverhead + static_cast<double>(bytes) / linkBytesPerSecond;
}

double WorkEstimate::reductionSeconds(int64_t bytes, int64_t ways, bool scatters) {
  dist::LinkCost link;
  double messages = static_cast<double>(ways - 1) * (scatters ? 1 : 2);
  return messages * (link.latency + static_cast<double>(bytes) / static_cast<double>(ways) / link.bandwidth);
}

double WorkEstimate::exchangeSeconds(double bytes, int64_t peers) {
  dist::LinkCost link;
  return callOverhead + static_cast<double>(peers) * link.latency + bytes / link.bandwidth;
}

double WorkEstimate::copySeconds(int64_t bytes) {
  return callOverhead + static_cast<double>(bytes) / memoryBytesPerSecond;
}

} // namespace cleave
