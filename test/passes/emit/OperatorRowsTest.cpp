// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of operators: one row a node, with kernel, costs and what it receives.

#include "ModuleText.h"

#include "passes/emit/OperatorRows.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

// Node "fc" is two operators, "act" is fused with it, "neg" on the other device receives what they make, through a
// change of layout that carries the producer's names. The result of "neg" changes its layout back and forth, which
// moves more bytes than "neg" itself, and "shape" needs no kernel.
const char *const text = R"(
#wide = #plan.layout<"wide", padded = [4, 1024], strides = [1024, 1]>
module attributes {dist.devices = [{name = "a", driver = "cpu", cores = 1 : i64, memory = 0 : i64},
                                   {name = "b", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
  dist.mesh @d0 <[], devices = [0]>
  dist.mesh @d1 <[], devices = [1]>
  dfg.parameter @w : tensor<8x16xf32> = #dfg.fill<value = 1.0 : f64>
  dfg.parameter @b : tensor<16xf32> = #dfg.fill<value = 1.0 : f64>
  plan.library_kernel @matmul "onednn" "matmul" {} : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> tensor<4x16xf32, #wide>
  plan.library_kernel @widen "onednn" "reorder" {} : (tensor<4x16xf32>) -> tensor<4x16xf32, #wide>
  plan.library_kernel @narrow "onednn" "reorder" {} : (tensor<4x16xf32, #wide>) -> tensor<4x16xf32>
  plan.library_kernel @neg "onednn" "eltwise" {} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  dfg.graph @main(%x: tensor<4x8xf32> {dfg.name = "x"} loc("x"("Input"))) -> tensor<64xf32> {
    %w = dfg.read @w : tensor<8x16xf32> loc("w"("Parameter"))
    %b = dfg.read @b : tensor<16xf32> loc("b"("Parameter"))
    %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "pin fc -> front">} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32> loc("fc"("Gemm"))
    %1 = dfg.add %0, %b {dist.place = #dist.place<@d0, by = "pin fc -> front">} : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32> loc("fc"("Gemm"))
    %2 = dfg.relu %1 {dist.place = #dist.place<@d0, by = "propagation from fc">} : (tensor<4x16xf32>) -> tensor<4x16xf32> loc("act"("Relu"))
    %3 = dfg.neg %2 {dist.place = #dist.place<@d1, by = "pin neg -> back">} : (tensor<4x16xf32>) -> tensor<4x16xf32> loc("neg"("Neg"))
    %4 = dfg.reshape %3 {dist.place = #dist.place<@d1, by = "propagation from neg">} : (tensor<4x16xf32>) -> tensor<64xf32> loc("shape"("Flatten"))
    dfg.return %4 : tensor<64xf32>
  }
  dist.program @main.d0(%x: tensor<4x8xf32> loc("x"("Input"))) attributes {mesh = @d0} {
    %w = dfg.read @w : tensor<8x16xf32> loc("w"("Parameter"))
    %b = dfg.read @b : tensor<16xf32> loc("b"("Parameter"))
    %0 = plan.launch @matmul(%x, %w, %b) : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> tensor<4x16xf32, #wide> loc(fused["fc"("Gemm"), "act"("Relu")])
    dist.send %0 to @d1 channel 0 : tensor<4x16xf32, #wide> loc(fused["fc"("Gemm"), "act"("Relu")])
    dist.return
  }
  dist.program @main.d1() -> tensor<64xf32> attributes {mesh = @d1} {
    %0 = dist.receive from @d0 channel 0 : tensor<4x16xf32, #wide> loc(fused["fc"("Gemm"), "act"("Relu")])
    %1 = plan.launch @narrow(%0) : (tensor<4x16xf32, #wide>) -> tensor<4x16xf32> loc(fused["fc"("Gemm"), "act"("Relu")])
    %2 = plan.launch @neg(%1) : (tensor<4x16xf32>) -> tensor<4x16xf32> loc("neg"("Neg"))
    %3 = plan.launch @widen(%2) : (tensor<4x16xf32>) -> tensor<4x16xf32, #wide> loc("neg"("Neg"))
    %4 = plan.launch @narrow(%3) : (tensor<4x16xf32, #wide>) -> tensor<4x16xf32> loc("neg"("Neg"))
    %5 = plan.view %4 : tensor<4x16xf32> -> tensor<64xf32> loc("shape"("Flatten"))
    dist.return %5 : tensor<64xf32>
  }
})";

class OperatorRows : public testing::Test {
protected:
  ModuleText module{text};
  std::vector<OperatorRow> rows = collectOperatorRows(*module.get().getOps<dfg::GraphOp>().begin());

  const OperatorRow &row(size_t index, const std::string &name) {
    EXPECT_LT(index, rows.size());
    EXPECT_EQ(rows[index].name, name);
    return rows[index];
  }
};

// Nodes stand in the order of the graph, each once, with where they are and who decided it.
TEST_F(OperatorRows, AreTheNodesInOrder) {
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(row(0, "fc").kind, "Gemm");
  EXPECT_EQ(row(0, "fc").mesh, "d0");
  EXPECT_EQ(row(0, "fc").decidedBy, "pin fc -> front");
  EXPECT_EQ(row(2, "neg").mesh, "d1");
  EXPECT_EQ(row(1, "act").inputs, std::vector<uint32_t>{0});
  EXPECT_TRUE(row(0, "fc").inputs.empty());
}

// Costs by hand: 2*4*8*16 flops of the product, 4*16 of the addition; parameters 8*16 and 16 floats.
TEST_F(OperatorRows, SumTheCostsOfTheirOperators) {
  EXPECT_EQ(row(0, "fc").flops, 2 * 4 * 8 * 16 + 4 * 16);
  EXPECT_EQ(row(0, "fc").parameterBytes, (8 * 16 + 16) * 4);
  EXPECT_EQ(row(0, "fc").parameters, (std::vector<std::string>{"w", "b"}));
  EXPECT_TRUE(row(1, "act").parameters.empty());
  EXPECT_EQ(row(0, "fc").resultBytes, 4 * 16 * 4);
  EXPECT_EQ(row(3, "shape").shape, std::vector<int64_t>{64});
}

// The kernel is the one that computes the node, not the change of layout that carries its name.
TEST_F(OperatorRows, NameTheirKernels) {
  EXPECT_EQ(row(0, "fc").kernel, "matmul");
  EXPECT_EQ(row(0, "fc").fusedWith, "");
  EXPECT_EQ(row(1, "act").kernel, "matmul");
  EXPECT_EQ(row(1, "act").fusedWith, "fc");
  EXPECT_EQ(row(2, "neg").kernel, "neg");
  EXPECT_EQ(row(3, "shape").kernel, "");
}

// What crosses devices is counted where it is used, padding included.
TEST_F(OperatorRows, CountWhatTheyReceive) {
  EXPECT_EQ(row(2, "neg").receivedBytes, 4 * 1024 * 4);
  EXPECT_EQ(row(0, "fc").receivedBytes, 0);
}

/// Seconds of every instruction that tell sums apart: powers of two, in order.
InstructionSeconds powersOfTwo(const runtime::Entry &entry) {
  InstructionSeconds seconds;
  double next = 1;
  for (const runtime::Program &program : entry.programs)
    for (std::vector<double> &list = seconds.emplace_back(); list.size() != program.body.size(); next *= 2)
      list.push_back(next);
  return seconds;
}

/// What `matches` of the instructions of an entry take together.
template <typename Matches>
double sumOf(const runtime::Entry &entry, const InstructionSeconds &seconds, Matches matches) {
  double sum = 0;
  for (size_t program = 0; program != seconds.size(); ++program)
    for (size_t i = 0; i != seconds[program].size(); ++i)
      sum += matches(program, entry.programs[program].body[i]) ? seconds[program][i] : 0;
  return sum;
}

// A node takes what calls of its name take, and what brings it what it reads: who sends, loads and stores belongs to
// none. What another's kernel computes has no time of its own, and what needs no kernel takes none.
TEST_F(OperatorRows, TakeTheTimesOfInstructions) {
  runtime::Plan plan = module.plan();
  const runtime::Entry &entry = plan->entries[0];
  EntryTimes times;
  times.seconds = powersOfTwo(entry);
  auto callsOf = [&](const std::string &node) {
    return sumOf(entry, times.seconds, [&](size_t, const runtime::Instruction &instruction) {
      return instruction.node == node && std::holds_alternative<runtime::Call>(instruction.action);
    });
  };
  double received = sumOf(entry, times.seconds, [](size_t, const runtime::Instruction &instruction) {
    return std::holds_alternative<runtime::Receive>(instruction.action);
  });
  ASSERT_GT(received, 0);
  EmitOptions options;
  options.times.push_back(times);
  runtime::Plan timed = module.plan(options);
  const std::vector<runtime::Operator> &operators = timed->entries[0].operators;
  EXPECT_EQ(operators[0].predictedSeconds, callsOf("fc"));
  EXPECT_EQ(operators[0].communicationSeconds, 0);
  EXPECT_EQ(operators[1].predictedSeconds, -1);
  EXPECT_EQ(operators[2].predictedSeconds, callsOf("neg") + received);
  EXPECT_EQ(operators[2].communicationSeconds, received);
  EXPECT_EQ(operators[3].predictedSeconds, 0);
  // Without times there are none.
  EXPECT_EQ(entry.operators[0].predictedSeconds, -1);
  EXPECT_FALSE(entry.prediction);
}

// The rows are in the plan, and instructions carry the name of the node that they are for.
TEST_F(OperatorRows, AreInThePlan) {
  runtime::Plan plan = module.plan();
  const runtime::Entry &entry = plan->entries[0];
  ASSERT_EQ(entry.operators.size(), 4u);
  EXPECT_EQ(entry.operators[1].fusedWith, "fc");
  EXPECT_EQ(entry.operators[2].mesh, 1u);
  EXPECT_EQ(entry.operators[2].inputs, std::vector<uint32_t>{1});
  EXPECT_EQ(entry.programs[0].body.front().node, "x");
  EXPECT_EQ(entry.programs[1].body.front().node, "fc");
  EXPECT_EQ(entry.programs[1].body.back().node, "output0");
}

// On a mesh: what all devices together receive. The sum of 4x16 floats goes once around four
// devices in both phases; the gathered columns come from the three others; a slice brings nothing.
TEST(OperatorRowsOnMeshes, CountCollectives) {
  ModuleText module(R"(
module attributes {dist.devices = [{name = "a", driver = "cpu", cores = 1 : i64, memory = 0 : i64}, {name = "b", driver = "cpu", cores = 1 : i64, memory = 0 : i64},
                                   {name = "c", driver = "cpu", cores = 1 : i64, memory = 0 : i64}, {name = "d", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
  dist.mesh @m <["x" = 2, "y" = 2], devices = [0, 1, 2, 3]>
  plan.library_kernel @neg "onednn" "eltwise" {} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  plan.library_kernel @part "onednn" "eltwise" {} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  dfg.graph @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
    %0 = dfg.neg %x {dist.place = #dist.place<@m, by = "test", split = <{d0 = ["x", "y"]}>>} : (tensor<4x16xf32>) -> tensor<4x16xf32> loc("sum"("Gemm"))
    %1 = dfg.neg %0 {dist.place = #dist.place<@m, by = "test", split = <{d1 = ["x", "y"]}>>} : (tensor<4x16xf32>) -> tensor<4x16xf32> loc("cut"("Neg"))
    %2 = dfg.neg %1 {dist.place = #dist.place<@m, by = "test">} : (tensor<4x16xf32>) -> tensor<4x16xf32> loc("all"("Neg"))
    dfg.return %2 : tensor<4x16xf32>
  }
  dist.program @main.m(%x: tensor<4x16xf32>) -> tensor<4x16xf32> attributes {mesh = @m} {
    %0 = plan.launch @neg(%x) : (tensor<4x16xf32>) -> tensor<4x16xf32> loc("sum"("Gemm"))
    %1 = dist.all_reduce %0 from <[4, 16], partial sum ["x", "y"]> to <[4, 16]> : tensor<4x16xf32> -> tensor<4x16xf32> loc("sum"("Gemm"))
    %2 = dist.slice %1 from <[4, 16]> to <[4, 16 by ["x", "y"]]> : tensor<4x16xf32> -> tensor<4x4xf32> loc("sum"("Gemm"))
    %3 = plan.launch @part(%2) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("cut"("Neg"))
    %4 = dist.all_gather %3 from <[4, 16 by ["x", "y"]]> to <[4, 16]> : tensor<4x4xf32> -> tensor<4x16xf32> loc("cut"("Neg"))
    %5 = plan.launch @neg(%4) : (tensor<4x16xf32>) -> tensor<4x16xf32> loc("all"("Neg"))
    dist.return %5 : tensor<4x16xf32>
  }
})");
  std::vector<OperatorRow> rows = collectOperatorRows(*module.get().getOps<dfg::GraphOp>().begin());
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].receivedBytes, 4 * (2 * 4 * 16 * 4 * 3 / 4));
  EXPECT_EQ(rows[1].receivedBytes, 0);
  EXPECT_EQ(rows[2].receivedBytes, 4 * (3 * 4 * 4 * 4));
  // The sum is for the node whose parts it joins, the gathering for the one that reads all of it.
  runtime::Plan plan = module.plan();
  const runtime::Entry &entry = plan->entries[0];
  InstructionSeconds seconds = powersOfTwo(entry);
  rows = collectOperatorRows(*module.get().getOps<dfg::GraphOp>().begin(), seconds);
  auto is = [](const char *kind) {
    return [=](size_t, const runtime::Instruction &instruction) {
      return std::string(kindName(instruction.action)) == kind;
    };
  };
  EXPECT_EQ(rows[0].communicationSeconds, sumOf(entry, seconds, is("all_reduce")));
  EXPECT_EQ(rows[2].communicationSeconds, sumOf(entry, seconds, is("all_gather")));
  EXPECT_EQ(rows[0].seconds + rows[1].seconds + rows[2].seconds,
            sumOf(entry, seconds, [&](size_t, const runtime::Instruction &instruction) {
              return is("call")(0, instruction) || is("all_reduce")(0, instruction) ||
                     is("all_gather")(0, instruction) || is("slice")(0, instruction);
            }));
}

// Sums that travel together share the time by their bytes: 16 floats and 48.
TEST(OperatorRowsOnMeshes, ShareTheTimesOfCollectives) {
  ModuleText module(R"(
module attributes {dist.devices = [{name = "a", driver = "cpu", cores = 1 : i64, memory = 0 : i64}, {name = "b", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
  dist.mesh @m <["x" = 2], devices = [0, 1]>
  dfg.graph @main(%x: tensor<16xf32>, %y: tensor<48xf32>) -> (tensor<16xf32>, tensor<48xf32>) {
    %0 = dfg.neg %x {dist.place = #dist.place<@m, by = "test">} : (tensor<16xf32>) -> tensor<16xf32> loc("small"("Neg"))
    %1 = dfg.neg %y {dist.place = #dist.place<@m, by = "test">} : (tensor<48xf32>) -> tensor<48xf32> loc("large"("Neg"))
    dfg.return %0, %1 : tensor<16xf32>, tensor<48xf32>
  }
  plan.program @main.m on @m queues ["collective"] arena 512 live 512 {
    %b0 = plan.buffer "small" offset 0 bytes 64 : !plan.buffer<tensor<16xf32>> loc("small"("Neg"))
    %b1 = plan.buffer "large" offset 64 bytes 192 : !plan.buffer<tensor<48xf32>> loc("large"("Neg"))
    %b2 = plan.buffer "small" offset 256 bytes 64 : !plan.buffer<tensor<16xf32>> loc("small"("Neg"))
    %b3 = plan.buffer "large" offset 320 bytes 192 : !plan.buffer<tensor<48xf32>> loc("large"("Neg"))
    plan.prepare {
    }
    plan.body {
      plan.all_reduce "sum" over [0] %b0, %b1 -> %b2, %b3 {channel = 0 : i64, order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<16xf32>>, !plan.buffer<tensor<48xf32>> -> !plan.buffer<tensor<16xf32>>, !plan.buffer<tensor<48xf32>> loc(fused["small"("Neg"), "large"("Neg")])
    }
  }
})");
  auto rows = collectOperatorRows(*module.get().getOps<dfg::GraphOp>().begin(), {{4.0}});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].communicationSeconds, 1.0);
  EXPECT_EQ(rows[1].communicationSeconds, 3.0);
}

// A split is told in the words of people; of a node's operators the one with most work speaks, whatever comes last.
TEST(OperatorRowsOfMeshes, TellSplits) {
  ModuleText module{R"(
module {
  dist.mesh @grid <["data" = 2, "model" = 4], devices = [0, 1, 2, 3, 4, 5, 6, 7]>
  dfg.graph @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<4x16xf32> {
    %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>, dist.place = #dist.place<@grid, by = "splits fc", split = <{m = ["data"], n = ["model"]}>>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32> loc("fc"("Gemm"))
    %1 = dfg.add %0, %b {dist.place = #dist.place<@grid, by = "default">} : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32> loc("fc"("Gemm"))
    %2 = dfg.relu %1 {dist.place = #dist.place<@grid, by = "splits act", split = <{d1 = ["data", "model"]}>>} : (tensor<4x16xf32>) -> tensor<4x16xf32> loc("act"("Relu"))
    dfg.return %2 : tensor<4x16xf32>
  }
})"};
  std::vector<OperatorRow> rows = collectOperatorRows(*module.get().getOps<dfg::GraphOp>().begin());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].split, "batch/data 2, out_channel/model 4");
  EXPECT_EQ(rows[0].decidedBy, "splits fc");
  EXPECT_EQ(rows[0].ways, 8u);
  EXPECT_EQ(rows[1].split, "d1/data 2/model 4");
}

} // namespace
