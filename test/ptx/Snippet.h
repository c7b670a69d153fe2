// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the interpreter's tests write PTX with: single instructions with their operands, and whole kernels.

#ifndef CLEAVE_TEST_PTX_SNIPPET_H
#define CLEAVE_TEST_PTX_SNIPPET_H

#include "PtxInterpreter.h"

#include <bit>
#include <gtest/gtest.h>

namespace cleave::ptx::test {

/// A source of a snippet: its bits, and how many of them there are (16, 32 or 64).
struct Source {
  Source(uint16_t value) : bits(value), width(16) {}
  Source(int16_t value) : bits(static_cast<uint16_t>(value)), width(16) {}
  Source(uint32_t value) : bits(value), width(32) {}
  Source(int32_t value) : bits(static_cast<uint32_t>(value)), width(32) {}
  Source(uint64_t value) : bits(value), width(64) {}
  Source(int64_t value) : bits(static_cast<uint64_t>(value)), width(64) {}
  Source(float value) : bits(std::bit_cast<uint32_t>(value)), width(32) {}
  Source(double value) : bits(std::bit_cast<uint64_t>(value)), width(64) {}
  uint64_t bits;
  int width;
};

/// The text's head, for sm_90.
std::string header();

/// An entry "k" whose parameters of 64 bits are %p0, %p1, … as registers; `body` may use predicates %q0 to %q3 and
/// registers %h0 to %h9 (16 bits), %r0 to %r19 and %d0 to %d19.
std::string kernel(int parameters, const std::string &body, const std::string &moduleVariables = "");

/// The module; the test fails without one.
Module parsed(const std::string &ptx);

/// Runs `kernel` and gives the error, "" if there is none.
std::string runKernel(const std::string &ptx, const Launch &launch, const Memory &memory);

/// Runs `code` in one thread, with sources %a, %b, %c and %e, and gives the bits of its result %d of `width` bits.
/// Predicates %q0 to %q3 may be used.
uint64_t evaluateBits(int width, const std::string &code, const std::vector<Source> &sources);

template <typename T> T evaluate(const std::string &code, const std::vector<Source> &sources) {
  uint64_t bits = evaluateBits(sizeof(T) == 1 ? 32 : 8 * sizeof(T), code, sources);
  if constexpr (sizeof(T) == 8)
    return std::bit_cast<T>(bits);
  else if constexpr (sizeof(T) == 4)
    return std::bit_cast<T>(static_cast<uint32_t>(bits));
  else
    return static_cast<T>(bits);
}

/// Whether the predicate %q0 that `code` sets is true.
bool holds(const std::string &code, const std::vector<Source> &sources);

} // namespace cleave::ptx::test

#endif
