// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps of optimizers, schedules and clipping as machine code, against PyTorch's and closed formulas.

#include "test/passes/train/TrainingFormula.h"

#include "passes/train/Arithmetic.h"
#include "passes/train/Clipping.h"
#include "passes/train/Optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

using namespace mlir;

namespace cleave::test {
namespace {

using testing::HasSubstr;

constexpr unsigned numSteps = 8;

OptimizerOptions optimizer(StringRef name, StringRef options = "", StringRef schedule = "constant", double rate = 0.1) {
  auto parsed = parseOptimizer(name, options);
  EXPECT_TRUE(static_cast<bool>(parsed));
  auto rates = RateSchedule::parse(schedule.str(), rate);
  EXPECT_TRUE(rates);
  parsed->learningRate = *rates;
  return *parsed;
}

/// The rate of a step by a schedule whose numbers are known.
Value rateOf(OpBuilder &builder, Location location, const RateSchedule &schedule, Value step) {
  Arithmetic math(builder, location);
  SmallVector<Value> numbers;
  for (auto [name, member] : runtime::rateParameters)
    numbers.push_back(math.number(builder.getF64Type(), schedule.*member));
  return buildLearningRate(builder, location, numbers, step);
}

/// The message of what must not parse.
template <typename T> std::string messageOf(llvm::Expected<T> parsed) {
  return parsed ? "parsed" : llvm::toString(parsed.takeError());
}
std::string messageOf(const runtime::Expected<RateSchedule> &parsed) {
  return parsed ? "parsed" : std::string(parsed.error().message());
}

/// Two parameters that take steps together, the gradients clipped where `clip` is positive.
class Steps {
public:
  Steps(const OptimizerOptions &options, double clip)
      : options(options), clip(clip), random(7),
        formula(makeInputs(), [&](OpBuilder &builder, Location location, ValueRange arguments) {
          return build(builder, location, arguments);
        }) {}

  /// Does the steps; by step, both parameters.
  std::vector<std::vector<Tensor>> run() {
    std::vector<std::vector<Tensor>> results;
    std::vector<Tensor> kept(inputs.begin(), inputs.begin() + 2 * perParameter());
    for (unsigned step = 0; step < numSteps; ++step) {
      std::vector<Tensor> now = kept;
      now.insert(now.end(), gradients[step].begin(), gradients[step].end());
      now.push_back(scalarOf("i64", step));
      kept = formula.run(now);
      results.push_back({kept[0], kept[perParameter()]});
    }
    return results;
  }

  llvm::json::Object request(llvm::json::Value torchOptions, StringRef schedule) {
    llvm::json::Array steps;
    for (const auto &step : gradients)
      steps.push_back(llvm::json::Array{toJson(step[0]), toJson(step[1])});
    llvm::json::Object request{{"kind", options.name()},
                               {"options", std::move(torchOptions)},
                               {"rate", options.learningRate.rate},
                               {"schedule", schedule},
                               {"parameters", llvm::json::Array{toJson(inputs[0]), toJson(inputs[perParameter()])}},
                               {"gradients", std::move(steps)}};
    if (clip > 0)
      request["clip"] = clip;
    return request;
  }

private:
  size_t perParameter() const { return 1 + stateOf(options).size(); }

  /// By parameter: it and its state; then the gradients of the first step, and the number of steps done.
  const std::vector<Tensor> &makeInputs() {
    std::vector<Tensor> parameters = {Tensor("f32", {3, 5}), Tensor("f32", {7})};
    for (Tensor &parameter : parameters) {
      inputs.push_back(parameter.fill(random, -1, 1));
      for (const StateSpec &state : stateOf(options)) {
        inputs.push_back(Tensor("f32", parameter.getShape()));
        for (int64_t i = 0; i < inputs.back().size(); ++i)
          inputs.back().setReal(i, state.initial);
      }
    }
    for (unsigned step = 0; step < numSteps; ++step) {
      auto &made = gradients.emplace_back();
      for (const Tensor &parameter : parameters)
        made.push_back(Tensor("f32", parameter.getShape()).fill(random, -1, 1));
    }
    inputs.insert(inputs.end(), gradients[0].begin(), gradients[0].end());
    inputs.push_back(scalarOf("i64", 0));
    return inputs;
  }

  SmallVector<Value> build(OpBuilder &builder, Location location, ValueRange arguments) {
    size_t each = perParameter();
    SmallVector<Value> scaled(arguments.slice(2 * each, 2));
    if (clip > 0)
      scaled = clipByGlobalNorm(builder, location, scaled, clip);
    Value step = arguments.back();
    Value rate = rateOf(builder, location, options.learningRate, step);
    StepScalars scalars = buildStepScalars(builder, location, options, rate, step);
    SmallVector<Value> results;
    for (size_t i = 0; i < 2; ++i) {
      ValueRange mine = arguments.slice(i * each, each);
      Update update = buildUpdate(builder, location, options, mine.front(), scaled[i], mine.drop_front(), scalars);
      results.push_back(update.parameter);
      llvm::append_range(results, update.state);
    }
    return results;
  }

  OptimizerOptions options;
  double clip;
  Random random;
  std::vector<Tensor> inputs;
  std::vector<std::vector<Tensor>> gradients;
  TrainingFormula formula;
};

struct OptimizerCase {
  /// `torch` are the same options in PyTorch's words, as JSON.
  const char *name, *options, *torch, *schedule = "constant";
  double clip = 0;
};

/// The steps of all cases; PyTorch is asked once, for it takes its time to start.
void expectLikeTorch(const std::vector<OptimizerCase> &cases) {
  llvm::json::Array requests;
  std::vector<std::vector<std::vector<Tensor>>> got;
  for (const OptimizerCase &each : cases) {
    Steps steps(optimizer(each.name, each.options, each.schedule), each.clip);
    requests.push_back(steps.request(*llvm::json::parse(each.torch), each.schedule));
    got.push_back(steps.run());
  }
  auto answers = askTorch(std::move(requests));
  if (!answers)
    GTEST_SKIP() << "no PyTorch for " << CLEAVE_PYTHON;
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(std::string(cases[i].name) + " " + cases[i].options + " " + cases[i].schedule);
    const llvm::json::Array &want = *(*answers)[i].getAsObject()->getArray("parameters");
    for (unsigned step = 0; step < numSteps; ++step)
      for (unsigned parameter = 0; parameter < 2; ++parameter)
        expectNumbers(got[i][step][parameter], *(*want[step].getAsArray())[parameter].getAsArray(), 1e-6);
  }
}

// Every kind with PyTorch's defaults, then with each option changed.
TEST(Optimizer, SgdIsPyTorchs) {
  expectLikeTorch({{"sgd", "", "{}"}, {"sgd", "weight-decay=0.1", R"({"weight_decay": 0.1})"}});
}

TEST(Optimizer, MomentumIsPyTorchs) {
  expectLikeTorch({{"momentum", "", R"({"momentum": 0.9})"},
                   {"momentum", "momentum=0.5,weight-decay=0.1", R"({"momentum": 0.5, "weight_decay": 0.1})"}});
}

TEST(Optimizer, NesterovIsPyTorchs) {
  expectLikeTorch({{"nesterov", "", R"({"momentum": 0.9})"},
                   {"nesterov", "momentum=0.5,weight-decay=0.1", R"({"momentum": 0.5, "weight_decay": 0.1})"}});
}

TEST(Optimizer, RmsPropIsPyTorchs) {
  expectLikeTorch({{"rmsprop", "", "{}"},
                   {"rmsprop", "alpha=0.9,epsilon=1e-3,momentum=0.5,weight-decay=0.1",
                    R"({"alpha": 0.9, "eps": 1e-3, "momentum": 0.5, "weight_decay": 0.1})"}});
}

TEST(Optimizer, AdamIsPyTorchs) {
  expectLikeTorch({{"adam", "", "{}"},
                   {"adam", "beta1=0.8,beta2=0.99,epsilon=1e-3,weight-decay=0.1",
                    R"({"betas": [0.8, 0.99], "eps": 1e-3, "weight_decay": 0.1})"}});
}

TEST(Optimizer, AdamWIsPyTorchs) {
  expectLikeTorch({{"adamw", "", "{}"},
                   {"adamw", "weight-decay=0", R"({"weight_decay": 0})"},
                   {"adamw", "beta1=0.8,beta2=0.99,epsilon=1e-3,weight-decay=0.1",
                    R"({"betas": [0.8, 0.99], "eps": 1e-3, "weight_decay": 0.1})"}});
}

// The rate changes inside of the formulas: AdamW's decay follows it too.
TEST(Optimizer, SchedulesArePyTorchs) {
  expectLikeTorch({{"sgd", "", "{}", "step:3:0.5"},
                   {"adamw", "", "{}", "cosine:8:0"},
                   {"momentum", "", R"({"momentum": 0.9})", "cosine:8:3"}});
}

// Once the norm of both parameters' gradients together is above the limit, once it is not.
TEST(Optimizer, ClippingIsPyTorchs) {
  expectLikeTorch(
      {{"sgd", "", "{}", "constant", 0.5}, {"adam", "", "{}", "constant", 0.5}, {"sgd", "", "{}", "constant", 100}});
}

// The master weights are f32, and so is what they are changed by.
TEST(Optimizer, WidensNarrowGradients) {
  OptimizerOptions options = optimizer("sgd", "", "constant", 0.5);
  std::vector<Tensor> inputs = {Tensor("f32", {1}), Tensor("bf16", {1}), scalarOf("i64", 0)};
  inputs[0].setReal(0, 1.0);
  inputs[1].setReal(0, 0x1.02p-9);
  TrainingFormula formula(inputs, [&](OpBuilder &builder, Location location, ValueRange in) {
    Value rate = rateOf(builder, location, options.learningRate, in[2]);
    StepScalars scalars = buildStepScalars(builder, location, options, rate, in[2]);
    return SmallVector<Value>{buildUpdate(builder, location, options, in[0], in[1], {}, scalars).parameter};
  });
  EXPECT_EQ(formula.run(inputs)[0].real(0), 1.0 - 0x1.02p-10);
}

/// The rates of steps by a schedule, as operators compute them; and so does RateSchedule::at.
std::vector<double> ratesOf(StringRef text, unsigned count) {
  RateSchedule schedule = *RateSchedule::parse(text.str(), 0.4);
  TrainingFormula formula({scalarOf("i64", 0)}, [&](OpBuilder &builder, Location location, ValueRange in) {
    return SmallVector<Value>{rateOf(builder, location, schedule, in[0])};
  });
  std::vector<double> rates;
  for (unsigned step = 0; step < count; ++step)
    rates.push_back(formula.run({scalarOf("i64", step)})[0].real(0));
  for (unsigned step = 0; step < count; ++step)
    EXPECT_NEAR(schedule.at(step), rates[step], 1e-15) << text.str() << ", step " << step;
  return rates;
}

TEST(LearningRate, FollowsTheFormulas) {
  using testing::DoubleNear;
  using testing::ElementsAre;
  EXPECT_THAT(ratesOf("constant", 2), ElementsAre(0.4, 0.4));
  EXPECT_THAT(ratesOf("step:2:0.5", 5), ElementsAre(0.4, 0.4, 0.2, 0.2, 0.1));
  std::vector<double> rates = ratesOf("cosine:6:2", 8);
  auto falling = [](double share) { return DoubleNear(0.2 * (1 + std::cos(std::numbers::pi * share)), 1e-12); };
  EXPECT_THAT(rates,
              ElementsAre(0.2, 0.4, falling(0), falling(0.25), falling(0.5), falling(0.75), falling(1), falling(1)));
  EXPECT_THAT(ratesOf("cosine:1", 2), ElementsAre(0.4, DoubleNear(0, 1e-16)));
  // Three steps for each.
  RateSchedule schedule = *RateSchedule::parse("step:2:0.5", 0.4), stretched = schedule.stretched(3);
  for (unsigned step = 0; step < 15; ++step)
    EXPECT_EQ(stretched.at(step), schedule.at(step / 3));
}

TEST(LearningRate, KnowsSchedulesThatCannotBe) {
  for (const char *text : {"constant", "step:2:0.5", "step:1:0", "cosine:6:2", "cosine:1"})
    EXPECT_TRUE(RateSchedule::parse(text, 0)->isValid()) << text;
  const double notANumber = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  for (auto [name, member] : runtime::rateParameters)
    for (double number : {notANumber, infinite, -1.0}) {
      RateSchedule schedule = *RateSchedule::parse("cosine:6:2", 0.4);
      schedule.*member = number;
      EXPECT_FALSE(schedule.isValid()) << name.data() << " " << number;
    }
  EXPECT_FALSE((RateSchedule{.period = 0}).isValid());
  EXPECT_FALSE((RateSchedule{.total = 2, .warmup = 2}).isValid());
  EXPECT_FALSE((RateSchedule{.warmup = 2}).isValid());
}

TEST(LearningRate, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(messageOf(RateSchedule::parse("linear", 1)), HasSubstr("expects constant, step:PERIOD:GAMMA or "
                                                                     "cosine:TOTAL[:WARMUP], got \"linear\""));
  EXPECT_THAT(messageOf(RateSchedule::parse("step:5", 1)), HasSubstr("got \"step:5\""));
  EXPECT_THAT(messageOf(RateSchedule::parse("step:0:0.5", 1)),
              HasSubstr("expects a whole number of at least 1 for the period, got \"0\""));
  EXPECT_THAT(messageOf(RateSchedule::parse("step:2:x", 1)),
              HasSubstr("expects a number of at least 0 for gamma, got \"x\""));
  EXPECT_THAT(messageOf(RateSchedule::parse("cosine:5:5", 1)),
              HasSubstr("expects fewer steps of warm-up than the 5 in all, got 5"));
}

TEST(Optimizer, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(messageOf(parseOptimizer("lion", "")),
              HasSubstr("the optimizer expects sgd, momentum, nesterov, rmsprop, adam or adamw, got \"lion\""));
  EXPECT_THAT(messageOf(parseOptimizer("sgd", "beta1=0.5")),
              HasSubstr("the optimizer sgd knows no option \"beta1\"; it has weight-decay"));
  EXPECT_THAT(messageOf(parseOptimizer("adam", "beta1=1")),
              HasSubstr("the optimizer adam expects a number of at least 0 and less than 1 for beta1, got \"1\""));
  EXPECT_THAT(messageOf(parseOptimizer("adam", "beta1")), HasSubstr("expects KEY=VALUE,…, got \"beta1\""));
  EXPECT_THAT(messageOf(parseOptimizer("adam", "beta1=0.5,beta1=0.5")), HasSubstr("expects beta1 once"));
  EXPECT_THAT(messageOf(parseOptimizer("adam", "epsilon=nan")), HasSubstr("for epsilon, got \"nan\""));
}

} // namespace
} // namespace cleave::test
