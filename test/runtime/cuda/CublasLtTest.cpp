// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of matrices through cuBLASLt's interface, against loops over what the operation means.

#include "runtime/MemoryLayout.h"
#include "runtime/drivers/cuda/CudaRows.h"
#include "test/runtime/cuda/CudaLibraryHarness.h"
#include "test/runtime/cuda/SimulatedLibraries.h"

#include <cmath>
#include <numeric>

namespace cleave::runtime::test {
namespace {

/// An index of a [..., rows, columns] tensor that a product of larger batches reads: sizes of 1 broadcast.
Shape broadcast(const Shape &index, const Shape &shape) {
  Shape result(index.end() - shape.size(), index.end());
  for (size_t d = 0; d != shape.size(); ++d)
    if (shape[d] == 1)
      result[d] = 0;
  return result;
}

/// [..., M, K] x [..., K, N] -> output; `use` brings an element of an operand into what is multiplied.
Values product(
    const Values &a, const Values &b, const Shape &output,
    const std::function<double(double)> &use = [](double x) { return x; }) {
  return tabulate(output, [&](const Shape &index) {
    double sum = 0;
    for (int64_t k = 0; k != a.shape.back(); ++k) {
      Shape left = index, right = index;
      left.back() = k;
      right[right.size() - 2] = k;
      sum += use(a.at(broadcast(left, a.shape))) * use(b.at(broadcast(right, b.shape)));
    }
    return sum;
  });
}

double geluTanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

int64_t pick(std::mt19937 &random, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

/// Dimensions of a product's operand in an order that cuBLASLt reads: rows and columns exchanged, batches between.
std::optional<Layout> randomLayout(std::mt19937 &random, const Shape &shape) {
  std::vector<unsigned> order(shape.size());
  std::iota(order.begin(), order.end(), 0u);
  if (pick(random, 0, 1))
    std::swap(order[shape.size() - 2], order[shape.size() - 1]);
  if (shape.size() == 3 && pick(random, 0, 1))
    std::swap(order[0], order[1]);
  return permutedLayout(shape, order);
}

// Shapes, batches, broadcasting, transposes and both element types at random: leading dimensions and the order of
// operands are easily exchanged where sizes happen to be equal.
TEST(CublasLt, MultipliesMatrices) {
  std::mt19937 random(1);
  for (int i = 0; i != 200; ++i) {
    int64_t m = pick(random, 1, 5), n = pick(random, 1, 5), k = pick(random, 1, 6), batches = pick(random, 1, 3);
    Shape left = {m, k}, right = {k, n}, output = {m, n};
    if (pick(random, 0, 1)) {
      output.insert(output.begin(), batches);
      left.insert(left.begin(), pick(random, 0, 2) ? batches : 1);
      if (left[0] != batches || pick(random, 0, 2))
        right.insert(right.begin(), pick(random, 0, 2) ? batches : 1);
    }
    bool isBf16 = pick(random, 0, 1);
    ElementType element = isBf16 ? ElementType::BF16 : ElementType::F32;
    ElementType result = pick(random, 0, 1) ? element : ElementType::F32;
    std::vector<Values> inputs = {randomValues(random, left, element), randomValues(random, right, element)};
    LibraryKernelDesc desc = describe("matmul", inputs, output, element);
    desc.outputs[0].element = result;
    for (TensorType &type : desc.inputs)
      type.layout = randomLayout(random, type.shape);
    SCOPED_TRACE(desc.text());
    expectNear(runLibraryKernel(desc, inputs), product(inputs[0], inputs[1], output),
               result == ElementType::BF16 ? 1.0 / 256 : 1e-6);
  }
}

// Each epilogue, and additions as the operation's own bias, as a post operation and in memory: all come before the
// activation.
TEST(CublasLt, AddsAndActivates) {
  std::mt19937 random(2);
  for (int batches : {1, 3})
    for (bool whole : {false, true})
      for (int bias : {0, 1, 2})
        for (const char *activation : {"", "relu", "gelu_tanh"}) {
          Shape output = {batches, 4, 6};
          std::vector<Values> inputs = {randomValues(random, {batches, 4, 5}), randomValues(random, {batches, 5, 6})};
          Values expected = product(inputs[0], inputs[1], output), row = randomValues(random, {6});
          Values other = randomValues(random, output);
          LibraryKernelDesc desc;
          if (bias == 1)
            inputs.push_back(row);
          if (whole) {
            desc.postOps.push_back({"binary_add", 0, 0, static_cast<int>(inputs.size())});
            inputs.push_back(other);
          }
          if (bias == 2) {
            desc.postOps.push_back({"binary_add", 0, 0, static_cast<int>(inputs.size())});
            inputs.push_back({{1, 1, 6}, row.values});
          }
          if (*activation)
            desc.postOps.push_back({activation});
          std::vector<LibraryPostOp> postOps = desc.postOps;
          desc = describe("matmul", inputs, output);
          desc.postOps = postOps;
          expected = tabulate(output, [&](const Shape &index) {
            double x = expected.at(index) + (bias ? row.values[index[2]] : 0) + (whole ? other.at(index) : 0);
            return std::string(activation) == "relu"        ? std::max(x, 0.0)
                   : std::string(activation) == "gelu_tanh" ? geluTanh(x)
                                                            : x;
          });
          SCOPED_TRACE(desc.text() + ' ' + activation);
          expectNear(runLibraryKernel(desc, inputs), expected, 1e-6);
        }
}

// The way back through GELU: what flows back, from a product and perhaps another way, times the slope at what GELU
// read. Slopes are differences of GELU itself.
TEST(CublasLt, MultipliesByGelusSlope) {
  std::mt19937 random(8);
  auto slope = [](double x) { return (geluTanh(x + 1e-4) - geluTanh(x - 1e-4)) / 2e-4; };
  for (ElementType element : {ElementType::F32, ElementType::BF16})
    for (int batches : {1, 3})
      for (bool whole : {false, true}) {
        Shape output = {batches, 5, 16};
        std::vector<Values> inputs = {randomValues(random, {batches, 5, 4}, element),
                                      randomValues(random, {batches, 4, 16}, element)};
        Values expected = product(inputs[0], inputs[1], output);
        std::vector<LibraryPostOp> postOps;
        if (whole) {
          postOps.push_back({"binary_add", 0, 0, static_cast<int>(inputs.size())});
          inputs.push_back(randomValues(random, output, element));
        }
        Values other = inputs.back(), kept = randomValues(random, output, element);
        // GELU bends where its input is a few units large.
        for (double &x : kept.values)
          x *= 4;
        postOps.push_back({"gelu_tanh_gradient", 0, 0, static_cast<int>(inputs.size())});
        inputs.push_back(kept);
        LibraryKernelDesc desc = describe("matmul", inputs, output, element);
        desc.postOps = postOps;
        for (size_t i = 0; i != expected.values.size(); ++i)
          expected.values[i] = (expected.values[i] + (whole ? other.values[i] : 0)) * slope(kept.values[i]);
        SCOPED_TRACE(desc.text());
        expectNear(runLibraryKernel(desc, inputs), expected, element == ElementType::BF16 ? 1.0 / 256 : 1e-6);
      }
}

// A residual or a sum that lies where the result goes is added once, and a `sum` elsewhere would be lost silently.
TEST(CublasLt, AddsInPlace) {
  std::mt19937 random(3);
  std::vector<Values> inputs = {randomValues(random, {4, 5}), randomValues(random, {5, 6}),
                                randomValues(random, {4, 6})};
  for (const char *kind : {"binary_add", "sum"})
    for (float scale : {0.0f, 0.5f}) {
      LibraryKernelDesc desc = describe("matmul", inputs, {4, 6});
      desc.postOps = {{kind, scale, 0, 2}};
      double factor = std::string(kind) == "sum" && scale != 0 ? scale : 1;
      Values expected = product(inputs[0], inputs[1], {4, 6});
      for (size_t i = 0; i != expected.values.size(); ++i)
        expected.values[i] += factor * inputs[2].values[i];
      expectNear(runLibraryKernel(desc, inputs, /*inPlace=*/2), expected, 1e-6);
    }
  LibraryKernelDesc desc = describe("matmul", inputs, {4, 6});
  desc.postOps = {{"sum", 0, 0, 2}};
  LibraryRun apart(desc, inputs);
  Error error = apart.kernel().enqueue(apart.arguments().data(), nullptr);
  ASSERT_TRUE(error);
  EXPECT_NE(error.message().find("expects input 2 in the output's buffer"), std::string::npos) << error.message();
}

// float32 is exact unless a plan asks for TF32, which has 10 bits.
TEST(CublasLt, RoundsToTf32WhenAsked) {
  std::mt19937 random(4);
  std::vector<Values> inputs = {randomValues(random, {4, 32}), randomValues(random, {32, 6})};
  LibraryKernelDesc desc = describe("matmul", inputs, {4, 6});
  Values exact = product(inputs[0], inputs[1], {4, 6});
  expectNear(runLibraryKernel(desc, inputs), exact, 1e-6);
  desc.ints["tf32"] = {1};
  Values fast = runLibraryKernel(desc, inputs);
  expectNear(fast, product(inputs[0], inputs[1], {4, 6}, simulated::roundedToTf32), 1e-6);
  double difference = 0;
  for (size_t i = 0; i != exact.values.size(); ++i)
    difference = std::max(difference, std::abs(fast.values[i] - exact.values[i]));
  EXPECT_GT(difference, 1e-5);
}

// Of the algorithms that the workspace allows the fastest runs: 3, 2 or 1 ms on the simulated GPU. Of the scratch up to
// 192 bytes are lost to alignment.
TEST(CublasLt, ChoosesByMeasuring) {
  std::mt19937 random(5);
  std::vector<Values> inputs = {randomValues(random, {8, 5}), randomValues(random, {5, 8})};
  LibraryKernelDesc desc = describe("matmul", inputs, {8, 8});
  for (auto [scratch, milliseconds] : {std::pair{uint64_t(0), 3.0},
                                       {uint64_t(512) + 192, 2.0},
                                       {uint64_t(511) + 192, 3.0},
                                       {uint64_t(32) << 20, 1.0}}) {
    LibraryRun kernel(desc, inputs, -1, scratch);
    kernel.choose();
    EXPECT_EQ(kernel.time(), milliseconds) << scratch;
  }
}

// Equal kernels are measured once in a process; a kernel of another shape, layout or epilogue is another one.
TEST(CublasLt, RemembersWhatItChose) {
  std::mt19937 random(6);
  std::vector<Values> inputs = {randomValues(random, {8, 7}), randomValues(random, {7, 8})};
  LibraryKernelDesc desc = describe("matmul", inputs, {8, 8});
  auto kernelsOfChoosing = [&](const LibraryKernelDesc &asked) {
    LibraryRun kernel(asked, inputs);
    int before = simulatedKernels();
    kernel.choose();
    EXPECT_EQ(kernel.time(), 2.0);
    return simulatedKernels() - before - 1;
  };
  EXPECT_GT(kernelsOfChoosing(desc), 2);
  EXPECT_EQ(kernelsOfChoosing(desc), 1) << "one run loads the code";
  LibraryKernelDesc other = desc;
  const unsigned transposed[] = {1, 0};
  other.inputs[0].layout = permutedLayout(other.inputs[0].shape, transposed);
  EXPECT_GT(kernelsOfChoosing(other), 2);
  other = desc;
  other.postOps = {{"relu"}};
  EXPECT_GT(kernelsOfChoosing(other), 2);
}

/// A library that is slow where columns begin anywhere, for as long as it lives.
struct SlowWhereMisaligned {
  SlowWhereMisaligned() { simulated::libraryRefusals.misalignmentTime = 50; }
  ~SlowWhereMisaligned() { simulated::libraryRefusals.misalignmentTime = 0; }
};

// Where matrices have columns of no multiple of 16 bytes, and enough operations: they are copied, where that takes less
// time, with the dimension that is too short in all that have it. A bias and an activation are as before.
TEST(CublasLt, CopiesMisalignedMatrices) {
  std::mt19937 random(9);
  struct Case {
    Shape left, right, output;
  };
  const Case cases[] = {{{412, 301}, {301, 408}, {412, 408}},  // the depth, along and across
                        {{408, 416}, {416, 301}, {408, 301}}}; // the result's rows
  for (const Case &each : cases) {
    const ElementType element = ElementType::BF16;
    std::vector<Values> inputs = {randomValues(random, each.left, element), randomValues(random, each.right, element),
                                  randomValues(random, {each.output.back()}, element)};
    LibraryKernelDesc desc = describe("matmul", inputs, each.output, element);
    desc.postOps = {{"relu"}};
    SCOPED_TRACE(desc.text());
    Values expected = product(inputs[0], inputs[1], each.output);
    for (size_t i = 0; i != expected.values.size(); ++i)
      expected.values[i] = std::max(0.0, expected.values[i] + inputs[2].values[i % each.output.back()]);
    SlowWhereMisaligned slow;
    LibraryRun kernel(desc, inputs);
    kernel.choose();
    EXPECT_LT(kernel.time(), 50);
    expectNear(kernel.run(), expected, 1.0 / 128);
  }
}

/// Copies rows of numbered elements from one place in a vector of 16 bytes to another, and compares all that is there.
template <typename Element> void expectRowsCopied(const CudaRowsDesc &desc, unsigned from, unsigned to) {
  constexpr Element untouched = 0xabcd;
  alignas(16) static Element source[8192], target[8192];
  std::iota(std::begin(source), std::end(source), Element(1));
  std::fill(std::begin(target), std::end(target), untouched);
  std::vector<Element> expected(std::begin(target), std::end(target));
  for (uint64_t row = 0; row != desc.allRows; ++row)
    for (uint64_t i = 0; i != desc.allWidth; ++i)
      expected[to + row * desc.targetDistance + i] =
          row < desc.rows && i < desc.width ? source[from + row * desc.sourceDistance + i] : Element(0);
  auto rows = CudaRows::load(simulatedRuntime(), sizeof(Element) == 2 ? ElementType::BF16 : ElementType::F32);
  ASSERT_TRUE(rows) << rows.error().text();
  ASSERT_FALSE(rows->enqueue(source + from, target + to, desc, nullptr));
  finishSimulated();
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), target))
      << sizeof(Element) << " bytes, " << desc.rows << " rows of " << desc.width << " at " << from << " of "
      << desc.sourceDistance << " to " << desc.allRows << " of " << desc.allWidth << " at " << to << " of "
      << desc.targetDistance;
}

// Rows that begin and end anywhere in vectors of 16 bytes, to rows that do: all of them, the zeros around them, and
// nothing else.
TEST(CudaRows, GoFromAndToAnyPlace) {
  std::mt19937 random(11);
  for (int i = 0; i != 150; ++i) {
    CudaRowsDesc desc;
    desc.rows = 1 + random() % 3;
    desc.width = random() % 4 ? 1 + random() % 70 : 1000 + random() % 1000;
    desc.allRows = desc.rows + random() % 2;
    desc.allWidth = desc.width + (random() % 2 ? random() % 20 : 0);
    desc.sourceDistance = desc.width + random() % 9;
    desc.targetDistance = desc.allWidth + random() % 9;
    unsigned from = random() % 9, to = random() % 9;
    if (from + desc.rows * desc.sourceDistance > 8192 || to + desc.allRows * desc.targetDistance > 8192)
      continue;
    expectRowsCopied<uint16_t>(desc, from, to);
    expectRowsCopied<uint32_t>(desc, from, to);
  }
}

// Without room for copies in the plan's scratch there are none.
TEST(CublasLt, CopiesNothingWithoutRoom) {
  std::mt19937 random(10);
  SlowWhereMisaligned slow;
  std::vector<Values> inputs = {randomValues(random, {412, 301}, ElementType::BF16),
                                randomValues(random, {301, 409}, ElementType::BF16)};
  LibraryRun kernel(describe("matmul", inputs, {412, 409}, ElementType::BF16), inputs, -1, uint64_t(1) << 18);
  kernel.choose();
  EXPECT_GE(kernel.time(), 50);
}

// Sums of bfloat16 are made in float32 to their end: 257, half of this sum, is no bfloat16.
TEST(CublasLt, AddsPartialSumsInFloat) {
  Values ones = tabulate({2, 514}, [](const Shape &) { return 1; });
  Values signs = tabulate({514, 8}, [](const Shape &at) { return at[0] < 257 ? 1 : at[0] == 513 ? 0 : -1; });
  Values expected = tabulate({2, 8}, [](const Shape &) { return 1; });
  LibraryKernelDesc desc = describe("matmul", {ones, signs}, {2, 8}, ElementType::BF16);
  expectNear(runLibraryKernel(desc, {ones, signs}), expected, 0);
}

// What the library refuses is said with library, routine and status.
TEST(CublasLt, NamesWhatFailed) {
  std::mt19937 random(7);
  std::vector<Values> inputs = {randomValues(random, {4, 5}), randomValues(random, {5, 6})};
  LibraryRun kernel(describe("matmul", inputs, {4, 6}), inputs);
  std::vector<void *> arguments = kernel.arguments();
  arguments[0] = static_cast<std::byte *>(arguments[0]) + 4;
  Error error = kernel.kernel().enqueue(arguments.data(), nullptr);
  ASSERT_TRUE(error);
  for (const char *part : {"cublaslt kernel \"matmul\" f32[4,5]", "cublasLtMatmul", "invalid value (simulated)"})
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
}

} // namespace
} // namespace cleave::runtime::test
