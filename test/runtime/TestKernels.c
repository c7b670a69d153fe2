// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Native kernels for the runtime's tests, with the calling convention of plan.fbs. All tensors are f32 vectors.

#include <signal.h>
#include <stdint.h>
#include <time.h>

/// out = 2 * in
void twice(void **arguments, int64_t begin, int64_t end) {
  const float *in = arguments[0];
  float *out = arguments[1];
  for (int64_t i = begin; i < end; ++i)
    out[i] = 2 * in[i];
}

/// out = left + right
void add(void **arguments, int64_t begin, int64_t end) {
  const float *left = arguments[0], *right = arguments[1];
  float *out = arguments[2];
  for (int64_t i = begin; i < end; ++i)
    out[i] = left[i] + right[i];
}

/// out = in, slowly: 5 ms in which the processor is free
void nap(void **arguments, int64_t begin, int64_t end) {
  const float *in = arguments[0];
  float *out = arguments[1];
  struct timespec time = {0, 5000000};
  nanosleep(&time, 0);
  for (int64_t i = begin; i < end; ++i)
    out[i] = in[i];
}

/// out[i] = length of the range that the call with i in it was given
void rangeLength(void **arguments, int64_t begin, int64_t end) {
  float *out = arguments[0];
  for (int64_t i = begin; i < end; ++i)
    out[i] = (float)(end - begin);
}

/// does not return
void crash(void **arguments, int64_t begin, int64_t end) {
  (void)arguments;
  (void)begin;
  (void)end;
  raise(SIGSEGV);
}
