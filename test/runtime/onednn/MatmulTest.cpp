// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products and inner products against loops, with transposed operands, batches and bias.

#include "KernelHarness.h"
#include "runtime/MemoryLayout.h"

#include <cmath>

using namespace cleave::runtime;
using namespace cleave::runtime::test;

namespace {

/// The operand's element for an index of the result's batch dimensions, then row and column: missing and size-1
/// dimensions broadcast.
double element(const Tensor &operand, const Shape &batch, int64_t row, int64_t column) {
  Shape index;
  size_t own = operand.shape.size() - 2;
  for (size_t d = 0; d != own; ++d)
    index.push_back(operand.shape[d] == 1 ? 0 : batch[batch.size() - own + d]);
  index.push_back(row);
  index.push_back(column);
  return operand.at(index);
}

Tensor product(const Tensor &a, const Tensor &b, const Tensor *bias, const Shape &shape, bool magnitude) {
  return tabulate(shape, [&](const Shape &index) {
    Shape batch(index.begin(), index.end() - 2);
    double total = bias ? bias->values[index.back()] : 0;
    total = magnitude ? std::fabs(total) : total;
    for (int64_t k = 0; k != a.shape.back(); ++k) {
      double term = element(a, batch, index[index.size() - 2], k) * element(b, batch, k, index.back());
      total += magnitude ? std::fabs(term) : term;
    }
    return total;
  });
}

void expectProduct(const LibraryKernelQuery &query, const std::vector<Tensor> &inputs) {
  const Tensor *bias = inputs.size() > 2 ? &inputs[2] : nullptr;
  const Shape &shape = query.desc.outputs[0].shape;
  expectSums(runKernel(query, inputs), product(inputs[0], inputs[1], bias, shape, false),
             product(inputs[0], inputs[1], bias, shape, true), inputs[0].shape.back() + 1);
}

struct Sizes {
  Shape a, b, result;
};

class Matmul : public testing::TestWithParam<Sizes> {};

} // namespace

// Batches and broadcasting reach oneDNN in different forms (flattened to rows, or as batches), odd sizes pad blocks.
TEST_P(Matmul, MatchesItsDefinition) {
  const Sizes &sizes = GetParam();
  std::vector<Tensor> inputs{pseudorandom(sizes.a, 1), pseudorandom(sizes.b, 2),
                             pseudorandom({sizes.result.back()}, 3)};
  LibraryKernelQuery query = openQuery("matmul", inputs, sizes.result);
  expectProduct(query, inputs);
  query.anyInputs = {false, true, false};
  query.anyOutputs = {};
  expectProduct(query, inputs);
  query.anyInputs = {};
  expectProduct(query, inputs);
  inputs.pop_back();
  query.desc.inputs.pop_back();
  expectProduct(query, inputs);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Matmul,
                         testing::Values(Sizes{{1, 100}, {100, 37}, {1, 37}}, Sizes{{5, 17}, {17, 3}, {5, 3}},
                                         Sizes{{64, 128}, {128, 64}, {64, 64}}, Sizes{{2, 5, 17}, {17, 33}, {2, 5, 33}},
                                         Sizes{{2, 5, 17}, {2, 17, 9}, {2, 5, 9}},
                                         Sizes{{2, 3, 5, 17}, {2, 3, 17, 9}, {2, 3, 5, 9}},
                                         Sizes{{2, 3, 5, 17}, {1, 3, 17, 9}, {2, 3, 5, 9}},
                                         Sizes{{2, 3, 5, 17}, {1, 1, 17, 9}, {2, 3, 5, 9}}));

// A transposed weight (Gemm with transB) is the same bytes with permuted strides, for 2 and 3 dimensions.
TEST(MatmulTransposed, ReadsPermutedStrides) {
  std::vector<Tensor> inputs{pseudorandom({5, 17}, 1), pseudorandom({17, 9}, 2)};
  LibraryKernelQuery query = openQuery("matmul", inputs, {5, 9});
  query.anyInputs = {};
  const unsigned swapped[] = {1, 0};
  query.desc.inputs[0].layout = permutedLayout(inputs[0].shape, swapped);
  query.desc.inputs[1].layout = permutedLayout(inputs[1].shape, swapped);
  expectProduct(query, inputs);

  inputs = {pseudorandom({3, 5, 17}, 1), pseudorandom({3, 17, 9}, 2)};
  query = openQuery("matmul", inputs, {3, 5, 9});
  query.anyInputs = {};
  const unsigned swappedInside[] = {0, 2, 1};
  query.desc.inputs[1].layout = permutedLayout(inputs[1].shape, swappedInside);
  expectProduct(query, inputs);
}

// Rows of a multiple of 1 KiB meet in the cache. oneDNN's plain product asks for row-major weights all the same, at
// half its speed: they get a cache line between rows, and code that blocks them by itself keeps its own layout.
TEST(Matmul, KeepsRowsOfWeightsApartInTheCache) {
  for (int64_t columns : {256, 512, 500}) {
    std::vector<Tensor> inputs{pseudorandom({5, 17}, 1), pseudorandom({17, columns}, 2)};
    LibraryKernelQuery query = openQuery("matmul", inputs, {5, columns});
    query.anyInputs = {false, true};
    query.anyOutputs = {};
    auto choice = oneDnnLibrary().choose(query, 1);
    ASSERT_TRUE(choice) << choice.error().text();
    const TensorType &weights = choice->desc.inputs[1];
    if (choice->desc.implementation == "gemm:jit" && columns % 256 == 0) {
      ASSERT_TRUE(weights.layout);
      EXPECT_EQ(weights.layout->strides, (Shape{columns + 16, 1}));
      EXPECT_EQ(weights.layout->padded, weights.shape);
      // From the first element to the last: no row's gap is counted behind the last one.
      EXPECT_EQ(*weights.byteSize(), uint64_t(16 * (columns + 16) + columns) * 4);
    } else if (choice->desc.implementation == "gemm:jit") {
      EXPECT_FALSE(weights.layout);
    } else if (weights.layout) {
      EXPECT_NE(weights.layout->strides[0], columns + 16) << choice->desc.implementation;
    }
    expectProduct(query, inputs);
    // A weight that may not move, or that is read for one row, stays as it is.
    query.anyInputs = {};
    choice = oneDnnLibrary().choose(query, 1);
    ASSERT_TRUE(choice) << choice.error().text();
    EXPECT_FALSE(choice->desc.inputs[1].layout);
    inputs[0] = pseudorandom({1, 17}, 1);
    query = openQuery("matmul", inputs, {1, columns});
    query.anyInputs = {false, true};
    query.anyOutputs = {};
    choice = oneDnnLibrary().choose(query, 1);
    ASSERT_TRUE(choice) << choice.error().text();
    EXPECT_FALSE(choice->desc.implementation == "gemm:jit" && choice->desc.inputs[1].layout);
  }
}

// Inner product is there for activations that stay blocked and for weights that stay row-major; both must hold.
TEST(InnerProduct, ReadsBlockedActivations) {
  std::vector<Tensor> inputs{pseudorandom({2, 17, 3, 3}, 1), pseudorandom({10, 17, 3, 3}, 2), pseudorandom({10}, 3)};
  auto sum = [&](const Shape &index, bool magnitude) {
    double total = magnitude ? std::fabs(inputs[2].values[index[1]]) : inputs[2].values[index[1]];
    for (int64_t i = 0; i != 17 * 9; ++i) {
      double term = double(inputs[0].values[index[0] * 153 + i]) * inputs[1].values[index[1] * 153 + i];
      total += magnitude ? std::fabs(term) : term;
    }
    return total;
  };
  Tensor expected = tabulate({2, 10}, [&](const Shape &index) { return sum(index, false); });
  Tensor magnitude = tabulate({2, 10}, [&](const Shape &index) { return sum(index, true); });
  LibraryKernelQuery query = openQuery("inner_product", inputs, {2, 10});
  expectSums(runKernel(query, inputs), expected, magnitude, 154);
  query.anyInputs = {false, true, true};
  query.desc.inputs[0].layout = blockedLayout(inputs[0].shape, 1, 16);
  expectSums(runKernel(query, inputs), expected, magnitude, 154);
  query.anyInputs = {};
  query.desc.inputs[0].layout.reset();
  expectSums(runKernel(query, inputs), expected, magnitude, 154);
}
