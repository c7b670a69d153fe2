// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which scores of attention masks leave: the band around the diagonal outside of which all is hidden.

#ifndef CLEAVE_DIALECTS_DFG_SCOREMASKS_H
#define CLEAVE_DIALECTS_DFG_SCOREMASKS_H

#include "dialects/dfg/Attention.h"
#include "dialects/interfaces/HostTensor.h"

namespace cleave::dfg {

/// Such numbers hide the scores that they stand for, or are added to, whatever those are; -1e9 in bfloat16 is one, too.
inline constexpr double hiding = -1e8;

/// The number of a constant of one number everywhere, or of a parameter of one element that stays what it is, perhaps
/// under another shape or type; none of another value.
std::optional<double> numberOf(mlir::Value value);
/// That of a tensor of one float.
std::optional<double> numberIn(const HostTensor &tensor);
/// The attribute of such a parameter: the number, of 64 bits.
inline constexpr llvm::StringLiteral numberAttrName = "dfg.number";

/// Pairs of a query and a key whose positions differ by no less than `lower` and no more than `upper`: the query's less
/// the key's. A causal mask leaves those from 0 on, a window of w keys those from 0 to w - 1.
struct ScoreBand {
  std::optional<int64_t> lower, upper;

  bool operator==(const ScoreBand &) const = default;
  /// Those that both have.
  ScoreBand operator&(const ScoreBand &other) const;
  /// With the parts of queries and keys exchanged.
  ScoreBand transposed() const;
  /// Whether no pair of these positions is in the band.
  bool excludes(int64_t firstRow, int64_t lastRow, int64_t firstColumn, int64_t lastColumn) const {
    return (lower && lastRow - firstColumn < *lower) || (upper && firstRow - lastColumn > *upper);
  }
  /// Whether no pair can be in it.
  bool isEmpty() const { return lower && upper && *lower > *upper; }
  /// Whether each query has a key in it.
  bool leavesKeys(int64_t queries, int64_t keys) const;
  /// Whether all pairs are in it.
  bool isWhole(int64_t queries, int64_t keys) const {
    return (!lower || *lower <= 1 - keys) && (!upper || *upper >= queries - 1);
  }
};

/// A tensor of a model that hides scores by itself: how, and which are left; nothing outside of the band. Where that is
/// exact, all in it is left as it is.
struct ScoreMask {
  MaskKind kind;
  ScoreBand band;
  bool isExact = false;

  /// Whether it hides what comes after each query's own position, and nothing else.
  bool isCausal() const { return isExact && band == ScoreBand{0, std::nullopt}; }
};
/// Whether tensors of a type can be such: of truth values or floats, with queries and keys.
bool mayBeScoreMask(mlir::ShapedType type);
/// None of a tensor whose last two dimensions are not those of queries and keys, or that hides neither end. Of others
/// than masks few elements are read.
std::optional<ScoreMask> findScoreMask(const HostTensor &tensor);
/// The same of a constant's value, or of a parameter's that stays what it is.
std::optional<ScoreMask> findScoreMask(mlir::Value value);
/// Lets an operation say of its tensor what is found in it.
void markScoreMask(mlir::Operation *op, const HostTensor &tensor);

/// The attribute of a parameter or constant that is a mask, a ScoreMaskAttr.
inline constexpr llvm::StringLiteral scoreMaskAttrName = "dfg.score_mask";

/// The band outside of which masks hide all scores of attention, so that its results are the same without them; none
/// where they hide nothing on either side, or everything, or where a query may be left without keys under a mask whose
/// numbers are finite: softmax then weighs what is hidden.
std::optional<ScoreBand> findBand(const Attention &attention);
/// The band of a condition that is true for scores that stay, with a bound at least; none where it has none.
/// `isExact`: whether it is true for all pairs in the band.
std::optional<ScoreBand> findBand(mlir::Value condition, bool *isExact = nullptr);

/// The attribute, a BandAttr, of a fusion or kernel whose rows need some blocks of columns only.
inline constexpr llvm::StringLiteral bandAttrName = "dfg.band";

/// The share of the pairs of rows and blocks of columns, of which a block has `block`, that have something of the band.
double shareOfBlocks(const ScoreBand &band, int64_t rows, int64_t blocks, int64_t block);

/// The same of attention's queries and the blocks of keys that kernels for processors make: what they compute of it. 1
/// where no band is given.
double shareOfBlocks(const Attention &attention, const std::optional<ScoreBand> &band);

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_SCOREMASKS_H
