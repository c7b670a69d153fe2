// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cleave-run train as whoever asks it to end sees it: it ends after a step and keeps what it has learned, and only who
// asks twice ends it at once.

#include "MpiRun.h"
#include "TrainingPlan.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class StopTest : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("cleave-stop-test-" + std::to_string(getpid()));
    fs::remove_all(folder);
    fs::create_directories(folder);
    Samples(42).write((folder / "train").string());
    writePlan("plan", {1, true, true});
    writePlan("pair", {2, true, true});
  }
  void TearDown() override {
    if (child > 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    fs::remove_all(folder);
  }

  void writePlan(const char *file, const TrainingPlanOptions &options) const {
    auto bytes = trainingPlan(options).bytes();
    std::ofstream(folder / file, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::string read(const std::string &file) const {
    std::ifstream in(folder / file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::vector<std::string> commandOf(const std::string &plan, const std::vector<std::string> &more) {
    std::vector<std::string> words = {
        "cleave-run", "train", plan, "--data", "x=train-x.npy", "--data", "labels=train-labels.npy", "--seed", "9"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// Starts cleave-run in the folder, with a fault if that is not empty, and with this signal ignored.
  void start(const std::string &plan, const std::vector<std::string> &more, const std::string &fault = "",
             int ignored = 0) {
    std::vector<std::string> words = commandOf(plan, more);
    std::vector<char *> argv;
    for (std::string &word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);
    child = fork();
    if (child != 0)
      return;
    // As a terminal starts programs, however this test was started.
    for (int signal : {SIGTERM, SIGINT, SIGHUP})
      std::signal(signal, signal == ignored ? SIG_IGN : SIG_DFL);
    bool fine = chdir(folder.c_str()) == 0 && (fault.empty() || setenv("CLEAVE_FAULT", fault.c_str(), 1) == 0);
    fine &= dup2(open("out", O_WRONLY | O_CREAT | O_TRUNC, 0666), STDOUT_FILENO) >= 0;
    fine &= dup2(open("err", O_WRONLY | O_CREAT | O_TRUNC, 0666), STDERR_FILENO) >= 0;
    if (fine)
      execv(CLEAVE_RUN, argv.data());
    _exit(127);
  }
  /// Waits for its end: the exit code, or the signal that has ended it below zero.
  int end() {
    int status = 0;
    waitpid(std::exchange(child, 0), &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  int run(const std::string &plan, const std::vector<std::string> &more) {
    start(plan, more);
    return end();
  }
  /// Waits for the file or folder.
  bool appears(const std::string &name) const {
    for (auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60); !fs::exists(folder / name);) {
      if (std::chrono::steady_clock::now() > until)
        return false;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }
  /// The step after which training says that it was ended by a signal of this name; "" where it says nothing.
  std::string stepOf(const std::string &signal) const {
    std::string text = read("err"), before = "notice: " + signal + " has ended training after step ";
    size_t begin = text.find(before);
    return begin == std::string::npos ? "" : text.substr(begin + before.size(), text.find(';') - begin - before.size());
  }
  /// What was exported is what a run of so many steps exports, which nobody has asked to end.
  void expectAsAfter(const std::string &plan, const std::string &step) {
    ASSERT_EQ(run(plan, {"--steps", step, "--export", "whole.npz"}), 0) << read("err");
    EXPECT_EQ(read("part.npz"), read("whole.npz"));
  }

  fs::path folder;
  pid_t child = 0;
};

// Each of the signals ends the run after a step, from which it can go on, and whose parameters it has exported; a shell
// is told of the signal.
TEST_F(StopTest, KeepsWhatWasLearned) {
  for (auto [signal, name] : {std::pair(SIGTERM, "SIGTERM"), {SIGINT, "SIGINT"}, {SIGHUP, "SIGHUP"}}) {
    fs::remove_all(folder / "c");
    start("plan", {"--epochs", "100000", "--checkpoint", "c", "--checkpoint-every", "7", "--export", "part.npz",
                   "--json", "part.json"});
    ASSERT_TRUE(appears("c/step-14"));
    kill(child, signal);
    EXPECT_EQ(end(), -signal) << read("err");
    std::string step = stepOf(name);
    ASSERT_NE(step, "") << read("err");
    EXPECT_NE(read("part.json").find("\"steps_done\": " + step + ","), std::string::npos) << read("part.json");
    expectAsAfter("plan", step);
    ASSERT_EQ(run("plan", {"--epochs", "0", "--checkpoint", "c", "--resume", "--export", "part.npz"}), 0);
    EXPECT_EQ(read("part.npz"), read("whole.npz"));
  }
}

// Whoever asks twice is not made to wait for the step.
TEST_F(StopTest, SecondSignalEndsAtOnce) {
  start("plan", {"--epochs", "100000", "--checkpoint", "c", "--checkpoint-every", "5"}, "0:call:12:hang");
  ASSERT_TRUE(appears("c/step-10"));
  std::this_thread::sleep_for(milliseconds(200));
  kill(child, SIGTERM);
  std::this_thread::sleep_for(milliseconds(300));
  ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << read("err");
  kill(child, SIGTERM);
  EXPECT_EQ(end(), -SIGTERM);
}

// Without anything to keep there is nothing to wait for; and what was started not to hear of a signal does not.
TEST_F(StopTest, LeavesOtherRunsAlone) {
  start("plan", {"--epochs", "100000", "--trace", "t.json"}, "0:call:3:hang");
  std::this_thread::sleep_for(milliseconds(500));
  kill(child, SIGTERM);
  EXPECT_EQ(end(), -SIGTERM);
  EXPECT_EQ(read("err"), "");
  start("plan", {"--epochs", "10", "--checkpoint", "c", "--checkpoint-every", "7"}, "", SIGHUP);
  ASSERT_TRUE(appears("c/step-14"));
  kill(child, SIGHUP);
  EXPECT_EQ(end(), 0);
  EXPECT_EQ(read("err"), "");
}

class StopMpiTest : public StopTest {
protected:
  void SetUp() override {
    StopTest::SetUp();
    if (!MpiRun::isPossible())
      GTEST_SKIP() << "there is no mpirun";
  }
  static std::vector<std::string> twice(const std::vector<std::string> &command) {
    std::vector<std::string> words = {"-n", "2"};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  static pid_t processOf(const MpiRun &run, unsigned rank, bool guard) {
    for (const RankProcess &each : run.processes())
      if (each.rank == rank && each.isGuard == guard)
        return each.process;
    return 0;
  }
};

// Whichever of the processes hears of it: all end after the same step.
TEST_F(StopMpiTest, AllEndAfterOneStep) {
  for (bool guard : {true, false}) {
    fs::remove_all(folder / "c");
    MpiRun together(folder, twice(commandOf("pair", {"--epochs", "100000", "--checkpoint", "c", "--checkpoint-every",
                                                     "7", "--export", "part.npz"})));
    ASSERT_TRUE(appears("c/step-14")) << read("err");
    pid_t process = processOf(together, 1, guard);
    ASSERT_NE(process, 0);
    kill(process, SIGTERM);
    EXPECT_EQ(together.wait(std::chrono::seconds(60)), 143) << read("err");
    std::string step = stepOf("SIGTERM");
    ASSERT_NE(step, "") << read("err");
    EXPECT_EQ(countOf(read("err"), "\n"), 1u) << read("err");
    expectAsAfter("pair", step);
  }
}

// The first process alone knows the loss: where it is no number, all end with its error.
TEST_F(StopMpiTest, AllEndWithLossThatIsNoNumber) {
  Samples wild(42);
  wild.x[7] = 1e25f;
  wild.write((folder / "train").string());
  for (const char *every : {"1", "100"}) {
    fs::remove_all(folder / "c");
    MpiRun together(folder, twice(commandOf("pair", {"--epochs", "9", "--checkpoint", "c", "--checkpoint-every", every,
                                                     "--export", "part.npz"})));
    EXPECT_EQ(together.wait(std::chrono::seconds(60)), 1) << read("err");
    EXPECT_EQ(countOf(read("err"), "training expects finite losses, got inf in step "), 1u) << read("err");
    EXPECT_FALSE(fs::exists(folder / "part.npz"));
  }
}

// A step that does not end is not waited for by whoever asks again.
TEST_F(StopMpiTest, SecondSignalEndsAtOnce) {
  MpiRun together(folder,
                  twice(commandOf("pair", {"--epochs", "100000", "--checkpoint", "c", "--checkpoint-every", "5"})),
                  "1:call:12:hang");
  ASSERT_TRUE(appears("c/step-10")) << read("err");
  std::this_thread::sleep_for(milliseconds(200));
  pid_t guard = processOf(together, 0, true);
  ASSERT_NE(guard, 0);
  kill(guard, SIGTERM);
  std::this_thread::sleep_for(milliseconds(1500));
  ASSERT_EQ(processOf(together, 0, true), guard) << read("err");
  kill(guard, SIGTERM);
  EXPECT_EQ(together.wait(std::chrono::seconds(30)), 143) << read("err");
}

} // namespace
} // namespace cleave::runtime::test
