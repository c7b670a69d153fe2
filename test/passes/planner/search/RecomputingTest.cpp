// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The knapsack of what a stage computes again, against all ways of few pieces; and its names.

#include "passes/planner/search/Recomputing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace cleave::search;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A piece with whole bytes; one of few kinds, as layers that repeat are.
IntervalSums randomPiece(std::mt19937 &random) {
  auto upTo = [&](unsigned most) { return static_cast<double>(random() % (most + 1)); };
  IntervalSums piece;
  piece.savedProducts = upTo(40);
  piece.saved = piece.savedProducts + upTo(60);
  piece.contractions = upTo(20) / 8;
  piece.forwardExchange = upTo(4) / 8;
  piece.forward = piece.contractions + piece.forwardExchange + upTo(10) / 8;
  piece.unrepeated = random() % 4 == 0 ? piece.forward / 4 : 0;
  piece.backward = 2 * piece.forward;
  if (random() % 2 == 0)
    piece.unmoved = std::floor(piece.saved / 4);
  piece.addPiece(piece, upTo(20));
  return piece;
}

std::vector<IntervalSums> randomPieces(std::mt19937 &random) {
  std::vector<IntervalSums> kinds(1 + random() % 3), pieces(1 + random() % 8);
  for (IntervalSums &kind : kinds)
    kind = randomPiece(random);
  for (IntervalSums &piece : pieces)
    piece = random() % 4 == 0 ? randomPiece(random) : kinds[random() % kinds.size()];
  return pieces;
}

bool fits(const Recomputation &again, double memory, double inFlight) {
  return again.transient + inFlight * again.bytes <= memory;
}

/// What ways add to a microbatch where `offload` seconds move a byte to the host's memory: of what moves, all that does
/// not hide beside a pass.
double secondsOf(const std::vector<IntervalSums> &pieces, const Recomputation &again, double offload) {
  double forward = 0, backward = again.seconds, moving = offload * again.offloaded;
  for (const IntervalSums &piece : pieces) {
    forward += piece.forward;
    backward += piece.backward;
  }
  return again.seconds + std::max(0.0, moving - forward) + std::max(0.0, moving - backward);
}

/// By trying all ways.
double leastSeconds(const std::vector<IntervalSums> &pieces, double memory, double inFlight, double offload = 0) {
  double least = infinity;
  llvm::ArrayRef<Recompute> all = waysToKeep(offload > 0);
  auto combinations = static_cast<unsigned>(std::pow(all.size(), pieces.size()));
  for (unsigned number = 0; number != combinations; ++number) {
    std::vector<Recompute> ways;
    for (unsigned rest = number; ways.size() != pieces.size(); rest /= all.size())
      ways.push_back(all[rest % all.size()]);
    if (Recomputation again = recomputationOf(pieces, ways); fits(again, memory, inFlight))
      least = std::min(least, secondsOf(pieces, again, offload));
  }
  return least;
}

// Bytes that are whole numbers, and fewer pairs than are thinned out: nothing is faster.
TEST(RecomputingTest, TakesTheLeastSecondsThatFit) {
  std::mt19937 random(1);
  unsigned numMixed = 0, numTooLarge = 0;
  for (unsigned round = 0; round != 400; ++round) {
    std::vector<IntervalSums> pieces = randomPieces(random);
    double inFlight = 1 + random() % 2;
    double all = inFlight * recomputationOf(pieces, std::vector(pieces.size(), Recompute::None)).bytes;
    double memory = std::floor(all * std::uniform_real_distribution<>(0, 1.3)(random));
    double least = leastSeconds(pieces, memory, inFlight);
    std::vector<Recompute> ways = recomputeToFit(pieces, memory, inFlight);
    ASSERT_EQ(ways.empty(), std::isinf(least)) << "round " << round;
    EXPECT_LE(leastRecomputeSeconds(pieces, memory, inFlight), least * (1 + 1e-9)) << "round " << round;
    numTooLarge += ways.empty();
    if (ways.empty())
      continue;
    Recomputation again = recomputationOf(pieces, ways);
    EXPECT_TRUE(fits(again, memory, inFlight)) << "round " << round;
    EXPECT_NEAR(again.seconds, least, 1e-9) << "round " << round << ", " << recomputeText(ways);
    // Nothing but the fastest ways is worth less than what they take.
    EXPECT_TRUE(recomputeToFit(pieces, memory, inFlight, least).empty()) << "round " << round;
    numMixed += recomputeText(ways).find(',') != std::string::npos;
  }
  EXPECT_GT(numMixed, 100u);
  EXPECT_GT(numTooLarge, 20u);
}

// With the host's memory: never slower than without it, never faster than the best of all ways, and mostly that.
TEST(RecomputingTest, MovesToTheHostWhatIsWorthIt) {
  std::mt19937 random(3);
  unsigned numMoved = 0, numBest = 0, numFound = 0;
  for (unsigned round = 0; round != 300; ++round) {
    std::vector<IntervalSums> pieces = randomPieces(random);
    pieces.resize(std::min<size_t>(pieces.size(), 6));
    double inFlight = 1 + random() % 2;
    double all = inFlight * recomputationOf(pieces, std::vector(pieces.size(), Recompute::None)).bytes;
    double memory = std::floor(all * std::uniform_real_distribution<>(0, 1.3)(random));
    double offload = std::exp2(std::uniform_real_distribution<>(-8, -2)(random));
    double least = leastSeconds(pieces, memory, inFlight, offload);
    EXPECT_LE(leastRecomputeSeconds(pieces, memory, inFlight, offload), least * (1 + 1e-9)) << "round " << round;
    std::vector<Recompute> ways = recomputeToFit(pieces, memory, inFlight, infinity, offload);
    ASSERT_EQ(ways.empty(), std::isinf(least)) << "round " << round;
    if (ways.empty())
      continue;
    Recomputation again = recomputationOf(pieces, ways);
    double seconds = secondsOf(pieces, again, offload);
    EXPECT_TRUE(fits(again, memory, inFlight)) << "round " << round;
    EXPECT_LE(seconds, leastSeconds(pieces, memory, inFlight) + 1e-9) << "round " << round;
    EXPECT_GE(seconds, least - 1e-9) << "round " << round;
    ++numFound;
    numMoved += again.offloaded > 0;
    numBest += seconds <= least + 1e-9;
  }
  EXPECT_GT(numMoved, 100u);
  EXPECT_GT(numBest, numFound * 9 / 10) << "of " << numFound;
}

// Moving hides beside computation: of 12 seconds of a way 2 stick out of the forward pass of 10, none of the backward
// pass of 20.
TEST(RecomputingTest, CountsWhatSticksOutOfThePasses) {
  EXPECT_EQ(offloadDelay(12, 10, 20).forward, 2);
  EXPECT_EQ(offloadDelay(12, 10, 20).backward, 0);
  EXPECT_EQ(offloadDelay(25, 10, 20).seconds(), 15 + 5);
  EXPECT_EQ(offloadDelay(0, 0, 0).seconds(), 0);
}

// Many unlike pieces leave more pairs than are kept. Without what the linear relaxation leaves out little is lost.
TEST(RecomputingTest, StaysNearTheBoundForManyPieces) {
  std::mt19937 random(2);
  std::vector<IntervalSums> pieces(200);
  for (IntervalSums &piece : pieces) {
    piece = randomPiece(random);
    piece.saved *= 1e6 + static_cast<double>(random() % 1000);
    piece.savedProducts *= 1e6;
    piece.forward += static_cast<double>(random() % 1000) * 1e-5;
    piece.checkpoints = piece.largestPiece = piece.largestRest = 0;
  }
  double memory = 0.7 * recomputationOf(pieces, std::vector(pieces.size(), Recompute::None)).bytes;
  std::vector<Recompute> ways = recomputeToFit(pieces, memory);
  ASSERT_EQ(ways.size(), pieces.size());
  Recomputation again = recomputationOf(pieces, ways);
  double least = leastRecomputeSeconds(pieces, memory);
  EXPECT_TRUE(fits(again, memory, 1));
  EXPECT_GE(again.seconds, least * (1 - 1e-9));
  EXPECT_LE(again.seconds, least * 1.01);
}

// What a piece keeps that does not compute again what enters it is counted by no other piece where the one before does.
TEST(RecomputingTest, KeepsWhatEntersAPieceBehindOneThatComputesAgain) {
  IntervalSums piece;
  piece.saved = 10;
  piece.addPiece(piece, 3);
  std::vector<IntervalSums> pieces = {piece, piece, piece};
  EXPECT_EQ(recomputationOf(pieces, {Recompute::Full, Recompute::Full, Recompute::None}).bytes, 3 + 3 + (10 + 3));
  EXPECT_EQ(recomputationOf(pieces, {Recompute::None, Recompute::None, Recompute::Full}).bytes, 10 + 10 + 3);
  Recomputation moved = recomputationOf(pieces, {Recompute::Offload, Recompute::Full, Recompute::Offload});
  EXPECT_EQ(moved.bytes, 0 + 3 + 3);
  EXPECT_EQ(moved.offloaded, 10 + 10);
}

// Texts of plans are read as they were written.
TEST(RecomputingTest, NamesWhatSegmentsDo) {
  using enum Recompute;
  EXPECT_EQ(recomputeText({Full, Full}), "full");
  EXPECT_EQ(recomputeText({}), "none");
  std::vector<Recompute> mixed = {Full, Full, None, Selective, Selective};
  EXPECT_EQ(recomputeText(mixed), "2 full, 1 none, 2 selective");
  EXPECT_EQ(recomputeCounts({None, Full, None, Full, Full}), "3 full, 2 none");
  EXPECT_EQ(parseRecompute("2 full, 1 none, 2 selective"), mixed);
  EXPECT_EQ(parseRecompute("selective"), std::vector{Selective});
  for (const char *text : {"", "all", "2", "2 all", "0 full, 1 none", "-1 full", "2 full,", "99999999999 full"})
    EXPECT_EQ(parseRecompute(text), std::nullopt) << text;
}

} // namespace
