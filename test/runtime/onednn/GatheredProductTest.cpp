// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products in which an index chooses each row's matrix, against loops: more rows of one matrix than are multiplied at
// once, matrices without rows, rows without a matrix, and dimensions that repeat.

#include "KernelHarness.h"
#include "runtime/MemoryLayout.h"

#include <array>
#include <cmath>
#include <cstring>
#include <random>

using namespace cleave::runtime;
using namespace cleave::runtime::test;

namespace {

/// Rows, and how many matrices there are.
struct Sizes {
  Shape rows, lhs, rhs;
  int64_t matrices;
};

const std::vector<Sizes> everySize = {
    {{5}, {5, 7}, {5, 9}, 3},
    {{700}, {700, 33}, {700, 20}, 2},
    {{90, 4}, {90, 1, 16}, {90, 4, 8}, 11},
    {{6, 1, 50}, {1, 1, 50, 12}, {6, 1, 1, 5}, 1},
};

LibraryKernelDesc describe(std::string operation, Shape lhs, Shape rhs, Shape rows, Shape output) {
  LibraryKernelDesc desc;
  desc.operation = std::move(operation);
  desc.inputs = {f32(std::move(lhs)), f32(std::move(rhs)), {ElementType::I64, std::move(rows), std::nullopt}};
  desc.outputs = {f32(std::move(output))};
  return desc;
}

/// Indices of which some have no matrix.
std::vector<int64_t> drawIndices(const Shape &rows, int64_t matrices, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> indices(elements(rows));
  for (int64_t &index : indices)
    index = static_cast<int64_t>(random() % static_cast<uint64_t>(matrices + 2)) - 1;
  return indices;
}

/// Where an operand has the row: dimensions of size one repeat.
Shape placeOf(const Tensor &operand, Shape row, int64_t last) {
  for (size_t d = 0; d != row.size(); ++d)
    row[d] = operand.shape[d] == 1 ? 0 : row[d];
  row.push_back(last);
  return row;
}

/// `body(row, index)` for every row.
void forEachRow(const Shape &rows, const std::vector<int64_t> &indices,
                const std::function<void(const Shape &, int64_t)> &body) {
  size_t position = 0;
  tabulate(rows, [&](const Shape &row) {
    body(row, indices[position++]);
    return 0.0;
  });
}

/// Fills the output and scratch with rubbish first.
Tensor run(const LibraryKernelDesc &desc, const Tensor &lhs, const Tensor &rhs, const std::vector<int64_t> &indices,
           unsigned threads) {
  auto choice = oneDnnLibrary().choose({desc, {}, {}}, threads);
  EXPECT_TRUE(choice) << choice.error().text();
  auto kernel = createOneDnnProvider()->load(choice->desc, threads);
  EXPECT_TRUE(kernel) << kernel.error().text();
  auto aligned = [](uint64_t bytes) {
    void *memory = std::aligned_alloc(64, (bytes + 127) / 64 * 64);
    std::memset(memory, 0x7f, bytes);
    return std::shared_ptr<void>(memory, std::free);
  };
  auto left = aligned(lhs.values.size() * 4), right = aligned(rhs.values.size() * 4);
  auto at = aligned(indices.size() * 8), out = aligned(choice->outputBytes[0]),
       scratch = aligned(choice->desc.scratchBytes);
  std::copy(lhs.values.begin(), lhs.values.end(), static_cast<float *>(left.get()));
  std::copy(rhs.values.begin(), rhs.values.end(), static_cast<float *>(right.get()));
  std::copy(indices.begin(), indices.end(), static_cast<int64_t *>(at.get()));
  void *arguments[] = {left.get(), right.get(), at.get(), out.get(), scratch.get()};
  Error error = (*kernel)->run(arguments);
  EXPECT_FALSE(error) << error.text();
  return unpack(static_cast<float *>(out.get()), desc.outputs[0], desc.outputs[0].shape);
}

} // namespace

TEST(GatheredProduct, GathersAsItsDefinition) {
  unsigned seed = 0;
  for (const Sizes &sizes : everySize)
    for (bool transposed : {false, true})
      for (unsigned threads : {1u, 2u}) {
        int64_t depth = sizes.lhs.back(), columns = sizes.rhs.back();
        Tensor lhs = pseudorandom(sizes.lhs, ++seed);
        Tensor w = pseudorandom({sizes.matrices, transposed ? columns : depth, transposed ? depth : columns}, ++seed);
        std::vector<int64_t> indices = drawIndices(sizes.rows, sizes.matrices, ++seed);
        Shape shape = sizes.rows;
        shape.push_back(columns);
        LibraryKernelDesc desc = describe("gather_matmul", lhs.shape, w.shape, sizes.rows, shape);
        desc.ints["transposed"] = {transposed ? 1 : 0};
        Tensor expected{shape, std::vector<float>(elements(shape))}, magnitude = expected;
        forEachRow(sizes.rows, indices, [&](const Shape &row, int64_t index) {
          for (int64_t n = 0; n != columns && index >= 0 && index < sizes.matrices; ++n) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k != depth; ++k) {
              double term = lhs.at(placeOf(lhs, row, k)) * w.at(transposed ? Shape{index, n, k} : Shape{index, k, n});
              sum += term;
              size += std::fabs(term);
            }
            Shape place = row;
            place.push_back(n);
            expected.at(place) = static_cast<float>(sum);
            magnitude.at(place) = static_cast<float>(size);
          }
        });
        expectSums(run(desc, lhs, w, indices, threads), expected, magnitude, depth);
      }
}

TEST(GatheredProduct, ScattersAsItsDefinition) {
  unsigned seed = 100;
  for (const Sizes &sizes : everySize)
    for (unsigned threads : {1u, 2u}) {
      Tensor lhs = pseudorandom(sizes.lhs, ++seed), rhs = pseudorandom(sizes.rhs, ++seed);
      std::vector<int64_t> indices = drawIndices(sizes.rows, sizes.matrices, ++seed);
      Shape shape = {sizes.matrices, sizes.lhs.back(), sizes.rhs.back()};
      std::vector<double> sums(elements(shape)), sizesOf(sums.size());
      forEachRow(sizes.rows, indices, [&](const Shape &row, int64_t index) {
        if (index < 0 || index >= sizes.matrices)
          return;
        for (int64_t m = 0; m != shape[1]; ++m)
          for (int64_t n = 0; n != shape[2]; ++n) {
            double term = lhs.at(placeOf(lhs, row, m)) * rhs.at(placeOf(rhs, row, n));
            size_t at = static_cast<size_t>((index * shape[1] + m) * shape[2] + n);
            sums[at] += term;
            sizesOf[at] += std::fabs(term);
          }
      });
      Tensor expected{shape, {sums.begin(), sums.end()}}, magnitude{shape, {sizesOf.begin(), sizesOf.end()}};
      LibraryKernelDesc desc = describe("scatter_matmul", lhs.shape, rhs.shape, sizes.rows, shape);
      expectSums(run(desc, lhs, rhs, indices, threads), expected, magnitude, elements(sizes.rows));
    }
}

// What a changed plan may say.
TEST(GatheredProduct, RefusesShapesThatDoNotFit) {
  auto refused = [](const LibraryKernelDesc &desc, Status status, const std::string &message) {
    auto kernel = createOneDnnProvider()->load(desc, 1);
    ASSERT_FALSE(kernel) << message;
    EXPECT_EQ(kernel.error().status(), status) << kernel.error().text();
    EXPECT_NE(kernel.error().message().find(message), std::string::npos) << kernel.error().text();
  };
  LibraryKernelDesc good = describe("gather_matmul", {5, 7}, {3, 7, 9}, {5}, {5, 9});
  good.scratchBytes = 1 << 20;
  ASSERT_TRUE(createOneDnnProvider()->load(good, 1));
  auto changed = [&](const std::function<void(LibraryKernelDesc &)> &change) {
    LibraryKernelDesc desc = good;
    change(desc);
    return desc;
  };
  refused(changed([](auto &desc) { desc.scratchBytes = 64; }), Status::Infeasible, "compile it on this machine");
  refused(changed([](auto &desc) { desc.inputs[2].shape = {4}; }), Status::Rejected, "an index for each row");
  refused(changed([](auto &desc) { desc.inputs[1].shape = {3, 8, 9}; }), Status::Rejected, "that take the rows");
  refused(changed([](auto &desc) { desc.ints["transposed"] = {1}; }), Status::Rejected, "that take the rows");
  refused(changed([](auto &desc) { desc.outputs[0].shape = {1, 9}; }), Status::Rejected, "an index for each row");
  refused(changed([](auto &desc) { desc.inputs[2].element = ElementType::I32; }), Status::Unsupported, "indices i64");
  refused(changed([](auto &desc) { desc.inputs[0].element = ElementType::BF16; }), Status::Unsupported, "f32");
  refused(changed([](auto &desc) { desc.inputs.pop_back(); }), Status::Rejected, "expects rows");
  refused(
      changed([](auto &desc) { desc.inputs[1].layout = permutedLayout(desc.inputs[1].shape, std::array{0u, 2u, 1u}); }),
      Status::Unsupported, "dense tensors");
  int64_t huge = int64_t(1) << 62;
  refused(changed([&](auto &desc) {
            desc.inputs[2].shape = {huge};
            desc.inputs[0].shape = {huge, 7};
            desc.outputs[0].shape = {huge, 9};
          }),
          Status::Unsupported, "dense tensors");
}
