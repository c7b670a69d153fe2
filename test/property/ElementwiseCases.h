// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cases of one elementwise operator, whose operands broadcast.

#ifndef CLEAVE_TEST_PROPERTY_ELEMENTWISECASES_H
#define CLEAVE_TEST_PROPERTY_ELEMENTWISECASES_H

#include "test/property/KernelCases.h"

#include <functional>
#include <utility>

namespace cleave::test {

/// A shape of up to four dimensions and one that broadcasts to it.
std::pair<Shape, Shape> randomShapes(Random &random);

/// A case of the operator `name`; `element` sets one element of the result from the positions of the operands'
/// elements. Floats may differ by `ulps` units in the last place.
KernelCase makeCase(const std::string &name, const std::string &attributes, std::vector<Tensor> inputs, Tensor result,
                    const std::function<void(Tensor &, int64_t, const std::vector<int64_t> &)> &element, double ulps);

/// The bits of the number furthest below zero, or of the largest one without a sign.
int64_t extremeBits(const Tensor &tensor);

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_ELEMENTWISECASES_H
