// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Optimizers: the elementwise formulas that turn a parameter, its gradient and its state into the next ones.

#ifndef CLEAVE_PASSES_TRAIN_OPTIMIZER_H
#define CLEAVE_PASSES_TRAIN_OPTIMIZER_H

#include "passes/train/Arithmetic.h"
#include "passes/train/LearningRate.h"

#include "mlir/IR/Value.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace cleave {

/// The numbers of formulas: momentum, the shares of running means, what keeps a root from zero, the weight decay.
struct OptimizerNumbers {
  double momentum = 0, alpha = 0.99, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0;
  RateSchedule learningRate;
};

struct OptimizerRow;

/// An optimizer with its numbers. The default is sgd.
struct OptimizerOptions : OptimizerNumbers {
  const OptimizerRow *row;

  OptimizerOptions();
  /// With the row's defaults. `row` lasts as long as the options.
  explicit OptimizerOptions(const OptimizerRow &row);

  llvm::StringRef name() const;
};

/// What --optimizer may say: sgd, momentum, nesterov, rmsprop, adam, adamw, and those that were registered.
std::vector<llvm::StringRef> optimizerNames();

/// An optimizer by its name, with its defaults changed by "KEY=VALUE,…"; the keys are those of its formula: momentum,
/// alpha, beta1, beta2, epsilon, weight-decay. The learning rate is PyTorch's default, and constant.
llvm::Expected<OptimizerOptions> parseOptimizer(llvm::StringRef name, llvm::StringRef options);

/// The numbers of an optimizer's formula, by the keys of parseOptimizer, without the learning rate.
std::vector<std::pair<llvm::StringRef, double>> hyperparametersOf(const OptimizerOptions &options);

/// A tensor that an optimizer keeps beside each parameter, of the parameter's type, zero before the first step. The
/// parameter NAME has the state "NAME/momentum".
struct StateSpec {
  std::string suffix;
  double initial = 0;
};

/// In the order of buildUpdate's.
std::vector<StateSpec> stateOf(const OptimizerOptions &options);

/// f32 scalars that all parameters of a step share; null where the optimizer does not need them.
struct StepScalars {
  mlir::Value learningRate;
  /// Where means are corrected: r / (1 - beta1^t).
  mlir::Value stepSize;
  /// Where means are corrected: 1 / sqrt(1 - beta2^t).
  mlir::Value rootCorrection;
  /// Where the weight decay is a factor of the parameter: 1 - r d.
  mlir::Value decay;
};

/// The scalars of a step, from its learning rate (an f64 scalar) and the number of steps done (an i64 scalar). They are
/// computed in f64, for 1 - beta2^t is small.
StepScalars buildStepScalars(mlir::OpBuilder &builder, mlir::Location location, const OptimizerOptions &options,
                             mlir::Value learningRate, mlir::Value step);

struct Update {
  mlir::Value parameter;
  llvm::SmallVector<mlir::Value> state;
};

/// One parameter's step. The gradient has the parameter's shape; where its elements are narrower they are widened. Each
/// result is elementwise in what it replaces.
Update buildUpdate(mlir::OpBuilder &builder, mlir::Location location, const OptimizerOptions &options,
                   mlir::Value parameter, mlir::Value gradient, mlir::ValueRange state, const StepScalars &scalars);

/// What a formula is made of: values of the parameter's shape and element type, and what formulas have in common.
class UpdateBuilder {
public:
  /// The gradient has the weight decay in it, unless the row decouples that.
  UpdateBuilder(Arithmetic math, const OptimizerOptions &options, mlir::Value parameter, mlir::Value gradient,
                mlir::ValueRange state, const StepScalars &scalars);

  Arithmetic math;
  const OptimizerOptions &options;
  mlir::Value parameter, gradient;
  mlir::ValueRange state;

  /// A scalar of the step, in the parameter's element type.
  mlir::Value scalar(mlir::Value StepScalars::*which);
  /// The parameter after decoupled weight decay; the parameter where there is none.
  mlir::Value decayed();
  /// What is left of `from` one learning rate against `direction`.
  mlir::Value moved(mlir::Value from, mlir::Value direction);
  /// momentum `momentum` + `direction`.
  mlir::Value accumulated(mlir::Value momentum, mlir::Value direction);
  /// A running mean that keeps a share of what it was.
  mlir::Value blended(mlir::Value mean, double kept, mlir::Value current);

private:
  mlir::Type element;
  const StepScalars &scalars;
};

/// A number that an optimizer has as an option: its key, and the largest that it may be; none is negative.
struct OptimizerKey {
  llvm::StringRef name;
  double OptimizerNumbers::*member;
  double high;
};

/// A row of the table of optimizers.
struct OptimizerRow {
  std::string name;
  OptimizerNumbers defaults;
  std::vector<OptimizerKey> keys;
  /// What is kept of each parameter.
  std::vector<StateSpec> (*state)(const OptimizerOptions &options);
  /// The formula.
  Update (*update)(UpdateBuilder &builder);
  /// Whether it divides running means by what they lack in the first steps (StepScalars::stepSize, rootCorrection).
  bool correctsMeans = false;
  /// Whether the weight decay is a factor of the parameter (StepScalars::decay) and no part of the gradient.
  bool decouplesDecay = false;
};

/// Makes an optimizer known by its name, in the place of one of that name. Before threads or options that need it.
void registerOptimizer(OptimizerRow row);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_OPTIMIZER_H
