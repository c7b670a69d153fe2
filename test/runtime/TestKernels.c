// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Native kernels for the runtime's tests, with the calling convention of plan.fbs. All tensors are f32 vectors, of any
// length but for `fixed`'s.

#include <signal.h>
#include <stdint.h>
#include <time.h>

#define TAKES(symbol, ...) const int64_t symbol##Takes[] __asm__(#symbol ".declared") = {__VA_ARGS__}
#define TAKES_ANY(symbol) TAKES(symbol, -1)
TAKES_ANY(twice);
TAKES_ANY(add);
TAKES_ANY(nap);
TAKES_ANY(rangeLength);
TAKES_ANY(crash);
TAKES_ANY(score4);
TAKES_ANY(score2);
TAKES_ANY(judge);
TAKES_ANY(learn);

/// out = in, of four elements, with 16 bytes of scratch memory
TAKES(fixed, 4, 3, 16, 16, 16);
void fixed(void **arguments, int64_t begin, int64_t end) {
  const float *in = arguments[0];
  float *out = arguments[1], *scratch = arguments[2];
  for (int64_t i = begin; i < end; ++i)
    out[i] = scratch[i] = in[i];
}

/// declares nothing
void undeclared(void **arguments, int64_t begin, int64_t end) {
  (void)arguments;
  (void)begin;
  (void)end;
}

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

/// partial = what 4 / n devices add up to of a batch of 4, with p = w[0] x + w[1]: the squared errors, their gradients by w,
/// and how often p is on the label's side of 0.5; a negative label counts for nothing
static void scoreSamples(void **arguments, int64_t n) {
  const float *x = arguments[0];
  const int64_t *label = arguments[1];
  const float *w = arguments[2];
  float *partial = arguments[3];
  float sums[4] = {0, 0, 0, 0};
  for (int64_t i = 0; i < n; ++i) {
    float p = w[0] * x[i] + w[1], error = p - (float)label[i];
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
void score4(void **arguments, int64_t begin, int64_t end) {
  (void)begin;
  (void)end;
  scoreSamples(arguments, 4);
}
void score2(void **arguments, int64_t begin, int64_t end) {
  (void)begin;
  (void)end;
  scoreSamples(arguments, 2);
}

/// loss = partial[0] / 4, correct = partial[3]
void judge(void **arguments, int64_t begin, int64_t end) {
  const float *partial = arguments[0];
  float *loss = arguments[1];
  int64_t *correct = arguments[2];
  (void)begin;
  (void)end;
  *loss = partial[0] / 4;
  *correct = (int64_t)partial[3];
}

/// the same, and next = w - 0.1 times the gradient's mean
void learn(void **arguments, int64_t begin, int64_t end) {
  const float *partial = arguments[0], *w = arguments[1];
  float *loss = arguments[2], *next = arguments[4];
  int64_t *correct = arguments[3];
  (void)begin;
  (void)end;
  *loss = partial[0] / 4;
  *correct = (int64_t)partial[3];
  for (int i = 0; i < 2; ++i)
    next[i] = w[i] - 0.1f * partial[1 + i] / 4;
}
