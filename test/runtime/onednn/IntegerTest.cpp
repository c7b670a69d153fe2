// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of unsigned by signed integers of 8 bits against loops: exact sums, and the way back to 8 bits. A processor
// whose sums would saturate must be refused them.

#include "KernelHarness.h"
#include "runtime/ElementType.h"
#include "runtime/MemoryLayout.h"

#include <dnnl.h>

#include <cmath>
#include <cstring>

using namespace cleave::runtime;
using namespace cleave::runtime::test;

namespace {

/// Numbers of any element type, in row-major order.
struct Numbers {
  ElementType element;
  Shape shape;
  std::vector<double> values;

  TensorType type() const { return {element, shape, std::nullopt}; }
};

/// Whole numbers from `low` to `high`.
Numbers whole(ElementType element, const Shape &shape, unsigned seed, int low, int high) {
  Tensor drawn = pseudorandom(shape, seed, static_cast<float>(low), static_cast<float>(high) + 1);
  Numbers numbers{element, shape, {}};
  for (float value : drawn.values)
    numbers.values.push_back(std::min<double>(std::floor(value), high));
  return numbers;
}

Numbers all(ElementType element, const Shape &shape, double value) {
  return {element, shape, std::vector<double>(elements(shape), value)};
}

Numbers reals(const Shape &shape, unsigned seed, float low, float high) {
  Tensor drawn = pseudorandom(shape, seed, low, high);
  return {ElementType::F32, shape, {drawn.values.begin(), drawn.values.end()}};
}

/// An element as the bytes of a buffer hold it.
void store(char *buffer, ElementType element, int64_t position, double value) {
  auto put = [&](auto number) { std::memcpy(buffer + position * sizeof(number), &number, sizeof(number)); };
  if (element == ElementType::F32)
    put(static_cast<float>(value));
  else if (element == ElementType::I32)
    put(static_cast<int32_t>(value));
  else
    buffer[position] = static_cast<char>(static_cast<int>(value));
}

double fetch(const char *buffer, ElementType element, int64_t position) {
  auto get = [&](auto number) {
    std::memcpy(&number, buffer + position * sizeof(number), sizeof(number));
    return static_cast<double>(number);
  };
  switch (element) {
  case ElementType::F32:
    return get(0.0f);
  case ElementType::I32:
    return get(int32_t(0));
  case ElementType::U8:
    return get(uint8_t(0));
  default:
    return get(int8_t(0));
  }
}

/// Calls `visit(index, number of the element)` for all elements of a shape.
void forEach(const Shape &shape, const std::function<void(const Shape &, int64_t)> &visit) {
  int64_t number = 0;
  tabulate(shape, [&](const Shape &index) {
    visit(index, number++);
    return 0.0;
  });
}

using Buffer = std::shared_ptr<char>;
Buffer bufferOf(uint64_t bytes) {
  uint64_t whole = (bytes + 127) / 64 * 64;
  Buffer buffer(static_cast<char *>(std::aligned_alloc(64, whole)), std::free);
  std::memset(buffer.get(), 0, whole);
  return buffer;
}

LibraryKernelQuery queryOf(std::string operation, const std::vector<Numbers> &inputs, const TensorType &output) {
  LibraryKernelQuery query;
  query.desc.operation = std::move(operation);
  for (const Numbers &input : inputs) {
    query.desc.inputs.push_back(input.type());
    // The bias, scales and what is added lie row-major.
    query.anyInputs.push_back(query.anyInputs.size() < 2);
  }
  query.desc.outputs.push_back(output);
  query.anyOutputs = {true};
  return query;
}

/// A kernel that was chosen and loaded.
class Loaded {
public:
  explicit Loaded(const LibraryKernelQuery &query, unsigned threads = 1) {
    auto chosen = oneDnnLibrary().choose(query, threads);
    if (!chosen)
      throw std::runtime_error(chosen.error().text());
    choice = *chosen;
    auto loaded = createOneDnnProvider()->load(choice.desc, threads);
    if (!loaded)
      throw std::runtime_error(loaded.error().text());
    kernel = std::move(*loaded);
  }

  std::vector<double> run(const std::vector<Numbers> &inputs) {
    std::vector<Buffer> buffers;
    for (size_t i = 0; i != inputs.size(); ++i) {
      buffers.push_back(bufferOf(choice.inputBytes[i]));
      const TensorType &type = choice.desc.inputs[i];
      forEach(type.shape, [&](const Shape &index, int64_t number) {
        store(buffers.back().get(), inputs[i].element, positionOf(index, type), inputs[i].values[number]);
      });
    }
    buffers.push_back(bufferOf(choice.outputBytes[0]));
    Buffer output = buffers.back();
    buffers.push_back(bufferOf(choice.desc.scratchBytes));
    std::vector<void *> arguments;
    for (Buffer &buffer : buffers)
      arguments.push_back(buffer.get());
    // An input that the result is added to is its buffer.
    for (const LibraryPostOp &postOp : choice.desc.postOps)
      if (postOp.kind == "sum") {
        std::memcpy(output.get(), arguments[postOp.argument], choice.outputBytes[0]);
        arguments[postOp.argument] = output.get();
      }
    if (Error error = kernel->run(arguments.data()))
      throw std::runtime_error(error.text());
    const TensorType &type = choice.desc.outputs[0];
    std::vector<double> values;
    forEach(type.shape, [&](const Shape &index, int64_t) {
      values.push_back(fetch(output.get(), type.element, positionOf(index, type)));
    });
    return values;
  }

private:
  LibraryChoice choice;
  std::unique_ptr<LibraryKernelInstance> kernel;
};

/// Sums of a convolution with a padding of one and windows of 3 x 3, exact.
std::vector<double> convolved(const Numbers &data, const Numbers &weights, int64_t groups) {
  int64_t channels = data.shape[1], rows = data.shape[2], columns = data.shape[3], filters = weights.shape[0];
  std::vector<double> sums;
  forEach({data.shape[0], filters, rows, columns}, [&](const Shape &at, int64_t) {
    double sum = 0;
    int64_t first = at[1] / (filters / groups) * (channels / groups);
    for (int64_t c = 0; c != channels / groups; ++c)
      for (int64_t i = 0; i != 3; ++i)
        for (int64_t j = 0; j != 3; ++j) {
          int64_t row = at[2] + i - 1, column = at[3] + j - 1;
          if (row >= 0 && row < rows && column >= 0 && column < columns)
            sum += data.values[((at[0] * channels + first + c) * rows + row) * columns + column] *
                   weights.values[((at[1] * (channels / groups) + c) * 3 + i) * 3 + j];
        }
    sums.push_back(sum);
  });
  return sums;
}

std::vector<double> multiplied(const Numbers &a, const Numbers &b) {
  int64_t depth = a.shape[1], columns = b.shape[1];
  std::vector<double> sums;
  for (int64_t row = 0; row != a.shape[0]; ++row)
    for (int64_t column = 0; column != columns; ++column) {
      double sum = 0;
      for (int64_t k = 0; k != depth; ++k)
        sum += a.values[row * depth + k] * b.values[k * columns + column];
      sums.push_back(sum);
    }
  return sums;
}

bool hasVnni() {
  auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  return (isa & dnnl_cpu_isa_avx512_core_vnni) == dnnl_cpu_isa_avx512_core_vnni ||
         (isa & dnnl_cpu_isa_avx2_vnni) == dnnl_cpu_isa_avx2_vnni;
}

/// Whether products are those of our own kernels for AVX2.
bool hasPanels() {
  auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  return !hasVnni() && (isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2 &&
         (isa & dnnl_cpu_isa_avx512_core) != dnnl_cpu_isa_avx512_core;
}

/// Whether the library multiplies integers here; where it does not, expects it to say so.
bool multiplies(const LibraryKernelQuery &query) {
  if (hasVnni() || hasPanels())
    return true;
  auto choice = oneDnnLibrary().choose(query, 1);
  EXPECT_FALSE(choice);
  if (!choice) {
    EXPECT_NE(choice.error().message().find("saturate"), std::string::npos) << choice.error().message();
  }
  return false;
}

/// Whether sums come out as integers here; where they pass through float32, expects many to be refused.
bool sumsExactly(const LibraryKernelQuery &query, int64_t depth) {
  if (!multiplies(query))
    return false;
  auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  if (hasPanels() || (isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core || depth * 255 * 128 <= 1 << 24)
    return true;
  auto choice = oneDnnLibrary().choose(query, 1);
  EXPECT_FALSE(choice);
  if (!choice) {
    EXPECT_NE(choice.error().message().find("are rounded"), std::string::npos) << choice.error().message();
  }
  return false;
}

struct ConvolutionCase {
  Shape data, weights;
  int64_t groups;
  /// Whether there is code that does what is behind the sums with them.
  bool fuses = true;
};

class IntegerConvolution : public testing::TestWithParam<ConvolutionCase> {
protected:
  LibraryKernelQuery query(const std::vector<Numbers> &inputs, ElementType output) const {
    const ConvolutionCase &sizes = GetParam();
    LibraryKernelQuery query = queryOf(
        "convolution", inputs, {output, {sizes.data[0], sizes.weights[0], sizes.data[2], sizes.data[3]}, std::nullopt});
    query.desc.ints = {{"pads_begin", {1, 1}}, {"pads_end", {1, 1}}, {"groups", {sizes.groups}}};
    return query;
  }
};

} // namespace

// Random numbers, and the largest, whose sums float32 does not count.
TEST_P(IntegerConvolution, SumsAreExact) {
  const ConvolutionCase &sizes = GetParam();
  for (const std::vector<Numbers> &inputs :
       {std::vector{whole(ElementType::U8, sizes.data, 1, 0, 255), whole(ElementType::I8, sizes.weights, 2, -128, 127)},
        std::vector{all(ElementType::U8, sizes.data, 255), whole(ElementType::I8, sizes.weights, 3, 126, 127)},
        std::vector{all(ElementType::U8, sizes.data, 255), all(ElementType::I8, sizes.weights, -128)}}) {
    LibraryKernelQuery asked = query(inputs, ElementType::I32);
    if (!sumsExactly(asked, sizes.weights[1] * 9))
      return;
    EXPECT_EQ(Loaded(asked).run(inputs), convolved(inputs[0], inputs[1], sizes.groups));
  }
}

// A bias, a scale a channel, rounding to even and a zero point, saturated at both ends.
TEST_P(IntegerConvolution, ComesBackToBytes) {
  const ConvolutionCase &sizes = GetParam();
  int64_t channels = sizes.weights[0];
  for (ElementType target : {ElementType::U8, ElementType::I8}) {
    std::vector<Numbers> inputs = {whole(ElementType::U8, sizes.data, 1, 0, 255),
                                   whole(ElementType::I8, sizes.weights, 2, -127, 127),
                                   whole(ElementType::I32, {channels}, 3, -4000, 4000),
                                   reals({channels}, 4, 0.001f, 0.02f), all(ElementType::F32, {1, 1, 1, 1}, 7)};
    // Halves, which go to the even neighbour.
    inputs[3].values[0] = 0.0078125;
    LibraryKernelQuery asked = query(inputs, target);
    asked.desc.postOps = {{"scale", 0, 0, 3}, {"round", 0, 0, -1}, {"binary_add", 0, 0, 4}};
    if (!multiplies(asked))
      return;
    if (!sizes.fuses && !hasPanels()) {
      auto choice = oneDnnLibrary().choose(asked, 1);
      ASSERT_FALSE(choice);
      EXPECT_NE(choice.error().message().find("\"round\" one element after the other"), std::string::npos)
          << choice.error().message();
      return;
    }
    std::vector<double> sums = convolved(inputs[0], inputs[1], sizes.groups), expected;
    int64_t positions = sizes.data[2] * sizes.data[3];
    double least = target == ElementType::U8 ? 0 : -128, most = target == ElementType::U8 ? 255 : 127;
    for (size_t i = 0; i != sums.size(); ++i) {
      size_t channel = i / positions % channels;
      float scaled =
          static_cast<float>(sums[i] + inputs[2].values[channel]) * static_cast<float>(inputs[3].values[channel]);
      expected.push_back(std::clamp(std::nearbyint(scaled) + 7.0, least, most));
    }
    EXPECT_EQ(Loaded(asked).run(inputs), expected);
  }
}

// Without an operation for it, what is written as integers is rounded to the nearest, halves to even.
TEST_P(IntegerConvolution, RoundsWhatItWrites) {
  const ConvolutionCase &sizes = GetParam();
  std::vector<Numbers> inputs = {whole(ElementType::U8, sizes.data, 1, 0, 255),
                                 whole(ElementType::I8, sizes.weights, 2, -127, 127),
                                 all(ElementType::F32, {1}, 0.015625)};
  LibraryKernelQuery asked = query(inputs, ElementType::U8);
  asked.desc.postOps = {{"scale", 0, 0, 2}};
  if (!multiplies(asked))
    return;
  std::vector<double> expected = convolved(inputs[0], inputs[1], sizes.groups);
  for (double &value : expected)
    value = std::clamp(std::nearbyint(value * 0.015625), 0.0, 255.0);
  EXPECT_EQ(Loaded(asked).run(inputs), expected);
}

// Channels that fill no block, many channels, groups of one and of several.
INSTANTIATE_TEST_SUITE_P(Sizes, IntegerConvolution,
                         testing::Values(ConvolutionCase{{2, 3, 5, 6}, {7, 3, 3, 3}, 1},
                                         ConvolutionCase{{1, 80, 4, 4}, {33, 80, 3, 3}, 1},
                                         ConvolutionCase{{1, 16, 6, 5}, {16, 1, 3, 3}, 16},
                                         ConvolutionCase{{1, 12, 6, 5}, {18, 4, 3, 3}, 3, false}));

// Products of odd sizes, and of sums that float32 does not count.
TEST(IntegerMatmul, SumsAreExact) {
  for (auto [rows, depth, columns] : {std::array{5, 17, 33}, {1, 600, 10}, {12, 1030, 64}})
    for (int largest : {1, 0}) {
      std::vector<Numbers> inputs = {largest ? all(ElementType::U8, {rows, depth}, 255)
                                             : whole(ElementType::U8, {rows, depth}, 1, 0, 255),
                                     whole(ElementType::I8, {depth, columns}, 2, largest ? 126 : -128, 127)};
      LibraryKernelQuery asked = queryOf("matmul", inputs, {ElementType::I32, {rows, columns}, std::nullopt});
      if (!sumsExactly(asked, depth))
        continue;
      EXPECT_EQ(Loaded(asked).run(inputs), multiplied(inputs[0], inputs[1]));
    }
}

// A kernel is made with the scales that a call brings, and made anew for others.
TEST(IntegerMatmul, TakesScalesFromItsInput) {
  std::vector<Numbers> inputs = {whole(ElementType::U8, {4, 20}, 1, 0, 255),
                                 whole(ElementType::I8, {20, 9}, 2, -128, 127), reals({9}, 3, -1, 1),
                                 reals({9}, 4, 0.01f, 0.5f)};
  LibraryKernelQuery asked = queryOf("matmul", inputs, {ElementType::F32, {4, 9}, std::nullopt});
  asked.desc.postOps = {{"scale", 0, 0, 3}};
  if (!multiplies(asked))
    return;
  Loaded kernel(asked);
  std::vector<double> sums = multiplied(inputs[0], inputs[1]);
  for (unsigned seed : {4u, 5u, 5u, 4u}) {
    inputs[3] = reals({9}, seed, 0.01f, 0.5f);
    std::vector<double> results = kernel.run(inputs);
    for (size_t i = 0; i != sums.size(); ++i) {
      double expected = (sums[i] + inputs[2].values[i % 9]) * inputs[3].values[i % 9];
      EXPECT_NEAR(results[i], expected, 1e-5 * std::fabs(expected) + 1e-5) << i;
    }
  }
}

// One scale for all channels is one number.
TEST(IntegerMatmul, TakesOneScaleForAll) {
  std::vector<Numbers> inputs = {whole(ElementType::U8, {4, 20}, 1, 0, 255),
                                 whole(ElementType::I8, {20, 9}, 2, -128, 127), all(ElementType::F32, {1}, 0.25)};
  LibraryKernelQuery asked = queryOf("matmul", inputs, {ElementType::F32, {4, 9}, std::nullopt});
  asked.desc.postOps = {{"scale", 0, 0, 2}};
  if (!multiplies(asked))
    return;
  std::vector<double> expected = multiplied(inputs[0], inputs[1]);
  for (double &value : expected)
    value *= 0.25;
  EXPECT_EQ(Loaded(asked).run(inputs), expected);
}

// What would need weights in a form that a plan cannot record, and scales that are none.
TEST(IntegerMatmul, RefusesOtherNumbers) {
  auto refused = [](const LibraryKernelQuery &query, const std::string &message) {
    auto choice = oneDnnLibrary().choose(query, 1);
    ASSERT_FALSE(choice) << message;
    EXPECT_NE(choice.error().message().find(message), std::string::npos) << choice.error().message();
  };
  auto product = [](ElementType left, ElementType right) {
    return queryOf("matmul", {all(left, {4, 20}, 1), all(right, {20, 9}, 1), all(ElementType::F32, {9}, 1)},
                   {ElementType::F32, {4, 9}, std::nullopt});
  };
  LibraryKernelQuery query = product(ElementType::I8, ElementType::I8);
  query.desc.postOps = {{"scale", 0, 0, 2}};
  refused(query, "expects elements u8 and i8 to multiply integers, got i8 and i8");
  query = product(ElementType::F32, ElementType::F32);
  query.desc.inputs[2].shape = {8};
  query.desc.postOps = {{"scale", 0, 0, 2}};
  refused(query, "\"scale\" expects to be the first, of a contraction, with an input of one f32 or one a channel");
  query = product(ElementType::F32, ElementType::F32);
  query.desc.postOps = {{"relu", 0, 0, -1}, {"scale", 0, 0, 2}};
  refused(query, "\"scale\" expects to be the first");
  query = product(ElementType::F32, ElementType::F32);
  query.desc.postOps = {{"scale", 0, 0, -1}};
  refused(query, "\"scale\" expects an input");
}

//===-- our own kernels ---------------------------------------------------------------------------------------===//

namespace {

/// A convolution of one to three dimensions.
struct WindowCase {
  Shape data, weights;
  int64_t groups;
  Shape strides, dilations, begin, end;

  Shape result() const {
    Shape shape = {data[0], weights[0]};
    for (size_t d = 2; d != data.size(); ++d) {
      int64_t extent = (weights[d] - 1) * dilations[d - 2] + 1;
      shape.push_back((data[d] + begin[d - 2] + end[d - 2] - extent) / strides[d - 2] + 1);
    }
    return shape;
  }

  std::vector<double> sums(const Numbers &x, const Numbers &w) const {
    std::vector<double> sums;
    auto at = [](const Numbers &numbers, const Shape &index) {
      int64_t position = 0;
      for (size_t d = 0; d != index.size(); ++d)
        position = position * numbers.shape[d] + index[d];
      return numbers.values[position];
    };
    forEach(result(), [&](const Shape &place, int64_t) {
      double sum = 0;
      Shape window = weights;
      window[0] = 1;
      forEach(window, [&](const Shape &tap, int64_t) {
        Shape from = {place[0], place[1] / (weights[0] / groups) * weights[1] + tap[1]}, filter = tap;
        filter[0] = place[1];
        for (size_t d = 2; d != data.size(); ++d) {
          from.push_back(place[d] * strides[d - 2] + tap[d] * dilations[d - 2] - begin[d - 2]);
          if (from[d] < 0 || from[d] >= data[d])
            return;
        }
        sum += at(x, from) * at(w, filter);
      });
      sums.push_back(sum);
    });
    return sums;
  }

  LibraryKernelQuery query(const std::vector<Numbers> &inputs, ElementType element) const {
    LibraryKernelQuery query = queryOf("convolution", inputs, {element, result(), std::nullopt});
    query.desc.ints = {
        {"strides", strides}, {"dilations", dilations}, {"pads_begin", begin}, {"pads_end", end}, {"groups", {groups}}};
    return query;
  }

  std::vector<Numbers> operands() const {
    return {whole(ElementType::U8, data, 1, 0, 255), whole(ElementType::I8, weights, 2, -128, 127)};
  }
};

const WindowCase windows[] = {
    {{3, 5, 11}, {4, 5, 3}, 1, {2}, {1}, {1}, {0}},
    {{1, 3, 23, 21}, {20, 3, 7, 7}, 1, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {{2, 3, 9, 8}, {5, 3, 3, 5}, 1, {1, 1}, {1, 1}, {1, 2}, {0, 1}},
    {{1, 10, 12, 9}, {17, 10, 3, 2}, 1, {1, 2}, {2, 3}, {2, 0}, {1, 2}},
    {{2, 6, 4, 5, 3}, {3, 6, 2, 3, 1}, 1, {1, 2, 1}, {2, 1, 1}, {1, 0, 0}, {0, 1, 0}},
    {{1, 9, 6, 7}, {15, 3, 3, 3}, 3, {2, 1}, {1, 1}, {1, 1}, {1, 0}},
    {{2, 37, 7, 9}, {37, 1, 3, 4}, 37, {2, 1}, {1, 2}, {1, 1}, {2, 1}},
    {{1, 48, 5, 5}, {48, 1, 5, 5}, 48, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {{2, 64, 7, 7}, {32, 64, 1, 1}, 1, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {{1, 3, 4, 4}, {2, 3, 3, 3}, 1, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
};

} // namespace

// Sums are exact on any number of threads, whether images lie channels-last or row-major.
TEST(IntegerPanels, TakeWindowsOfAllKinds) {
  if (!hasPanels())
    return;
  for (const WindowCase &window : windows) {
    std::vector<Numbers> inputs = window.operands();
    std::vector<double> expected = window.sums(inputs[0], inputs[1]);
    for (unsigned threads : {1u, 2u, 3u, 4u})
      for (bool isOpen : {true, false}) {
        LibraryKernelQuery query = window.query(inputs, ElementType::I32);
        query.anyInputs[0] = query.anyOutputs[0] = isOpen;
        EXPECT_EQ(Loaded(query, threads).run(inputs), expected)
            << query.desc.text() << (isOpen ? "" : " row-major") << " on " << threads << " threads";
      }
  }
}

// Whole tensors join results where they lie, and the result may be added to what its buffer held.
TEST(IntegerPanels, JoinWholeTensors) {
  if (!hasPanels())
    return;
  for (const WindowCase &window : windows)
    for (const char *kind : {"binary_add", "binary_sub", "binary_max", "binary_min", "binary_mul", "sum"})
      for (bool isOpen : {true, false}) {
        std::vector<Numbers> inputs = window.operands();
        inputs.push_back(reals({window.weights[0]}, 3, 0.5f, 1.5f));
        inputs.push_back(reals(window.result(), 4, -9000, 9000));
        LibraryKernelQuery query = window.query(inputs, ElementType::F32);
        query.anyInputs[0] = query.anyInputs[3] = query.anyOutputs[0] = isOpen;
        query.desc.postOps = {{"scale", 0, 0, 2}, {kind, 0, 0, 3}, {"linear", 0.5f, 2, -1}, {"clip", -9000, 9000, -1}};
        std::vector<double> expected = window.sums(inputs[0], inputs[1]);
        int64_t pixels = static_cast<int64_t>(expected.size()) / window.data[0] / window.weights[0];
        for (size_t i = 0; i != expected.size(); ++i) {
          float scale = static_cast<float>(inputs[2].values[i / pixels % window.weights[0]]);
          float x = static_cast<float>(expected[i]) * scale, y = static_cast<float>(inputs[3].values[i]);
          std::string_view name = kind;
          x = name == "binary_sub"   ? x - y
              : name == "binary_max" ? std::max(x, y)
              : name == "binary_min" ? std::min(x, y)
              : name == "binary_mul" ? x * y
                                     : x + y;
          volatile float half = x * 0.5f;
          expected[i] = std::clamp(half + 2.0f, -9000.0f, 9000.0f);
        }
        EXPECT_EQ(Loaded(query).run(inputs), expected) << kind << ' ' << query.desc.text();
      }
}

// One row, and images of one pixel, whose channels are all of a result.
TEST(IntegerPanels, ScaleSingleRows) {
  if (!hasPanels())
    return;
  for (const char *kind : {"scale", "binary_mul"}) {
    std::vector<Numbers> inputs = {whole(ElementType::U8, {1, 30}, 1, 0, 255),
                                   whole(ElementType::I8, {30, 21}, 2, -128, 127), reals({21}, 3, 0.5f, 2)};
    std::vector<double> expected = multiplied(inputs[0], inputs[1]);
    for (size_t i = 0; i != expected.size(); ++i)
      expected[i] = static_cast<float>(expected[i]) * static_cast<float>(inputs[2].values[i]);
    LibraryKernelQuery query = queryOf("matmul", inputs, {ElementType::F32, {1, 21}, std::nullopt});
    query.desc.postOps = {{kind, 0, 0, 2}};
    EXPECT_EQ(Loaded(query, 3).run(inputs), expected) << kind;
    for (Numbers *numbers : {&inputs[0], &inputs[1], &inputs[2]})
      numbers->shape.insert(numbers->shape.end(), 2, 1);
    std::vector<double> turned;
    for (int64_t column = 0; column != 21; ++column)
      for (int64_t row = 0; row != 30; ++row)
        turned.push_back(inputs[1].values[row * 21 + column]);
    inputs[1] = {ElementType::I8, {21, 30, 1, 1}, turned};
    if (std::string_view(kind) == "scale")
      inputs[2].shape = {21};
    query = queryOf("convolution", inputs, {ElementType::F32, {1, 21, 1, 1}, std::nullopt});
    query.desc.postOps = {{kind, 0, 0, 2}};
    EXPECT_EQ(Loaded(query, 3).run(inputs), expected) << kind << " of a convolution";
  }
}

// What a plan may hold that was not made so.
TEST(IntegerPanels, RefuseOtherPlans) {
  if (!hasPanels())
    return;
  auto chosen = oneDnnLibrary().choose(windows[1].query(windows[1].operands(), ElementType::I32), 2);
  ASSERT_TRUE(chosen) << chosen.error().message();
  auto refused = [](const LibraryKernelDesc &desc, const std::string &message) {
    auto loaded = createOneDnnProvider()->load(desc, 2);
    ASSERT_FALSE(loaded) << message;
    EXPECT_NE(loaded.error().message().find(message), std::string::npos) << loaded.error().message();
  };
  // For one thread there is scratch, but not for none.
  LibraryKernelDesc desc = chosen->desc;
  desc.scratchBytes /= 2;
  EXPECT_TRUE(createOneDnnProvider()->load(desc, 2));
  --desc.scratchBytes;
  refused(desc, "bytes of scratch, got ");
  desc = chosen->desc;
  desc.inputs[1].layout->strides[0] *= 2;
  refused(desc, "weights expect the layout ");
  desc = chosen->desc;
  desc.inputs[0].shape[1] = 4;
  desc.inputs[0].layout.reset();
  refused(desc, "do not lead from ");
  desc = chosen->desc;
  desc.inputs[0].layout = blockedLayout(desc.inputs[0].shape, 1, 8);
  refused(desc, "without blocks");
  desc = chosen->desc;
  desc.postOps = {{"tanh", 0, 0, -1}};
  desc.outputs[0].element = ElementType::F32;
  refused(desc, "no post operation \"tanh\"");
  desc.postOps = {{"relu", 0, 0, -1}};
  desc.outputs[0].element = ElementType::I32;
  refused(desc, "expect no post operations");
}
