// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The best splits of any consecutive layers on any grid, as the search across stages asks for them. A graph is cut into
// pieces at boundaries that a single tensor crosses; a piece is a table of the least cost by the states of the two
// tensors at its ends, and layers in a row are min-plus products of tables. Equal pieces have one table, and intervals
// that begin with equal pieces share the products.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_INTERVALS_H
#define CLEAVE_PASSES_PLANNER_SEARCH_INTERVALS_H

#include "passes/planner/search/PieceTable.h"
#include "passes/planner/solver/SharedLayouts.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Allocator.h"

#include <deque>
#include <map>
#include <memory>

namespace cleave::search {

/// Sums over an interval, and what it keeps at the boundaries of its pieces.
struct IntervalSums : Sums {
  double checkpoints = 0;  ///< Bytes of the tensors at the beginnings of its pieces.
  double largestPiece = 0; ///< Bytes that the piece which saves most saves.
  double largestRest = 0;  ///< Of pieces, the most that one saves that is no result of a contraction.
  double keptByPiece = 0;  ///< Under Weights::byPiece: what a microbatch keeps as its pieces get activations.

  /// Adds what is no sum over operators. `entryBytes`: of the tensor with which the piece begins.
  void addPiece(const Sums &piece, double entryBytes);
};

/// A grid on a kind of device, with the size of a microbatch: all that pieces depend on besides their structure.
struct Setting {
  const Grid *grid = nullptr;
  const OperatorCost *cost = nullptr;
  PieceOptions options;
};

class Intervals {
public:
  /// All must outlive it. `fixed` names operators by their index.
  explicit Intervals(const SearchGraph &graph, FixedFactors fixed = FixedFactors());
  ~Intervals();

  unsigned numLayers() const { return graph.boundaries.size() - 1; }
  /// Layers lie on a ring, since the first stage of a V has both ends of the model: the first layer comes again behind
  /// the last one, as layer `numLayers`. Where an interval passes the end, nothing crosses. All that take an interval
  /// [first, last) take it on the ring, at most once around.
  /// The same for intervals of equal structure.
  unsigned classOf(unsigned first, unsigned last);
  /// Adds a setting, whose number the others take.
  unsigned addSetting(Setting setting);

  /// The layers at which the pieces of layers [first, last) begin, and `last`.
  llvm::SmallVector<unsigned> cutsOf(unsigned first, unsigned last) const;

  /// Gives back the memory of everything that was found. What is asked for again is found again.
  void forget();

  /// What the best choices of layers [first, last) amount to; nothing where there are none.
  const IntervalSums *best(unsigned first, unsigned last, unsigned setting, const Weights &weights);
  /// The least seconds of layers [first, last), with what `weights` count, and the optimizer's seconds divided by the
  /// number of microbatches; `solver::forbidden` where there are no choices.
  double least(unsigned first, unsigned last, unsigned setting, const Weights &weights);
  /// Weights that are asked for together; their number is what the next one takes. The last ones may be any.
  using Bundle = WeightBundle;
  unsigned addBundle(unsigned setting, const Bundle &bundle);
  /// `least` of each of a bundle's weights: much cheaper than one after the other. Valid until the next call or
  /// `forget`, which forgets bundles as well.
  llvm::ArrayRef<double> leastOf(unsigned first, unsigned last, unsigned bundle);
  /// `leastInside` of each of a bundle's weights.
  std::array<double, solver::numLanes> leastInsideOf(unsigned layer, unsigned bundle);
  /// The transient bytes that some operator of the layers needs, whatever their choices are.
  double leastTransient(unsigned first, unsigned last, unsigned setting);
  /// The least that a layer adds to those of an interval that contains it, whatever is around it: gradients that enter
  /// it may stay partial. 0 where several tensors enter or leave it.
  double leastInside(unsigned layer, unsigned setting, const Weights &weights);
  /// By operator of the layers and axis: the factor that is cut by these choices, or none.
  std::vector<std::array<unsigned, mostAxes>> factors(unsigned first, unsigned last, unsigned setting,
                                                      const std::vector<std::vector<unsigned>> &choices);
  /// By operator of the layers what Piece::keysOf says of it.
  std::vector<std::optional<dist::KeyExchange>> keys(unsigned first, unsigned last, unsigned setting,
                                                     const std::vector<std::vector<unsigned>> &choices);
  /// The pieces of an interval in a row; each but the last ends at the single tensor at which the next one begins.
  std::vector<const Piece *> piecesOf(unsigned first, unsigned last, unsigned setting);
  /// What each piece amounts to by itself with the choices that are best; expects some.
  std::vector<IntervalSums> sumsByPiece(unsigned first, unsigned last, unsigned setting, const Weights &weights);
  /// By piece: the choices that are best.
  std::vector<std::vector<unsigned>> choicesOf(unsigned first, unsigned last, unsigned setting, const Weights &weights);
  /// What an operator of an interval takes, and the best that could be done if it were split in another way, the rest
  /// of its piece being split anew for that.
  struct OperatorFacts {
    OperatorTime time;
    /// By axis: the factors of the other way; empty where there is none.
    std::optional<std::array<unsigned, mostAxes>> alternative;
    double more = 0; ///< Seconds of a microbatch that it would take more, with its part of what `weights` count.
  };
  /// By operator of the layers, with these choices of the pieces; `weights` say what another way is worth.
  std::vector<OperatorFacts> facts(unsigned first, unsigned last, unsigned setting, const Weights &weights,
                                   const std::vector<std::vector<unsigned>> &choices);

private:
  using Table = PieceTable;
  struct Products;
  struct Node;
  struct PieceLayers {
    unsigned first, last, stageStart;
  };

  /// In a stage that begins with layer `stageStart`.
  unsigned pieceOf(unsigned first, unsigned last, unsigned stageStart);
  unsigned nodeOf(unsigned first, unsigned last);
  Table &tableOf(unsigned piece, unsigned setting);
  unsigned objectiveOf(unsigned setting, const Weights &weights);
  llvm::ArrayRef<double> valuesBefore(unsigned node, unsigned objective);
  Products &productsOf(unsigned node, unsigned objective);
  /// What counts in the last piece of a path.
  Weights weightsAt(unsigned node, const Weights &weights) const;
  unsigned entryOf(unsigned node, unsigned exit, unsigned objective);
  /// What the best choices of a path amount to that end with a state.
  const IntervalSums &sumsAt(unsigned node, unsigned exit, unsigned objective);
  /// The pieces of an interval with the states at their ends, from its end to its beginning.
  struct Step {
    Table *table;
    unsigned piece, entry, exit;
    Weights weights; ///< Of the piece.
  };
  std::vector<Step> stepsOf(unsigned first, unsigned last, unsigned setting, const Weights &weights);
  std::vector<OperatorFacts> factsOf(Table &table, const std::vector<unsigned> &choices, const Weights &weights);

  /// The least costs of a bundle's weights: by node, for each state at the end of its path, and of all states; by
  /// piece, those of its table.
  struct BundleCosts {
    unsigned setting = 0;
    Bundle weights;
    std::vector<std::vector<double>> byNode, byPiece;
  };
  /// Whether single tensors, or none, enter and leave a layer.
  bool isSingle(unsigned layer) const;
  const std::vector<double> &lanesOf(Table &table, unsigned piece, BundleCosts &costs);
  const std::vector<double> &lanesAt(unsigned node, BundleCosts &costs);

  const SearchGraph &graph;
  const FixedFactors fixed;
  /// Of the pieces; few, so that they are never forgotten.
  solver::SharedLayouts layouts;
  std::vector<BundleCosts> bundles;
  std::vector<double> laneMemory;
  std::vector<Setting> settings;
  /// What is minimised, and where: a setting and weights; by setting, the indices of its own.
  struct Objective {
    unsigned setting;
    Weights weights;
  };
  std::vector<Objective> objectives;
  std::vector<std::vector<unsigned>> objectivesOf;
  /// Pieces by layers and by structure; where a piece of each structure first occurs.
  /// By first layer, end, and how much of what is read in the piece is summed later in the stage.
  std::map<std::tuple<unsigned, unsigned, unsigned>, unsigned> pieceByLayers;
  std::map<std::string, unsigned> pieceByStructure;
  std::vector<PieceLayers> pieces;
  std::vector<Node> nodes;
  std::deque<Products> allProducts;
  llvm::BumpPtrAllocator productMemory;
  /// By first layer and the one after the last, on the ring; none until it is asked for.
  std::vector<unsigned> nodeByLayers;
  /// By setting and piece.
  std::vector<std::vector<std::unique_ptr<Table>>> tables;
};

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_INTERVALS_H
