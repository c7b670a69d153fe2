// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A small plan that trains, its data, and the same training in plain loops.

#ifndef CLEAVE_TEST_RUNTIME_TRAINING_TRAININGPLAN_H
#define CLEAVE_TEST_RUNTIME_TRAINING_TRAININGPLAN_H

#include "PlanBuilder.h"

#include "runtime/HostTensor.h"

#include <array>

namespace cleave::runtime::test {

inline constexpr uint64_t batchSize = 4;

struct TrainingPlanOptions {
  /// 1 or 2: the batch is divided over them, and the weights replicated.
  uint32_t devices = 1;
  /// Whether the plan says that labels are labels.
  bool masks = true;
  /// Whether a step takes at least 5 ms.
  bool slow = false;
};

/// Regression with entries "train" and "evaluate": inputs "x" f32[4] and "labels" i64[4], outputs "loss" and "correct";
/// weights "w" f32[2], of which w[0] x + w[1] is to be the label, begin at 0.25; see TestKernels.c. Two devices also
/// keep the halves of "v" f32[4], normal numbers.
PlanBuilder trainingPlan(const TrainingPlanOptions &options = {});

/// Samples whose label is 1 where x, from -1 to 1, is above 0.2.
struct Samples {
  std::vector<float> x;
  std::vector<int64_t> labels;

  explicit Samples(uint64_t count);
  /// Writes "NAME-x.npy" and "NAME-labels.npy".
  void write(const std::string &name) const;
};

/// The training by itself.
struct PlainTraining {
  std::array<float, 2> w = {0.25f, 0.25f};
  /// The loss of a step on these samples.
  float step(const Samples &samples, std::span<const uint64_t> which);
  /// The mean over all samples, and the share that is right.
  std::pair<double, double> evaluate(const Samples &samples) const;
};

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_TRAINING_TRAININGPLAN_H
