// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What measurements say of a machine beside its file: shares of rates that single operators reached, and one factor
// for whole steps. Presets are never changed; what is learnt is a machine file of its own.

#ifndef CLEAVE_PASSES_COST_CALIBRATION_H
#define CLEAVE_PASSES_COST_CALIBRATION_H

#include "passes/cost/MeasuredOperators.h"

namespace cleave {

/// What was learnt of one class of kernels of one kind of device.
struct CalibratedClass {
  std::string kind;
  std::string key;              ///< Of the kind's `efficiency`, with the element type: "contraction.f16".
  unsigned operators = 0;       ///< From how many.
  double factor = 1;            ///< By which its share of the rate was multiplied.
  double before = 0, after = 0; ///< The median error of their predictions.
};

/// Fewer operators than these say nothing of a class.
inline constexpr unsigned fewestOperators = 3;

/// So much longer than the host kernels take where it is certain that they did not wait for it.
inline constexpr double clearOfHost = 1.5;

/// Changes `machine` so that its costs predict the operators best: for each kind, element type and class of kernels
/// (products, those that wait for memory, that are shallow or narrow, elementwise, reductions, movements) the one
/// factor on the class's share which makes the median of what is left for its kernels right, in the operators whose
/// time is mostly theirs. Operators that the host may have kept waiting say nothing of the device: those whose kernels
/// take less than `clearOfHost` times its calls. Where its calls take as much longer than kernels, operators say what
/// the host takes for one, and the median is the executor's `dispatch`. Classes depend on each other in operators of
/// several kernels, and are therefore gone through until factors change no more. Expects a machine that has all kinds.
std::vector<CalibratedClass> calibrate(Machine &machine, llvm::ArrayRef<MeasuredOperator> operators);

/// The factor that explains measured steps: the median of measured over predicted seconds. Expects at least one.
double stepFactor(llvm::ArrayRef<std::pair<double, double>> measuredAndPredicted);

/// The machine on which everything takes `machine.calibration` times as long: kernels, launches, links, and calls of
/// the host. What planner and simulator are given; a machine without a calibration is itself.
Machine withCalibration(Machine machine);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_CALIBRATION_H
