// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an executor makes of a transformer: kernels, what they read, what a step keeps.

#include "ModelGraph.h"

#include "passes/planner/search/Kernels.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::search;

namespace {

const std::map<std::string, int64_t> numbers = {{"batch", 2}, {"layers", 2},    {"hidden", 64},
                                                {"heads", 4}, {"sequence", 32}, {"vocabulary", 128}};

/// The one operator of a node whose name ends so and that is of a class.
Operator &find(SearchGraph &graph, llvm::StringRef node, CostClass costClass) {
  for (Operator &op : graph.operators)
    if (llvm::StringRef(graph.nodes[op.node].name) == node && op.cost.costClass == costClass)
      return op;
  throw std::runtime_error(("no operator " + node).str());
}

Executor executorOf(llvm::StringRef name) {
  auto executor = findExecutor(name, "test");
  return executor ? *executor : Executor();
}

double keptBytes(const SearchGraph &graph, llvm::StringRef block) {
  double bytes = 0;
  for (const Tensor &tensor : graph.tensors)
    if (tensor.kept && tensor.producer != none &&
        llvm::StringRef(graph.nodes[graph.operators[tensor.producer].node].name).starts_with(block))
      bytes += tensor.bytes;
  return bytes;
}

TEST(KernelsTest, OwnExecutorCountsOperators) {
  ModelGraph model("gpt", numbers);
  chooseKernels(model.graph, Executor());
  for (const Operator &op : model.graph.operators)
    EXPECT_FALSE(op.use);
}

TEST(KernelsTest, ChainsAreOneKernel) {
  ModelGraph model("gpt", numbers);
  chooseKernels(model.graph, executorOf("megatron-2021"));
  SearchGraph &graph = model.graph;
  // Scale, mask and softmax: only the first launches, only the last writes.
  Operator &scale = find(graph, "block1/attention/scale", CostClass::Elementwise);
  Operator &softmax = find(graph, "block1/attention/softmax", CostClass::Reduction);
  EXPECT_TRUE(scale.use->launches);
  EXPECT_FALSE(scale.use->writes);
  EXPECT_FALSE(softmax.use->launches);
  EXPECT_TRUE(softmax.use->writes);
  EXPECT_TRUE(softmax.use->readsResultAgain);
  // A bias is added as the product is written, and its gradient sums the result's.
  Operator &bias = find(graph, "block1/mlp/fc1.add", CostClass::Elementwise);
  EXPECT_TRUE(bias.use->isEpilogue && bias.use->isFree && bias.use->passesOn);
  EXPECT_EQ(bias.use->gradientReads, 1);
  // A residual passes its gradient on; what it made has two readers, whose gradients are added.
  Operator &residual = find(graph, "block1/attention/residual", CostClass::Elementwise);
  EXPECT_TRUE(residual.use->passesOn);
  EXPECT_EQ(graph.tensors[residual.results.front()].gradientSums, 1);
  // Query, key and value are one product.
  Operator &query = find(graph, "block1/attention/query", CostClass::Contraction);
  EXPECT_DOUBLE_EQ(query.use->share, 1.0 / 3);
  EXPECT_DOUBLE_EQ(find(graph, "block1/mlp/fc1", CostClass::Contraction).use->share, 1);
}

// Products with weights are linear layers, but for the head's; those of attention are none. What only they read again
// is kept in 8 bits: the normalized tensor and GELU's, not what attention's own gradient reads.
TEST(KernelsTest, LinearLayersInFewerBits) {
  ModelGraph model("gpt", numbers);
  chooseKernels(model.graph, executorOf("megatron-core-fp8"));
  SearchGraph &graph = model.graph;
  unsigned linear = 0, products = 0;
  for (const Operator &op : graph.operators) {
    products += op.cost.costClass == CostClass::Contraction && !op.use->isStreamed;
    linear += op.use->isLinear;
  }
  // Query, key, value, output and two of the MLP in each of two layers, and the head.
  EXPECT_EQ(products, 13u);
  EXPECT_EQ(linear, 12u);
  auto input = [&](llvm::StringRef node) -> const Tensor & {
    return graph.tensors[find(graph, node, CostClass::Contraction).operands.front().tensor];
  };
  EXPECT_TRUE(input("block1/mlp/fc1").kept && input("block1/mlp/fc1").keptRounded);
  EXPECT_TRUE(input("block1/mlp/fc2").kept && input("block1/mlp/fc2").keptRounded);
  ModelGraph whole("gpt", numbers);
  chooseKernels(whole.graph, executorOf("megatron-core"));
  for (const Operator &op : whole.graph.operators)
    EXPECT_FALSE(op.use->isLinear);
  for (const Tensor &tensor : whole.graph.tensors)
    EXPECT_FALSE(tensor.keptRounded);
}

// Of a tensor that is read by a product with weights and by something else with a parameter, only the product is one of
// products that share a kernel: it has that alone. What is kept for its gradient is the input that the view shows.
TEST(KernelsTest, OneProductAndAnotherReader) {
  ModelGraph model(std::string(R"(
dfg.parameter @w : tensor<8x16xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @b : tensor<8xf32> = #dfg.fill<value = 1.0>
dfg.graph @main(%x: tensor<2x2x8xf32> {dfg.name = "x"})
    -> (tensor<4x16xf32> {dfg.name = "y"}, tensor<4x8xf32> {dfg.name = "z"}) {
  %w = dfg.read @w : tensor<8x16xf32>
  %b = dfg.read @b : tensor<8xf32>
  %v = dfg.reshape %x : (tensor<2x2x8xf32>) -> tensor<4x8xf32> loc("view")
  %0 = dfg.dot_general %v, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32> loc("product")
  %1 = dfg.add %v, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> loc("shifted")
  dfg.return %0, %1 : tensor<4x16xf32>, tensor<4x8xf32>
}
)"));
  SearchGraph &graph = model.graph;
  chooseKernels(graph, executorOf("megatron-2021"));
  Operator &product = find(graph, "product", CostClass::Contraction), &view = find(graph, "view", CostClass::View);
  EXPECT_EQ(product.use->share, 1);
  EXPECT_TRUE(graph.tensors[view.operands.front().tensor].kept);
  EXPECT_FALSE(graph.tensors[view.results.front()].kept);
}

// The batch is what two devices would cut: where rows are seen as three by four, the four.
TEST(KernelsTest, TheBatchIsWhatCanBeHalved) {
  ModelGraph model(std::string(R"(
dfg.graph @main(%x: tensor<12x8xf32> {dfg.name = "x"}) -> (tensor<3x4x8xf32> {dfg.name = "y"}) {
  %v = dfg.reshape %x : (tensor<12x8xf32>) -> tensor<3x4x8xf32> loc("view")
  %0 = dfg.exp %v : (tensor<3x4x8xf32>) -> tensor<3x4x8xf32> loc("exp")
  dfg.return %0 : tensor<3x4x8xf32>
}
)"));
  Operator &exp = find(model.graph, "exp", CostClass::Elementwise);
  ASSERT_NE(exp.batch, none);
  EXPECT_EQ(exp.rule.factors[exp.batch].size, 4);
}

// Korthikanti et al. (2022) without dropout: of a layer of b s h elements are kept two inputs of normalizations, two
// results of them, query, key, value and context, four and four in the MLP: 16 b s h, and a softmax's result of a b s
// s.
TEST(KernelsTest, KeptActivations) {
  constexpr double batch = 2, sequence = 32, hidden = 64, heads = 4, floatBytes = 4;
  double layer = batch * sequence * hidden * floatBytes, scores = heads * batch * sequence * sequence * floatBytes;
  ModelGraph model("gpt", numbers);
  chooseKernels(model.graph, executorOf("megatron-2021"));
  double products = keptBytes(model.graph, "block1/");
  // One more where the scale's operand counts, which is not known to be linear.
  EXPECT_GE(products, 16 * layer + scores - layer);
  EXPECT_LE(products, 17 * layer + 2 * scores);
  ModelGraph streamed("gpt", numbers);
  chooseKernels(streamed.graph, executorOf("megatron-core"));
  EXPECT_LE(keptBytes(streamed.graph, "block1/"), products - scores);
}

// Kernels between the products of attention that only an executor knows: so many passes over a b s s scores, and
// nothing of them kept but the probabilities.
TEST(KernelsTest, AttentionIsCountedInPasses) {
  constexpr double scores = 4 * 2 * 32 * 32 * 4;
  ModelGraph plain("gpt", numbers), counted("gpt", numbers);
  Executor executor = executorOf("eager");
  chooseKernels(plain.graph, executor);
  executor.scorePasses = 6;
  executor.backwardScorePasses = 20;
  chooseKernels(counted.graph, executor);
  Operator &softmax = find(counted.graph, "block1/attention/softmax", CostClass::Reduction);
  EXPECT_TRUE(softmax.use->isCounted);
  EXPECT_TRUE(counted.graph.tensors[softmax.results.front()].kept);
  double forward = 0, backward = 0;
  for (const Operator &op : counted.graph.operators) {
    if (!op.use->isCounted)
      continue;
    double bytes = counted.graph.tensors[op.results.front()].bytes;
    forward += op.use->passes * bytes;
    backward += op.use->backwardPasses * bytes;
    EXPECT_EQ(op.use->gradientReads, 0);
    for (size_t operand = 0; operand != op.operands.size(); ++operand)
      EXPECT_FALSE(op.use->reads[operand] || op.use->readsAgain[operand] || op.use->writesGradient[operand]);
  }
  EXPECT_EQ(forward, static_cast<double>(numbers.at("layers")) * 6 * scores);
  EXPECT_EQ(backward, static_cast<double>(numbers.at("layers")) * 20 * scores);
  EXPECT_LE(keptBytes(counted.graph, "block1/"), keptBytes(plain.graph, "block1/"));
}

TEST(KernelsTest, AttentionIsStreamed) {
  for (const char *name : {"gpt", "llama"}) {
    std::map<std::string, int64_t> sizes = numbers;
    if (std::string(name) == "llama") {
      sizes["kv-heads"] = 2;
      sizes["ffn"] = 96;
    }
    ModelGraph model(name, sizes);
    chooseKernels(model.graph, executorOf("fsdp"));
    Operator &scores = find(model.graph, "block1/attention/scores", CostClass::Contraction);
    Operator &softmax = find(model.graph, "block1/attention/softmax", CostClass::Reduction);
    Operator &context = find(model.graph, "block1/attention/context", CostClass::Contraction);
    EXPECT_TRUE(scores.use->isStreamed && softmax.use->isStreamed && context.use->isStreamed) << name;
    EXPECT_FALSE(scores.use->writes || softmax.use->writes) << name;
    EXPECT_TRUE(context.use->writes) << name;
    EXPECT_FALSE(model.graph.tensors[softmax.results.front()].kept) << name;
  }
}

// Only heads and the MLP's units lie between a product split by columns and one split by rows.
TEST(KernelsTest, InnerFactors) {
  ModelGraph model("gpt", numbers);
  findInnerFactors(model.graph);
  auto inner = [&](llvm::StringRef node, CostClass costClass) {
    return llvm::count(find(model.graph, node, costClass).inner, true);
  };
  EXPECT_EQ(inner("block1/norm1", CostClass::Reduction), 0);
  EXPECT_EQ(inner("block1/residual", CostClass::Elementwise), 0);
  EXPECT_EQ(inner("block1/mlp/gelu", CostClass::Elementwise), 1);
  EXPECT_EQ(inner("block1/mlp/fc1.add", CostClass::Elementwise), 1);
}

} // namespace
