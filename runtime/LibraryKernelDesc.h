// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a plan describes a kernel that a library computes, whichever library it is: the compiler asks libraries with such
// descriptions, the runtime loads kernels from them.
//
// Operations and their arguments. A library may have a part of them, and says so when asked. Dense inputs may have any
// layout that the plan can record. Integer attributes unless said otherwise; [n] is one value a spatial dimension, with
// the default for none given in parentheses.
//
//   convolution      data [N, C, spatial...], weights, optional bias [O] -> [N, O, spatial...]; 1 to 3 spatial
//                    dimensions; strides [n] (1), dilations [n] (1: dense), pads_begin [n] (0), pads_end [n] (0),
//                    groups (1). Weights are [O, C, kernel...]; grouped ones are [G, O/G, C/G, kernel...], which has
//                    the bytes of the plain [O, C/G, kernel...]. That shape is accepted for a dense argument, and a
//                    chosen blocked layout is always recorded for the shape with G.
//   deconvolution    as convolution, with weights [C, O, kernel...] or [G, C/G, O/G, kernel...]. pads_begin and
//                    pads_end are those of the forward convolution; the output's shape implies the output padding.
//   convolution_weights
//                    the data of a convolution, its cotangent -> the gradient of its weights; attributes as the
//                    convolution's
//   convolution.winograd, deconvolution.winograd, convolution_weights.winograd
//                    the same for windows of 3 x 3 pixels, strides and dilations of 1 and no groups, by Winograd's
//                    algorithm, whose rounding errors are a few times as large. The weights of a convolution may be
//                    what winograd_weights makes of them.
//   winograd_weights weights [O, C, 3, 3] -> [36, C, O], the last filled up with zeros; or a list in a format of the
//                    library's own, for a convolution from data [4] to result [4] with pads_begin and pads_end: then
//                    `format`, in both kernels, are numbers that tell formats apart.
//   matmul           a [..., M, K], b [..., K, N], optional bias [N] -> [..., M, N]; batch dimensions of 1 broadcast; a
//                    transposed operand is a type of the product's shape with permuted strides (permutedLayout).
//   gather_matmul    a [rows..., K], matrices [E, K, N] ([E, N, K] where `transposed` (0) is 1), indices [rows...] of
//                    int64 -> [rows..., N]: each row times the matrix that its index chooses, zero where there is
//                    none; dimensions of 1 of a broadcast. `total` (E): how many matrices there are on all devices.
//   scatter_matmul   a [rows..., M], b [rows..., N], indices [rows...] of int64 -> [E, M, N]: the sum of the outer
//                    products of the rows with each index; dimensions of 1 broadcast; `total` as above.
//   attention        queries [B, H, S, D], keys [B, H, T, D], values [B, H, T, D] -> [B, H, S, D]: softmax(scale
//   queries
//                    keys^T) values, and if asked for, as a second output [B, H, S, 1] of float32, the logarithms of
//                    the softmax's sums of powers; real scale (1); causal (0): 1 hides key j from query i where j > i;
//                    positions_first (0): 1 has [B, S, H, D] in the place of [B, H, S, D]
//   attention_gradient
//                    queries, keys, values, attention's two outputs, the cotangent of the first -> the gradients of
//                    queries, keys and values; attributes as the attention's
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
// Convolution and matmul multiply unsigned integers of 8 bits on the left by signed ones on the right, too, where the
// library says that it can. Sums are exact, and int32 as results. A bias is int32 then. Behind it, sums become float32
// for post operations, and results are float32, or integers of 8 bits, rounded to the nearest, halves to even, and
// saturated.
//
// Of contractions, `tf32` (0): 1 lets float32 be rounded to 10 bits of mantissa before it is multiplied.
//
// Post operations, in order, for convolution, deconvolution, matmul, inner_product, and where the library offers them:
//   relu, leaky_relu (alpha), elu (alpha), clip (from alpha to beta), sigmoid, tanh, gelu_erf, gelu_tanh, hard_swish,
//   and the further eltwise kinds above; `sum` adds what the output buffer held before: its argument is an input that
//   must be the same buffer as the output and have its type (alpha scales it; 0 means 1); binary_add, binary_sub,
//   binary_mul, binary_div, binary_max, binary_min take an input of the output's shape or one that broadcasts to it.
//   scale, first if at all, multiplies the sums of convolution and matmul, with their bias, by its input's one element
//   or one a channel, which stay the same from call to call: they may become a part of the kernel.
//   gelu_tanh_gradient multiplies by gelu_tanh's derivative at such an input. Their inputs follow the operation's own.

#ifndef CLEAVE_RUNTIME_LIBRARYKERNELDESC_H
#define CLEAVE_RUNTIME_LIBRARYKERNELDESC_H

#include "runtime/TensorType.h"

#include <map>
#include <string>
#include <vector>

namespace cleave::runtime {

struct Kernel;
struct LibraryKernel;

/// A fused epilogue. `argument` is the index of the kernel input that it reads (sum and binary), or -1.
struct LibraryPostOp {
  std::string kind;
  float alpha = 0, beta = 0;
  int argument = -1;
};

/// A library kernel as the plan describes it. An attribute holds integers or reals.
struct LibraryKernelDesc {
  std::string library;
  std::string operation;
  std::map<std::string, std::vector<int64_t>> ints;
  std::map<std::string, std::vector<double>> reals;
  std::vector<LibraryPostOp> postOps;
  std::vector<TensorType> inputs, outputs;
  uint64_t scratchBytes = 0;
  /// What the library chose when the plan was made, for people.
  std::string implementation;

  /// The operation with the types of its arguments, for messages: "\"matmul\" f32[2,3] f32[3,4] -> f32[2,4]".
  std::string text() const;
};

/// The description of a plan's kernel, whose body is `library`.
LibraryKernelDesc describeLibraryKernel(const Kernel &kernel, const LibraryKernel &library);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_LIBRARYKERNELDESC_H
