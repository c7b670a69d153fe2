// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators on a mesh with shares become one on each of its islands.
//
// All devices of a mesh run one program on blocks of one size. Devices that get unequal blocks are therefore several
// meshes: an island for each run of equal shares, within which blocks are equal again. Here an operator of the mesh
// becomes one on each island, on the part of the factor that the axis with shares cuts, by the operator's own split
// rule (SplitInterface::localize); what the other axes cut, they cut of that part. Batches, columns and heads are one
// case.
//
// A value is then there in pieces, by island: parts of a dimension, partial values that a combiner joins, or as a whole
// on each. Who wants it otherwise gets it by slices, concatenations and sums, which are operators like any other and
// placed where they are needed: a slice where the piece is, before it is sent, a concatenation or sum where it goes.
// Transfers between islands are those between meshes, inserted by the stage that inserts all of them.
//
// Islands join partial values in the same order, so that all of them have the same sum, bit by bit.

#ifndef CLEAVE_PASSES_DISTRIBUTE_SHARESEXPANDER_H
#define CLEAVE_PASSES_DISTRIBUTE_SHARESEXPANDER_H

#include "passes/distribute/OperatorLayouts.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Layout.h"

#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// A mesh of devices with equal shares, and which of the shares they have together.
struct Island {
  mlir::FlatSymbolRefAttr mesh;
  std::unique_ptr<dist::MeshShape> shape;
  int64_t begin = 0, end = 0;
};

/// A mesh with shares, taken apart.
struct Islands {
  mlir::StringAttr axis;
  std::unique_ptr<dist::MeshShape> shape; ///< Of the mesh itself.
  int64_t total = 0;                      ///< Of all shares.
  std::vector<Island> list;

  /// Where the part of a factor of `size` elements ends that belongs to the first `shares` of the total: at the element
  /// next to the exact place.
  int64_t boundary(int64_t size, int64_t shares) const {
    return size / total * shares + (2 * (size % total) * shares + total) / (2 * total);
  }
  int64_t begin(int64_t size, unsigned island) const { return boundary(size, list[island].begin); }
  int64_t end(int64_t size, unsigned island) const { return boundary(size, list[island].end); }
  /// Whether every island gets something of a factor.
  bool canCut(int64_t size) const;
};

/// The islands of a module's meshes.
class IslandTable {
public:
  explicit IslandTable(mlir::ModuleOp module) : module(module) {}

  /// Adds the islands of a mesh with shares to the module: single devices as @dK, others as @MESH.0, @MESH.1, … Fails,
  /// with a diagnostic, where another symbol has the name.
  llvm::LogicalResult add(dist::MeshOp mesh);
  /// Null where a mesh has no shares.
  const Islands *find(mlir::Attribute mesh) const;
  /// The shape of an island or of another mesh.
  const dist::MeshShape &shapeOf(mlir::FlatSymbolRefAttr mesh);

private:
  mlir::ModuleOp module;
  llvm::DenseMap<mlir::Attribute, std::unique_ptr<Islands>> known;
  llvm::DenseMap<mlir::Attribute, std::unique_ptr<dist::MeshShape>> shapes;
};

/// What becomes of inputs and outputs that islands have parts of.
enum class SharedPorts {
  InParts, ///< Each loads and gives out its own (dist.input_part, dist.output_parts).
  Whole    ///< Operators cut inputs and join outputs, of which a training step can be made.
};

/// Takes all meshes of a module with shares apart, in all of its graphs; `onIsland` is called for each part of each
/// mesh. Fails, with a diagnostic, as SharesExpander does.
llvm::LogicalResult
expandShares(mlir::ModuleOp module, SharedPorts ports,
             llvm::function_ref<void(mlir::FlatSymbolRefAttr mesh, mlir::FlatSymbolRefAttr island)> onIsland);

/// Rewrites one placed graph.
class SharesExpander {
public:
  SharesExpander(dfg::GraphOp graph, IslandTable &islands, SharedPorts ports)
      : graph(graph), table(islands), ports(ports), builder(graph.getContext()) {}

  /// Fails, with a diagnostic at the operator, where the axis with shares cuts a window, or cuts inside of another
  /// axis.
  llvm::LogicalResult run();

private:
  /// Elements `begin` to before `end` of those `extent` that are in each of the `outer` blocks of a dimension: what an
  /// island has of a factor, in terms of elements, so that it does not count how those behind it are told apart.
  struct Range {
    int64_t dim = 0, outer = 1, extent = 1, begin = 0, end = 0;
    bool operator==(const Range &other) const = default;
  };
  /// What islands have of a value: ranges where it is cut, partial values where there is a combiner, else all of it.
  struct Pieces {
    const Islands *islands = nullptr;
    llvm::SmallVector<Range> ranges;
    Combiner combiner = Combiner::None;
    llvm::SmallVector<mlir::Value> values;
  };
  /// Where an operator is made: the mesh, who decided, and the location.
  struct Site {
    dist::PlaceAttr of;
    mlir::FlatSymbolRefAttr mesh;
    mlir::Location location;
  };
  struct Made {
    mlir::Attribute mesh;
    std::optional<Range> range; ///< None: the whole value.
    mlir::Value value;
  };

  llvm::LogicalResult expand(mlir::Operation *op, const Islands &islands);
  /// The operator on an island; appends its results to the pieces.
  llvm::LogicalResult localize(mlir::Operation *op, const OperatorLayouts &layouts, std::optional<unsigned> factor,
                               const Islands &islands, unsigned island, std::vector<Pieces> &results);
  /// Lets an operator that is not on a mesh with shares read whole values.
  llvm::LogicalResult readWhole(mlir::Operation *op, dist::PlaceAttr place);

  /// A parameter that the graph itself writes, for islands other than the first: the first, which writes it, gives it
  /// to them, so that a training step's tasks come in the order in which microbatches write it. Else the value itself.
  mlir::Value fromFirst(mlir::Value value, dist::PlaceAttr place, const Island &first);
  /// All of a value, or a range of it, as an operator at the site reads it.
  mlir::Value get(mlir::Value value, const std::optional<Range> &range, const Site &site);
  mlir::Value make(mlir::Value value, const std::optional<Range> &range, const Site &site);
  /// A piece, cut to the range, on its own mesh.
  mlir::Value pieceOf(const Pieces &pieces, unsigned island, const std::optional<Range> &range, const Site &site);
  mlir::Value slice(mlir::Value value, const Range &range, const Site &site);
  /// Along the dimension of a range, block by block.
  mlir::Value concatenate(llvm::ArrayRef<mlir::Value> values, const Range &range, const Site &site);
  mlir::Value combine(llvm::ArrayRef<mlir::Value> values, Combiner combiner, const Site &site);
  /// A reshape, where it changes anything.
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape, const Site &site);

  /// Places a new operator: as `split` says, or where there is none as its operands lie on the site's mesh.
  mlir::Value place(mlir::Operation *op, const Site &site);
  llvm::LogicalResult place(mlir::Operation *op, const Site &site, dist::SplitAttr split);

  /// What an island has of a tensor with those factors; nothing where it has all.
  static std::optional<Range> rangeOf(const SplitRule &rule, const TensorFactors &factors,
                                      std::optional<unsigned> factor, const Islands &islands, unsigned island);

  dfg::GraphOp graph;
  IslandTable &table;
  SharedPorts ports;
  mlir::OpBuilder builder;
  llvm::DenseMap<mlir::Value, Pieces> pieces;
  /// What was made of a value for meshes, of inputs and of values in pieces.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Made>> made;
  /// Parameters that the graph writes, and copies of reads of them.
  llvm::DenseSet<mlir::Attribute> written;
  llvm::DenseMap<mlir::Value, mlir::Value> copies;
  /// How a new value lies on its mesh.
  llvm::DenseMap<mlir::Value, std::pair<mlir::Attribute, dist::Layout>> layouts;
};

} // namespace cleave

#endif // CLEAVE_PASSES_DISTRIBUTE_SHARESEXPANDER_H
