// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The same faults on devices of the driver "cuda", simulated, with a NCCL by MPI: four ranks with a GPU each. In the
// first step, which is careful, the message names the instruction as it does for other drivers; later ones are graphs,
// of which it names the step.

#include "../FaultRuns.h"

#include <csignal>
#include <thread>

namespace cleave::runtime::test {
namespace {

/// The environment of a run whose rank 2 has a function that never ends after so many times.
std::vector<std::string> hang(const std::string &entry, unsigned after) {
  return {"CLEAVE_SIMULATED_HANG=2:" + entry + ":" + std::to_string(after)};
}

class CudaFaultTest : public FaultRuns {
protected:
  explicit CudaFaultTest(const std::vector<std::string> &environment = {})
      : FaultRuns("cleave-run-simulated", "cuda", beforeOf(environment)) {}

  static const FaultPlace &placeOf(const std::string &action) {
    for (const FaultPlace &place : faultPlaces())
      if (place.action == action)
        return place;
    throw std::invalid_argument(action);
  }
  static std::vector<std::string> beforeOf(const std::vector<std::string> &environment) {
    std::vector<std::string> words = {"env", "CLEAVE_SIMULATED_GPUS=4"};
    words.insert(words.end(), environment.begin(), environment.end());
    return words;
  }
  static std::string errorOf(const FaultPlace &place) {
    return std::string("error: rank 2: device \"d2\", ") + place.action +
           ": this fault was asked for\nnote: at node \"" + place.node + "\"\n";
  }
};

TEST_F(CudaFaultTest, KilledAtEachInstruction) {
  for (const FaultPlace &place : faultPlaces())
    at(place, 0, "kill", {}, 7, "error: rank 2 is lost: signal 9" + textOf(place) + "\n");
}

// Kinds that CUDA treats in different ways: a kernel, a copy, NCCL's messages and its reductions.
TEST_F(CudaFaultTest, StoppedAtInstructions) {
  for (const char *action : {"call", "receive", "all_reduce"})
    at(placeOf(action), 0, "stop", {"--rank-timeout", "1"}, 8, "s" + textOf(placeOf(action)) + "\n");
}

TEST_F(CudaFaultTest, FailsAtInstructions) {
  for (const char *action : {"load input", "call", "exchange", "send", "store output"})
    at(placeOf(action), 0, "error", {}, 7, errorOf(placeOf(action)));
}

// Steps that are replayed: which of its instructions a GPU is in nobody knows, and the message does not say. What the
// host finds wrong it can name.
TEST_F(CudaFaultTest, InReplays) {
  const FaultPlace &place = placeOf("call");
  std::string replay = " on device \"d2\" at the start of the replay of step 3\n";
  at(place, 3, "kill", {}, 7, "error: rank 2 is lost: signal 9" + replay);
  at(place, 3, "stop", {"--rank-timeout", "1"}, 8, "s" + replay);
  at(place, 3, "error", {}, 7, errorOf(place));
}

// A thread that hangs before it starts a graph has work to do, while the others wait for it.
TEST_F(CudaFaultTest, HangsBeforeAReplay) {
  MpiRun run = start("mesh.plan", {"--step-timeout", "3"}, "2:call:3:hang");
  expectEnd(run, 8, "error: rank 2 has been on device \"d2\" at the start of the replay of step 3 for ");
}

/// A GPU that never ends what it began.
class CudaHangTest : public CudaFaultTest {
protected:
  explicit CudaHangTest(const std::vector<std::string> &environment = hang("twice", 0)) : CudaFaultTest(environment) {}
};

// Carefully each command is waited for.
TEST_F(CudaHangTest, NamesTheCallOfTheFirstStep) {
  MpiRun run = start("mesh.plan", {"--step-timeout", "3"});
  expectEnd(run, 8, "error: rank 2 has been on device \"d2\" in call at node \"double\" for ");
}

class CudaLateHangTest : public CudaHangTest {
protected:
  CudaLateHangTest() : CudaHangTest(hang("twice", 4)) {}
};

// All ranks wait for their GPUs; which of these does not go on is not known, but the step is.
TEST_F(CudaLateHangTest, EndsAReplay) {
  MpiRun run = start("mesh.plan", {"--step-timeout", "3"});
  expectEnd(run, 8, " the replay of step 4 for 3");
}

class NetworkTest : public CudaHangTest {
protected:
  explicit NetworkTest(unsigned after = 1) : CudaHangTest(hang("network", after)) {}
};

// A network that fails: NCCL says so to whoever asks, and its kernels wait on. The first step names the instruction.
TEST_F(NetworkTest, IsLostInTheFirstStep) {
  MpiRun run = start("mesh.plan");
  expectEnd(run, 7,
            "error: rank 2: device \"d2\", all_reduce: communicating with other processes: NCCL says \"remote process "
            "exited or there was a network error\"\nnote: at node \"reduce\"\n");
}

class LateNetworkTest : public NetworkTest {
protected:
  LateNetworkTest() : NetworkTest(10) {} // each step has three groups of NCCL's calls
};

// In replays nothing but the rank is known.
TEST_F(LateNetworkTest, IsLostInAReplay) {
  MpiRun run = start("mesh.plan");
  expectEnd(run, 7, "error: rank 2: GPU 2, communicating with other processes: NCCL says \"remote process exited");
}

class NcclHangTest : public CudaHangTest {
protected:
  NcclHangTest() : CudaHangTest(hang("ncclCommInitRank", 0)) {}
};

// A rank that never joins.
TEST_F(NcclHangTest, EndsTheBeginning) {
  MpiRun run = start("mesh.plan", {"--step-timeout", "3"});
  expectEnd(run, 8, " has been in the connecting of GPUs by NCCL for 3");
}

} // namespace
} // namespace cleave::runtime::test
