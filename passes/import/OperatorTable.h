// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which function imports which ONNX operator, in which versions of the operator set and on which element types.

#ifndef CLEAVE_PASSES_IMPORT_OPERATORTABLE_H
#define CLEAVE_PASSES_IMPORT_OPERATORTABLE_H

#include "passes/import/ImportedValue.h"

#include "llvm/ADT/StringMap.h"

namespace cleave {

class NodeImporter;

/// Builds the operators of one node. Errors are reported through the node.
using ImportFunction = ImportResults (*)(NodeImporter &);

/// Element types of a node's first input that its import accepts.
enum class Elements { Any, Number, Integer, Float, Bool };

/// The newest version of the default operator set that is known.
inline constexpr int64_t newestOperatorSet = 25;

/// How one operator is imported in a range of operator set versions.
struct OperatorRule {
  ImportFunction function = nullptr;
  /// Inputs without which the node is malformed, and how many there may be at most.
  unsigned minInputs = 1, maxInputs = 1;
  Elements elements = Elements::Any;
  /// Before version 6 most operators were written otherwise; those that were not say so.
  int64_t minVersion = 6, maxVersion = newestOperatorSet;
  /// Whether the operator means the same on elements of 4 bits that are held in 8 (ImportedValue::isPacked).
  bool takesPacked = false;
};

/// All operators that Cleave knows, by their names in ONNX's default domain; those of another domain by "domain.name".
class OperatorTable {
public:
  static constexpr unsigned anyNumber = ~0u;

  /// The table, built at first use.
  static const OperatorTable &get();
  /// Adds a rule for an operator of a program's own, as "com.example.Snake", before the first model is imported.
  static void extend(llvm::StringRef name, OperatorRule rule);

  /// The rule for an operator; null where there is none in this version.
  const OperatorRule *find(llvm::StringRef name, int64_t version) const;

  bool hasKind(llvm::StringRef name) const { return rules.contains(name); }

  void add(llvm::StringRef name, OperatorRule rule) { rules[name].push_back(rule); }

private:
  llvm::StringMap<llvm::SmallVector<OperatorRule, 1>> rules;
};

/// One function a family of operators; each adds its rules.
void addElementwiseOperators(OperatorTable &table);
void addActivationOperators(OperatorTable &table);
void addContractionOperators(OperatorTable &table);
void addConvolutionOperators(OperatorTable &table);
void addPoolingOperators(OperatorTable &table);
void addNormalizationOperators(OperatorTable &table);
void addReductionOperators(OperatorTable &table);
void addReshapeOperators(OperatorTable &table);
void addMovementOperators(OperatorTable &table);
void addIndexingOperators(OperatorTable &table);
void addKnownDataOperators(OperatorTable &table);
void addResizeOperators(OperatorTable &table);
void addSamplingOperators(OperatorTable &table);
void addRegionOperators(OperatorTable &table);
void addLossOperators(OperatorTable &table);
void addQuantizationOperators(OperatorTable &table);
void addQuantizedOperators(OperatorTable &table);
void addPaddingOperators(OperatorTable &table);
void addCreationOperators(OperatorTable &table);
void addEinsumOperators(OperatorTable &table);
void addRecurrentOperators(OperatorTable &table);
void addAttentionOperators(OperatorTable &table);
void addFusedAttentionOperators(OperatorTable &table);
void addFusedNormalizationOperators(OperatorTable &table);
void addGroupQueryAttentionOperators(OperatorTable &table);
void addBlockQuantizationOperators(OperatorTable &table);
void addMixtureOperators(OperatorTable &table);
void addSignalOperators(OperatorTable &table);
void addControlFlowOperators(OperatorTable &table);
void addOptimizerOperators(OperatorTable &table);

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_OPERATORTABLE_H
