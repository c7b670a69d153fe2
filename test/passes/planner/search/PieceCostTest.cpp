// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the splits of two dense layers cost, against formulas written out by hand:
//
//   x[m, k] ── fc1: w1[k, h] ──▶ relu ──▶ fc2: w2[h, n] ──▶ y[m, n]

#include "ModelGraph.h"

#include "passes/planner/search/Piece.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::search;

namespace {

constexpr double m = 64, k = 512, h = 2048, n = 256;
constexpr double peak = 1e12, memoryBandwidth = 1e11, alpha = 1e-5, linkBandwidth = 1e10;

const char *const layers = R"(
dfg.parameter @w1 : tensor<512x2048xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @w2 : tensor<2048x256xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 8>
dfg.graph @main(%x: tensor<64x512xf32> {dfg.name = "x"}) -> (tensor<64x256xf32> {dfg.name = "y"}) {
  %w1 = dfg.read @w1 : tensor<512x2048xf32>
  %w2 = dfg.read @w2 : tensor<2048x256xf32>
  %0 = dfg.dot_general %x, %w1 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>} : (tensor<64x512xf32>, tensor<512x2048xf32>) -> tensor<64x2048xf32> loc("fc1")
  %1 = dfg.relu %0 : (tensor<64x2048xf32>) -> tensor<64x2048xf32> loc("relu")
  %2 = dfg.dot_general %1, %w2 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>} : (tensor<64x2048xf32>, tensor<2048x256xf32>) -> tensor<64x256xf32> loc("fc2")
  dfg.return %2 : tensor<64x256xf32>
}
)";

Machine machineOf(unsigned devices) { return plainMachine(devices, peak, memoryBandwidth, {linkBandwidth, alpha}); }

double tensorBytesOf(double elements) { return 4 * elements; }

/// A product of a x b by b x c, by the roofline.
double product(double a, double b, double c) {
  return std::max(2 * a * b * c / peak, tensorBytesOf(a * b + b * c + a * c) / memoryBandwidth);
}
/// The same of a gradient of weights, of b elements by c, that is added to what other microbatches left.
double adding(double a, double b, double c, double microbatches) {
  double own = tensorBytesOf(a * b + b * c + a * c), sum = tensorBytesOf(b * c) * (1 - 1 / microbatches);
  return std::max(2 * a * b * c / peak, (own + sum) / memoryBandwidth);
}
/// The rectified linear unit works in the kernel of the product before it.
double fused(double elements) { return elements / peak; }
/// Backward it reads a gradient and what it made, and writes a gradient.
double fusedBackward(double elements) {
  return std::max(elements / peak, 3 * tensorBytesOf(elements) / memoryBandwidth);
}

/// The cheaper of ring and tree.
double allReduce(double bytes, double p) {
  return std::min(2 * (p - 1) * alpha + 2 * (p - 1) / p * bytes / linkBandwidth,
                  2 * std::ceil(std::log2(p)) * alpha + 2 * bytes / linkBandwidth);
}
double passAround(double bytes, double p) { return (p - 1) * alpha + (p - 1) / p * bytes / linkBandwidth; }

class TwoLayers : public testing::TestWithParam<unsigned> {
protected:
  TwoLayers() : model(std::string(layers)), on(machineOf(GetParam()), {static_cast<int64_t>(GetParam())}) {}

  struct Found {
    Sums sums;
    solver::Choice cost;
    double reduction = 0;
  };

  /// With the named factor of each operator cut; "" for none. Tensors are in the states that are cheapest for that.
  Found with(bool training, const std::array<std::string, 3> &cuts, double microbatches = 1) {
    PieceOptions options;
    options.training = training;
    options.microbatches = microbatches;
    options.precision.optimizer = 2;
    FixedFactors fixed;
    for (unsigned index = 0; index != 3; ++index) {
      const Operator &op = model.graph.operators[index];
      unsigned factor = none;
      for (unsigned known = 0; known != op.rule.factors.size(); ++known)
        if (op.rule.factors[known].name == cuts[index])
          factor = known;
      EXPECT_TRUE(cuts[index].empty() || factor != none) << cuts[index];
      fixed[index].axes.push_back({0, factor});
    }
    Piece piece(model.graph, 0, 3, none, none, on.grid, on.cost, options, fixed);
    // Nothing is left to choose.
    std::vector<unsigned> choices(piece.problem.variables.size(), 0);
    for (unsigned variable = 0; variable != choices.size(); ++variable)
      EXPECT_EQ(piece.problem.domainOf(variable).size(), 1u);
    Found found{piece.sumsOf(choices), solver::evaluate(piece.problem, choices)};
    for (unsigned variable = 0; variable != choices.size(); ++variable)
      found.reduction += piece.reductions[variable][0];
    return found;
  }

  double p() const { return GetParam(); }

  ModelGraph model;
  MachineGrid on;
};

constexpr double weights1 = 4 * k * h, weights2 = 4 * h * n;

/// The problem and the sums say the same.
void expectConsistent(const Sums &sums, const solver::Choice &cost, double reduction, bool training,
                      double microbatches) {
  EXPECT_NEAR(cost.seconds, sums.forward + sums.backward + sums.update / microbatches, 1e-12);
  EXPECT_NEAR(cost.bytes, sums.parameters + sums.gradients + sums.optimizer + (training ? sums.saved : 0), 1e-3);
  EXPECT_NEAR(reduction, sums.reduction, 1e-12);
}

TEST_P(TwoLayers, WholeOnEveryDevice) {
  auto [sums, cost, reduction] = with(false, {"", "", ""});
  EXPECT_NEAR(sums.forward, product(m, k, h) + fused(m * h) + product(m, h, n), 1e-12);
  EXPECT_EQ(sums.forwardExchange, 0);
  EXPECT_EQ(sums.backward, 0);
  EXPECT_EQ(sums.parameters, weights1 + weights2);
  EXPECT_EQ(sums.gradients, 0);
  // The largest operator's operands and result.
  EXPECT_EQ(sums.transient, 4 * (m * k + k * h + m * h));
  expectConsistent(sums, cost, reduction, false, 1);
}

// Every device has a part of the batch and all weights; what it trains with are sums over all devices.
TEST_P(TwoLayers, ByBatch) {
  double compute1 = product(m / p(), k, h), compute2 = product(m / p(), h, n), between = fused(m * h / p());
  auto inference = with(false, {"m", "d0", "m"});
  EXPECT_NEAR(inference.sums.forward, compute1 + between + compute2, 1e-12);
  EXPECT_EQ(inference.sums.forwardExchange, 0);
  EXPECT_EQ(inference.sums.reduction, 0);

  auto [sums, cost, reduction] = with(true, {"m", "d0", "m"}, 4);
  EXPECT_NEAR(sums.forward, compute1 + between + compute2, 1e-12);
  // The first layer's input has no gradient, so that it has one product backward, and the second two.
  double back1 = adding(m / p(), k, h, 4), back2 = adding(m / p(), h, n, 4),
         backBetween = between + fusedBackward(m * h / p());
  EXPECT_NEAR(sums.backward, back1 + backBetween + back2 + compute2, 1e-12);
  EXPECT_NEAR(sums.backwardWeights, back1 + back2, 1e-12);
  EXPECT_EQ(sums.forwardExchange, 0);
  EXPECT_EQ(sums.backwardExchange, 0);
  double join1 = allReduce(weights1, p()), join2 = allReduce(weights2, p());
  EXPECT_NEAR(sums.reduction, join1 + join2, 1e-12);
  // The second layer's gradients are joined while the unit and the first layer run backward, then the first layer's.
  auto behind = [&](double slowdown) { return std::max(0.0, join2 - slowdown * (backBetween + back1)) + join1; };
  EXPECT_NEAR(sums.joinedAfter(sums.backward), behind(1), 1e-12);
  // No less where activations are computed again before the products are there.
  EXPECT_LE(sums.joinedAfter(2 * sums.backward), behind(1) + 1e-12);
  EXPECT_GE(sums.joinedAfter(2 * sums.backward), behind(2) - 1e-12);
  EXPECT_EQ(sums.parameters, weights1 + weights2);
  EXPECT_EQ(sums.gradients, weights1 + weights2);
  EXPECT_EQ(sums.optimizer, 2 * (weights1 + weights2));
  EXPECT_NEAR(sums.optimizerShared, 2 * (weights1 + weights2) / p(), 1e-6);
  EXPECT_NEAR(sums.parametersShared, (weights1 + weights2) / p(), 1e-6);
  EXPECT_NEAR(sums.gathering, passAround(weights1, p()) + passAround(weights2, p()), 1e-12);
  // Kernels of a processor: each of two states is read and written beside the gradient, the weights beside both states.
  EXPECT_NEAR(sums.update, (2 * (2 + 1) + 2 + 2) * (weights1 + weights2) / memoryBandwidth, 1e-12);
  // Both products' results are kept; the unit between them is computed again from what it is fused to.
  EXPECT_NEAR(sums.saved, 4 * (m * h + m * n) / p(), 1e-6);
  expectConsistent(sums, cost, reduction, true, 4);
}

// Megatron's way: the first layer by columns, the second by rows, and one sum at the end.
TEST_P(TwoLayers, ByColumnsThenRows) {
  double compute1 = product(m, k, h / p()), compute2 = product(m, h / p(), n), between = fused(m * h / p());
  double joining = allReduce(tensorBytesOf(m * n), p());
  auto inference = with(false, {"n", "d1", "k"});
  EXPECT_NEAR(inference.sums.forward, compute1 + between + compute2 + joining, 1e-12);
  EXPECT_NEAR(inference.sums.forwardExchange, joining, 1e-12);
  EXPECT_NEAR(inference.sums.parameters, (weights1 + weights2) / p(), 1e-6);

  auto [sums, cost, reduction] = with(true, {"n", "d1", "k"});
  EXPECT_NEAR(sums.forwardExchange, joining, 1e-12);
  // The gradient of the model's input, which would be a sum, is not wanted.
  EXPECT_EQ(sums.backwardExchange, 0);
  EXPECT_NEAR(sums.backward, compute1 + between + fusedBackward(m * h / p()) + 2 * compute2, 1e-12);
  EXPECT_EQ(sums.reduction, 0);
  EXPECT_NEAR(sums.gradients, (weights1 + weights2) / p(), 1e-6);
  EXPECT_NEAR(sums.optimizer, 2 * (weights1 + weights2) / p(), 1e-6);
  EXPECT_NEAR(sums.optimizerShared, sums.optimizer, 1e-6);
  EXPECT_NEAR(sums.saved, 4 * (m * h / p() + m * n), 1e-6);
  expectConsistent(sums, cost, reduction, true, 1);
}

// The first layer by rows: its partial results are added up and dealt out in one step, by which the second one's rows
// are there. The gradient comes back by a gather.
TEST_P(TwoLayers, ByRowsThenRows) {
  double compute1 = product(m, k / p(), h), compute2 = product(m, h / p(), n), between = fused(m * h / p());
  double scatter = passAround(tensorBytesOf(m * h), p()), joining = allReduce(tensorBytesOf(m * n), p());
  auto [sums, cost, reduction] = with(true, {"k", "d1", "k"});
  EXPECT_NEAR(sums.forward, compute1 + scatter + between + compute2 + joining, 1e-12);
  EXPECT_NEAR(sums.forwardExchange, scatter + joining, 1e-12);
  EXPECT_NEAR(sums.backwardExchange, passAround(tensorBytesOf(m * h), p()), 1e-12);
  EXPECT_EQ(sums.reduction, 0);
  expectConsistent(sums, cost, reduction, true, 1);
}

// Both layers by columns: the second needs all of the first's result, and its gradient is a sum.
TEST_P(TwoLayers, ByColumnsThenColumns) {
  double compute1 = product(m, k, h / p()), compute2 = product(m, h, n / p()), between = fused(m * h / p());
  double hidden = tensorBytesOf(m * h);
  auto [sums, cost, reduction] = with(true, {"n", "d1", "n"});
  EXPECT_NEAR(sums.forward, compute1 + between + passAround(hidden, p()) + compute2, 1e-12);
  EXPECT_NEAR(sums.backwardExchange, passAround(hidden, p()), 1e-12);
  EXPECT_EQ(sums.reduction, 0);
  expectConsistent(sums, cost, reduction, true, 1);
}

// From columns to the batch: every device gives every other one a part.
TEST_P(TwoLayers, ByColumnsThenBatch) {
  double hidden = tensorBytesOf(m * h);
  double deal = (p() - 1) * alpha + (p() - 1) / (p() * p()) * hidden / linkBandwidth;
  auto [sums, cost, reduction] = with(true, {"n", "d1", "m"});
  EXPECT_NEAR(sums.forwardExchange, deal, 1e-12);
  EXPECT_NEAR(sums.backwardExchange, deal, 1e-12);
  // Only the second layer's weights are on all devices.
  EXPECT_NEAR(sums.reduction, allReduce(weights2, p()), 1e-12);
  expectConsistent(sums, cost, reduction, true, 1);
}

// Two cells that read the same weight through a transpose, as recurrent layers do: it is there once, and so are its
// gradient and optimizer state.
TEST(Piece, CountsAWeightOnceForAllCells) {
  ModelGraph model(std::string(R"(
dfg.parameter @w : tensor<256x256xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.graph @main(%x: tensor<8x256xf32> {dfg.name = "x"}) -> (tensor<8x256xf32> {dfg.name = "y"}) {
  %w = dfg.read @w : tensor<256x256xf32>
  %t = dfg.transpose %w {permutation = array<i64: 1, 0>} : (tensor<256x256xf32>) -> tensor<256x256xf32> loc("turned")
  %0 = dfg.dot_general %x, %t {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>} : (tensor<8x256xf32>, tensor<256x256xf32>) -> tensor<8x256xf32> loc("cell0")
  %1 = dfg.tanh %0 : (tensor<8x256xf32>) -> tensor<8x256xf32> loc("tanh0")
  %2 = dfg.dot_general %1, %t {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>} : (tensor<8x256xf32>, tensor<256x256xf32>) -> tensor<8x256xf32> loc("cell1")
  dfg.return %2 : tensor<8x256xf32>
}
)"));
  MachineGrid on(machineOf(2), {2});
  PieceOptions options;
  options.training = true;
  options.precision.optimizer = 1;
  auto operators = static_cast<unsigned>(model.graph.operators.size());
  FixedFactors whole;
  for (unsigned index = 0; index != operators; ++index)
    whole[index].axes.push_back({0, none});
  Piece piece(model.graph, 0, operators, none, none, on.grid, on.cost, options, whole);
  Sums sums = piece.sumsOf(std::vector<unsigned>(piece.problem.variables.size(), 0));
  constexpr double weight = 4 * 256 * 256;
  EXPECT_EQ(sums.parameters, weight);
  EXPECT_EQ(sums.gradients, weight);
  EXPECT_EQ(sums.optimizer, weight);
  // The state is read and written, the gradient read; then the state is read for the weight, which is read and written.
  EXPECT_NEAR(sums.update, 6 * weight / memoryBandwidth, 1e-12);
  // The second cell is like the first in all but that.
  auto cell = [&](const char *name) {
    return static_cast<unsigned>(
        llvm::find_if(model.graph.operators,
                      [&](const Operator &op) { return model.graph.nodes[op.node].name == name; }) -
        model.graph.operators.begin());
  };
  EXPECT_NE(model.graph.structureOf(cell("cell0"), cell("cell0") + 1),
            model.graph.structureOf(cell("cell1"), cell("cell1") + 1));
}

// What a sum reads is made by its own kernel where nothing else reads it, wherever the sum's piece begins.
TEST(Piece, TellsSumsApartThatMakeTheirOperands) {
  ModelGraph model(std::string(R"(
dfg.graph @main(%x: tensor<8x256xf32> {dfg.name = "x"})
    -> (tensor<8xf32> {dfg.name = "a"}, tensor<8xf32> {dfg.name = "b"}, tensor<8x256xf32> {dfg.name = "c"}) {
  %0 = dfg.exp %x : (tensor<8x256xf32>) -> tensor<8x256xf32> loc("alone")
  %1 = dfg.reduce %0 {dims = array<i64: 1>, kind = #dfg.reduce_kind<sum>} : (tensor<8x256xf32>) -> tensor<8xf32> loc("sum0")
  %2 = dfg.tanh %x : (tensor<8x256xf32>) -> tensor<8x256xf32> loc("shared")
  %3 = dfg.reduce %2 {dims = array<i64: 1>, kind = #dfg.reduce_kind<sum>} : (tensor<8x256xf32>) -> tensor<8xf32> loc("sum1")
  dfg.return %1, %3, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8x256xf32>
}
)"));
  ASSERT_EQ(model.graph.operators.size(), 4u);
  EXPECT_NE(model.graph.structureOf(1, 2), model.graph.structureOf(3, 4));
  MachineGrid on(machineOf(2), {2});
  auto forwardOf = [&](unsigned first, unsigned last) {
    FixedFactors whole;
    for (unsigned index = first; index != last; ++index)
      whole[index].axes.push_back({0, none});
    Piece piece(model.graph, first, last, none, none, on.grid, on.cost, {}, whole);
    return piece.sumsOf(std::vector<unsigned>(piece.problem.variables.size(), 0)).forward;
  };
  double whole = tensorBytesOf(8 * 256) / memoryBandwidth, sum = tensorBytesOf(8) / memoryBandwidth;
  // Of what it makes itself, adding up takes longer than storing the sums.
  EXPECT_NEAR(forwardOf(0, 2), whole + std::max(sum, 8 * 256 / peak), 1e-15);
  EXPECT_NEAR(forwardOf(2, 4), 3 * whole + sum, 1e-15);
}

INSTANTIATE_TEST_SUITE_P(Devices, TwoLayers, testing::Values(2u, 4u, 8u));

} // namespace
