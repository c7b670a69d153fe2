// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the system says that the threads of a team may run: one core each, also those that OpenMP started later.

#include "runtime/drivers/cpu/ComputeTeam.h"

#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <omp.h>
#include <sched.h>
#include <set>
#include <thread>
#include <unistd.h>

using namespace cleave::runtime;

namespace {

constexpr std::chrono::milliseconds aMoment(150); // longer than the team's period

CoreSet coresOfThisThread() {
  cpu_set_t set;
  CoreSet cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (unsigned core = 0; core != CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set))
        cores.push_back(core);
  return cores;
}

/// By member of the team.
std::map<int, CoreSet> coresOfTeam() {
  std::map<int, CoreSet> cores;
  std::mutex mutex;
#pragma omp parallel
  {
    std::lock_guard lock(mutex);
    cores[omp_get_thread_num()] = coresOfThisThread();
  }
  return cores;
}

/// Whether OpenMP ends a team's threads when a loop wants fewer of them, and starts others with the leader's cores:
/// libgomp does, LLVM's library keeps them.
bool endsThreads() {
  auto threadsOfTeam = [] {
    std::set<pid_t> threads;
    std::mutex mutex;
#pragma omp parallel num_threads(3)
    {
      std::lock_guard lock(mutex);
      threads.insert(gettid());
    }
    return threads;
  };
  std::set<pid_t> before = threadsOfTeam();
#pragma omp parallel num_threads(2)
  (void)omp_get_thread_num();
  return threadsOfTeam() != before;
}

/// On a thread of its own, as a queue's is; skips machines of less than two cores.
class ComputeTeamTest : public testing::Test {
protected:
  void SetUp() override {
    all = availableCores();
    if (all.size() < 2)
      GTEST_SKIP() << "needs two cores";
    if (omp_get_dynamic() || omp_get_thread_limit() < 3)
      GTEST_SKIP() << "the environment limits OpenMP's threads";
  }
  template <typename Body> void onAThread(Body body) { std::thread(body).join(); }
  CoreSet firstTwo() const { return {all[0], all[1]}; }

  CoreSet all;
};

TEST_F(ComputeTeamTest, KeepsEachThreadToItsCoreOnceItIsStable) {
  onAThread([&] {
    ComputeTeam team(2, firstTwo(), all);
    team.settle();
    std::map<int, CoreSet> first = coresOfTeam();
    EXPECT_EQ(first[0].size(), all.size()) << "threads that are started now would inherit a single core";
    EXPECT_EQ(first[1], CoreSet{all[1]});
    std::this_thread::sleep_for(aMoment);
    team.settle();
    std::map<int, CoreSet> second = coresOfTeam();
    EXPECT_EQ(second[0], CoreSet{all[0]});
    EXPECT_EQ(second[1], CoreSet{all[1]});
  });
}

TEST_F(ComputeTeamTest, LeavesTheLeaderFreeWhereThreadsChange) {
  bool change = false;
  onAThread([&] { change = endsThreads(); });
  onAThread([&] {
    ComputeTeam team(3, {all[0], all[1], all[1]}, all);
    for (int round = 0; round != 3; ++round) {
      team.settle();
#pragma omp parallel num_threads(2)
      (void)omp_get_thread_num();
      std::map<int, CoreSet> cores = coresOfTeam();
      EXPECT_EQ(cores[0].size(), change || round == 0 ? all.size() : 1) << "round " << round;
      EXPECT_EQ(cores[2].size(), change ? all.size() : 1) << "round " << round;
      std::this_thread::sleep_for(aMoment);
    }
  });
}

TEST_F(ComputeTeamTest, PlacesNothingWithoutCores) {
  onAThread([&] {
    ComputeTeam team(2, {}, all);
    for (int round = 0; round != 2; ++round) {
      team.settle();
      for (const auto &[member, cores] : coresOfTeam())
        EXPECT_EQ(cores.size(), all.size()) << member;
      std::this_thread::sleep_for(aMoment);
    }
  });
}

} // namespace
