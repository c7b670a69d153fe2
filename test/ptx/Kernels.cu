// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that nvcc compiles for the interpreter's tests: what CUDA C++ programs do that others' PTX does not show.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/// The sum of n numbers by one block, through shuffles and shared memory, static and dynamic.
extern "C" __global__ void blockSum(const float *x, float *sum, int n) {
  extern __shared__ float own[];
  __shared__ float ofWarp[32];
  float value = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    value += x[i];
  own[threadIdx.x] = value;
  __syncthreads();
  value = own[blockDim.x - 1 - threadIdx.x];
  for (int distance = 16; distance; distance /= 2)
    value += __shfl_down_sync(~0u, value, distance);
  if (threadIdx.x % 32 == 0)
    ofWarp[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x >= 32)
    return;
  value = threadIdx.x < blockDim.x / 32 ? ofWarp[threadIdx.x] : 0;
  for (int distance = 16; distance; distance /= 2)
    value += __shfl_xor_sync(~0u, value, distance);
  if (threadIdx.x == 0)
    *sum = value;
}

/// A product of matrices of n by n in tiles of 16 by 16, one block of 256 threads a tile.
extern "C" __global__ void tiledProduct(const float *a, const float *b, float *c, int n) {
  __shared__ float left[16][17], right[16][17];
  int tiles = n / 16, row = threadIdx.x / 16, column = threadIdx.x % 16;
  int i = blockIdx.x / tiles * 16 + row, j = blockIdx.x % tiles * 16 + column;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    left[row][column] = a[i * n + k + column];
    right[row][column] = b[(k + row) * n + j];
    __syncthreads();
    for (int l = 0; l < 16; ++l)
      sum += left[row][l] * right[l][column];
    __syncthreads();
  }
  c[i * n + j] = sum;
}

/// Pairs of halves, in both formats.
extern "C" __global__ void halves(const __half2 *x, const __nv_bfloat162 *z, float *y) {
  __half2 a = x[threadIdx.x];
  a = __hfma2(a, a, __hmax2(a, __float2half2_rn(0.5f)));
  __nv_bfloat162 b = z[threadIdx.x];
  b = __hadd2(__hmul2(b, b), b);
  y[4 * threadIdx.x] = __low2float(a);
  y[4 * threadIdx.x + 1] = __half2float(hexp(__high2half(a)));
  y[4 * threadIdx.x + 2] = __bfloat162float(b.x);
  y[4 * threadIdx.x + 3] = __hlt(b.y, b.x) ? 1.0f : 0.0f;
}

/// Mathematical functions, with their slow paths for large arguments.
extern "C" __global__ void functions(const float *x, float *single, double *wide) {
  float v = x[threadIdx.x];
  double w = v;
  single[4 * threadIdx.x] = sinf(v);
  single[4 * threadIdx.x + 1] = v / 3.0f;
  single[4 * threadIdx.x + 2] = sqrtf(fabsf(v));
  single[4 * threadIdx.x + 3] = erff(v);
  wide[4 * threadIdx.x] = cos(w);
  wide[4 * threadIdx.x + 1] = w / 3.0;
  wide[4 * threadIdx.x + 2] = cbrt(w);
  wide[4 * threadIdx.x + 3] = tgamma(w / 10);
}

__constant__ int table[4] = {7, 5, 3, 2};
__device__ int counter = 100;

__noinline__ __device__ int4 reversed(int4 v) { return make_int4(v.w, v.z, v.y, v.x); }
__noinline__ __device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

/// Calls with structures and recursion, an array indexed at run time, a switch, 64-bit division, constants.
extern "C" __global__ void integers(int4 *values, long long *wide) {
  int4 v = reversed(values[threadIdx.x]);
  int digits[8];
  for (int i = 0, rest = v.x; i < 8; ++i, rest /= 10)
    digits[i] = rest % 10;
  int result;
  switch (v.w % 7) {
  case 0: result = fibonacci(10); break;
  case 1: result = __clz(v.x); break;
  case 2: result = __popc(v.x); break;
  case 3: result = __brev(v.x); break;
  case 4: result = table[v.y & 3]; break;
  case 5: result = __vadd4(v.x, v.y); break;
  default: result = __byte_perm(v.x, v.y, 0x3715);
  }
  values[threadIdx.x] = make_int4(digits[v.y & 7], result, v.z, v.w);
  wide[2 * threadIdx.x] = 1000000007LL * v.x / (v.y - 50);
  wide[2 * threadIdx.x + 1] = __mul64hi(1LL << 40, (long long)v.x * v.y);
  atomicAdd(&counter, 1);
}

/// What a barrier counted, and the last value of a counter in global memory.
extern "C" __global__ void counts(int *result, int limit) {
  int inside = __syncthreads_count(threadIdx.x < limit);
  unsigned ballot = __ballot_sync(~0u, threadIdx.x % 3 == 0);
  if (threadIdx.x == 0) {
    result[0] = inside;
    result[1] = (int)ballot;
    result[2] = counter;
  }
}
