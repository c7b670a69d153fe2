// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Equal layers one after the other. A layer is eliminated once down to a table over its entry and its exit; the table
// of n layers in a row is its n-th power in the algebra of minimum and sum, found in log n products.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_LAYERCHAIN_H
#define CLEAVE_PASSES_PLANNER_SOLVER_LAYERCHAIN_H

#include "passes/planner/solver/Elimination.h"

namespace cleave::solver {

/// `count` (at least one) copies of a layer; the exit of each is the entry of the next. The two have equally many
/// choices. The entry's own costs do not count, since it is the exit of the layer before; the exit's do.
/// layer.memoryLimit is not looked at.
struct ChainProblem {
  ChoiceProblem layer;
  unsigned entry = 0, exit = 0;
  uint64_t count = 1;
};

class LayerChain {
public:
  /// Nothing where the width of the layer is too large for `options.mostEntries`.
  static std::optional<LayerChain> run(const ChainProblem &problem, const EliminationOptions &options = {});

  /// Computes everything anew for another multiplier.
  void setSecondsPerByte(double secondsPerByte);
  /// Takes another number of layers; with none, all values mean nothing.
  void setCount(uint64_t count);

  /// At `entry * n + exit` of n choices: the least seconds + secondsPerByte * bytes of all layers between that choice
  /// of the first entry and that one of the last exit.
  const std::vector<double> &values() const { return power; }

  /// Choices that attain a value. Layers between the same choices are alike, so there are few different ones, and a
  /// layer is an index into them.
  struct Choices {
    std::vector<std::vector<unsigned>> distinct; ///< Each the choices of a layer's variables.
    std::vector<unsigned> layers;                ///< By layer; empty where the value is `forbidden`.
  };
  Choices choicesAt(unsigned entry, unsigned exit) const;

private:
  LayerChain(Elimination layer, uint64_t count, unsigned numChoices)
      : layer(std::move(layer)), count(count), numChoices(numChoices) {}
  void computePower();
  std::vector<double> product(const std::vector<double> &a, const std::vector<double> &b) const;
  unsigned between(const std::vector<double> &a, const std::vector<double> &b, unsigned entry, unsigned exit) const;
  void splitSquare(size_t exponent, unsigned entry, unsigned exit, std::vector<unsigned> &exits) const;

  Elimination layer;
  uint64_t count;
  unsigned numChoices;
  /// Of 2^i layers, as far as they have been needed.
  std::vector<std::vector<double>> squares;
  /// By set bit of the count, from the lowest: of the layers up to and with that bit.
  std::vector<std::vector<double>> partial;
  std::vector<double> power;
};

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_LAYERCHAIN_H
