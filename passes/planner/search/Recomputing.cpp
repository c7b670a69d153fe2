// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The knapsack of what is computed again.

#include "passes/planner/search/Recomputing.h"

#include <cmath>
#include <set>

namespace cleave::search {

static constexpr double infinity = std::numeric_limits<double>::infinity();

double keptBytes(const IntervalSums &sums, Recompute recompute, bool checkpoints) {
  double begun = checkpoints ? sums.checkpoints : 0;
  switch (recompute) {
  case Recompute::None:
    return sums.saved;
  case Recompute::Selective:
    return sums.savedProducts + begun;
  case Recompute::Full:
    return begun;
  case Recompute::Offload:
    return sums.unmoved;
  }
  return sums.saved;
}

Recomputation recomputationOf(const IntervalSums &sums, Recompute recompute) {
  Recomputation again;
  again.bytes = keptBytes(sums, recompute);
  if (recompute == Recompute::None)
    return again;
  if (recompute == Recompute::Offload) {
    // While the gradients of a piece are computed, its activations are back.
    again.offloaded = sums.saved - sums.unmoved;
    again.transient = std::min(again.offloaded, sums.largestPiece);
    return again;
  }
  bool isFull = recompute == Recompute::Full;
  again.host = sums.forwardHost;
  again.seconds =
      isFull ? sums.forward - sums.unrepeated : std::max(0.0, sums.forward - sums.forwardExchange - sums.contractions);
  again.transient = isFull ? sums.largestPiece : sums.largestRest;
  return again;
}

OffloadDelay offloadDelay(double moving, double forward, double backward) {
  return {std::max(0.0, moving - forward), std::max(0.0, moving - backward)};
}

/// Whether a piece's results are on the device for the next one's gradients.
static bool keepsResults(Recompute recompute) {
  return recompute == Recompute::None || recompute == Recompute::Offload;
}

double bytesBehind(const IntervalSums &piece, Recompute own, Recompute before) {
  return keepsResults(own) && !keepsResults(before) ? piece.checkpoints : 0;
}

Recomputation recomputationOf(llvm::ArrayRef<IntervalSums> pieces, llvm::ArrayRef<Recompute> byPiece) {
  Recomputation total;
  Recompute before = Recompute::None;
  for (auto [piece, own] : llvm::zip_equal(pieces, byPiece)) {
    Recomputation again = recomputationOf(piece, own);
    total.seconds += again.seconds;
    total.host += again.host;
    total.bytes += again.bytes + bytesBehind(piece, own, before);
    total.transient = std::max(total.transient, again.transient);
    total.offloaded += again.offloaded;
    before = own;
  }
  return total;
}

Recomputation recomputationOf(const IntervalSums &sums, llvm::ArrayRef<IntervalSums> pieces,
                              llvm::ArrayRef<Recompute> byPiece) {
  return llvm::all_equal(byPiece) ? recomputationOf(sums, byPiece.front()) : recomputationOf(pieces, byPiece);
}

namespace {

constexpr size_t mostPairs = 1024;
constexpr size_t numWays = std::size(everyRecompute);

/// Ways of pieces that keep at most `capacity` bytes, where transients are allowed up to a size.
class Knapsack {
public:
  /// `offload`: what a byte in the host's memory counts; negative: none is there.
  Knapsack(llvm::ArrayRef<IntervalSums> pieces, double capacity, double transient, double offload = -1)
      : capacity(std::floor(capacity)), choices(waysToKeep(offload >= 0)) {
    for (const IntervalSums &sums : pieces) {
      Piece &piece = this->pieces.emplace_back();
      piece.entry = std::ceil(bytesBehind(sums, Recompute::None, Recompute::Full));
      piece.ways.fill({0, infinity});
      for (Recompute recompute : choices) {
        Recomputation again = recomputationOf(sums, recompute);
        bool mayBe = again.transient <= transient;
        piece.ways[index(recompute)] = {std::ceil(again.bytes),
                                        mayBe ? again.seconds + std::max(0.0, offload) * again.offloaded : infinity};
      }
    }
    findPrice();
  }

  /// No ways that fit take less; infinity where none fit.
  double leastSeconds() const { return bound; }

  /// The ways that take the least seconds; empty where none that fit take less than `most`.
  std::vector<Recompute> solve(double most) {
    std::vector<Recompute> best;
    if (bound >= most)
      return best;
    best = quickly();
    if (!best.empty() && secondsOf(best) >= most)
      best.clear();
    most = best.empty() ? most : secondsOf(best);
    std::vector<std::vector<Pair>> behind = {{Pair()}};
    for (unsigned piece = 0; piece != pieces.size(); ++piece) {
      behind.push_back(continued(behind.back(), piece, most));
      if (behind.back().empty())
        return best;
    }
    std::vector<Recompute> found = waysOf(behind);
    return secondsOf(found) < most ? found : best;
  }

private:
  struct Way {
    double bytes, seconds;
  };
  struct Piece {
    std::array<Way, numWays> ways;
    double entry = 0; ///< Bytes of the tensor with which it begins.
  };
  /// What pieces so far amount to, and how the last one of them does it.
  struct Pair {
    double bytes = 0, seconds = 0;
    unsigned before = 0; ///< The pair that it continues.
    Recompute last = Recompute::None;
  };

  static size_t index(Recompute recompute) { return static_cast<size_t>(recompute); }

  static double extra(const Piece &piece, Recompute own, Recompute before) {
    return keepsResults(own) && !keepsResults(before) ? piece.entry : 0;
  }

  /// The way of a piece that is best at a price of a byte; of equal ones the one with the fewest bytes.
  Recompute cheapest(const Piece &piece, double price) const {
    auto rankOf = [&](Recompute recompute) {
      const Way &way = piece.ways[index(recompute)];
      return std::pair(way.seconds + price * way.bytes, way.bytes);
    };
    Recompute best = Recompute::None;
    for (Recompute recompute : choices)
      if (rankOf(recompute) < rankOf(best))
        best = recompute;
    return best;
  }

  double bytesAt(double price) const {
    double bytes = 0;
    for (const Piece &piece : pieces)
      bytes += piece.ways[index(cheapest(piece, price))].bytes;
    return bytes;
  }

  /// The price at which the Lagrangian bound is greatest: where what is best for it begins to fit.
  void findPrice() {
    fewestBehind.assign(pieces.size() + 1, 0);
    double seconds = 0, bytes = 0;
    for (size_t number = pieces.size(); number-- > 0;) {
      double fewest = infinity;
      for (const Way &way : pieces[number].ways)
        if (way.seconds < infinity) {
          fewest = std::min(fewest, way.bytes);
          seconds = std::max(seconds, way.seconds);
          bytes = std::max(bytes, way.bytes);
        }
      fewestBehind[number] = fewestBehind[number + 1] + fewest;
    }
    if (fewestBehind[0] > capacity) {
      bound = infinity;
      return;
    }
    double low = 0;
    price = 0;
    if (bytesAt(0) > capacity) {
      price = bytes > 0 ? seconds / bytes / 1024 : 1;
      // At a price high enough the fewest bytes are best.
      constexpr unsigned mostSteps = 64;
      for (unsigned step = 0; step != mostSteps && bytesAt(price) > capacity; ++step)
        price *= 4;
      for (unsigned step = 0; step != mostSteps && low < price * (1 - 1e-9); ++step) {
        double middle = (low + price) / 2;
        (bytesAt(middle) > capacity ? low : price) = middle;
      }
    }
    leastBehind.assign(pieces.size() + 1, 0);
    for (size_t number = pieces.size(); number-- > 0;) {
      const Way &way = pieces[number].ways[index(cheapest(pieces[number], price))];
      leastBehind[number] = leastBehind[number + 1] + way.seconds + price * way.bytes;
    }
    bound = std::max(0.0, leastBehind[0] - price * capacity);
  }

  double secondsOf(llvm::ArrayRef<Recompute> ways) const {
    double seconds = 0;
    for (auto [piece, own] : llvm::zip_equal(pieces, ways))
      seconds += piece.ways[index(own)].seconds;
    return seconds;
  }

  double bytesOf(llvm::ArrayRef<Recompute> ways) const {
    double bytes = 0;
    Recompute before = Recompute::None;
    for (auto [piece, own] : llvm::zip_equal(pieces, ways)) {
      bytes += piece.ways[index(own)].bytes + extra(piece, own, before);
      before = own;
    }
    return bytes;
  }

  /// Ways that fit and may not be best: those at the price, the last pieces made faster while they fit. Empty where
  /// those at the price do not fit for what pieces keep behind others.
  std::vector<Recompute> quickly() const {
    std::vector<Recompute> ways;
    for (const Piece &piece : pieces)
      ways.push_back(cheapest(piece, price));
    if (bytesOf(ways) > capacity)
      return {};
    for (size_t number = pieces.size(); number-- > 0;)
      for (Recompute other : choices) {
        Recompute own = ways[number];
        if (pieces[number].ways[index(other)].seconds >= pieces[number].ways[index(own)].seconds)
          continue;
        ways[number] = other;
        if (bytesOf(ways) > capacity)
          ways[number] = own;
      }
    return ways;
  }

  /// The undominated pairs behind one more piece that may lead to less than `most` seconds, by bytes.
  std::vector<Pair> continued(llvm::ArrayRef<Pair> pairs, unsigned number, double most) const {
    const Piece &piece = pieces[number];
    std::vector<Pair> all;
    for (auto [before, pair] : llvm::enumerate(pairs))
      for (Recompute own : choices) {
        const Way &way = piece.ways[index(own)];
        Pair made = {pair.bytes + way.bytes + extra(piece, own, pair.last), pair.seconds + way.seconds,
                     static_cast<unsigned>(before), own};
        bool isTooSlow = made.seconds + leastBehind[number + 1] - price * (capacity - made.bytes) >= most * slack;
        if (made.seconds < infinity && made.bytes + fewestBehind[number + 1] <= capacity && !isTooSlow)
          all.push_back(made);
      }
    llvm::stable_sort(all, [](const Pair &left, const Pair &right) {
      return std::tuple(left.bytes, left.seconds, left.last) < std::tuple(right.bytes, right.seconds, right.last);
    });
    return thinned(undominated(all));
  }

  /// One whose last piece keeps all can go on in any way for no more than one whose does not.
  static std::vector<Pair> undominated(llvm::ArrayRef<Pair> sorted) {
    std::vector<Pair> left;
    double keeping = infinity, any = infinity;
    for (const Pair &pair : sorted) {
      bool keeps = keepsResults(pair.last);
      if (pair.seconds >= (keeps ? keeping : any) * slack)
        continue;
      any = std::min(any, pair.seconds);
      keeping = keeps ? pair.seconds : keeping;
      left.push_back(pair);
    }
    return left;
  }

  /// Of each part of the memory the fastest pairs whose last piece keeps all and whose does not, where there are too
  /// many.
  std::vector<Pair> thinned(std::vector<Pair> pairs) const {
    if (pairs.size() <= mostPairs)
      return pairs;
    double width = std::max(capacity, 1.0) / mostPairs;
    std::map<std::pair<double, bool>, Pair> fastest;
    for (const Pair &pair : pairs) {
      auto [known, isNew] = fastest.try_emplace({std::floor(pair.bytes / width), keepsResults(pair.last)}, pair);
      if (pair.seconds < known->second.seconds)
        known->second = pair;
    }
    auto values = llvm::make_second_range(fastest);
    return {values.begin(), values.end()};
  }

  std::vector<Recompute> waysOf(llvm::ArrayRef<std::vector<Pair>> behind) const {
    const Pair *pair = &*llvm::min_element(
        behind.back(), [](const Pair &left, const Pair &right) { return left.seconds < right.seconds; });
    std::vector<Recompute> ways(pieces.size());
    for (size_t number = pieces.size(); number-- > 0;) {
      ways[number] = pair->last;
      pair = &behind[number][pair->before];
    }
    return ways;
  }

  /// Sums in another order differ by less.
  static constexpr double slack = 1 - 1e-12;

  double capacity;
  llvm::ArrayRef<Recompute> choices;
  std::vector<Piece> pieces;
  double price = 0, bound = 0;
  /// By piece: the least seconds and priced bytes, and the fewest bytes, from it to the last one.
  std::vector<double> leastBehind, fewestBehind;
};

} // namespace

double leastRecomputeSeconds(llvm::ArrayRef<IntervalSums> pieces, double memory, double inFlight, double offload) {
  // Bytes that are rounded up may be one too many for each piece.
  return Knapsack(pieces, memory / inFlight + static_cast<double>(pieces.size()), /*transient=*/infinity,
                  offload > 0 ? 0 : -1)
      .leastSeconds();
}

/// The seconds that ways of pieces add to a microbatch.
static double secondsOf(llvm::ArrayRef<IntervalSums> pieces, llvm::ArrayRef<Recompute> byPiece, double offload) {
  Recomputation again = recomputationOf(pieces, byPiece);
  double forward = 0, backward = again.seconds;
  for (const IntervalSums &piece : pieces) {
    forward += piece.forward;
    backward += piece.backward;
  }
  return again.seconds + offloadDelay(again.offloaded * offload, forward, backward).seconds();
}

std::vector<Recompute> recomputeToFit(llvm::ArrayRef<IntervalSums> pieces, double memory, double inFlight,
                                      double mostSeconds, double offload) {
  // Of a second of the way: nothing where all of it hides, at most both passes.
  static constexpr double prices[] = {0, 0.125, 0.25, 0.5, 1, 2};
  std::set<double> transients = {0};
  for (const IntervalSums &piece : pieces)
    for (Recompute recompute : waysToKeep(offload > 0))
      transients.insert(recomputationOf(piece, recompute).transient);
  std::vector<Recompute> best;
  auto tryAt = [&](double transient, double ofOffload) {
    Knapsack knapsack(pieces, (memory - transient) / inFlight, transient, ofOffload);
    std::vector<Recompute> found = knapsack.solve(mostSeconds);
    if (found.empty())
      return;
    double seconds = secondsOf(pieces, found, offload);
    if (seconds >= mostSeconds)
      return;
    mostSeconds = seconds;
    best = std::move(found);
  };
  for (double transient : transients) {
    if (transient > memory)
      break;
    tryAt(transient, -1);
    for (double price : prices)
      if (offload > 0)
        tryAt(transient, price * offload);
  }
  return best;
}

} // namespace cleave::search
