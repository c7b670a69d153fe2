// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cleave-run train as a shell sees it: killed at any moment and started again it ends in the same weights as a run that
// nobody kills, and several processes train as one does. CLEAVE_KILLS says how often it is killed, by default 5 times.

#include "TrainingPlan.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

namespace fs = std::filesystem;

class KilledTest : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("cleave-killed-test-" + std::to_string(getpid()));
    fs::remove_all(folder);
    fs::create_directories(folder);
    Samples(42).write((folder / "train").string());
    writePlan("plan", {1, true, true});
    writePlan("pair", {2, true, false});
  }
  void TearDown() override { fs::remove_all(folder); }

  void writePlan(const char *file, const TrainingPlanOptions &options) const {
    auto bytes = trainingPlan(options).bytes();
    std::ofstream(folder / file, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::string read(const std::string &file) const {
    std::ifstream in(folder / file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// The exit code; the streams are in the files "out" and "err".
  int run(const std::string &before, const std::string &plan, const std::string &arguments) const {
    std::string command = "cd '" + folder.string() + "' && " + before + " '" CLEAVE_RUN "' train " + plan +
                          " --data x=train-x.npy --data labels=train-labels.npy --seed 9 " + arguments + " >out 2>err";
    // NOLINTNEXTLINE(bugprone-command-processor): what the shell makes of the program is what is tested
    int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  fs::path folder;
};

// 60 steps of 5 ms and more, a checkpoint every two: a run that lives for up to 0.3 s after it has started gets on a
// little each time. The seed of the moments is in the test's output.
TEST_F(KilledTest, LosesNothing) {
  const char *wanted = std::getenv("CLEAVE_KILLS");
  unsigned kills = wanted ? static_cast<unsigned>(std::atoi(wanted)) : 5, done = 0;
  ASSERT_EQ(run("", "plan", "--epochs 6 --export whole.npz --json whole.json --json-steps"), 0) << read("err");
  auto seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  while (done != kills) {
    fs::remove_all(folder / "checkpoints");
    for (bool finished = false; !finished;) {
      double life = done == kills ? 60 : 0.02 + 0.3 * static_cast<double>(random() % 1000) / 1000;
      int code =
          run("timeout -s KILL " + std::to_string(life), "plan",
              "--epochs 6 --checkpoint checkpoints --checkpoint-every 2 --resume --export parts.npz --json parts.json "
              "--json-steps");
      finished = code == 0;
      done += code == 137;
      ASSERT_TRUE(code == 0 || code == 137) << "seed " << seed << ", exit code " << code << ": " << read("err");
    }
    ASSERT_EQ(read("parts.npz"), read("whole.npz")) << "seed " << seed;
  }
}

// Two processes with a device each train as one process with both, and one goes on where the other has stopped.
TEST_F(KilledTest, ProcessesTrainTogether) {
  if (std::system("mpirun --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "there is no mpirun";
  const std::string together = "mpirun --allow-run-as-root --oversubscribe -n 2";
  const std::string evaluation = " --eval x=train-x.npy --eval labels=train-labels.npy";
  ASSERT_EQ(run("", "pair", "--epochs 3 --export one.npz" + evaluation), 0) << read("err");
  std::string lines = read("out");
  ASSERT_EQ(run(together, "pair", "--epochs 3 --steps 17 --checkpoint c --resume" + evaluation), 0) << read("err");
  EXPECT_EQ(read("err").find("rank 1"), std::string::npos) << read("err");
  ASSERT_EQ(run(together, "pair",
                "--epochs 3 --checkpoint c --resume --export two.npz --trace t.json --json r.json" + evaluation),
            0)
      << read("err");
  EXPECT_EQ(read("two.npz"), read("one.npz"));
  auto lossOf = [](const std::string &text) {
    size_t begin = text.find("epoch 3: ");
    return text.substr(begin, text.find(';', text.find(';', begin) + 1) - begin);
  };
  EXPECT_EQ(lossOf(read("out")), lossOf(lines));
  EXPECT_NE(read("r.json").find("\"name\": \"d1\""), std::string::npos) << read("r.json");
  EXPECT_EQ(run(together, "pair", "--data x=train-x.npy"), 2);
  EXPECT_NE(read("err").find("error: --data names \"x\" twice"), std::string::npos) << read("err");
}

// A rank that dies ends the others, and all go on from the last checkpoint to the same weights.
TEST_F(KilledTest, GoesOnAfterLostRank) {
  if (std::system("mpirun --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "there is no mpirun";
  const std::string together = "mpirun -q --allow-run-as-root --oversubscribe -n 2";
  ASSERT_EQ(run("", "pair", "--epochs 3 --export one.npz"), 0) << read("err");
  ASSERT_EQ(
      run("CLEAVE_FAULT=1:all_reduce:17:kill " + together, "pair", "--epochs 3 --checkpoint c --checkpoint-every 5"), 7)
      << read("err");
  EXPECT_NE(read("err").find("error: rank 1 is lost: signal 9 on device \"d1\" in all_reduce at node "),
            std::string::npos)
      << read("err");
  ASSERT_EQ(run(together, "pair", "--epochs 3 --checkpoint c --resume --export two.npz"), 0) << read("err");
  EXPECT_NE(read("err").find("going on from c/step-15"), std::string::npos) << read("err");
  EXPECT_EQ(read("two.npz"), read("one.npz"));
}

} // namespace
} // namespace cleave::runtime::test
