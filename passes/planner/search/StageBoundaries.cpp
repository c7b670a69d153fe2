// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All places between operators, then those that are worth keeping.

#include "passes/planner/search/StageBoundaries.h"

#include "llvm/ADT/DenseSet.h"

#include <map>

namespace cleave::search {
namespace {

class BoundaryFinder {
public:
  BoundaryFinder(SearchGraph &graph, unsigned mostBoundaries, bool wholeLayers)
      : result(graph), mostBoundaries(mostBoundaries), wholeLayers(wholeLayers) {}

  void run() {
    // Tensors by the last operator that reads them; an output crosses everything behind it.
    findNodeExtents();
    size_t count = result.operators.size();
    std::vector<unsigned> last(result.tensors.size());
    for (auto [index, tensor] : llvm::enumerate(result.tensors))
      last[index] = tensor.uses.empty() ? 0 : tensor.uses.back().first;
    std::vector<Boundary> all;
    llvm::SmallVector<unsigned> crossing;
    all.push_back({0, none, 0, 0});
    for (unsigned at = 1; at < count; ++at) {
      for (unsigned tensor : result.operators[at - 1].results)
        if (!result.operators[at - 1].once)
          crossing.push_back(tensor);
      llvm::erase_if(crossing, [&](unsigned tensor) { return last[tensor] < at; });
      Boundary &boundary = all.emplace_back();
      boundary.at = at;
      for (unsigned tensor : crossing)
        (result.tensors[tensor].batched ? boundary.batchedBytes : boundary.otherBytes) += result.tensors[tensor].bytes;
      if (crossing.size() == 1)
        boundary.single = crossing.front();
    }
    if (count)
      all.push_back({static_cast<unsigned>(count), none, 0, 0});
    keepBoundaries(all);
  }

private:
  SearchGraph &result;
  unsigned mostBoundaries;
  bool wholeLayers;

  /// Whether a cut there separates operators of one node or one kernel: one that is fused from its producer, or those
  /// of attention from each other.
  bool separates(const Boundary &boundary) const {
    unsigned index = boundary.at;
    if (index >= result.operators.size())
      return false;
    const Operator &op = result.operators[index];
    return op.fused || op.once || insideNode[index] || (op.scores && op.scores->operand != none);
  }

  /// By operator: some node has operators before it and from it on.
  std::vector<bool> insideNode;
  void findNodeExtents() {
    std::vector<unsigned> firstOf(result.nodes.size(), none), lastOf(result.nodes.size(), 0);
    for (auto [index, op] : llvm::enumerate(result.operators)) {
      firstOf[op.node] = std::min(firstOf[op.node], static_cast<unsigned>(index));
      lastOf[op.node] = index;
    }
    insideNode.assign(result.operators.size(), false);
    for (auto [first, last] : llvm::zip_equal(firstOf, lastOf))
      for (unsigned index = first; first != none && index < last; ++index)
        if (!result.operators[index + 1].once || !result.operators[first].once)
          insideNode[index + 1] = true;
  }

  void keepBoundaries(std::vector<Boundary> &all) {
    std::vector<Boundary> single, several;
    for (const Boundary &boundary : all) {
      bool isEnd = &boundary == &all.front() || &boundary == &all.back();
      if (isEnd || (boundary.single != none && !separates(boundary)))
        single.push_back(boundary);
    }
    // Where two single ones are far apart, the narrowest places between them.
    std::map<unsigned, Boundary> kept;
    for (const Boundary &boundary : single)
      kept[boundary.at] = boundary;
    double work = std::max(result.flops(), 1.0);
    for (size_t index = 0; index + 1 < single.size(); ++index)
      addNarrow(all, single[index].at, single[index + 1].at, work / 24, kept);
    keepEndsOfPins(all, kept);
    for (auto &[at, boundary] : kept)
      result.boundaries.push_back(boundary);
    if (wholeLayers)
      keepWholeLayers();
    mergeRepeated();
  }

  /// Where stages have to be cut for what is pinned: boundaries that are kept.
  llvm::DenseSet<unsigned> endsOfPins;

  /// Cuts before and behind what is pinned to one mesh, where that separates nothing that belongs together; between
  /// two pins somewhere in any case.
  void keepEndsOfPins(const std::vector<Boundary> &all, std::map<unsigned, Boundary> &kept) {
    auto keep = [&](unsigned at) {
      kept.try_emplace(at, all[at]);
      endsOfPins.insert(at);
    };
    unsigned before = none, count = result.operators.size();
    auto cutBetween = [&](unsigned first, unsigned last, bool isNeeded) {
      unsigned low = first, high = last;
      while (low != last && separates(all[low]))
        ++low;
      while (high != low && separates(all[high]))
        --high;
      if (!separates(all[low]) || isNeeded) {
        keep(low);
        keep(high);
      }
    };
    for (unsigned index = 0; index != count; ++index) {
      unsigned pin = result.operators[index].pin;
      if (pin == none)
        continue;
      if (before == none && index > 0)
        cutBetween(1, index, false);
      else if (before != none && result.operators[before].pin != pin)
        cutBetween(before + 1, index, true);
      before = index;
    }
    if (before != none && before + 1 < count)
      cutBetween(before + 1, count - 1, false);
  }

  double flopsBetween(unsigned first, unsigned last) const {
    double flops = 0;
    for (unsigned index = first; index != last; ++index)
      flops += result.operators[index].cost.flops;
    return flops;
  }

  /// Cuts operators [first, last) where the fewest bytes cross, into pieces of about `piece` operations.
  void addNarrow(const std::vector<Boundary> &all, unsigned first, unsigned last, double piece,
                 std::map<unsigned, Boundary> &kept) const {
    if (flopsBetween(first, last) < 2 * piece || last - first < 4)
      return;
    double total = flopsBetween(first, last), before = 0;
    const Boundary *best = nullptr;
    double bestBytes = 0;
    for (unsigned at = first + 1; at < last; ++at) {
      before += result.operators[at - 1].cost.flops;
      if (before < total / 4 || before > total * 3 / 4 || separates(all[at]))
        continue;
      double bytes = all[at].batchedBytes + all[at].otherBytes;
      if (!best || bytes < bestBytes) {
        best = &all[at];
        bestBytes = bytes;
      }
    }
    if (!best)
      return;
    kept[best->at] = *best;
    kept[best->at].single = none;
    addNarrow(all, first, best->at, piece, kept);
    addNarrow(all, best->at, last, piece, kept);
  }

  /// By piece, equal for pieces of equal structure; of whole layers for those of equal work, as the first and the last
  /// one may be connected in other ways than those between them.
  std::vector<unsigned> kindsOfPieces() const {
    std::map<std::string, unsigned> kinds;
    std::vector<unsigned> kind;
    for (size_t index = 0; index + 1 < result.boundaries.size(); ++index) {
      unsigned first = result.boundaries[index].at, last = result.boundaries[index + 1].at;
      std::string key = wholeLayers ? std::to_string(flopsBetween(first, last)) : result.structureOf(first, last);
      kind.push_back(kinds.try_emplace(std::move(key), kinds.size()).first->second);
    }
    return kind;
  }

  /// Pieces [begin, begin + count), each of the kind of the one `period` later.
  struct Repetition {
    size_t begin = 0, count = 0, period = 1;
  };

  /// The longest repetition, with the shortest period that it has: the layers of a model.
  static Repetition findLayers(llvm::ArrayRef<unsigned> kind) {
    constexpr size_t mostPieces = 64; // of a layer
    Repetition longest;
    for (size_t period = 1; period <= mostPieces && 2 * period <= kind.size(); ++period)
      for (size_t begin = 0, at = 0; at + period <= kind.size(); ++at) {
        if (at + period < kind.size() && kind[at] == kind[at + period])
          continue;
        size_t count = at + period - begin;
        if (count >= 2 * period && count > longest.count)
          longest = {begin, count, period};
        begin = at + 1;
      }
    return longest;
  }

  /// Drops the boundaries inside of layers.
  void keepWholeLayers() {
    Repetition layers = findLayers(kindsOfPieces());
    size_t index = 0;
    llvm::erase_if(result.boundaries, [&](const Boundary &boundary) {
      size_t piece = index++;
      bool isInside = piece > layers.begin && piece < layers.begin + layers.count;
      return isInside && (piece - layers.begin) % layers.period != 0 && !endsOfPins.contains(boundary.at);
    });
  }

  /// Joins neighbouring pieces until there are few enough, the most frequent pair of equal pieces first, so that what
  /// repeats in the graph still repeats afterwards (as byte-pair encoding does: Gage 1994).
  void mergeRepeated() {
    std::vector<Boundary> &boundaries = result.boundaries;
    std::vector<unsigned> kind = kindsOfPieces();
    unsigned next = kind.empty() ? 0 : *llvm::max_element(kind) + 1;
    while (boundaries.size() > mostBoundaries) {
      std::map<std::pair<unsigned, unsigned>, unsigned> counts;
      for (size_t index = 0; index + 1 < kind.size(); ++index)
        if (!endsOfPins.contains(boundaries[index + 1].at))
          ++counts[{kind[index], kind[index + 1]}];
      if (counts.empty())
        return;
      auto most = std::max_element(counts.begin(), counts.end(),
                                   [](auto &left, auto &right) { return left.second < right.second; });
      auto pair = most->first;
      std::vector<Boundary> keptBoundaries = {boundaries.front()};
      std::vector<unsigned> keptKinds;
      for (size_t index = 0; index < kind.size(); ++index) {
        bool joins = index + 1 < kind.size() && std::pair(kind[index], kind[index + 1]) == pair &&
                     !endsOfPins.contains(boundaries[index + 1].at);
        keptKinds.push_back(joins ? next : kind[index]);
        index += joins;
        keptBoundaries.push_back(boundaries[index + 1]);
      }
      boundaries = std::move(keptBoundaries);
      kind = std::move(keptKinds);
      ++next;
    }
  }
};

} // namespace

void findBoundaries(SearchGraph &graph, unsigned mostBoundaries, bool wholeLayers) {
  BoundaryFinder(graph, mostBoundaries, wholeLayers).run();
}

} // namespace cleave::search
