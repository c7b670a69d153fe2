// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Patterns of node names in placement files: the first that fits a node decides about it.

#ifndef CLEAVE_PASSES_PLANNER_NAMEPATTERNS_H
#define CLEAVE_PASSES_PLANNER_NAMEPATTERNS_H

#include "passes/cost/YamlValue.h"

#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// A well-formed pattern of node names.
struct NamePattern {
  std::string text;
  FilePosition position;
};

/// A pattern that decides about nothing.
struct UnusedPattern {
  unsigned pattern = 0;
  /// The pattern that decides about the first name that this one fits; nothing where it fits none.
  std::optional<unsigned> taker;

  /// Why it decides about nothing: "fits no WHAT", or which of `patterns` comes before it.
  std::string why(llvm::StringRef what, llvm::ArrayRef<const NamePattern *> patterns) const;
};

/// Which pattern decides about which name.
struct PatternMatches {
  /// By name; nothing where no pattern fits it.
  std::vector<std::optional<unsigned>> patternOf;
  /// In the order of the patterns. One that is "*" may find all names taken: it is for what is left.
  std::vector<UnusedPattern> unused;
};

/// No pattern fits an empty name.
PatternMatches matchPatterns(llvm::ArrayRef<const NamePattern *> patterns, llvm::ArrayRef<llvm::StringRef> names);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_NAMEPATTERNS_H
