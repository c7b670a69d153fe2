// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// oneDNN as a kernel library: the compiler asks it which layouts a kernel wants, the runtime loads the same kernel from
// the plan. This header names no oneDNN type.
//
// Operations and their arguments. Dense inputs may have any layout that the plan can record. Integer attributes unless
// said otherwise; [n] is one value a spatial dimension, with the default for none given in parentheses.
//
//   convolution      data [N, C, spatial...], weights, optional bias [O] -> [N, O, spatial...]; 1 to 3 spatial
//                    dimensions; strides [n] (1), dilations [n] (1: dense), pads_begin [n] (0), pads_end [n] (0),
//                    groups (1). Weights are [O, C, kernel...]; grouped ones are [G, O/G, C/G, kernel...], which has
//                    the bytes of the plain [O, C/G, kernel...]. That shape is accepted for a dense argument, and a
//                    chosen blocked layout is always recorded for the shape with G.
//   deconvolution    as convolution, with weights [C, O, kernel...] or [G, C/G, O/G, kernel...]. pads_begin and
//   pads_end
//                    are those of the forward convolution; the output's shape implies the output padding.
//   convolution_weights
//                    the data of a convolution, its cotangent -> the gradient of its weights; attributes as the
//                    convolution's
//   matmul           a [..., M, K], b [..., K, N], optional bias [N] -> [..., M, N]; batch dimensions of 1 broadcast; a
//                    transposed operand is a type of the product's shape with permuted strides (permutedLayout).
//   inner_product    data [N, ...], weights [O, ...], optional bias [O] -> [N, O]. Unlike matmul it reads blocked
//                    activations without a flatten. With a constant, blocked weight the two are equally fast at batch 1
//                    (memory bound); with a weight that stays row-major this one is.
//   pooling.max, pooling.avg_include, pooling.avg_exclude
//                    data -> data; kernel [n], strides, dilations, pads_begin, pads_end. The two averages count padding
//                    in the divisor, or not.
//   pooling_gradient.avg_include, pooling_gradient.avg_exclude
//                    the pooling's cotangent -> the gradient of its data; attributes as the pooling's
//   softmax, log_softmax
//                    data -> data; axis (-1)
//   layer_norm       data, optional scale, optional shift (of the normalized shape) -> data; axis (-1): the first
//                    normalized one; real epsilon (1e-5)
//   batch_norm       data, scale [C], shift [C], mean [C], variance [C] -> data; real epsilon (1e-5)
//   lrn              data -> data, across channels; size (odd), real alpha (1e-4), beta (0.75), k (1):
//                    y = x / (k + alpha / size * sum of x^2 over the window)^beta
//   eltwise.KIND     data -> data; real alpha (0), beta (0); the kinds of post operations below, and abs, exp, linear
//                    (alpha x + beta), log, mish, pow (alpha x^beta), round, soft_relu, sqrt, square, swish (alpha)
//   binary.KIND      a, b -> data; add, sub, mul, div, max, min; one side may broadcast
//   reduction.KIND   data -> data with kept (size 1) or dropped dimensions; axes; mean, sum, max, min, mul
//   concat           data... -> data; axis
//   sum              data... -> data; real scales (1 each)
//   reorder          data -> the same elements in another layout; a dense side may have another shape of as many
//                    elements
//
// Post operations, in order, for convolution, deconvolution, matmul, inner_product, and where oneDNN offers them:
//   relu, leaky_relu (alpha), elu (alpha), clip (from alpha to beta), sigmoid, tanh, gelu_erf, gelu_tanh, hard_swish,
//   and the further eltwise kinds above; `sum` adds what the output buffer held before: its argument is an input that
//   must be the same buffer as the output and have its type (alpha scales it; 0 means 1); binary_add, binary_sub,
//   binary_mul, binary_div, binary_max, binary_min take an input of the output's shape or one that broadcasts to it.
//   Inputs of post operations follow the operation's own.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNN_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNN_H

#include "runtime/drivers/cpu/LibraryKernel.h"

namespace cleave::runtime {

/// The library "onednn". It takes an output's, input's or scratch buffer's address as it comes in a call, and is
/// fastest when a kernel sees the same addresses again.
std::unique_ptr<LibraryProvider> createOneDnnProvider();

/// A kernel without a decision on all of its layouts. A type whose flag is set (flags beyond the end are not) has no
/// layout yet; the library is free to choose. `scratchBytes`, `implementation` and `library` of `desc` are not read.
struct LibraryKernelQuery {
  LibraryKernelDesc desc;
  std::vector<bool> anyInputs, anyOutputs;
};

/// The complete kernel: every type with the layout to use (none where dense and row-major is best), scratch bytes and
/// the name of the implementation; and the bytes that each argument's buffer needs. A type with a chosen layout may
/// have another shape of as many elements in the same row-major order: weights with groups, a bias of [1, N]. A reorder
/// takes the dense original to it.
struct LibraryChoice {
  LibraryKernelDesc desc;
  std::vector<uint64_t> inputBytes, outputBytes;
};

/// Asks oneDNN which layouts it prefers for a team of `threads` on this processor. Creates no code: about a
/// millisecond. Status::Unsupported when oneDNN cannot do it, Status::Rejected when the description contradicts itself.
/// Thread-safe.
Expected<LibraryChoice> chooseLibraryKernel(const LibraryKernelQuery &query, unsigned threads);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNN_H
