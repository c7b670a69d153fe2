// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the compiler is told about kernel libraries of GPUs: which kernels they take, and how much scratch these need.

#include "runtime/MemoryLayout.h"
#include "runtime/drivers/cuda/rules/CublasProblem.h"
#include "runtime/drivers/cuda/rules/CudaLibraries.h"
#include "runtime/drivers/cuda/rules/CudnnProblem.h"

#include <gtest/gtest.h>

namespace cleave::runtime {
namespace {

using Shape = std::vector<int64_t>;

TensorType f32(Shape shape) { return {ElementType::F32, std::move(shape), std::nullopt}; }

LibraryKernelDesc describe(std::string operation, std::vector<Shape> inputs, Shape output) {
  LibraryKernelDesc desc;
  desc.operation = std::move(operation);
  for (Shape &shape : inputs)
    desc.inputs.push_back(f32(std::move(shape)));
  desc.outputs = {f32(std::move(output))};
  return desc;
}

LibraryKernelDesc withPostOps(LibraryKernelDesc desc, std::vector<LibraryPostOp> postOps,
                              std::vector<Shape> inputs = {}) {
  desc.postOps = std::move(postOps);
  for (Shape &shape : inputs)
    desc.inputs.push_back(f32(std::move(shape)));
  return desc;
}

LibraryKernelDesc withElements(LibraryKernelDesc desc, ElementType inputs, ElementType output) {
  for (TensorType &type : desc.inputs)
    type.element = inputs;
  desc.outputs[0].element = output;
  return desc;
}

/// The library that takes the kernel; "" where it is left to kernels of our own.
std::string libraryOf(const LibraryKernelDesc &desc) {
  auto choice = cudaLibraries().choose({desc, {}, {}}, 1);
  if (choice)
    return choice->desc.library;
  EXPECT_EQ(choice.error().status(), Status::Unsupported) << choice.error().text();
  return "";
}

void expectRejected(const LibraryKernelDesc &desc, const std::string &message) {
  auto choice = cudaLibraries().choose({desc, {}, {}}, 1);
  ASSERT_FALSE(choice) << desc.text();
  EXPECT_EQ(choice.error().status(), Status::Rejected) << choice.error().text();
  EXPECT_NE(choice.error().message().find(message), std::string::npos) << choice.error().text();
}

LibraryKernelDesc product() { return describe("matmul", {{4, 8}, {8, 6}}, {4, 6}); }
LibraryKernelDesc convolution() {
  LibraryKernelDesc desc = describe("convolution", {{2, 6, 9, 9}, {4, 6, 3, 3}}, {2, 4, 9, 9});
  desc.ints["pads_begin"] = desc.ints["pads_end"] = {1, 1};
  return desc;
}
LibraryKernelDesc pooling(std::string kind) {
  LibraryKernelDesc desc = describe("pooling." + kind, {{2, 3, 8, 8}}, {2, 3, 4, 4});
  desc.ints["kernel"] = desc.ints["strides"] = {2, 2};
  return desc;
}

// Each routine goes to the library that is there for it; what moves through memory once is ours.
TEST(CudaLibraryRules, DivideTheRoutines) {
  EXPECT_EQ(libraryOf(product()), "cublaslt");
  EXPECT_EQ(libraryOf(convolution()), "cudnn");
  EXPECT_EQ(libraryOf(describe("deconvolution", {{2, 4, 9, 9}, {4, 6, 3, 3}}, {2, 6, 11, 11})), "cudnn");
  EXPECT_EQ(libraryOf(describe("convolution_weights", {{2, 6, 11, 11}, {2, 4, 9, 9}}, {4, 6, 3, 3})), "cudnn");
  for (const char *kind : {"max", "avg_include", "avg_exclude"})
    EXPECT_EQ(libraryOf(pooling(kind)), "cudnn") << kind;
  for (const char *routine : {"softmax", "log_softmax", "layer_norm", "lrn", "eltwise.relu", "concat", "sum", "reorder",
                              "reduction.sum", "pooling.median", "matmuls"})
    EXPECT_EQ(libraryOf(describe(routine, {{2, 3, 4, 4}}, {2, 3, 4, 4})), "") << routine;
  EXPECT_EQ(libraryOf(describe("pooling_gradient.avg_include", {{2, 3, 4, 4}}, {2, 3, 8, 8})), "");
}

// An epilogue that cuBLASLt computes otherwise (its GELU is the approximation by tanh) or not at all would be a wrong
// result or a plan that cannot be loaded.
TEST(CudaLibraryRules, ProductsTakeTheEpiloguesOfCublasLt) {
  for (const char *kind : {"relu", "gelu_tanh"})
    EXPECT_EQ(libraryOf(withPostOps(product(), {{kind}})), "cublaslt") << kind;
  for (const char *kind : {"gelu_erf", "sigmoid", "tanh", "elu", "clip", "swish"})
    EXPECT_EQ(libraryOf(withPostOps(product(), {{kind}})), "") << kind;
  LibraryPostOp first{"binary_add", 0, 0, 2}, second{"binary_add", 0, 0, 3};
  EXPECT_EQ(libraryOf(withPostOps(product(), {first}, {{4, 6}})), "cublaslt");
  EXPECT_EQ(libraryOf(withPostOps(product(), {first, {"relu"}}, {{1, 6}})), "cublaslt");
  EXPECT_EQ(libraryOf(withPostOps(product(), {first, second, {"relu"}}, {{1, 6}, {4, 6}})), "cublaslt");
  EXPECT_EQ(libraryOf(withPostOps(product(), {first, second}, {{4, 6}, {4, 6}})), "");
  EXPECT_EQ(libraryOf(withPostOps(product(), {{"relu"}, first}, {{4, 6}})), "");
  EXPECT_EQ(libraryOf(withPostOps(product(), {{"relu"}, {"relu"}})), "");
  EXPECT_EQ(libraryOf(withPostOps(product(), {first}, {{4, 1}})), "");
  EXPECT_EQ(libraryOf(withPostOps(product(), {{"binary_mul", 0, 0, 2}}, {{4, 6}})), "");
}

// cuBLASLt reads what GELU was given in columns (our rows) whose distance is a multiple of 8, and adds no bias there.
TEST(CudaLibraryRules, ProductsTakeTheWayBackThroughGelu) {
  auto gradient = [](int64_t columns, std::vector<LibraryPostOp> before, std::vector<Shape> inputs, Shape kept) {
    LibraryKernelDesc desc = describe("matmul", {{4, 8}, {8, columns}}, {4, columns});
    before.push_back({"gelu_tanh_gradient", 0, 0, static_cast<int>(2 + inputs.size())});
    inputs.push_back(std::move(kept));
    return withPostOps(desc, std::move(before), std::move(inputs));
  };
  LibraryPostOp addition{"binary_add", 0, 0, 2};
  EXPECT_EQ(libraryOf(gradient(16, {}, {}, {4, 16})), "cublaslt");
  EXPECT_EQ(libraryOf(gradient(16, {addition}, {{4, 16}}, {4, 16})), "cublaslt");
  EXPECT_EQ(libraryOf(gradient(12, {}, {}, {4, 12})), "");
  EXPECT_EQ(libraryOf(gradient(16, {}, {}, {1, 16})), "");
  EXPECT_EQ(libraryOf(gradient(16, {addition}, {{1, 16}}, {4, 16})), "");
  EXPECT_EQ(libraryOf(gradient(16, {{"relu"}}, {}, {4, 16})), "");
  LibraryKernelDesc desc = gradient(16, {}, {}, {4, 16});
  desc.postOps.push_back({"relu"});
  EXPECT_EQ(libraryOf(desc), "");
  desc = gradient(16, {}, {}, {4, 16});
  desc.inputs[2].element = ElementType::BF16;
  EXPECT_EQ(libraryOf(desc), "");
  expectRejected(withPostOps(product(), {{"gelu_tanh_gradient"}}), "expects an input");
}

// TF32 is asked of products and convolutions of float32, and changes nothing for bfloat16.
TEST(CudaLibraryRules, ContractionsMayRound) {
  auto rounded = [](LibraryKernelDesc desc) {
    desc.ints["tf32"] = {1};
    return desc;
  };
  EXPECT_TRUE(readCublasProblem(rounded(product()))->tf32);
  EXPECT_FALSE(readCublasProblem(product())->tf32);
  LibraryKernelDesc narrow = withElements(product(), ElementType::BF16, ElementType::BF16);
  EXPECT_FALSE(readCublasProblem(rounded(narrow))->tf32);
  LibraryKernelDesc data = describe("deconvolution", {{2, 4, 9, 9}, {4, 6, 3, 3}}, {2, 6, 11, 11}),
                    weights = describe("convolution_weights", {{2, 6, 11, 11}, {2, 4, 9, 9}}, {4, 6, 3, 3});
  for (const LibraryKernelDesc &desc : {convolution(), data, weights}) {
    EXPECT_TRUE(readCudnnConvolution(rounded(desc))->tf32) << desc.text();
    EXPECT_FALSE(readCudnnConvolution(desc)->tf32) << desc.text();
  }
}

// float32 or bfloat16, sums in float32; others are computed by our own kernels.
TEST(CudaLibraryRules, ProductsOfTwoElementTypes) {
  using enum ElementType;
  EXPECT_EQ(libraryOf(withElements(product(), BF16, BF16)), "cublaslt");
  EXPECT_EQ(libraryOf(withElements(product(), BF16, F32)), "cublaslt");
  for (auto [inputs, output] : {std::pair{F32, BF16}, {F16, F16}, {F64, F64}, {I32, I32}})
    EXPECT_EQ(libraryOf(withElements(product(), inputs, output)), "") << elementName(inputs);
  EXPECT_EQ(libraryOf(withElements(convolution(), BF16, BF16)), "cudnn");
  EXPECT_EQ(libraryOf(withElements(convolution(), BF16, F32)), "");
  EXPECT_EQ(libraryOf(withElements(pooling("max"), BF16, BF16)), "");
}

// What lies otherwise than in rows or columns of one distance has no leading dimension.
TEST(CudaLibraryRules, ProductsReadTransposedAndBatchedOperands) {
  LibraryKernelDesc desc = describe("matmul", {{3, 4, 8}, {3, 8, 6}}, {3, 4, 6});
  const unsigned rowsInnermost[] = {0, 2, 1}, batchesInnermost[] = {1, 2, 0}, batchesBetween[] = {1, 0, 2};
  desc.inputs[0].layout = permutedLayout(desc.inputs[0].shape, rowsInnermost);
  EXPECT_EQ(libraryOf(desc), "cublaslt");
  // Heads between rows and columns: rows at a larger distance, batches at a smaller one.
  desc.inputs[0].layout = permutedLayout(desc.inputs[0].shape, batchesBetween);
  EXPECT_EQ(libraryOf(desc), "cublaslt");
  desc.inputs[0].layout = permutedLayout(desc.inputs[0].shape, batchesInnermost);
  EXPECT_EQ(libraryOf(desc), "");
  desc.inputs[0].layout = blockedLayout(desc.inputs[0].shape, 1, 2);
  EXPECT_EQ(libraryOf(desc), "");
  EXPECT_EQ(libraryOf(describe("matmul", {{3, 4, 8}, {1, 8, 6}}, {3, 4, 6})), "cublaslt");
  EXPECT_EQ(libraryOf(describe("matmul", {{1, 4, 8}, {3, 8, 6}}, {3, 4, 6})), "cublaslt");
  EXPECT_EQ(libraryOf(describe("matmul", {{2, 1, 4, 8}, {2, 3, 8, 6}}, {2, 3, 4, 6})), "");
  EXPECT_EQ(libraryOf(describe("matmul", {{65535, 1, 8}, {65535, 8, 6}}, {65535, 1, 6})), "cublaslt");
  EXPECT_EQ(libraryOf(describe("matmul", {{65536, 1, 8}, {65536, 8, 6}}, {65536, 1, 6})), "");
}

// Batches of rows on one matrix are rows of one product, which is one launch of larger tiles.
TEST(CudaLibraryRules, BatchesOnOneMatrixAreRows) {
  auto problem = readCublasProblem(describe("matmul", {{3, 4, 8}, {8, 6}}, {3, 4, 6}));
  ASSERT_TRUE(problem) << problem.error().text();
  EXPECT_EQ(problem->batches, 1);
  EXPECT_EQ(problem->columns, 12);
  EXPECT_EQ(problem->rows, 6);
}

// cuDNN has one number for padding on both sides, and epilogues of a convolution behind a bias alone.
TEST(CudaLibraryRules, ConvolutionsTakeWhatCudnnHas) {
  LibraryPostOp first{"binary_add", 0, 0, 2}, second{"binary_add", 0, 0, 3};
  EXPECT_EQ(libraryOf(withPostOps(convolution(), {first}, {{1, 4, 1, 1}})), "cudnn");
  EXPECT_EQ(libraryOf(withPostOps(convolution(), {first, second, {"relu"}}, {{1, 4, 1, 1}, {2, 4, 9, 9}})), "cudnn");
  EXPECT_EQ(libraryOf(withPostOps(convolution(), {{"relu"}})), "");
  EXPECT_EQ(libraryOf(withPostOps(convolution(), {first}, {{2, 4, 9, 9}})), "");
  EXPECT_EQ(libraryOf(withPostOps(convolution(), {first, {"gelu_tanh"}}, {{1, 4, 1, 1}})), "");
  LibraryKernelDesc desc = convolution();
  desc.ints["pads_end"] = {2, 2};
  desc.outputs[0] = f32({2, 4, 10, 10});
  EXPECT_EQ(libraryOf(desc), "");
  // Behind the last window there may be any padding: with stride 2 the second row of it is not reached.
  desc.ints["strides"] = {2, 2};
  desc.outputs[0] = f32({2, 4, 5, 5});
  EXPECT_EQ(libraryOf(desc), "cudnn");
  LibraryKernelDesc dilated = pooling("max");
  dilated.ints["dilations"] = {2, 2};
  dilated.outputs[0] = f32({2, 3, 3, 3});
  EXPECT_EQ(libraryOf(dilated), "");
}

// Weights with a dimension of groups in front have the bytes of those without, and one spatial dimension is two.
TEST(CudaLibraryRules, ConvolutionsOfGroupsAndOneDimension) {
  LibraryKernelDesc desc = describe("convolution", {{2, 6, 9}, {2, 2, 3, 3}}, {2, 4, 7});
  desc.ints["groups"] = {2};
  EXPECT_EQ(libraryOf(desc), "cudnn");
  desc.inputs[1] = f32({4, 3, 3});
  EXPECT_EQ(libraryOf(desc), "cudnn");
  EXPECT_EQ(libraryOf(describe("convolution", {{2, 6, 5, 5, 5}, {4, 6, 3, 3, 3}}, {2, 4, 3, 3, 3})), "cudnn");
}

// Scratch memory is a rule, since there is no GPU to ask: enough for large products, not 32 MiB for each small one.
TEST(CudaLibraryRules, ScratchGrowsWithTheKernel) {
  auto scratch = [](const LibraryKernelDesc &desc) {
    auto choice = cudaLibraries().choose({desc, {}, {}}, 1);
    return choice ? choice->desc.scratchBytes >> 20 : 0;
  };
  EXPECT_EQ(scratch(product()), 1u);
  EXPECT_EQ(scratch(describe("matmul", {{512, 64}, {64, 256}}, {512, 256})), 4u);
  EXPECT_EQ(scratch(describe("matmul", {{8192, 64}, {64, 8192}}, {8192, 8192})), 32u);
  EXPECT_EQ(scratch(convolution()), 8u);
  EXPECT_EQ(scratch(describe("convolution", {{32, 64, 56, 56}, {64, 64, 1, 1}}, {32, 64, 56, 56})), 98u);
  EXPECT_EQ(scratch(describe("convolution", {{64, 256, 56, 56}, {256, 256, 1, 1}}, {64, 256, 56, 56})), 784u);
  EXPECT_EQ(scratch(describe("convolution", {{128, 256, 56, 56}, {256, 256, 1, 1}}, {128, 256, 56, 56})), 1024u);
  EXPECT_EQ(scratch(pooling("max")), 0u);
}

// Contradictions are errors of whoever wrote the plan, whatever a library could do.
// Of a GPT's logits over 50,257 words: copies of them and of the table, where matrix units compute the product; nothing
// where rows are of a multiple of 16 bytes, where float32 is exact, where copies would take longer than they save, or
// for batches.
TEST(CudaLibraryRules, ScratchHoldsCopiesOfMisalignedMatrices) {
  auto bytes = [](const LibraryKernelDesc &desc) {
    auto choice = cudaLibraries().choose({desc, {}, {}}, 1);
    return choice ? choice->desc.scratchBytes : 0;
  };
  const uint64_t alone = (uint64_t(32) << 20) + 256;
  LibraryKernelDesc logits = describe("matmul", {{8192, 768}, {768, 50257}}, {8192, 50257});
  const unsigned transposed[] = {1, 0};
  logits.inputs[1].layout = permutedLayout(logits.inputs[1].shape, transposed);
  LibraryKernelDesc gradient = describe("matmul", {{8192, 50257}, {50257, 768}}, {8192, 768});
  EXPECT_EQ(bytes(logits), alone);
  EXPECT_EQ(bytes(gradient), alone);
  for (LibraryKernelDesc desc : {logits, gradient}) {
    desc.ints["tf32"] = {1};
    EXPECT_EQ(bytes(desc), alone + uint64_t(8192 + 768) * 50260 * 4 + 2 * 256) << "rows of a multiple of four";
    desc.ints.clear();
    desc = withElements(desc, ElementType::BF16, ElementType::BF16);
    EXPECT_EQ(bytes(desc), alone + uint64_t(8192 + 768) * 50264 * 2 + 2 * 256) << "and of eight";
  }
  LibraryKernelDesc even = describe("matmul", {{8192, 768}, {768, 50264}}, {8192, 50264});
  EXPECT_EQ(bytes(withElements(even, ElementType::BF16, ElementType::BF16)), alone);
  LibraryKernelDesc batch = describe("matmul", {{2, 999, 999}, {2, 999, 999}}, {2, 999, 999});
  EXPECT_EQ(bytes(withElements(batch, ElementType::BF16, ElementType::BF16)), alone);
  LibraryKernelDesc narrow = describe("matmul", {{8192, 64}, {64, 50257}}, {8192, 50257});
  EXPECT_EQ(bytes(withElements(narrow, ElementType::BF16, ElementType::BF16)), alone);
}

TEST(CudaLibraryRules, RejectContradictions) {
  expectRejected(describe("matmul", {{4, 8}, {7, 6}}, {4, 6}), "[..., M, K] x [..., K, N]");
  expectRejected(describe("matmul", {{4, 8}, {8, 6}}, {4, 5}), "[..., M, K] x [..., K, N]");
  expectRejected(describe("matmul", {{2, 4, 8}, {3, 8, 6}}, {3, 4, 6}), "[..., M, K] x [..., K, N]");
  expectRejected(describe("matmul", {{4}, {4, 6}}, {4, 6}), "[..., M, K] x [..., K, N]");
  expectRejected(describe("matmul", {{4, 8}}, {4, 6}), "expects 2 to 3 inputs");
  expectRejected(describe("matmul", {{4, 8}, {8, 6}, {4}}, {4, 6}), "bias expects 6 values");
  for (int argument : {-1, 0, 1, 3, 2147483647})
    expectRejected(withPostOps(product(), {{"binary_add", 0, 0, argument}}, {{4, 6}}), "input");
  expectRejected(withPostOps(product(), {{"relu", 0, 0, 2}}, {{4, 6}}), "expects no input");
  LibraryKernelDesc desc = product();
  desc.ints["tf32"] = {2};
  expectRejected(desc, "\"tf32\" expects values from 0 to 1");
  desc = convolution();
  desc.ints["groups"] = {4};
  expectRejected(desc, "weights [O, C/4");
  desc.ints["groups"] = {0};
  expectRejected(desc, "\"groups\"");
  desc = convolution();
  desc.ints["strides"] = {1};
  expectRejected(desc, "\"strides\" expects 2 values");
  desc.ints["strides"] = {int64_t(1) << 62, 1};
  expectRejected(desc, "\"strides\" expects values");
  desc = convolution();
  desc.outputs[0] = f32({2, 4, 9, 8});
  expectRejected(desc, "does not lead from 9 to 8");
  desc.outputs[0] = f32({2, 4, 9});
  expectRejected(desc, "expects 4 dimensions");
}

} // namespace
} // namespace cleave::runtime
