// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What every choice of every variable costs at best: the tables of an elimination, read backwards.

#include "passes/planner/solver/BucketTree.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace cleave::solver {
namespace {

/// Buckets from the last to the first: each adds what the rest of the problem costs outside of it to its own terms, and
/// hands that on to those whose messages it has taken.
class BackwardPass {
public:
  BackwardPass(const BucketLayout &layout, const std::vector<double> &numbers, double sum)
      : layout(layout), numbers(numbers), senders(layout.reduction.alive.size()), outside(layout.messages.size()) {
    for (unsigned i = 0; i != layout.buckets.size(); ++i)
      if (const BucketMessage &message = messageOf(i); message.scope.empty())
        outside[i] = {sum - numbers[message.offset]};
      else
        senders[message.scope.front()].push_back(i);
  }

  /// By choice of the variable of each bucket.
  std::vector<std::vector<double>> run() {
    std::vector<std::vector<double>> least(layout.buckets.size());
    for (unsigned i = static_cast<unsigned>(layout.buckets.size()); i-- != 0;)
      least[i] = visit(i);
    return least;
  }

private:
  const BucketMessage &messageOf(unsigned bucket) const { return layout.messages[layout.buckets[bucket].firstMessage]; }

  std::vector<double> visit(unsigned index) {
    const BucketMessage &message = messageOf(index);
    unsigned variable = layout.buckets[index].variable;
    std::vector<unsigned> variables = {variable};
    variables.insert(variables.end(), message.scope.begin(), message.scope.end());
    std::vector<size_t> sizes;
    for (unsigned each : variables)
      sizes.push_back(layout.numChoices(each));
    std::vector<double> whole;
    for (size_t choice = 0; choice != sizes.front(); ++choice)
      whole.insert(whole.end(), outside[index].begin(), outside[index].end());
    outside[index] = {};
    for (unsigned term = message.firstTerm; term != message.lastTerm; ++term) {
      const double *table = numbers.data() + layout.terms[term].offset;
      forEachPlace(sizes, layout.strides.data() + layout.terms[term].strides,
                   [&](size_t entry, size_t place) { whole[entry] += table[place]; });
    }
    for (unsigned sender : senders[variable])
      handOn(sender, variables, sizes, whole);
    std::vector<double> least(sizes.front());
    for (size_t choice = 0; choice != least.size(); ++choice)
      least[choice] = *std::min_element(whole.begin() + static_cast<ptrdiff_t>(choice * message.entries),
                                        whole.begin() + static_cast<ptrdiff_t>((choice + 1) * message.entries));
    return least;
  }

  void handOn(unsigned sender, const std::vector<unsigned> &variables, const std::vector<size_t> &sizes,
              const std::vector<double> &whole) {
    const BucketMessage &message = messageOf(sender);
    std::vector<size_t> strides(variables.size());
    size_t stride = 1;
    for (size_t i = message.scope.size(); i-- != 0; stride *= layout.numChoices(message.scope[i]))
      strides[static_cast<size_t>(std::find(variables.begin(), variables.end(), message.scope[i]) -
                                  variables.begin())] = stride;
    std::vector<double> &least = outside[sender];
    least.assign(message.entries, forbidden);
    forEachPlace(sizes, strides.data(),
                 [&](size_t entry, size_t place) { least[place] = std::min(least[place], whole[entry]); });
    // What the sender itself has sent is not outside of it.
    for (size_t place = 0; place != least.size(); ++place)
      if (!std::isinf(least[place]))
        least[place] -= numbers[message.offset + place];
  }

  const BucketLayout &layout;
  const std::vector<double> &numbers;
  /// By variable: the buckets whose messages meet in it.
  std::vector<std::vector<unsigned>> senders;
  /// By bucket, over the scope of its message: what all but the bucket and those before it cost at least. Freed when it
  /// has been read.
  std::vector<std::vector<double>> outside;
};

} // namespace

std::vector<std::vector<double>> BucketTree::leastByChoice() const {
  assert(layout->isExact && layout->kept.empty() && "expected one message a variable, and all of them eliminated");
  std::vector<std::vector<double>> least;
  bool isPossible = !layout->reduction.isInfeasible && !std::isinf(rootsSum());
  for (unsigned variable = 0; variable != layout->reduction.alive.size(); ++variable)
    least.emplace_back(layout->numChoices(variable), isPossible ? rootsSum() : forbidden);
  if (!isPossible)
    return least;
  std::vector<std::vector<double>> ofBuckets = BackwardPass(*layout, numbers, rootsSum()).run();
  for (unsigned i = 0; i != ofBuckets.size(); ++i)
    least[layout->buckets[i].variable] = std::move(ofBuckets[i]);
  return least;
}

} // namespace cleave::solver
