// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How an operator may be divided: its factors (named iteration dimensions) and the map from each tensor dimension to
// them. Data, so that planner and distribute read it without knowing the operator.

#ifndef CLEAVE_DIALECTS_INTERFACES_SPLITRULE_H
#define CLEAVE_DIALECTS_INTERFACES_SPLITRULE_H

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/TypeRange.h"
#include "mlir/IR/ValueRange.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace cleave {

/// What happens when a factor is divided over devices.
enum class FactorKind {
  Parallel,    ///< Every device computes its own part of the results.
  Reduction,   ///< Every device computes a partial result; `combiner` joins them.
  Window,      ///< Parallel, but a device also reads `haloBefore`/`haloAfter` elements of its neighbours.
  Stepwise,    ///< Can be divided once the operator is taken apart (DecomposeInterface).
  Unsplittable ///< Every device needs the whole of it.
};

/// How partial results of a reduction factor are joined.
enum class Combiner { None, Sum, Product, Max, Min };

/// One named iteration dimension of an operator.
struct Factor {
  std::string name;
  /// The word for it among those who build models, where that is another one: `out_channel` for the columns of a
  /// product with weights. Empty where there is none.
  std::string alias;
  int64_t size = 1;
  FactorKind kind = FactorKind::Parallel;
  Combiner combiner = Combiner::None;
  /// Window factors: result element i reads the elements from `step * i - haloBefore` to `step * i + haloAfter` of the
  /// first operand; those outside of it read as `fill`. A negative `haloAfter` says that the last ones are not read.
  int64_t haloBefore = 0, haloAfter = 0, step = 1;
  double fill = 0;
};

/// The factors of one tensor dimension, the slowest varying first. Empty: the dimension is not divided by any factor
/// (broadcast dimensions of size one).
using DimFactors = mlir::SmallVector<unsigned, 2>;
/// One entry a dimension.
using TensorFactors = mlir::SmallVector<DimFactors, 4>;

/// An operator's factors, and for every operand and result the factors of its dimensions.
struct SplitRule {
  mlir::SmallVector<Factor, 4> factors;
  mlir::SmallVector<TensorFactors, 4> operands;
  mlir::SmallVector<TensorFactors, 2> results;
  /// Sets of operands in which the first result is linear while all other operands are fixed: if each operand of a set
  /// is a sum over devices of partial values, so is the result.
  mlir::SmallVector<mlir::SmallVector<unsigned, 2>, 2> linear;

  /// The index of the factor of that name; none where there is none.
  std::optional<unsigned> find(llvm::StringRef name) const;

  /// The factor that people mean by a word, the first that there is: a factor's name; an alias; `d1` or `dim 1`, which
  /// is the slowest varying factor of more than one element of the first result's dimension 1.
  std::optional<unsigned> findWord(llvm::StringRef word) const;

  /// Appends a factor and returns its index.
  unsigned addFactor(llvm::StringRef name, int64_t size, FactorKind kind = FactorKind::Parallel,
                     Combiner combiner = Combiner::None);

  /// The rule of an operator whose results and operands relate by projected permutations, as in linalg.generic:
  /// `maps` holds operand maps, then result maps, over `names.size()` iteration dimensions of `sizes`; dimensions that
  /// no result map mentions are reductions joined by `combiner`. A constant in a map is a broadcast dimension.
  static SplitRule fromIndexingMaps(llvm::ArrayRef<std::string> names, llvm::ArrayRef<int64_t> sizes,
                                    llvm::ArrayRef<mlir::AffineMap> maps, unsigned numOperands, Combiner combiner);
};

/// What an operator needs to know to become one device's part of itself. Sizes are those of a device: a factor of
/// `size` elements cut into `ways` parts has `ceil(size / ways)`, and what lies beyond the factor's end is padding,
/// whose results nobody reads.
struct LocalInstance {
  /// The device's parts of the operands. Padding along reduction factors holds the combiner's neutral element; along
  /// window factors the part begins `haloBefore` elements before what the first result element is at, ends likewise,
  /// and holds the factor's fill value outside of the operand.
  mlir::ValueRange operands;
  /// The types of the device's parts of the results.
  mlir::TypeRange results;
  /// By factor: into how many parts it is cut, and the size of a part.
  llvm::ArrayRef<int64_t> ways, sizes;
  /// An i64 scalar (a tensor without dimensions): the position of the device's first element along a factor.
  llvm::function_ref<mlir::Value(unsigned factor)> start;
};

/// What kind of work an operator is: the machine's efficiency curves are given by class.
enum class CostClass { Contraction, Elementwise, Reduction, Movement, View };

/// The work of one local (already divided) instance of an operator.
struct OpCost {
  double flops = 0;        ///< Floating-point operations; a multiply-add counts as two.
  double bytesRead = 0;    ///< Bytes of the operands that are read.
  double bytesWritten = 0; ///< Bytes of the results.
  CostClass costClass = CostClass::Elementwise;
  /// Of a convolution that Winograd's algorithm may compute (windows of 3 x 3 that step by one over 16 channels or
  /// more, without groups): the pixels of all images that it makes or, of a gradient of weights, that it reads. 0: it
  /// may not.
  double winogradPixels = 0;
};

/// Bytes of a tensor of static shape, i1 counted as one byte an element.
int64_t tensorBytes(mlir::Type type);

} // namespace cleave

#endif // CLEAVE_DIALECTS_INTERFACES_SPLITRULE_H
