#ifndef CLEAVE_PASSES_TRAIN_OPTIMIZER_H
#define CLEAVE_PASSES_TRAIN_OPTIMIZER_H
#include "dialects/dfg/Dfg.h"
namespace cleave {
struct OptimizerOptions {
  double learningRate = 0.1;
  llvm::StringRef name() const { return "sgd"; }
};
struct StateSpec {
  std::string suffix;
  double initial = 0;
};
struct StepScalars {
  mlir::Value learningRate;
};
struct Update {
  mlir::Value parameter;
  llvm::SmallVector<mlir::Value> state;
};
std::vector<StateSpec> stateOf(const OptimizerOptions &options);
StepScalars buildStepScalars(mlir::OpBuilder &b, mlir::Location l, const OptimizerOptions &o, mlir::Value step);
Update buildUpdate(mlir::OpBuilder &b, mlir::Location l, const OptimizerOptions &o, mlir::Value w, mlir::Value g,
                   mlir::ValueRange state, const StepScalars &s);
} // namespace cleave
#endif
