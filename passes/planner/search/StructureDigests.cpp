// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tells operators, and rows of them, apart by what the search sees of them: equal ones are costed once.

#include "passes/planner/search/SearchGraph.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <cstring>

using namespace mlir;

namespace cleave::search {

static void writeKernel(llvm::raw_ostream &out, const Operator &op) {
  for (bool inner : op.inner)
    out << inner;
  if (!op.use)
    return;
  const KernelUse &use = *op.use;
  out << 'k' << use.isFree << use.isEpilogue << use.isStreamed << use.isLinear << use.isCounted << use.passes
      << use.trainingPasses << use.backwardPasses << use.launches << use.launchesBackward << use.writes << use.passesOn
      << use.readsResultAgain << use.masks << use.gradientReads << ' ' << use.share << ' ' << use.forwardProducts << ' '
      << use.backwardProducts << ' ';
  for (auto *flags : {&use.reads, &use.readsAgain, &use.writesGradient})
    for (bool flag : *flags)
      out << flag;
}

static void writeFactors(llvm::raw_ostream &out, const TensorFactors &tensor) {
  for (const DimFactors &dim : tensor) {
    for (unsigned factor : dim)
      out << factor << '.';
    out << ',';
  }
  out << ';';
}

static std::string hashOf(llvm::StringRef text) {
  llvm::XXH128_hash_t hash = llvm::xxh3_128bits(llvm::arrayRefFromStringRef(text));
  std::string digest(sizeof hash, '\0');
  std::memcpy(digest.data(), &hash, sizeof hash);
  return digest;
}

std::string SearchGraph::digestOf(const Operator &op) const {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << op.op->getName().getStringRef() << ' ' << op.cost.flops << ' ' << op.cost.bytesRead << ' '
      << op.cost.bytesWritten << ' ' << op.cost.winogradPixels << ' ' << static_cast<int>(op.cost.costClass) << ' '
      << static_cast<int>(op.batch) << ' ' << static_cast<int>(op.sequence) << ' ' << static_cast<int>(op.experts)
      << ' ' << op.once << op.fused << op.endsFused << op.joinsReader << op.endsProduct << op.isForAttention << ' ';
  if (op.scores)
    out << 'a' << op.scores->operand << op.scores->isResult << op.scores->keysDim << ' ' << op.scores->queries << ' '
        << op.scores->keys << ' ' << op.scores->streamsGradient << attentions[op.scores->attention].mayBeRing << ' '
        << op.scores->share << (op.scores->plain ? (op.scores->plain->isCausal ? "c" : "p") : "") << ' ';
  writeKernel(out, op);
  for (const Factor &factor : op.rule.factors)
    out << factor.size << '/' << static_cast<int>(factor.kind) << '/' << factor.haloBefore << '/' << factor.haloAfter
        << ' ';
  for (const TensorFactors &factors : op.rule.operands)
    writeFactors(out, factors);
  for (auto [tensor, factors] : llvm::zip_equal(op.results, op.rule.results)) {
    writeFactors(out, factors);
    const Tensor &value = tensors[tensor];
    out << 'r' << value.bytes << value.batched << value.learns << value.isOutput << value.uses.size() << value.kept
        << value.keptRounded << value.gradientSums << ' ';
  }
  return hashOf(text);
}

std::string SearchGraph::structureOf(unsigned first, unsigned last, unsigned stageStart) const {
  if (stageStart == none)
    stageStart = first;
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::DenseMap<unsigned, unsigned> outside;
  for (unsigned index = first; index != last; ++index) {
    const Operator &op = operators[index];
    out << (op.digest.empty() ? digestOf(op) : op.digest)
        << (op.leader < first ? -1 : static_cast<int>(op.leader - first)) << ' ';
    for (const Operand &operand : op.operands) {
      if (operand.parameter != none) {
        const Parameter &parameter = parameters[operand.parameter];
        out << 'p' << parameter.bytes << parameter.trained;
      } else if (const Tensor &tensor = tensors[operand.tensor]; tensor.producer != none && tensor.producer >= first) {
        out << 't' << tensor.producer - first << '.' << tensor.result;
      } else {
        out << 'x' << outside.try_emplace(operand.tensor, outside.size()).first->second << '.' << tensor.bytes
            << tensor.batched << tensor.learns << (tensor.producer == none) << isPrepared(operand)
            << isJoined(op, operand);
      }
      out << isFirstUse(operand, index) << isSummedEarlier(operand, index, stageStart) << ' ';
    }
  }
  return hashOf(text);
}

} // namespace cleave::search
