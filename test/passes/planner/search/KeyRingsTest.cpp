// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention whose queries and keys are cut: what the search counts for keys that are gathered and for keys that go
// around, which of both it takes, and that its bound holds for both.
//
//   q ── neg ──▶ scores = q k^T ──▶ softmax ──▶ scores v
//   k ── neg ──▶                                  ▲
//   v ── neg ─────────────────────────────────────┘

#include "ModelGraph.h"

#include "passes/planner/search/Piece.h"
#include "passes/planner/search/Search.h"
#include "passes/planner/solver/Exhaustive.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::search;

namespace {

constexpr double peak = 1e12, memoryBandwidth = 1e11, alpha = 1e-5;

Machine machineWith(double linkBandwidth, double latency = alpha) {
  return plainMachine(4, peak, memoryBandwidth, {linkBandwidth, latency});
}

std::string attentionOf(int64_t length, int64_t width) {
  std::string values = "tensor<" + std::to_string(length) + "x" + std::to_string(width) + "xf32>";
  std::string scores = "tensor<" + std::to_string(length) + "x" + std::to_string(length) + "xf32>";
  auto negated = [&](const std::string &to, const std::string &from) {
    return "  %" + to + " = dfg.neg %" + from + " : (" + values + ") -> " + values + " loc(\"" + to + "\")\n";
  };
  auto product = [&](const std::string &to, const std::string &lhs, const std::string &rhs, const char *contracting,
                     const std::string &types) {
    return "  %" + to + " = dfg.dot_general %" + lhs + ", %" + rhs +
           " {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = "
           "array<i64: " +
           contracting + ">} : " + types + " loc(\"" + to + "\")\n";
  };
  return "dfg.graph @main(%x: " + values + " {dfg.name = \"x\"}, %y: " + values + " {dfg.name = \"y\"}, %z: " + values +
         " {dfg.name = \"z\"}) -> (" + values + " {dfg.name = \"w\"}) {\n" + negated("q", "x") + negated("k", "y") +
         negated("v", "z") + product("scores", "q", "k", "1", "(" + values + ", " + values + ") -> " + scores) +
         "  %weights = dfg.softmax %scores {dim = 1 : i64} : (" + scores + ") -> " + scores + " loc(\"weights\")\n" +
         product("result", "weights", "v", "0", "(" + scores + ", " + values + ") -> " + values) +
         "  dfg.return %result : " + values + "\n}\n";
}

class OneAttention : public testing::Test {
protected:
  static constexpr int64_t length = 4096, width = 64;
  static constexpr double p = 4, oneKeys = 4.0 * length * width, allScores = 4.0 * length * length / p;

  explicit OneAttention(double linkBandwidth = 1e9)
      : linkBandwidth(linkBandwidth), model(attentionOf(length, width)), on(machineWith(linkBandwidth), {4}) {}

  /// With the first dimension of all but weights and scores cut, and of these the queries.
  std::unique_ptr<Piece> pieceWith(bool isRing, bool cutsKeys = true) {
    FixedFactors fixed;
    for (auto [index, op] : llvm::enumerate(model.graph.operators)) {
      llvm::StringRef node = model.graph.nodes[op.node].name;
      fixed[index].isRing = isRing;
      fixed[index].closed = true;
      if (node != "k" || cutsKeys)
        fixed[index].axes.push_back({0, op.rule.results.front().front().front()});
    }
    return std::make_unique<Piece>(model.graph, 0, model.graph.operators.size(), none, none, on.grid, on.cost,
                                   PieceOptions(), fixed);
  }

  Sums sumsWith(bool isRing) {
    std::unique_ptr<Piece> piece = pieceWith(isRing);
    std::vector<unsigned> choices(piece->problem.variables.size(), 0);
    for (unsigned variable = 0; variable != choices.size(); ++variable)
      EXPECT_EQ(piece->problem.domainOf(variable).size(), 1u);
    auto keys = piece->keysOf(choices);
    size_t decided = llvm::count_if(keys, [&](auto &decision) { return decision && decision->isRing == isRing; });
    EXPECT_EQ(decided, 1u);
    Sums sums = piece->sumsOf(choices);
    EXPECT_NEAR(solver::evaluate(piece->problem, choices).seconds, sums.forward, 1e-12);
    return sums;
  }

  double linkBandwidth;
  ModelGraph model;
  MachineGrid on;
};

double memory(double bytes) { return bytes / memoryBandwidth; }

TEST_F(OneAttention, CountsBothWaysAsFormulasDo) {
  ASSERT_EQ(model.graph.attentions.size(), 1u);
  ASSERT_TRUE(model.graph.attentions.front().mayBeRing);
  double passAround = (p - 1) * alpha + (p - 1) / p * oneKeys / linkBandwidth,
         hop = alpha + oneKeys / p / linkBandwidth;
  auto product = [&](double part) {
    return std::max(2 * length / p * length * width * part / peak, memory((oneKeys / p + oneKeys + allScores) * part));
  };
  Sums gathered = sumsWith(false), ring = sumsWith(true);
  EXPECT_NEAR(gathered.forwardExchange, 2 * passAround, 1e-12);
  double chunk = 2 * product(1 / p) + memory(2 * allScores / p);
  double join = memory(3 * oneKeys / p + 4 * 4 * length / p);
  double steps = std::max(chunk, 2 * hop) + (p - 2) * std::max(chunk + join, 2 * hop) + chunk + join;
  // Kernels of all keys take what they take; the rest of the ring comes on top.
  double ofAll = gathered.forward - gathered.forwardExchange;
  EXPECT_NEAR(ring.forward, ofAll + steps - (2 * product(1) + memory(2 * allScores)), 1e-12);
  EXPECT_NEAR(ring.forwardExchange, steps - (p * chunk + (p - 1) * join), 1e-12);
  // The product with the keys: queries, all keys and their scores; in a ring chunks.
  EXPECT_GT(gathered.transient, allScores + oneKeys);
  EXPECT_LT(ring.transient, gathered.transient);
}

// What goes around is cut where it comes from.
TEST_F(OneAttention, HasNoRingOfWholeKeys) {
  std::unique_ptr<Piece> piece = pieceWith(/*isRing=*/true, /*cutsKeys=*/false);
  EXPECT_FALSE(solver::solve(piece->problem).isFeasible());
  EXPECT_TRUE(solver::solve(pieceWith(/*isRing=*/false, /*cutsKeys=*/false)->problem).isFeasible());
}

/// Inputs are whole or cut as their first readers are: cuts these, so that keys have to come.
FixedFactors cutReaders(const SearchGraph &graph) {
  FixedFactors fixed;
  for (auto [index, op] : llvm::enumerate(graph.operators))
    if (op.cost.costClass == CostClass::Elementwise)
      for (unsigned axis : {0u, 1u})
        fixed[index].axes.push_back({axis, op.rule.results.front().front().front()});
  return fixed;
}

unsigned numRings(const Piece &piece, const std::vector<unsigned> &choices) {
  auto keys = piece.keysOf(choices);
  return llvm::count_if(keys, [](auto &decision) { return decision && decision->isRing; });
}

// Elimination finds what trying all finds, on two axes, whatever links take, with the ring where it is faster.
TEST(KeysOfAttention, AreThoseOfTryingAll) {
  for (auto [link, isRing] : {std::pair(LinkSpec{1e9, alpha}, true), {LinkSpec{1e13, 0}, false}}) {
    ModelGraph model(attentionOf(2048, 64));
    MachineGrid on(machineWith(link.bandwidth, link.latency), {2, 2});
    Piece piece(model.graph, 0, model.graph.operators.size(), none, none, on.grid, on.cost, PieceOptions(),
                cutReaders(model.graph));
    ASSERT_LE(solver::numCombinations(piece.problem), 1e6);
    solver::ChoiceSolution ours = solver::solve(piece.problem),
                           all = solver::solve(piece.problem, {.method = solver::Method::Exhaustive});
    ASSERT_TRUE(ours.isFeasible());
    EXPECT_DOUBLE_EQ(ours.seconds, all.seconds);
    EXPECT_EQ(numRings(piece, ours.choices), isRing ? 1u : 0u);
  }
}

// By itself the search looks at rings in 16 bits where sequences are long; whoever asks for them has them on short
// ones, too.
TEST(KeysOfAttention, GoAroundInShortSequencesWhereAskedFor) {
  for (bool isNarrow : {false, true})
    for (Keys keys : {Keys::Auto, Keys::Ring}) {
      ModelGraph model(attentionOf(2048, 64));
      MachineGrid on(machineWith(1e9), {2, 2});
      PieceOptions options;
      options.keys = keys;
      if (isNarrow)
        options.precision = {.activation = 0.5};
      Piece piece(model.graph, 0, model.graph.operators.size(), none, none, on.grid, on.cost, options,
                  cutReaders(model.graph));
      solver::ChoiceSolution found = solver::solve(piece.problem);
      ASSERT_TRUE(found.isFeasible());
      EXPECT_EQ(numRings(piece, found.choices), isNarrow && keys == Keys::Auto ? 0u : 1u);
    }
}

struct FoundKeys {
  unsigned rings = 0, gathered = 0;
};

FoundKeys countKeys(const FoundPlan &plan) {
  FoundKeys found;
  for (const FoundStage &stage : plan.stages)
    for (const auto &decision : stage.keys)
      if (decision)
        ++(decision->isRing ? found.rings : found.gathered);
  return found;
}

/// A transformer of two layers over a long sequence.
ModelGraph longSequence(int64_t batch) {
  return ModelGraph(
      "gpt", {{"layers", 2}, {"hidden", 64}, {"heads", 2}, {"sequence", 8192}, {"vocabulary", 64}, {"batch", batch}});
}

// Whichever way keys come, and whatever is fixed: no plan takes less than the bound of all, nor than its own.
TEST(KeysOfAttention, TakeNoLessThanTheBound) {
  unsigned rings = 0, narrowRings = 0;
  for (bool training : {false, true})
    for (auto [linkBandwidth, isNarrow] : {std::pair(2e8, false), std::pair(1e10, false), std::pair(1e10, true)})
      for (double limit : {0.0, (isNarrow ? 1.0 : 2.0) * (1u << 30)}) {
        ModelGraph model = longSequence(2);
        Machine machine = machineWith(linkBandwidth);
        SearchRequest request;
        request.training = training;
        request.considersOthers = false;
        request.memoryLimit = limit;
        request.elementType = isNarrow ? "bf16" : "f32";
        auto found = findPlan(model.graph, machine, request);
        if (std::holds_alternative<SearchFailure>(found)) {
          ASSERT_GT(limit, 0) << std::get<SearchFailure>(found).message;
          continue;
        }
        const auto &best = std::get<FoundPlan>(found);
        double least = best.lowerBound * (1 - 1e-9);
        EXPECT_GE(best.seconds, least);
        for (Keys keys : {Keys::Auto, Keys::Ring, Keys::Gather})
          for (int64_t sequence : {1, 2, 4})
            for (int64_t data : {1, 2})
              for (int64_t microbatches : training ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1}) {
                request.keys = keys;
                request.degrees.sequence = sequence;
                request.degrees.data = data;
                request.microbatches = training ? std::optional(microbatches) : std::nullopt;
                auto fixed = findPlan(model.graph, machine, request);
                auto *plan = std::get_if<FoundPlan>(&fixed);
                if (!plan)
                  continue;
                FoundKeys ways = countKeys(*plan);
                (isNarrow ? narrowRings : rings) += ways.rings;
                EXPECT_TRUE(keys != Keys::Ring || ways.gathered == 0);
                EXPECT_TRUE(keys != Keys::Gather || ways.rings == 0);
                EXPECT_GE(plan->seconds, least) << "sequence " << sequence << ", data " << data;
                EXPECT_GE(plan->seconds, plan->lowerBound * (1 - 1e-9));
              }
      }
  EXPECT_GT(rings, 0u);
  EXPECT_GT(narrowRings, 0u);
}

} // namespace
