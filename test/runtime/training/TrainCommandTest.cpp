// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The train command on a small plan: against plain loops, on one device and two, interrupted and not.

#include "TrainingPlan.h"

#include "runtime/tensorfile/TensorFile.h"
#include "runtime/training/Checkpoint.h"
#include "runtime/training/ParameterExport.h"
#include "runtime/training/RandomOrder.h"
#include "runtime/training/TrainCommand.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

namespace fs = std::filesystem;

/// Training data of 42 samples (10 batches and two more), and 18 to evaluate.
class TrainCommandTest : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("cleave-train-test-" + std::to_string(getpid()));
    fs::remove_all(folder);
    fs::create_directories(folder);
    training.write((folder / "train").string());
    testing.write((folder / "test").string());
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string path(const std::string &name) const { return (folder / name).string(); }
  TrainOptions options(uint64_t epochs) const {
    TrainOptions options;
    options.data = {"x=" + path("train-x.npy"), "labels=" + path("train-labels.npy")};
    options.epochs = epochs;
    options.seed = 5;
    options.jsonSteps = true;
    options.jsonFile = path("run.json");
    options.exportFile = path("w.npz");
    return options;
  }
  void addEvaluation(TrainOptions &options) const {
    options.evaluation = {"x=" + path("test-x.npy"), "labels=" + path("test-labels.npy")};
  }
  /// The exit code.
  int run(const TrainOptions &options, const TrainingPlanOptions &kind = {}) {
    return run(options, trainingPlan(kind));
  }
  int run(const TrainOptions &options, const PlanBuilder &builder) {
    MemorySource none;
    out.str("");
    err.str("");
    return trainPlan(builder.read(), none, options, out, err);
  }
  std::string read(const std::string &name) const {
    std::ifstream in(folder / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// The numbers behind `key` in the JSON file.
  std::vector<double> numbers(const std::string &key) const {
    std::vector<double> found;
    std::string json = read("run.json"), word = "\"" + key + "\": ";
    for (size_t at = json.find(word); at != std::string::npos; at = json.find(word, at + 1))
      found.push_back(std::strtod(json.c_str() + at + word.size(), nullptr));
    return found;
  }
  /// The losses of steps, without those of epochs.
  std::vector<double> stepLosses() const {
    std::vector<double> all = numbers("loss");
    size_t epochs = numbers("epoch").size();
    return {all.begin() + static_cast<ptrdiff_t>(epochs), all.end()};
  }
  std::array<float, 2> exported() const {
    auto tensor = readTensorFile(path("w.npz") + ":w");
    EXPECT_TRUE(tensor) << tensor.error().text();
    return {tensor->as<float>()[0], tensor->as<float>()[1]};
  }
  void expectFailure(const TrainOptions &options, Status status, const std::string &message) {
    EXPECT_EQ(run(options), static_cast<int>(status));
    EXPECT_NE(err.str().find(message), std::string::npos) << err.str();
  }

  fs::path folder;
  const Samples training{42}, testing{18};
  std::ostringstream out, err;
};

// Losses, weights, accuracy and evaluation are those of plain loops, on one device and on two, whatever is in flight.
TEST_F(TrainCommandTest, TrainsAsPlainLoopsDo) {
  PlainTraining plain;
  std::vector<float> losses;
  std::vector<std::pair<double, double>> evaluations;
  for (uint64_t epoch = 0; epoch != 3; ++epoch) {
    std::vector<uint64_t> order = randomOrder(42, 5, epoch);
    for (size_t begin = 0; begin + batchSize <= order.size(); begin += batchSize)
      losses.push_back(plain.step(training, std::span(order).subspan(begin, batchSize)));
    evaluations.push_back(plain.evaluate(testing));
  }
  EXPECT_LT(losses.back(), losses.front());
  for (uint32_t devices : {1, 2})
    for (bool masks : {true, false})
      for (unsigned inFlight : {1u, 2u, 5u}) {
        TrainOptions options = this->options(3);
        addEvaluation(options);
        options.inFlight = inFlight;
        ASSERT_EQ(run(options, {devices, masks, false}), 0) << err.str();
        std::vector<double> found = stepLosses();
        ASSERT_EQ(found.size(), losses.size());
        for (size_t i = 0; i != losses.size(); ++i)
          EXPECT_NEAR(found[i], losses[i], 1e-6);
        for (size_t i : {0, 1})
          EXPECT_NEAR(exported()[i], plain.w[i], 1e-6);
        std::vector<double> evaluated = numbers("eval_loss"), accuracies = numbers("eval_accuracy");
        ASSERT_EQ(evaluated.size(), 3u);
        for (size_t i = 0; i != 3; ++i) {
          EXPECT_NEAR(evaluated[i], evaluations[i].first, 1e-6);
          EXPECT_NEAR(accuracies[i], evaluations[i].second, 1e-12);
        }
        EXPECT_EQ(err.str(), "");
        EXPECT_NE(out.str().find("epoch 3: loss "), std::string::npos) << out.str();
        EXPECT_NE(out.str().find("30 steps of 4 samples"), std::string::npos) << out.str();
      }
}

// A run in parts is the run in one, bit by bit: losses, weights, and what it says of its epochs.
TEST_F(TrainCommandTest, GoesOnWhereItStopped) {
  TrainOptions whole = options(4);
  addEvaluation(whole);
  ASSERT_EQ(run(whole), 0) << err.str();
  const std::vector<double> losses = stepLosses(), accuracies = numbers("accuracy");
  const std::array<float, 2> weights = exported();
  for (uint64_t every : {0, 1, 3, 7}) {
    fs::remove_all(folder / "checkpoints");
    std::vector<double> parts, epochs;
    for (uint64_t steps : {4, 10, 11, 25, 40}) {
      TrainOptions part = options(4);
      addEvaluation(part);
      part.steps = steps;
      part.checkpointFolder = path("checkpoints");
      part.checkpointEvery = every;
      part.resume = true;
      ASSERT_EQ(run(part), 0) << err.str();
      for (double loss : stepLosses())
        parts.push_back(loss);
      if (steps % 10 == 0)
        epochs.push_back(numbers("accuracy").back());
    }
    EXPECT_EQ(parts, losses);
    EXPECT_EQ(exported(), weights);
    EXPECT_EQ(epochs, (std::vector<double>{accuracies[0], accuracies[3]}));
  }
}

// A checkpoint of two devices serves one, and a damaged one is skipped with a word.
TEST_F(TrainCommandTest, ChangesDevicesAndSkipsDamage) {
  TrainOptions first = options(1);
  first.checkpointFolder = path("checkpoints");
  first.checkpointEvery = 5;
  ASSERT_EQ(run(first, {2, true, false}), 0) << err.str();
  std::ofstream(folder / "checkpoints" / "step-10" / "tensors", std::ios::app) << "more";
  TrainOptions rest = options(2);
  rest.checkpointFolder = path("checkpoints");
  rest.resume = true;
  ASSERT_EQ(run(rest, {1, true, false}), 0) << err.str();
  EXPECT_NE(err.str().find("step-10\": its tensors expect"), std::string::npos) << err.str();
  EXPECT_NE(err.str().find("; it is skipped"), std::string::npos) << err.str();
  EXPECT_NE(err.str().find("step-5, in epoch 1"), std::string::npos) << err.str();
  EXPECT_NE(err.str().find("the checkpoint has 1 tensors more"), std::string::npos) << err.str();
  EXPECT_EQ(numbers("resumed_from"), std::vector<double>{5});
  EXPECT_EQ(stepLosses().size(), 15u);
}

// Beginning anew where every checkpoint is damaged would end in the loss of them all.
TEST_F(TrainCommandTest, NeedsOneSoundCheckpoint) {
  TrainOptions first = options(1);
  first.checkpointFolder = path("checkpoints");
  first.checkpointEvery = 5;
  ASSERT_EQ(run(first), 0) << err.str();
  fs::remove(folder / "checkpoints" / "step-5" / "manifest");
  std::ofstream(folder / "checkpoints" / "step-10" / "tensors", std::ios::app) << "more";
  first.resume = true;
  expectFailure(first, Status::Rejected, "--resume expects a checkpoint that can be read in \"" + path("checkpoints"));
  std::string text = err.str().substr(err.str().find("error: "));
  EXPECT_NE(text.find("step-10\": its tensors expect"), std::string::npos) << text;
  EXPECT_NE(text.find("step-5\": cannot open"), std::string::npos) << text;
  EXPECT_NE(text.find("; restore one of them, or remove them all to begin anew"), std::string::npos) << text;
  EXPECT_TRUE(fs::exists(folder / "checkpoints" / "step-10"));
}

// Nothing is trained in no epochs, but evaluated and exported.
TEST_F(TrainCommandTest, EvaluatesWithoutTraining) {
  TrainOptions first = options(1);
  first.checkpointFolder = path("checkpoints");
  addEvaluation(first);
  ASSERT_EQ(run(first), 0) << err.str();
  double loss = numbers("eval_loss").back();
  std::array<float, 2> weights = exported();
  TrainOptions again = options(0);
  again.data.clear();
  again.checkpointFolder = path("checkpoints");
  again.resume = true;
  addEvaluation(again);
  ASSERT_EQ(run(again), 0) << err.str();
  EXPECT_EQ(numbers("eval_loss"), std::vector<double>{loss});
  EXPECT_EQ(exported(), weights);
  EXPECT_NE(out.str().find("evaluation: loss "), std::string::npos) << out.str();
}

/// Does something when it is first written to.
class Trigger : public std::stringbuf {
public:
  explicit Trigger(std::function<void()> action) : action(std::move(action)) {}

protected:
  std::streamsize xsputn(const char *text, std::streamsize count) override {
    if (auto first = std::exchange(action, nullptr))
      first();
    return std::stringbuf::xsputn(text, count);
  }

private:
  std::function<void()> action;
};

// A folder that goes away while the run trains does not take what was learned with it: that goes to this process's
// folder, or to the user's; or it is in a checkpoint, from which it can be exported again. Where nothing takes it, that
// is said.
TEST_F(TrainCommandTest, KeepsWhatItCannotExport) {
  ASSERT_EQ(run(options(1)), 0) << err.str();
  const std::array<float, 2> weights = exported();
  const fs::path before = fs::current_path();
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "", temporary = fs::temp_directory_path();
  TrainOptions lost = options(1);
  lost.exportFile = path("away/w.npz");
  auto train = [&](bool leavesNone = false) {
    for (const char *name : {"away", "here", "home"})
      fs::create_directories(folder / name);
    fs::current_path(folder / "here");
    setenv("HOME", path("home").c_str(), 1);
    Trigger trigger([&] {
      fs::remove_all(folder / "away");
      if (!leavesNone)
        return;
      fs::remove_all(folder / "here");
      fs::remove_all(folder / "home");
      setenv("TMPDIR", path("home").c_str(), 1);
    });
    std::ostream lines(&trigger);
    MemorySource none;
    err.str("");
    int code = trainPlan(trainingPlan({}).read(), none, lost, lines, err);
    fs::current_path(before);
    setenv("HOME", home.c_str(), 1);
    setenv("TMPDIR", temporary.c_str(), 1);
    return code;
  };
  EXPECT_EQ(train(), 1);
  const std::string file = path("here/w-" + std::to_string(getpid()) + ".npz");
  EXPECT_EQ(err.str(), "error: cannot write " + lost.exportFile +
                           ": No such file or directory; the parameters are in \"" + file + "\" instead\n");
  EXPECT_NE(read("run.json").find("\"steps_done\": 10"), std::string::npos);
  fs::rename(file, folder / "w.npz");
  EXPECT_EQ(exported(), weights);

  EXPECT_EQ(train(/*leavesNone=*/true), 1);
  EXPECT_NE(err.str().find(", and no other folder takes the parameters: they are lost\n"), std::string::npos)
      << err.str();

  lost.checkpointFolder = path("checkpoints");
  EXPECT_EQ(train(), 1);
  EXPECT_NE(err.str().find("; the parameters are in checkpoint \"" + path("checkpoints/step-10") +
                           "\": train again with --resume --epochs 0 and"),
            std::string::npos)
      << err.str();
  EXPECT_TRUE(fs::is_empty(folder / "here"));
  TrainOptions again = options(0);
  again.data.clear();
  again.checkpointFolder = lost.checkpointFolder;
  again.resume = true;
  ASSERT_EQ(run(again), 0) << err.str();
  EXPECT_EQ(exported(), weights);
}

// A checkpoint that cannot be written ends the run, whose parameters are exported all the same.
TEST_F(TrainCommandTest, ExportsAfterFailedCheckpoint) {
  TrainOptions checked = options(2);
  checked.checkpointFolder = path("checkpoints");
  checked.checkpointEvery = 10;
  std::array<float, 2> weights{};
  // The folder is gone after the first epoch's checkpoint, which is step 10's.
  Trigger trigger([&] { fs::remove_all(folder / "checkpoints"); });
  std::ostream lines(&trigger);
  MemorySource none;
  EXPECT_EQ(trainPlan(trainingPlan({}).read(), none, checked, lines, err), 1);
  EXPECT_EQ(err.str(), "error: cannot write checkpoint \"" + path("checkpoints/step-20") +
                           "\": No such file or directory; the last whole checkpoint is \"" +
                           path("checkpoints/step-10") + "\"; the parameters are in \"" + path("w.npz") + "\"\n");
  weights = exported();
  ASSERT_EQ(run(options(2)), 0) << err.str();
  EXPECT_EQ(exported(), weights);
}

// A loss that is no number ends the run at its step; no checkpoint or export of what comes after takes the place of a
// good one.
TEST_F(TrainCommandTest, EndsWithLossThatIsNoNumber) {
  const std::vector<uint64_t> order = randomOrder(42, 5, 0);
  Samples wild(42);
  wild.x[order[22]] = 1e25f; // a sample of step 6: its loss is more than f32 holds
  wild.write(path("train"));
  for (unsigned inFlight : {1u, 3u}) {
    TrainOptions checked = options(3);
    checked.inFlight = inFlight;
    EXPECT_EQ(run(checked), 1);
    EXPECT_EQ(err.str(), "error: training expects finite losses, got inf in step 6; train with a smaller "
                         "--learning-rate, or compile with --clip-norm\n");
    checked.checkpointFolder = path("checkpoints");
    checked.checkpointEvery = 5;
    EXPECT_EQ(run(checked), 1);
    EXPECT_NE(err.str().find("got inf in step 6; checkpoint " + path("checkpoints/step-5") + " is from before; "),
              std::string::npos)
        << err.str();
    EXPECT_EQ(CheckpointFolder::steps(path("checkpoints")), std::vector<uint64_t>{5});
    fs::remove_all(folder / "checkpoints");
    // A checkpoint is due in the very step.
    checked.checkpointEvery = 6;
    EXPECT_EQ(run(checked), 1);
    EXPECT_TRUE(CheckpointFolder::steps(path("checkpoints")).empty());
    fs::remove_all(folder / "checkpoints");
  }
  EXPECT_FALSE(fs::exists(folder / "w.npz"));
}

// An export for which there is no room is refused before the run.
TEST(ParameterExport, NeedsRoom) {
  const std::string file = fs::temp_directory_path() / "w.npz";
  const std::vector<TensorType> few = {{ElementType::F32, {4}, std::nullopt}},
                                many = {{ElementType::F32, {int64_t(1) << 50}, std::nullopt}};
  EXPECT_FALSE(checkRoom(file, few));
  Error error = checkRoom(file, many);
  EXPECT_EQ(error.status(), Status::Failure);
  EXPECT_NE(error.message().find("--export expects room for 4503599627370496 bytes of parameters, got "),
            std::string::npos)
      << error.message();
}

// The trace tells the steps of the two entries apart.
TEST_F(TrainCommandTest, TracesBothEntries) {
  TrainOptions traced = options(1);
  addEvaluation(traced);
  traced.traceFile = path("trace.json");
  ASSERT_EQ(run(traced), 0) << err.str();
  std::string trace = read("trace.json");
  EXPECT_NE(trace.find("\"entry\":\"train\",\"kernel\":\"learn\""), std::string::npos);
  EXPECT_NE(trace.find("\"entry\":\"evaluate\",\"kernel\":\"judge\""), std::string::npos);
}

// A terminal sees where the run is, and the line is gone at the end.
TEST_F(TrainCommandTest, ShowsProgress) {
  TrainOptions shown = options(1);
  shown.isTerminal = true;
  ASSERT_EQ(run(shown), 0) << err.str();
  EXPECT_NE(err.str().find("epoch 1: step 1 of 10, loss "), std::string::npos) << err.str();
  EXPECT_TRUE(err.str().ends_with("\r\x1b[K")) << err.str();
}

// Each wrong use says what is wrong with it.
TEST_F(TrainCommandTest, RefusesWrongUse) {
  TrainOptions good = options(1);
  good.checkpointFolder = path("checkpoints");
  ASSERT_EQ(run(good), 0) << err.str();
  expectFailure(good, Status::Usage, "has checkpoints of another run; say --resume");
  auto change = [&](auto edit) {
    TrainOptions changed = options(1);
    edit(changed);
    return changed;
  };
  auto resumed = [&](auto edit) {
    return change([&](TrainOptions &o) {
      o.checkpointFolder = path("checkpoints");
      o.resume = true;
      edit(o);
    });
  };
  expectFailure(change([](TrainOptions &o) { o.resume = true; }), Status::Usage, "--resume expects a folder");
  expectFailure(change([](TrainOptions &o) { o.checkpointEvery = 3; }), Status::Usage, "--checkpoint-every expects");
  expectFailure(change([](TrainOptions &o) { o.inFlight = 0; }), Status::Usage, "--in-flight expects at least one");
  expectFailure(change([](TrainOptions &o) { o.data.pop_back(); }), Status::Usage, "input \"labels\"");
  expectFailure(change([](TrainOptions &o) { o.evaluation = {"x=none.npy"}; }), Status::Failure, "cannot open");
  expectFailure(change([&](TrainOptions &o) { o.exportFile = path("w.bin"); }), Status::Usage, "ends in .npz");
  Samples(3).write(path("few"));
  auto few = [&](TrainOptions &o) { o.data = {"x=" + path("few-x.npy"), "labels=" + path("few-labels.npy")}; };
  expectFailure(change(few), Status::Failure, "training expects at least a batch of 4 samples, got 3");
  Samples(8).write(path("few"));
  expectFailure(resumed(few), Status::Failure, "expects the data of its run, with 42 samples, got 8");
  expectFailure(resumed([](TrainOptions &o) { o.seed = 6; }), Status::Usage, "expects its run's --seed 5, got 6");
  expectFailure(resumed([](TrainOptions &o) { o.epochs = 1; }), Status::Success, "");
}

// Plans that cannot train, and checkpoints that do not fit the plan.
TEST_F(TrainCommandTest, RefusesOtherPlans) {
  auto expectRefused = [&](auto edit, const std::string &message, TrainOptions options) {
    PlanBuilder builder = trainingPlan();
    edit(builder);
    EXPECT_NE(run(options, builder), 0);
    EXPECT_NE(err.str().find(message), std::string::npos) << err.str();
  };
  expectRefused([](PlanBuilder &b) { b.plan.entries[0]->name = "main"; },
                "training expects a plan with an entry \"train\" that can run, got none", options(1));
  TrainOptions evaluated = options(1);
  addEvaluation(evaluated);
  expectRefused([](PlanBuilder &b) { b.plan.entries.pop_back(); }, "with an entry \"evaluate\"", evaluated);
  expectRefused([](PlanBuilder &b) { b.plan.devices[0]->driver = "null"; }, "expects devices that compute, got \"one\"",
                options(1));
  expectRefused([](PlanBuilder &b) { b.plan.entries[0]->outputs[0]->name = "cost"; },
                "entry \"train\" expects an output \"loss\", got none", options(1));
  expectRefused(
      [](PlanBuilder &b) {
        b.plan.entries[0]->outputs[0]->name = "correct";
        b.plan.entries[0]->outputs[1]->name = "loss";
      },
      "expects one floating-point number, got i64[]", options(1));
  expectRefused([](PlanBuilder &b) { b.plan.entries[0]->inputs[0]->classes = 2; },
                "input \"x\" expects integers as labels", options(1));
  TrainOptions saved = options(1);
  saved.checkpointFolder = path("checkpoints");
  ASSERT_EQ(run(saved), 0) << err.str();
  saved.resume = true;
  expectRefused([](PlanBuilder &b) { b.plan.parameters[0]->name = "v"; },
                "expects a tensor \"v\", which the plan's steps write, got none", saved);
}

} // namespace
} // namespace cleave::runtime::test
