// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Optimizers: the elementwise formulas that turn a parameter, its gradient and its state into the next ones.

#ifndef CLEAVE_PASSES_TRAIN_OPTIMIZER_H
#define CLEAVE_PASSES_TRAIN_OPTIMIZER_H

#include "passes/train/LearningRate.h"

#include "mlir/IR/Value.h"

#include <string>
#include <vector>

namespace cleave {

/// With w the parameter, g its gradient, r the learning rate, d the weight decay, t the number of the step from one.
/// All are PyTorch's, in formulas and defaults; all state begins at zero.
enum class OptimizerKind {
  SGD,      ///< g += d w; w -= r g
  Momentum, ///< g += d w; b = momentum b + g; w -= r b. Polyak, 1964; Sutskever et al., 2013.
  Nesterov, ///< As momentum, with w -= r (g + momentum b).
  RMSProp,  ///< g += d w; v = alpha v + (1 - alpha) g^2; w -= r g / (sqrt(v) + epsilon). Hinton, 2012. With a momentum
            ///< b = momentum b + g / (sqrt(v) + epsilon); w -= r b.
  Adam,     ///< g += d w; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
            ///< w -= r m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon). Kingma and Ba, 2014.
  AdamW     ///< As Adam, with w *= 1 - r d in place of g += d w. Loshchilov and Hutter, 2017.
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::SGD;
  double momentum = 0, alpha = 0.99, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0;
  RateSchedule learningRate;

  /// As in optimizerNames.
  llvm::StringRef name() const;
};

/// What --optimizer may say.
llvm::ArrayRef<llvm::StringRef> optimizerNames();

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
  /// Adam: r / (1 - beta1^t).
  mlir::Value stepSize;
  /// Adam: 1 / sqrt(1 - beta2^t).
  mlir::Value rootCorrection;
  /// AdamW: 1 - r d.
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

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_OPTIMIZER_H
