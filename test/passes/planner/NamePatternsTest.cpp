// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which pattern decides about which node.

#include "passes/planner/NamePatterns.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

/// By name the number of the pattern that decides, -1 where none does; then the unused patterns and what takes their
/// nodes, -1 where they fit none.
std::pair<std::vector<int>, std::vector<std::pair<int, int>>> match(std::vector<std::string> texts,
                                                                    std::vector<llvm::StringRef> names) {
  std::vector<NamePattern> patterns;
  for (std::string &text : texts)
    patterns.push_back({text, {}});
  std::vector<const NamePattern *> pointers;
  for (const NamePattern &pattern : patterns)
    pointers.push_back(&pattern);
  PatternMatches matches = matchPatterns(pointers, names);
  auto number = [](std::optional<unsigned> of) { return of ? static_cast<int>(*of) : -1; };
  std::pair<std::vector<int>, std::vector<std::pair<int, int>>> result;
  for (std::optional<unsigned> pattern : matches.patternOf)
    result.first.push_back(number(pattern));
  for (const UnusedPattern &unused : matches.unused)
    result.second.emplace_back(unused.pattern, number(unused.taker));
  return result;
}

using Deciders = std::vector<int>;
using Unused = std::vector<std::pair<int, int>>;

TEST(NamePatterns, TheFirstThatFitsDecides) {
  auto [deciders, unused] = match({"conv1", "conv*", "fc?"}, {"conv1", "conv2", "fc1", "norm", "conv12"});
  EXPECT_EQ(deciders, (Deciders{0, 1, 2, -1, 1}));
  EXPECT_EQ(unused, Unused{});
}

TEST(NamePatterns, EmptyNamesFitNothing) {
  auto [deciders, unused] = match({"*"}, {"", "a"});
  EXPECT_EQ(deciders, (Deciders{-1, 0}));
  EXPECT_EQ(unused, Unused{});
}

TEST(NamePatterns, SomeDecideAboutNothing) {
  // The general one before the special one; one twice; one that nothing fits.
  auto [deciders, unused] = match({"conv*", "conv1", "fc1", "fc1", "pool"}, {"conv1", "conv2", "fc1"});
  EXPECT_EQ(deciders, (Deciders{0, 0, 2}));
  EXPECT_EQ(unused, (Unused{{1, 0}, {3, 2}, {4, -1}}));
}

TEST(NamePatterns, TheRestMayBeNothing) {
  EXPECT_EQ(match({"a", "b", "*"}, {"a", "b"}).second, Unused{});
  // Without nodes there is nothing that it could be for.
  EXPECT_EQ(match({"*"}, {}).second, (Unused{{0, -1}}));
  EXPECT_EQ(match({}, {"a"}).first, Deciders{-1});
}

} // namespace
