// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which elements of a tensor belong to which sample of a batch: found operator by operator, from the inputs on. Where
// every operator computes each sample from that sample alone, a batch gives each the results that it has by itself.

#ifndef CLEAVE_PASSES_IMPORT_SAMPLEPOSITIONS_H
#define CLEAVE_PASSES_IMPORT_SAMPLEPOSITIONS_H

#include "dialects/dfg/Dfg.h"

#include "llvm/ADT/DenseMap.h"

#include <functional>
#include <map>
#include <optional>
#include <tuple>

namespace cleave {

/// The index of the sample is a digit of the index along `dim`, which has `outer` * samples * inner elements: sample
/// (i / inner) % samples.
struct SamplePosition {
  unsigned dim = 0;
  int64_t outer = 1;

  bool operator==(const SamplePosition &) const = default;
};

/// Finds positions in one graph whose inputs have `samples` samples, at least two, in dimension 0.
class SamplePositions {
public:
  /// `isBatched` says which arguments of the graph have samples.
  SamplePositions(int64_t samples, std::function<bool(mlir::BlockArgument)> isBatched)
      : samples(samples), isBatched(std::move(isBatched)) {}

  /// The position in a value whose operators are known by now; nothing where it depends on no sample. Failure where an
  /// operator on the way mixes samples; findMixing says which.
  llvm::FailureOr<std::optional<SamplePosition>> find(mlir::Value value);
  /// The first operator, in the graph's order, that makes something of several samples; null where find has met none.
  mlir::Operation *findMixing() const { return mixing; }

  /// Where the samples of a tensor of shape `from` are after it was reshaped to `to`, of as many elements; nothing
  /// where no dimension of `to` has them whole.
  std::optional<SamplePosition> afterReshape(llvm::ArrayRef<int64_t> from, SamplePosition position,
                                             llvm::ArrayRef<int64_t> to) const;

private:
  /// Where samples are in what an operator gives; nothing where they are lost.
  std::optional<llvm::SmallVector<SamplePosition, 1>> resultsOf(mlir::Operation *op);
  void visit(mlir::Operation *op);
  /// Whether a value that depends on no sample has the same for each of them, where they would be at `position`.
  bool isUniform(mlir::Value value, SamplePosition position);

  int64_t samples;
  std::function<bool(mlir::BlockArgument)> isBatched;
  /// Nothing: depends on no sample.
  llvm::DenseMap<mlir::Value, std::optional<SamplePosition>> known;
  /// What isUniform has found, by value, dimension and elements outside.
  std::map<std::tuple<void *, unsigned, int64_t>, bool> uniform;
  mlir::Operation *mixing = nullptr;
};

/// The first operator on the way to the graph's outputs that makes something of several samples, where inputs whose
/// dimension 0 has `samples` elements, at least two, hold one each; null where every sample is computed by itself.
mlir::Operation *findMixing(dfg::GraphOp graph, int64_t samples);

/// Checks that a batch of `samples` gives each sample what it has by itself: every input and output has its samples in
/// dimension 0, one after the other, and no operator mixes them. Fails, with a diagnostic that names the input, output
/// or node. One sample needs dimension 0 alone.
llvm::LogicalResult checkSamples(dfg::GraphOp graph, int64_t samples);

/// The shape that a reshape which the model gives for `declared` samples has for `samples`: `shape` is as the model has
/// it, with at most one -1, for a tensor of shape `from` at present, whose samples are at `position`. Nothing where the
/// samples would not stay together.
std::optional<llvm::SmallVector<int64_t>> rebatchShape(llvm::ArrayRef<int64_t> from, SamplePosition position,
                                                       llvm::ArrayRef<int64_t> shape, int64_t declared,
                                                       int64_t samples);

/// The dimension that holds the samples in `shape`, to which a tensor of shape `from` with `samples` samples, at least
/// two, at `position` is reshaped; with at most one -1. Nothing where no dimension has them whole.
std::optional<size_t> findSampleDim(llvm::ArrayRef<int64_t> from, SamplePosition position,
                                    llvm::ArrayRef<int64_t> shape, int64_t samples);

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_SAMPLEPOSITIONS_H
