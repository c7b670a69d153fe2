// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operations that oneDNN computes, each a function from a description to a primitive descriptor. OneDnn.h says what
// their arguments and attributes mean.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNNOPERATIONS_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNNOPERATIONS_H

#include "runtime/drivers/cpu/OneDnnBuilder.h"

namespace cleave::runtime::onednn {

// OneDnnContraction.cpp
Primitive buildConvolution(Builder &builder);
Primitive buildConvolutionWeights(Builder &builder);
Primitive buildDeconvolution(Builder &builder);
Primitive buildMatmul(Builder &builder);
Primitive buildInnerProduct(Builder &builder);
/// Weights with the group dimension in front where there are groups: [G, A/G, B, kernel...] from [A, B, kernel...].
std::vector<int64_t> weightView(const Builder &builder, const TensorType &weights, int64_t groups);
// OneDnnWinograd.cpp
Primitive buildWinogradWeights(Builder &builder);
// OneDnnWindow.cpp
Primitive buildPooling(Builder &builder);
Primitive buildPoolingGradient(Builder &builder);
// OneDnnReduction.cpp
Primitive buildReduction(Builder &builder);
// OneDnnNormalization.cpp
Primitive buildSoftmax(Builder &builder);
Primitive buildLayerNorm(Builder &builder);
Primitive buildBatchNorm(Builder &builder);
Primitive buildLrn(Builder &builder);
// OneDnnElementwise.cpp
Primitive buildEltwise(Builder &builder);
Primitive buildBinary(Builder &builder);
Primitive buildSum(Builder &builder);
Primitive buildConcat(Builder &builder);
Primitive buildReorder(Builder &builder);

} // namespace cleave::runtime::onednn

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNNOPERATIONS_H
