// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fixture of the communicators' conformance tests.

#include "CommunicatorConformance.h"

#include "runtime/Verify.h"

#include <thread>

namespace cleave::runtime::test {

void CommunicatorConformanceTest::SetUp() {
  if (GetParam().isPossible && !GetParam().isPossible())
    GTEST_SKIP() << "this machine has nothing for it";
}

void CommunicatorConformanceTest::create(const PlanBuilder &builder) {
  communicator.reset();
  plan = builder.read();
  Error unsound = verifyStructure(**plan);
  ASSERT_FALSE(unsound) << unsound.text();
  entry = &(*plan)->entries.front();
  channels = std::make_unique<Channels>(**plan, *entry, sitesOf(**plan, *entry), GetParam().isHere);
  communicator = GetParam().create(*channels);
}

void CommunicatorConformanceTest::onAllSites(uint64_t steps, const Work &work) {
  std::vector<std::thread> threads;
  for (uint32_t site = 0; site != channels->sites().size(); ++site)
    if (GetParam().isHere(site))
      threads.emplace_back([&, site] {
        for (uint64_t step = 0; step != steps; ++step)
          work(site, step);
      });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace cleave::runtime::test
