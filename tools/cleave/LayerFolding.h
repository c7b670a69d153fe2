// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the layers that a model repeats, so that reports show one of them and name the others.

#ifndef CLEAVE_TOOLS_CLEAVE_LAYERFOLDING_H
#define CLEAVE_TOOLS_CLEAVE_LAYERFOLDING_H

#include "runtime/Plan.h"

#include <string>
#include <vector>

namespace cleave::tool {

/// Consecutive layers of `period` operators each that are equal but for their names: the same kinds, shapes, splits,
/// work, decisions, and inputs from the same places.
struct RepeatedLayers {
  uint32_t first = 0, period = 0, repeats = 0;
  std::vector<std::string> labels; ///< of every layer: what its operators' names begin with ("block7")

  uint32_t end() const { return first + period * repeats; }
  /// "block1..95", or "left..right" where names are not counted: all but the first, which is the one to show.
  std::string others() const;
};

/// Where layers may differ and count as equal.
enum class FoldAcross {
  Meshes, ///< on another mesh of the same shape
  Nothing ///< only on the same mesh and in the same stage
};

/// The repetitions of an entry, in order, without overlaps. Only where at least three layers are equal and the report
/// becomes shorter: of the periods that fit at an operator the one that saves most rows is taken.
class LayerFolding {
public:
  LayerFolding(const runtime::PlanContents &plan, const runtime::Entry &entry, FoldAcross across);
  /// Nothing folded.
  explicit LayerFolding(const runtime::Entry &entry) : numOperators(entry.operators.size()) {}

  /// A row of a report: operator `index`; or, where `layers` is set, the layers that are like those just shown.
  struct Row {
    uint32_t index = 0;
    const RepeatedLayers *layers = nullptr;
  };
  /// Every operator is one row or among the folded layers of one row. Valid while the folding lives.
  std::vector<Row> rows() const;
  const std::vector<RepeatedLayers> &repetitions() const { return runs; }
  /// The operator that is shown for operator `index`: itself, or its like in the first layer.
  uint32_t shownFor(uint32_t index) const;

private:
  size_t numOperators;
  std::vector<RepeatedLayers> runs;
};

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_LAYERFOLDING_H
