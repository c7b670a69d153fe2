// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of all operators, put together from their families.

#include "passes/import/OperatorTable.h"

using namespace mlir;

namespace cleave {

static OperatorTable &tableOfAll() {
  static OperatorTable table = [] {
    OperatorTable result;
    addElementwiseOperators(result);
    addActivationOperators(result);
    addContractionOperators(result);
    addConvolutionOperators(result);
    addPoolingOperators(result);
    addNormalizationOperators(result);
    addReductionOperators(result);
    addReshapeOperators(result);
    addMovementOperators(result);
    addIndexingOperators(result);
    addKnownDataOperators(result);
    addResizeOperators(result);
    addSamplingOperators(result);
    addRegionOperators(result);
    addLossOperators(result);
    addQuantizationOperators(result);
    addQuantizedOperators(result);
    addPaddingOperators(result);
    addCreationOperators(result);
    addEinsumOperators(result);
    addRecurrentOperators(result);
    addAttentionOperators(result);
    addFusedAttentionOperators(result);
    addFusedNormalizationOperators(result);
    addGroupQueryAttentionOperators(result);
    addBlockQuantizationOperators(result);
    addMixtureOperators(result);
    addSignalOperators(result);
    addControlFlowOperators(result);
    addOptimizerOperators(result);
    return result;
  }();
  return table;
}

const OperatorTable &OperatorTable::get() { return tableOfAll(); }

void OperatorTable::extend(StringRef name, OperatorRule rule) { tableOfAll().add(name, rule); }

const OperatorRule *OperatorTable::find(StringRef name, int64_t version) const {
  auto found = rules.find(name);
  if (found == rules.end())
    return nullptr;
  for (const OperatorRule &rule : found->second)
    if (version >= rule.minVersion && version <= rule.maxVersion)
      return &rule;
  return nullptr;
}

} // namespace cleave
