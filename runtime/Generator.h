// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values for parameters without a file, and for inputs that nobody gave: a counter-based generator, so that element i
// depends on the seed and i alone, whoever makes it and in whatever order.
//
// Counter c of seed s gives the 64-bit word mix(s + (c + 1) * 0x9e3779b97f4a7c15), where mix is the output function of
// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014). Its upper 53 bits make
// a number u(c) in [0, 1). Uniform: element i is a + (b - a) u(i). Normal (Box and Muller 1958): with
// r = sqrt(-2 ln(1 - u(2k))) and t = 2 pi u(2k+1), element 2k is a + b r cos t and element 2k+1 is a + b r sin t.
// Elements are computed in double and then converted (storeElement).

#ifndef CLEAVE_RUNTIME_GENERATOR_H
#define CLEAVE_RUNTIME_GENERATOR_H

#include "runtime/Plan.h"

namespace cleave::runtime {

/// The word that counter `counter` of a seed gives.
uint64_t randomWord(uint64_t seed, uint64_t counter);

/// Fills `target` with elements `first`, `first` + 1, ... of `source`; its size must be a multiple of the element's.
void generate(const GeneratedSource &source, ElementType type, std::span<std::byte> target, uint64_t first = 0);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_GENERATOR_H
