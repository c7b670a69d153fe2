// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules as operators on the step counter. They are computed in f64, once a step.

#include "passes/train/LearningRate.h"

#include "passes/train/Arithmetic.h"
#include "passes/train/OptionText.h"

#include <limits>
#include <numbers>

using namespace mlir;

namespace cleave {

static constexpr StringLiteral subject = "the learning rate's schedule";

static llvm::Error unknownSchedule(StringRef text) {
  return optionError(subject + " expects constant, step:PERIOD:GAMMA or cosine:TOTAL[:WARMUP], got \"" + text + "\"");
}

LearningRateOptions stretched(LearningRateOptions options, unsigned parts) {
  options.period *= parts;
  options.total *= parts;
  options.warmup *= parts;
  return options;
}

llvm::Expected<LearningRateOptions> parseSchedule(StringRef text, double rate) {
  LearningRateOptions options;
  options.rate = rate;
  SmallVector<StringRef> parts;
  text.split(parts, ':');
  StringRef kind = parts.front();
  auto readWhole = [&](unsigned part, StringRef key, int64_t low, int64_t &target) -> llvm::Error {
    auto number = parseWhole(parts[part], subject, key, low);
    if (!number)
      return number.takeError();
    target = *number;
    return llvm::Error::success();
  };
  if (kind == "constant" && parts.size() == 1)
    return options;
  if (kind == "step" && parts.size() == 3) {
    options.kind = ScheduleKind::Step;
    if (llvm::Error error = readWhole(1, "the period", 1, options.period))
      return error;
    auto gamma = parseNumber(parts[2], subject, "gamma", 0.0, std::numeric_limits<double>::infinity());
    if (!gamma)
      return gamma.takeError();
    options.gamma = *gamma;
    return options;
  }
  if (kind == "cosine" && (parts.size() == 2 || parts.size() == 3)) {
    options.kind = ScheduleKind::Cosine;
    if (llvm::Error error = readWhole(1, "all steps", 1, options.total))
      return error;
    if (parts.size() == 3)
      if (llvm::Error error = readWhole(2, "the steps of warm-up", 0, options.warmup))
        return error;
    if (options.warmup >= options.total)
      return optionError(subject + " expects fewer steps of warm-up than the " + Twine(options.total) +
                         " in all, got " + Twine(options.warmup));
    return options;
  }
  return unknownSchedule(text);
}

static Value buildStep(Arithmetic &math, const LearningRateOptions &options, Value step) {
  Type f64 = math.getBuilder().getF64Type();
  Value periods = math.cast(math.div(step, math.integer(options.period)), f64);
  return math.mul(math.pow(options.gamma, periods), options.rate);
}

static Value buildCosine(Arithmetic &math, const LearningRateOptions &options, Value step) {
  Value time = math.cast(step, math.getBuilder().getF64Type());
  auto warmup = static_cast<double>(options.warmup), decay = static_cast<double>(options.total - options.warmup);
  Value angle = math.mul(math.min(math.add(time, -warmup), decay), std::numbers::pi / decay);
  Value falling = math.mul(math.add(math.cos(angle), 1.0), options.rate / 2);
  if (options.warmup == 0)
    return falling;
  Value rising = math.mul(math.add(time, 1.0), options.rate / warmup);
  Value isRising = math.compare(step, dfg::Comparison::Less, math.integer(options.warmup));
  return math.select(isRising, rising, falling);
}

Value buildLearningRate(OpBuilder &builder, Location location, const LearningRateOptions &options, Value step) {
  Arithmetic math(builder, location);
  switch (options.kind) {
  case ScheduleKind::Constant:
    return math.number(builder.getF64Type(), options.rate);
  case ScheduleKind::Step:
    return buildStep(math, options, step);
  case ScheduleKind::Cosine:
    return buildCosine(math, options, step);
  }
  llvm_unreachable("all kinds are known");
}

} // namespace cleave
