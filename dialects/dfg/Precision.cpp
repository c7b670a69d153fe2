// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where operators may be rounded to bfloat16, other than contractions, which gain, and all that follow their operands.
// Functions that magnify what rounding leaves out, and sums over many elements, stay f32: the list that PyTorch's
// autocast keeps, but for softmax and the normalizations, whose kernels compute statistics in f32 from what they read.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/TensorType.h"

using namespace mlir;

namespace cleave::dfg {

Precision ExpOp::getPrecision() { return Precision::Wide; }
Precision LogOp::getPrecision() { return Precision::Wide; }
Precision SqrtOp::getPrecision() { return Precision::Wide; }
Precision ReciprocalOp::getPrecision() { return Precision::Wide; }
Precision SoftplusOp::getPrecision() { return Precision::Wide; }
Precision PowOp::getPrecision() { return Precision::Wide; }
Precision AsinOp::getPrecision() { return Precision::Wide; }
Precision AcosOp::getPrecision() { return Precision::Wide; }
Precision SinhOp::getPrecision() { return Precision::Wide; }
Precision CoshOp::getPrecision() { return Precision::Wide; }
Precision LogSoftmaxOp::getPrecision() { return Precision::Wide; }
Precision CumulativeSumOp::getPrecision() { return Precision::Wide; }
Precision GatherGradientOp::getPrecision() { return Precision::Wide; }

/// A conversion to another type of numbers is the model's own.
Precision CastOp::getPrecision() {
  return isa<FloatType>(elementOf(getResult())) ? Precision::Wide : Precision::Follows;
}

/// The largest and smallest elements are not rounded once more.
Precision ReduceOp::getPrecision() {
  return getKind() == ReduceKind::Max || getKind() == ReduceKind::Min ? Precision::Follows : Precision::Wide;
}

/// Scale, bias and statistics are one value a channel.
bool BatchNormOp::keepsWide(unsigned operand) { return operand != 0; }

Value DotGeneralOp::buildWide(OpBuilder &builder) {
  return DotGeneralOp::create(builder, getLoc(), getLhs(), getRhs(), getLhsBatch(), getRhsBatch(), getLhsContracting(),
                              getRhsContracting(), /*wide=*/true);
}

Value ConvFilterGradientOp::buildWide(OpBuilder &builder) {
  return ConvFilterGradientOp::create(builder, getLoc(), getType().clone(builder.getF32Type()), getInput(),
                                      getCotangent(), getStrides(), getPads(), getDilations(), getGroups());
}

} // namespace cleave::dfg
