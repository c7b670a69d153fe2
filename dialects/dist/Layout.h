// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts: which part of a tensor each device of a mesh holds. Plain data with the algebra of cutting; `#dist.layout`
// is the same as an attribute.

#ifndef CLEAVE_DIALECTS_DIST_LAYOUT_H
#define CLEAVE_DIALECTS_DIST_LAYOUT_H

#include "dialects/dist/Dist.h"
#include "dialects/interfaces/SplitRule.h"

#include <map>

namespace cleave::dist {

using Axes = llvm::SmallVector<mlir::StringAttr, 1>;

/// The axes of a mesh and their sizes.
class MeshShape {
public:
  explicit MeshShape(MeshOp mesh);

  /// The axis's size; none where the mesh has no such axis.
  std::optional<int64_t> find(mlir::StringAttr axis) const;
  /// The product of the sizes of axes that the mesh has.
  int64_t ways(llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// The axes in the mesh's order.
  llvm::ArrayRef<mlir::StringAttr> getAxes() const { return names; }
  llvm::ArrayRef<int64_t> getSizes() const { return sizes; }
  int64_t numDevices() const { return ways(names); }

private:
  llvm::SmallVector<mlir::StringAttr> names;
  llvm::SmallVector<int64_t> sizes;
};

/// What a window operator reads of a part, in terms of its result's `count` positions, which the axes cut: position i
/// reads elements `step * i - before` to `step * i - before + extent - 1` of the part.
struct Reach {
  int64_t count = 0, step = 1, before = 0, extent = 1;
  bool operator==(const Reach &other) const = default;
};

/// A factor of a tensor dimension. It is cut into blocks by its axes, the outermost first: by an axis of size p into
/// blocks of ceil(size / p), each of which the next axis cuts in the same way. Every device has a block of the same
/// size; what lies beyond the end is padding.
struct Part {
  int64_t size = 1;
  Axes axes;
  /// The blocks overlap: each holds what a window operator reads for its block of results.
  std::optional<Reach> reach;
  /// By axis: a device whose coordinate is c of p has the block of (c + shift) mod p. Empty where all are 0.
  llvm::SmallVector<int64_t, 1> shifts = {};

  bool operator==(const Part &other) const = default;
  /// Elements that a device holds.
  int64_t localSize(const MeshShape &mesh) const;
  /// The size of the blocks into which each axis cuts.
  llvm::SmallVector<int64_t> blocks(const MeshShape &mesh) const;
  /// Whether some device holds padding.
  bool isPadded(const MeshShape &mesh) const;
  /// The same part in which a device has the block that is `steps` further on in a walk over all blocks: the last axis
  /// is shifted with each step, the one before it when that has been all around.
  Part shifted(int64_t steps, const MeshShape &mesh) const;
};

/// A dimension's factors, the slowest varying first.
using DimParts = llvm::SmallVector<Part, 1>;

/// Which part of a tensor each device of a mesh holds, as a dense row-major tensor of the local sizes. Devices that
/// differ only in axes that cut nothing hold the same.
struct Layout {
  llvm::SmallVector<DimParts, 4> dims;
  /// Devices that differ in these axes hold partial values; `combiner` joins them to the tensor's.
  Axes partial;
  Combiner combiner = Combiner::None;

  /// Every device holds all of it.
  static Layout whole(mlir::ShapedType type);
  static Layout of(LayoutAttr attribute);
  /// The layout of a tensor of `shape` whose dimensions carry the factors of `rule`, which `axes` cut (by factor).
  static Layout fromFactors(const SplitRule &rule, const TensorFactors &factors, llvm::ArrayRef<int64_t> shape,
                            llvm::ArrayRef<Axes> axes, const MeshShape &mesh);

  LayoutAttr toAttribute(mlir::MLIRContext *context) const;
  bool operator==(const Layout &other) const = default;
  bool isWhole() const;
  bool isPadded(const MeshShape &mesh) const;
  /// Whether an axis cuts a dimension or is partial.
  bool uses(mlir::StringAttr axis) const;
  /// Of the whole tensor.
  llvm::SmallVector<int64_t> tensorShape() const;
  llvm::SmallVector<int64_t> localShape(const MeshShape &mesh) const;
  mlir::RankedTensorType localType(mlir::RankedTensorType type, const MeshShape &mesh) const;
  /// Bytes that one device holds.
  int64_t localBytes(mlir::RankedTensorType type, const MeshShape &mesh) const;
  /// Joins parts that need not be told apart, so that layouts that hold the same have one form.
  void canonicalize(const MeshShape &mesh);
};

/// The axes of the mesh along which a collective joins the values or parts of one of its tensors: those over which the
/// operand is partial and the result is not, and those that cut the operand and not the result.
Axes joinedAxes(Collective collective, unsigned index, const MeshShape &mesh);

/// The axes of the mesh that do not divide a tensor in the same way in two layouts: devices that differ in the others
/// alone give each other nothing on the way from one to the other.
Axes movedAxes(const Layout &from, const Layout &to, const MeshShape &mesh);

/// The mesh of the program around an operation of it; null where there is none.
MeshOp getMesh(mlir::Operation *op);

/// "sum", "product", "max", "min" or "none", and back.
llvm::StringRef combinerName(Combiner combiner);
std::optional<Combiner> findCombiner(llvm::StringRef name);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_LAYOUT_H
