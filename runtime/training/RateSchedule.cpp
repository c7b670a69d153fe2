// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/training/RateSchedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <vector>

namespace cleave::runtime {

namespace {

constexpr std::string_view subject = "the learning rate's schedule";

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    size_t end = text.find(':');
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos)
      return parts;
    text.remove_prefix(end + 1);
  }
}

Error readWhole(std::string_view text, std::string_view what, uint64_t low, double &target) {
  uint64_t number = 0;
  const char *end = text.data() + text.size();
  auto parsed = std::from_chars(text.data(), end, number);
  // All of them are numbers of steps, which f64 holds exactly up to here.
  constexpr uint64_t high = uint64_t(1) << 53;
  if (parsed.ec != std::errc() || parsed.ptr != end || number < low || number > high)
    return makeError(Status::Usage, subject, " expects a whole number of at least ", low, " for ", what, ", got \"",
                     text, '"');
  target = static_cast<double>(number);
  return Error::success();
}

} // namespace

Expected<RateSchedule> RateSchedule::parse(std::string_view text, double rate) {
  RateSchedule schedule;
  schedule.rate = rate;
  std::vector<std::string_view> parts = split(text);
  std::string_view kind = parts.front();
  if (kind == "constant" && parts.size() == 1)
    return schedule;
  if (kind == "step" && parts.size() == 3) {
    if (Error error = readWhole(parts[1], "the period", 1, schedule.period))
      return error;
    const char *end = parts[2].data() + parts[2].size();
    auto parsed = std::from_chars(parts[2].data(), end, schedule.gamma);
    if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(schedule.gamma) || schedule.gamma < 0)
      return makeError(Status::Usage, subject, " expects a number of at least 0 for gamma, got \"", parts[2], '"');
    return schedule;
  }
  if (kind == "cosine" && (parts.size() == 2 || parts.size() == 3)) {
    if (Error error = readWhole(parts[1], "all steps", 1, schedule.total))
      return error;
    if (parts.size() == 3)
      if (Error error = readWhole(parts[2], "the steps of warm-up", 0, schedule.warmup))
        return error;
    if (schedule.warmup >= schedule.total)
      return makeError(Status::Usage, subject, " \"", text, "\" expects fewer steps of warm-up than the ", parts[1],
                       " in all, got ", parts[2]);
    return schedule;
  }
  return makeError(Status::Usage, subject, " expects constant, step:PERIOD:GAMMA or cosine:TOTAL[:WARMUP], got \"",
                   text, '"');
}

double RateSchedule::at(uint64_t steps) const {
  auto time = static_cast<double>(steps);
  double rising = std::min((time + 1) / std::max(warmup, 1.0), 1.0);
  double share = std::min(std::max(time - warmup, 0.0), total - warmup) / std::max(total - warmup, 1.0);
  return std::pow(gamma, std::floor(time / period)) * rising * ((std::cos(share * std::numbers::pi) + 1) / 2) * rate;
}

bool RateSchedule::isValid() const {
  for (double number : {rate, gamma, period, total, warmup})
    if (!std::isfinite(number) || number < 0)
      return false;
  return period >= 1 && (total == 0 ? warmup == 0 : warmup < total);
}

RateSchedule RateSchedule::stretched(unsigned parts) const {
  RateSchedule result = *this;
  result.period *= parts;
  result.total *= parts;
  result.warmup *= parts;
  return result;
}

} // namespace cleave::runtime
