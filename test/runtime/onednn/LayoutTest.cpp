// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts: names, comparison, and reorders between them at positions computed by hand.

#include "KernelHarness.h"
#include "runtime/MemoryLayout.h"

using namespace cleave::runtime;
using namespace cleave::runtime::test;

static TensorType with(Shape shape, Layout layout) { return {ElementType::F32, std::move(shape), std::move(layout)}; }

// The names are what people see in explain.
TEST(Layout, HasTheNamesThatPeopleUse) {
  Shape image{1, 17, 2, 3};
  EXPECT_EQ(layoutText(f32(image), dataLetters(4)), "nchw");
  EXPECT_EQ(layoutText(with(image, blockedLayout(image, 1, 16)), dataLetters(4)), "nChw16c");
  const unsigned channelsLast[] = {0, 2, 3, 1};
  EXPECT_EQ(layoutText(with(image, permutedLayout(image, channelsLast)), dataLetters(4)), "nhwc");
  Layout weights{{32, 16, 3, 3}, {2304, 2304, 768, 256}, {16, 16}, {1, 0}};
  EXPECT_EQ(layoutText(with({32, 16, 3, 3}, weights), weightLetters(4, false)), "OIhw16i16o");
  EXPECT_EQ(layoutText(f32({2, 3})), "ab");
  EXPECT_EQ(weightLetters(5, true), "goihw");
  EXPECT_EQ(weightLetters(5, false), "oidhw");
  EXPECT_EQ(dataLetters(9), "");
}

// A spelled-out row-major layout is dense, and strides of size-1 dimensions are nobody's business.
TEST(Layout, ComparesPlacesNotNumbers) {
  EXPECT_TRUE(isDense(f32({2, 3})));
  EXPECT_TRUE(isDense(with({2, 3}, denseLayout(Shape{2, 3}))));
  EXPECT_TRUE(isDense(with({2, 1, 3}, Layout{{2, 1, 3}, {3, 77, 1}, {}, {}})));
  EXPECT_TRUE(isPlain(with({2, 3}, denseLayout(Shape{2, 3}))));
  EXPECT_FALSE(isPlain(with({2, 1, 3}, Layout{{2, 1, 3}, {3, 77, 1}, {}, {}})));
  EXPECT_FALSE(isDense(with({2, 3}, Layout{{2, 3}, {1, 2}, {}, {}})));
  EXPECT_FALSE(isDense(with({2, 3}, Layout{{2, 4}, {4, 1}, {}, {}})));
  TensorType blocked = with({1, 17, 2, 3}, blockedLayout(Shape{1, 17, 2, 3}, 1, 16));
  EXPECT_TRUE(needsReorder(f32({1, 17, 2, 3}), blocked));
  EXPECT_FALSE(needsReorder(blocked, blocked));
  // A single pixel: blocks of channels follow each other as channels do, unless they are padded.
  EXPECT_FALSE(needsReorder(with({1, 64, 1, 1}, blockedLayout(Shape{1, 64, 1, 1}, 1, 16)), f32({1, 64, 1, 1})));
  EXPECT_TRUE(needsReorder(with({1, 60, 1, 1}, blockedLayout(Shape{1, 60, 1, 1}, 1, 16)), f32({1, 60, 1, 1})));
  EXPECT_TRUE(needsReorder(with({1, 64, 2, 1}, blockedLayout(Shape{1, 64, 2, 1}, 1, 16)), f32({1, 64, 2, 1})));
}

// [1, 17, 2, 3] in blocks of 16 has 2 blocks of 2 * 3 * 16 values: element (0, 16, 1, 2) lies at 96 + 48 + 32.
TEST(Layout, BlocksAsComputedByHand) {
  Layout layout = blockedLayout(Shape{1, 17, 2, 3}, 1, 16);
  EXPECT_EQ(layout.padded, (Shape{1, 32, 2, 3}));
  EXPECT_EQ(layout.strides, (Shape{192, 96, 48, 16}));
  EXPECT_EQ(positionOf({0, 16, 1, 2}, with({1, 17, 2, 3}, layout)), 176);
  EXPECT_EQ(*with({1, 17, 2, 3}, layout).byteSize(), 192u * 4);
}

// Runs the library's reorder from the one type to the other and checks every element and the zeros in the padding.
static void expectReorder(const TensorType &from, const TensorType &to) {
  LibraryKernelQuery query;
  query.desc.operation = "reorder";
  query.desc.inputs = {from};
  query.desc.outputs = {to};
  auto choice = oneDnnLibrary().choose(query, 1);
  ASSERT_TRUE(choice) << choice.error().text();
  Tensor values = pseudorandom(from.shape, 5);
  Tensor moved = runChoice(*choice, {values});
  moved.shape = values.shape;
  expectNear(moved, values, 0, 0);
}

// Every layout change in a plan is a reorder of ours, so they must agree with the definition in plan.fbs.
TEST(Reorder, AgreesWithTheDefinitionOfLayouts) {
  Shape image{2, 17, 5, 3};
  const unsigned channelsLast[] = {0, 2, 3, 1};
  TensorType plain = f32(image), blocked16 = with(image, blockedLayout(image, 1, 16)),
             blocked8 = with(image, blockedLayout(image, 1, 8)),
             last = with(image, permutedLayout(image, channelsLast));
  for (const TensorType &from : {plain, blocked16, blocked8, last})
    for (const TensorType &to : {plain, blocked16, blocked8, last})
      expectReorder(from, to);
}

// Weights are blocked twice, grouped weights change their shape on the way, and a transpose is a reorder, too.
TEST(Reorder, MovesWeights) {
  Layout weights{{32, 32, 3, 3}, {32 * 144 * 2 / 2, 2304, 768, 256}, {16, 16}, {1, 0}};
  weights.strides = {2 * 2304, 2304, 768, 256};
  expectReorder(f32({20, 17, 3, 3}), with({20, 17, 3, 3}, weights));
  Layout grouped{{2, 16, 16, 3, 3}, {2304, 2304, 2304, 768, 256}, {16, 16}, {2, 1}};
  expectReorder(f32({16, 16, 3, 3}), with({2, 8, 16, 3, 3}, grouped));
  const unsigned swapped[] = {1, 0};
  expectReorder(f32({7, 9}), with({7, 9}, permutedLayout(Shape{7, 9}, swapped)));
}

// Padding must be zero after a reorder: kernels multiply it.
TEST(Reorder, ZeroesThePadding) {
  Shape image{1, 3, 2, 2};
  LibraryKernelDesc desc;
  desc.operation = "reorder";
  desc.inputs = {f32(image)};
  desc.outputs = {with(image, blockedLayout(image, 1, 16))};
  auto choice = oneDnnLibrary().choose({desc, {}, {}}, 1);
  ASSERT_TRUE(choice) << choice.error().text();
  auto kernel = createOneDnnProvider()->load(choice->desc, 1);
  ASSERT_TRUE(kernel) << kernel.error().text();
  alignas(64) float source[12], target[64], scratch[4096];
  std::fill_n(source, 12, 1.0f);
  std::fill_n(target, 64, 99.0f);
  ASSERT_LE(choice->desc.scratchBytes, sizeof(scratch));
  void *arguments[] = {source, target, scratch};
  ASSERT_FALSE((*kernel)->run(arguments));
  for (int i = 0; i != 64; ++i)
    EXPECT_EQ(target[i], i % 16 < 3 ? 1.0f : 0.0f) << "at " << i;
}
