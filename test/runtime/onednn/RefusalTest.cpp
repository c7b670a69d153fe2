// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Descriptions that must be refused with a status and a message, never run and never crash: a plan's numbers may be
// anything.

#include "KernelHarness.h"
#include "runtime/MemoryLayout.h"

#include <limits>

using namespace cleave::runtime;
using namespace cleave::runtime::test;

static LibraryKernelDesc describe(std::string operation, std::vector<Shape> inputs, Shape output) {
  LibraryKernelDesc desc;
  desc.operation = std::move(operation);
  for (Shape &shape : inputs)
    desc.inputs.push_back(f32(std::move(shape)));
  desc.outputs.push_back(f32(std::move(output)));
  desc.scratchBytes = 1 << 20;
  return desc;
}

static void expectRefused(const LibraryKernelDesc &desc, Status status, const std::string &message) {
  auto kernel = createOneDnnProvider()->load(desc, 1);
  ASSERT_FALSE(kernel) << desc.operation << " was accepted, expected: " << message;
  EXPECT_EQ(kernel.error().status(), status) << kernel.error().text();
  EXPECT_NE(kernel.error().message().find(message), std::string::npos) << kernel.error().message();
  EXPECT_NE(kernel.error().message().find(desc.operation), std::string::npos) << kernel.error().message();
}

static LibraryKernelDesc convolution() {
  return describe("convolution", {{1, 16, 8, 8}, {16, 16, 3, 3}}, {1, 16, 6, 6});
}

// A plan for a larger processor or team must say so instead of overrunning its scratch buffer.
TEST(Refusal, OfTooLittleScratch) {
  LibraryKernelDesc desc = describe("matmul", {{1, 9216}, {9216, 512}}, {1, 512});
  auto choice = oneDnnLibrary().choose({desc, {}, {}}, 2);
  ASSERT_TRUE(choice) << choice.error().text();
  if (choice->desc.scratchBytes == 0)
    GTEST_SKIP() << "this processor's kernel needs no scratch";
  choice->desc.scratchBytes -= 1;
  auto kernel = createOneDnnProvider()->load(choice->desc, 2);
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().status(), Status::Infeasible);
  EXPECT_NE(kernel.error().message().find("compile it on this machine"), std::string::npos) << kernel.error().text();
}

// Numbers that oneDNN would divide by, or multiply into an overflow.
TEST(Refusal, OfHostileAttributes) {
  for (int64_t value :
       {int64_t(0), int64_t(-1), std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()})
    for (const char *name : {"strides", "dilations"}) {
      LibraryKernelDesc desc = convolution();
      desc.ints[name] = {value, 1};
      expectRefused(desc, Status::Rejected, "expects values from 1");
    }
  LibraryKernelDesc desc = convolution();
  desc.ints["pads_begin"] = {-1, 0};
  expectRefused(desc, Status::Rejected, "\"pads_begin\" expects values from 0");
  desc.ints["pads_begin"] = {2147483647, 0};
  expectRefused(desc, Status::Unsupported, "larger than");
  desc.ints["pads_begin"] = {1, 1, 1};
  expectRefused(desc, Status::Rejected, "expects 2 values, got 3");
  desc.ints = {{"groups", {0}}};
  expectRefused(desc, Status::Rejected, "\"groups\" expects values from 1");
  desc.ints = {{"groups", {5}}};
  expectRefused(desc, Status::Rejected, "a multiple of 5");
  desc = convolution();
  desc.ints["dilations"] = {2147483647, 1};
  expectRefused(desc, Status::Unsupported, "larger than");
}

// Shapes that do not belong together, or that an operation does not have.
TEST(Refusal, OfContradictingShapes) {
  expectRefused(describe("convolution", {{1, 16, 8, 8}, {16, 16, 3, 3}}, {1, 16, 7, 7}), Status::Rejected,
                "does not lead from");
  expectRefused(describe("convolution", {{1, 15, 8, 8}, {16, 16, 3, 3}}, {1, 16, 6, 6}), Status::Rejected,
                "contradict");
  expectRefused(describe("convolution", {{1, 16}, {16, 16}}, {1, 16}), Status::Unsupported, "spatial dimensions");
  expectRefused(describe("convolution", {{1, 16, 8, 8}}, {1, 16, 6, 6}), Status::Rejected, "2 to 3 inputs");
  expectRefused(describe("matmul", {{2, 3}, {4, 5}}, {2, 5}), Status::Rejected, "contradict");
  expectRefused(describe("matmul", {{3}, {3, 5}}, {5}), Status::Rejected, "expects [..., M, K]");
  expectRefused(describe("binary.add", {{2, 3}, {2, 4}}, {2, 3}), Status::Rejected, "do not broadcast");
  expectRefused(describe("binary.sub", {{1, 3}, {2, 3}}, {2, 3}), Status::Unsupported, "does not broadcast input 0");
  expectRefused(describe("concat", {{2, 3}, {2, 4}}, {2, 8}), Status::Rejected, "output expects the type f32[2,7]");
  expectRefused(describe("concat", {{2, 3}, {3, 4}}, {2, 7}), Status::Rejected, "does not fit the others");
  expectRefused(describe("softmax", {{2, 3}}, {3, 2}), Status::Rejected, "expects the shape of input 0");
  expectRefused(describe("layer_norm", {{2, 3}, {4}}, {2, 3}), Status::Rejected, "expects the type f32[3]");
  expectRefused(describe("eltwise.relu", {{2, 0}}, {2, 0}), Status::Unsupported, "dimension of size 0");
  expectRefused(describe("eltwise.relu", {{2, -1}}, {2, -1}), Status::Rejected, "negative dimension");
  expectRefused(describe("reduction.sum", {{2, 3}}, {2, 1}), Status::Rejected, "\"axes\"");
  LibraryKernelDesc desc = describe("softmax", {{2, 3}}, {2, 3});
  desc.ints["axis"] = {2};
  expectRefused(desc, Status::Rejected, "expects one of 2 dimensions, got 2");
}

// What oneDNN does not have is Unsupported, so that the compiler falls back to generated code.
TEST(Refusal, OfWhatOneDnnDoesNotHave) {
  expectRefused(describe("fourier", {{2}}, {2}), Status::Unsupported, "no such operation");
  expectRefused(describe("eltwise.gamma", {{2}}, {2}), Status::Unsupported, "\"gamma\"");
  expectRefused(describe("pooling.median", {{1, 1, 4}}, {1, 1, 4}), Status::Unsupported, "\"median\"");
  LibraryKernelDesc desc = describe("eltwise.relu", {{2}}, {2});
  desc.inputs[0].element = desc.outputs[0].element = ElementType::F64;
  expectRefused(desc, Status::Unsupported, "no element type f64");
  desc = describe("lrn", {{1, 8, 2, 2}}, {1, 8, 2, 2});
  desc.ints["size"] = {4};
  expectRefused(desc, Status::Unsupported, "odd window");
}

// oneDNN plans some convolutions by a list of their columns, which this one has more of than a list can have.
TEST(Refusal, OfMoreThanOneDnnCanPlan) {
  LibraryKernelDesc desc = describe("convolution", {{1, 2, 6, 268435462}, {3, 2, 3, 3}}, {1, 3, 6, 268435462});
  desc.ints["pads_begin"] = desc.ints["pads_end"] = {1, 1};
  auto choice = oneDnnLibrary().choose({desc, {true, true}, {true}}, 1);
  EXPECT_TRUE(choice || choice.error().status() == Status::Infeasible) << choice.error().text();
}

// Arguments of post operations index inputs: out of range, shared or missing ones must not be followed.
TEST(Refusal, OfPostOperationsWithoutTheirInput) {
  LibraryKernelDesc desc = convolution();
  desc.postOps = {{"binary_add", 0, 0, -1}};
  expectRefused(desc, Status::Rejected, "expects an input, got -1");
  desc.inputs.push_back(f32({1, 16, 6, 6}));
  for (int argument : {0, 1, 3, 2147483647}) {
    desc.postOps = {{"binary_add", 0, 0, argument}};
    expectRefused(desc, Status::Rejected, "expects an input of its own");
  }
  desc.postOps = {{"relu", 0, 0, 2}};
  expectRefused(desc, Status::Rejected, "expects no input, got 2");
  desc.postOps = {{"binary_pow", 0, 0, 2}};
  expectRefused(desc, Status::Unsupported, "binary_pow");
  desc.postOps = {{"sum", 0, 0, 2}};
  desc.inputs[2] = f32({1, 16, 6, 5});
  expectRefused(desc, Status::Rejected, "expects the output's type");
}

// A layout that this processor's kernel does not take, as in a plan from elsewhere.
TEST(Refusal, OfForeignLayouts) {
  LibraryKernelDesc desc = describe("lrn", {{1, 32, 4, 4}}, {1, 32, 4, 4});
  desc.inputs[0].layout = blockedLayout(desc.inputs[0].shape, 1, 16);
  expectRefused(desc, Status::Unsupported, "output 0 expects layout aBcd16b, got abcd");
  desc = convolution();
  desc.inputs[0].layout = Layout{{1, 16, 8, 8}, {1024, 64, 8}, {}, {}};
  expectRefused(desc, Status::Rejected, "padded dimensions and strides");
}

// oneDNN 2.6 computes the second of two elementwise functions with the constants of the first.
TEST(Refusal, OfTwoFunctionsBehindARoutine) {
  LibraryKernelDesc desc = convolution();
  desc.postOps = {{"relu"}};
  EXPECT_TRUE(oneDnnLibrary().choose({desc, {}, {}}, 1));
  desc.postOps = {{"relu"}, {"clip", 0, 2}};
  auto choice = oneDnnLibrary().choose({desc, {}, {}}, 1);
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().status(), Status::Unsupported);
  EXPECT_NE(choice.error().message().find("at most 1 post operation that reads no input"), std::string::npos);
}
