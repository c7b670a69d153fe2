// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the learning rate changes from step to step. Its numbers are parameters of a plan, from which each step computes
// its rate, so that a run can change them.

#ifndef CLEAVE_RUNTIME_TRAINING_RATESCHEDULE_H
#define CLEAVE_RUNTIME_TRAINING_RATESCHEDULE_H

#include "runtime/Error.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace cleave::runtime {

/// With t the number of steps done before, from zero, the rate is
///
///   rate * gamma^floor(t / period) * min(1, (t + 1) / max(1, warmup)) * (1 + cos(pi * a)) / 2
///   a = min(max(t - warmup, 0), total - warmup) / max(1, total - warmup)
///
/// which is `rate` with the other numbers as they are here. With a total it rises in the first `warmup` steps, then
/// falls as half a cosine, and is zero from `total` on. Source: Loshchilov and Hutter, SGDR, 2017 (without restarts);
/// PyTorch's LinearLR(1 / warmup, 1, warmup - 1), then CosineAnnealingLR(total - warmup), and StepLR(period, gamma).
struct RateSchedule {
  double rate = 0.01, gamma = 1, period = 1, total = 0, warmup = 0;

  /// "constant", "step:PERIOD:GAMMA" or "cosine:TOTAL[:WARMUP]", for `rate`. Status::Usage for anything else.
  static Expected<RateSchedule> parse(std::string_view text, double rate);

  /// The rate of the step that `steps` others precede.
  double at(uint64_t steps) const;
  /// The schedule for steps that are `parts` times as many: that many have the rate of one.
  RateSchedule stretched(unsigned parts) const;

  /// Whether all numbers are finite and none negative, the period is at least a step, and a total is more than the
  /// warm-up.
  bool isValid() const;

  bool operator==(const RateSchedule &) const = default;
};

/// The parameters that hold a schedule's numbers, f64 scalars.
inline constexpr std::array<std::pair<std::string_view, double RateSchedule::*>, 5> rateParameters = {{
    {"train/learning-rate", &RateSchedule::rate},
    {"train/rate-gamma", &RateSchedule::gamma},
    {"train/rate-period", &RateSchedule::period},
    {"train/rate-total", &RateSchedule::total},
    {"train/rate-warmup", &RateSchedule::warmup},
}};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_RATESCHEDULE_H
