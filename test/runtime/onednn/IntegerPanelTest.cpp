// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Our own kernels for AVX2 (runtime/drivers/cpu/IntegerProducts.h) against loops. Elsewhere they are not chosen: the
// test `onednn-avx2` runs these on any processor that has AVX2.

#include "IntegerHarness.h"
#include "runtime/drivers/cpu/IntegerTiles.h"

#include <numeric>

using namespace cleave::runtime;
using namespace cleave::runtime::test;

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
    {{1, 1, 9, 7}, {5, 1, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 8, 6, 5}, {18, 4, 3, 3}, 2, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 7, 1, 1}, {33, 7, 1, 1}, 1, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {{13, 36, 1, 1}, {16, 36, 1, 1}, 1, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
};

} // namespace

// Weights are widened where two of a pair may exceed 16 bits with the numbers there are, and only there.
TEST(IntegerPanels, WidenWeightsThatSaturate) {
  using namespace integers;
  if (!hasTiles())
    return;
  struct Pair {
    int first, second;
    bool isWide;
    uint8_t largest = 255;
  };
  const Pair pairs[] = {
      {64, 64, false},          {65, 64, true},          {127, 1, false},        {127, 2, true},
      {-64, -64, false},        {-65, -64, true},        {-128, 0, false},       {-128, -1, true},
      {127, -128, false},       {127, 127, true},        {-128, -128, true},     {0, 0, false},
      {-128, -127, false, 128}, {-128, -128, true, 128}, {127, 127, false, 129}, {127, 127, true, 130},
      {-128, -128, false, 0},   {82, 81, true, 202},     {81, 81, false, 202}};
  for (int64_t quads : {1, 2, 8, 11}) {
    std::vector<char> memory(PanelSteps::bytes(quads));
    PanelSteps steps(memory.data(), quads);
    for (const Pair &pair : pairs)
      for (int64_t at = 0; at != quads * 2; ++at)
        for (int64_t column : {0, 7, 8, 15}) {
          // The largest number in the second of two rows, and the pair in one place of the panel.
          std::vector<int8_t> panel(quads * stepBytes, 1);
          int8_t *own = panel.data() + at / 2 * stepBytes + column * stepNumbers + at % 2 * 2;
          own[0] = static_cast<int8_t>(pair.first);
          own[1] = static_cast<int8_t>(pair.second);
          std::vector<uint8_t> rows(2 * quads * stepNumbers, 0);
          uint8_t *numbers = rows.data() + quads * stepNumbers + at * 2;
          numbers[0] = numbers[1] = pair.largest;
          steps.readRows(rows.data(), quads * stepNumbers, 2);
          steps.divide(panel.data());
          EXPECT_EQ(steps.wide().size(), pair.isWide) << pair.first << ' ' << pair.second << " in column " << column;
          EXPECT_EQ(2 * steps.twofold().size() + steps.narrow().size(), quads - pair.isWide);
          std::vector<int32_t> sums(2 * panelColumns);
          multiplyTile(rows.data(), quads * stepNumbers, 2, panel.data(), steps, sums.data());
          for (int64_t c = 0; c != panelColumns; ++c) {
            EXPECT_EQ(sums[c], 0);
            EXPECT_EQ(sums[panelColumns + c], pair.largest * (c == column ? pair.first + pair.second : 2));
          }
        }
  }
}

// Two quads are multiplied at once where their sums fit together.
TEST(IntegerPanels, AddTwoQuadsWhereTheyFit) {
  using namespace integers;
  if (!hasTiles())
    return;
  struct Quads {
    std::array<int, 4> weights; ///< two of each quad, of one pair
    uint8_t largest;
    bool isTwofold;
  };
  const Quads all[] = {
      {{32, 32, 32, 32}, 255, true},        {{32, 32, 32, 33}, 255, false},        {{64, 64, 0, 0}, 255, true},
      {{64, 64, 0, 1}, 255, false},         {{-32, -32, -32, -32}, 255, true},     {{-32, -32, -32, -33}, 255, false},
      {{64, -64, 64, -64}, 255, true},      {{64, -64, 65, -64}, 255, false},      {{127, -128, 1, 0}, 255, true},
      {{127, -128, 0, -1}, 255, false},     {{127, 127, 127, 127}, 64, true},      {{127, 127, 127, 127}, 65, false},
      {{-128, -128, -128, -128}, 63, true}, {{-128, -128, -128, -128}, 64, false}, {{127, 127, 127, 127}, 0, true}};
  std::vector<char> memory(PanelSteps::bytes(5));
  PanelSteps steps(memory.data(), 5);
  for (const Quads &quads : all)
    for (int64_t column = 0; column != panelColumns; ++column)
      for (int64_t place : {0, 2})
        for (int64_t at : {0, 2}) {
          std::vector<int8_t> panel(5 * stepBytes, 0);
          for (int i = 0; i != 4; ++i)
            panel[(at + i / 2) * stepBytes + column * stepNumbers + place + i % 2] =
                static_cast<int8_t>(quads.weights[i]);
          std::vector<uint8_t> row(5 * stepNumbers, quads.largest);
          steps.readRows(row.data(), 5 * stepNumbers, 1);
          steps.divide(panel.data());
          EXPECT_EQ(steps.twofold().size(), 1 + quads.isTwofold) << quads.weights[0] << " in column " << column;
          EXPECT_EQ(steps.narrow().size() + steps.wide().size(), quads.isTwofold ? 1 : 3);
          std::vector<int32_t> sums(panelColumns);
          multiplyTile(row.data(), 5 * stepNumbers, 1, panel.data(), steps, sums.data());
          int sum = std::accumulate(quads.weights.begin(), quads.weights.end(), 0);
          for (int64_t c = 0; c != panelColumns; ++c)
            EXPECT_EQ(sums[c], c == column ? quads.largest * sum : 0);
        }
}

// Every pair of weights, with numbers that give the largest sums.
TEST(IntegerPanels, MultiplyAllPairs) {
  using namespace integers;
  if (!hasTiles())
    return;
  std::vector<int8_t> panel(stepBytes);
  std::vector<char> memory(PanelSteps::bytes(1));
  std::vector<int32_t> sums(3 * panelColumns);
  PanelSteps steps(memory.data(), 1);
  for (int largest : {255, 254, 200, 140, 129, 128, 127})
    for (int first = -128; first != 128; ++first)
      for (int block = -128; block != 128; block += panelColumns) {
        auto most = static_cast<uint8_t>(largest);
        const uint8_t rows[] = {most, most, most, most, most, 0, most, 0, 0, most, 0, most};
        for (int64_t c = 0; c != panelColumns; ++c) {
          panel[c * stepNumbers] = panel[c * stepNumbers + 2] = static_cast<int8_t>(first);
          panel[c * stepNumbers + 1] = panel[c * stepNumbers + 3] = static_cast<int8_t>(block + c);
        }
        steps.readRows(rows, stepNumbers, 3);
        steps.divide(panel.data());
        multiplyTile(rows, stepNumbers, 3, panel.data(), steps, sums.data());
        for (int64_t c = 0; c != panelColumns; ++c) {
          int second = block + static_cast<int>(c);
          ASSERT_EQ(sums[c], 2 * largest * (first + second));
          ASSERT_EQ(sums[panelColumns + c], 2 * largest * first);
          ASSERT_EQ(sums[2 * panelColumns + c], 2 * largest * second);
        }
      }
}

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
