// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/planner/NamePatterns.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/GlobPattern.h"

using namespace llvm;

namespace cleave {

std::string UnusedPattern::why(StringRef what, ArrayRef<const NamePattern *> patterns) const {
  if (!taker)
    return ("fits no " + what).str();
  return "has no effect: the first pattern that fits a node decides, and \"" + patterns[*taker]->text +
         "\" comes before it";
}

PatternMatches matchPatterns(ArrayRef<const NamePattern *> patterns, ArrayRef<StringRef> names) {
  PatternMatches matches;
  matches.patternOf.resize(names.size());
  for (auto [pattern, written] : enumerate(patterns)) {
    GlobPattern glob = cantFail(GlobPattern::create(written->text));
    bool decides = false;
    std::optional<unsigned> taker;
    for (auto [name, decider] : zip_equal(names, matches.patternOf)) {
      if (name.empty() || !glob.match(name))
        continue;
      if (!decider) {
        decider = pattern;
        decides = true;
      } else if (!taker) {
        taker = decider;
      }
    }
    if (!decides && !(taker && written->text == "*"))
      matches.unused.push_back({static_cast<unsigned>(pattern), taker});
  }
  return matches;
}

} // namespace cleave
