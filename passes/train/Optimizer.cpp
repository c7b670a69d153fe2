#include "passes/train/Optimizer.h"
using namespace mlir;
namespace cleave {
std::vector<StateSpec> stateOf(const OptimizerOptions &) { return {}; }
StepScalars buildStepScalars(OpBuilder &b, Location l, const OptimizerOptions &o, Value) {
  auto type = RankedTensorType::get({}, b.getF32Type());
  return {dfg::ConstantOp::create(b, l, DenseElementsAttr::get(type, b.getF32FloatAttr(o.learningRate)))};
}
Update buildUpdate(OpBuilder &b, Location l, const OptimizerOptions &, Value w, Value g, ValueRange,
                   const StepScalars &s) {
  Value d = dfg::MulOp::create(b, l, g, s.learningRate);
  return {dfg::SubOp::create(b, l, w, d), {}};
}
} // namespace cleave
