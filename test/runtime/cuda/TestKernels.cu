// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of TestKernels.c for GPUs. A launch has as many threads as the output has elements; those that work on
// single values use the first.

#include <stdint.h>

static __device__ unsigned index() { return blockIdx.x * blockDim.x + threadIdx.x; }

/// out = 2 * in
extern "C" __global__ void twice(const float *in, float *out) { out[index()] = 2 * in[index()]; }

/// out = left + right
extern "C" __global__ void add(const float *left, const float *right, float *out) {
  out[index()] = left[index()] + right[index()];
}

/// out = in, slowly: some milliseconds of sums that each need the one before. They come to 1 from any number, which the
/// compiler must not know.
extern "C" __global__ void nap(const float *in, float *out) {
  float value = in[index()], one = value;
#pragma unroll 1
  for (int i = 0; i < 3000000; ++i)
    one = one * 0.5f + 0.5f;
  out[index()] = value * one;
}

/// reads where nothing is
extern "C" __global__ void crash(const float *in, float *out) { out[index()] = in[index() + (1ull << 40)]; }

/// partial = what `n` samples add up to; see TestKernels.c
static __device__ void scoreSamples(const float *x, const int64_t *label, const float *w, float *partial, int n) {
  if (index() != 0)
    return;
  float sums[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < n; ++i) {
    float p = w[0] * x[i] + w[1], error = p - static_cast<float>(label[i]);
    if (label[i] < 0)
      continue;
    sums[0] += error * error;
    sums[1] += 2 * error * x[i];
    sums[2] += 2 * error;
    sums[3] += (p > 0.5f) == (label[i] == 1);
  }
  for (int i = 0; i < 4; ++i)
    partial[i] = sums[i];
}
extern "C" __global__ void score4(const float *x, const int64_t *label, const float *w, float *partial) {
  scoreSamples(x, label, w, partial, 4);
}
extern "C" __global__ void score2(const float *x, const int64_t *label, const float *w, float *partial) {
  scoreSamples(x, label, w, partial, 2);
}

/// loss = partial[0] / 4, correct = partial[3]
extern "C" __global__ void judge(const float *partial, float *loss, int64_t *correct) {
  if (index() != 0)
    return;
  *loss = partial[0] / 4;
  *correct = static_cast<int64_t>(partial[3]);
}

/// the same, and next = w - 0.1 times the gradient's mean
extern "C" __global__ void learn(const float *partial, const float *w, float *loss, int64_t *correct, float *next) {
  if (index() != 0)
    return;
  *loss = partial[0] / 4;
  *correct = static_cast<int64_t>(partial[3]);
  for (int i = 0; i < 2; ++i)
    next[i] = w[i] - 0.1f * partial[1 + i] / 4;
}
