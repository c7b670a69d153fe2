// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds split rules from indexing maps.

#include "dialects/interfaces/SplitRule.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace cleave {

unsigned SplitRule::addFactor(StringRef name, int64_t size, FactorKind kind, Combiner combiner) {
  Factor factor;
  factor.name = name.str();
  factor.size = size;
  factor.kind = kind;
  factor.combiner = combiner;
  factors.push_back(std::move(factor));
  return factors.size() - 1;
}

std::optional<unsigned> SplitRule::find(StringRef name) const {
  for (auto [index, factor] : llvm::enumerate(factors))
    if (factor.name == name)
      return static_cast<unsigned>(index);
  return std::nullopt;
}

std::optional<unsigned> SplitRule::findWord(StringRef word) const {
  if (auto named = find(word))
    return named;
  for (auto [index, factor] : llvm::enumerate(factors))
    if (!factor.alias.empty() && factor.alias == word)
      return static_cast<unsigned>(index);
  unsigned dim = 0;
  if ((!word.consume_front("dim ") && !word.consume_front("d")) || word.getAsInteger(10, dim))
    return std::nullopt;
  if (results.empty() || dim >= results.front().size() || results.front()[dim].empty())
    return std::nullopt;
  const DimFactors &candidates = results.front()[dim];
  const unsigned *divisible = llvm::find_if(candidates, [&](unsigned factor) { return factors[factor].size > 1; });
  return divisible == candidates.end() ? candidates.front() : *divisible;
}

SplitRule SplitRule::fromIndexingMaps(ArrayRef<std::string> names, ArrayRef<int64_t> sizes, ArrayRef<AffineMap> maps,
                                      unsigned numOperands, Combiner combiner) {
  SplitRule rule;
  for (auto [index, name] : llvm::enumerate(names)) {
    bool inResult = llvm::any_of(maps.drop_front(numOperands),
                                 [&](AffineMap map) { return map.isFunctionOfDim(static_cast<unsigned>(index)); });
    rule.addFactor(name, sizes[index], inResult ? FactorKind::Parallel : FactorKind::Reduction,
                   inResult ? Combiner::None : combiner);
  }
  for (auto [index, map] : llvm::enumerate(maps)) {
    TensorFactors dims;
    for (AffineExpr expr : map.getResults()) {
      DimFactors dim;
      if (auto position = dyn_cast<AffineDimExpr>(expr))
        dim.push_back(position.getPosition());
      dims.push_back(dim);
    }
    if (index < numOperands)
      rule.operands.push_back(std::move(dims));
    else
      rule.results.push_back(std::move(dims));
  }
  return rule;
}

int64_t tensorBytes(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return 0;
  Type element = tensor.getElementType();
  int64_t width = element.isIntOrFloat() ? (element.getIntOrFloatBitWidth() + 7) / 8 : 8;
  return tensor.getNumElements() * width;
}

} // namespace cleave
