// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators get a class each, so that equal ones compare as numbers; then every distance to the next operators of the
// same class is tried as a period.

#include "tools/cleave/LayerFolding.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace llvm;

namespace cleave::tool {

using runtime::Entry;
using runtime::Operator;
using runtime::PlanContents;

/// Fewer equal layers, or fewer rows saved, and the whole is easier to read.
static constexpr uint32_t leastRepeats = 3, leastSaving = 4;
/// How many distances are tried at an operator: those within a layer, and the layer's own.
static constexpr unsigned periodsTried = 24;

/// The text without the numbers by which layers are counted.
static std::string withoutNumbers(StringRef text) {
  std::string result;
  for (char c : text)
    if (!isDigit(c))
      result += c;
    else if (result.empty() || result.back() != '#')
      result += '#';
  return result;
}

/// What equal operators have in common, as text.
static std::string keyOf(const PlanContents &plan, const Operator &op, FoldAcross across) {
  std::string key;
  raw_string_ostream out(key);
  out << op.kind << '\n' << op.split << '\n' << withoutNumbers(op.decidedBy) << '\n' << op.ways << '\n';
  for (int64_t size : op.shape)
    out << size << 'x';
  out << '\n' << op.flops << ' ' << op.parameterBytes << ' ' << op.resultBytes << ' ' << op.inputs.size() << '\n';
  const runtime::Mesh &mesh = plan.meshes[op.mesh];
  out << mesh.devices.size();
  for (const runtime::Axis &axis : mesh.axes)
    out << ' ' << axis.name << axis.size;
  if (across == FoldAcross::Nothing)
    out << ' ' << op.mesh << ' ' << op.stage;
  return key;
}

namespace {
class Finder {
public:
  Finder(const PlanContents &plan, const Entry &entry, FoldAcross across) : operators(entry.operators) {
    StringMap<uint32_t> known;
    for (const Operator &op : operators)
      classes.push_back(known.try_emplace(keyOf(plan, op, across), static_cast<uint32_t>(known.size())).first->second);
  }

  std::vector<RepeatedLayers> run() const {
    std::vector<RepeatedLayers> runs;
    for (uint32_t i = 0; i < operators.size();) {
      RepeatedLayers best = bestAt(i);
      if (best.repeats == 0) {
        ++i;
        continue;
      }
      i = best.end();
      runs.push_back(std::move(best));
    }
    return runs;
  }

private:
  /// Whether operator `index` and the one `period` later are equal, reading from equal places or from the same ones.
  bool repeats(uint32_t index, uint32_t period) const {
    uint32_t later = index + period;
    if (later >= operators.size() || classes[index] != classes[later])
      return false;
    const auto &inputs = operators[index].inputs, &others = operators[later].inputs;
    return std::equal(inputs.begin(), inputs.end(), others.begin(), others.end(),
                      [&](uint32_t a, uint32_t b) { return b == a + period || a == b; });
  }

  RepeatedLayers bestAt(uint32_t first) const {
    RepeatedLayers best;
    uint64_t bestSaving = leastSaving - 1;
    unsigned tried = 0;
    for (uint32_t next = first + 1; next < operators.size() && tried < periodsTried; ++next) {
      if (classes[next] != classes[first])
        continue;
      ++tried;
      uint32_t period = next - first, length = 0;
      while (repeats(first + length, period))
        ++length;
      uint32_t count = length / period + 1;
      if (count < leastRepeats || uint64_t(count - 1) * period <= bestSaving)
        continue;
      bestSaving = uint64_t(count - 1) * period;
      best = aligned(first, period, length + period);
    }
    return best;
  }

  /// The repetition within operators [first, first + length), begun where the names of a layer have most in common.
  RepeatedLayers aligned(uint32_t first, uint32_t period, uint32_t length) const {
    RepeatedLayers best;
    size_t bestCommon = 0;
    for (uint32_t shift = 0; shift != period; ++shift) {
      uint32_t count = (length - shift) / period;
      size_t common = commonPrefix(first + shift, period).size();
      if (count < leastRepeats || (best.repeats && common <= bestCommon))
        continue;
      bestCommon = common;
      best = {first + shift, period, count, {}};
    }
    nameLayers(best);
    return best;
  }

  /// What the names of operators [first, first + count) begin with, up to a separator, without it.
  StringRef commonPrefix(uint32_t first, uint32_t count) const {
    StringRef prefix = operators[first].name;
    for (uint32_t i = first + 1; i != first + count; ++i) {
      StringRef name = operators[i].name;
      size_t same = 0;
      while (same != std::min(prefix.size(), name.size()) && prefix[same] == name[same])
        ++same;
      prefix = prefix.take_front(same);
    }
    size_t separator = count == 1 ? prefix.size() : prefix.find_last_of("/._:");
    return prefix.take_front(separator == StringRef::npos ? 0 : separator).rtrim("/._:");
  }

  /// Layers are called by their names' common beginning if that tells them apart, else by their first operators.
  void nameLayers(RepeatedLayers &layers) const {
    auto prefixOf = [&](uint32_t layer) { return commonPrefix(layers.first + layer * layers.period, layers.period); };
    bool distinct = !prefixOf(0).empty() && prefixOf(0) != prefixOf(1);
    for (uint32_t layer = 0; layer != layers.repeats; ++layer)
      layers.labels.push_back(distinct ? prefixOf(layer).str() : operators[layers.first + layer * layers.period].name);
  }

  const std::vector<Operator> &operators;
  std::vector<uint32_t> classes;
};
} // namespace

std::string RepeatedLayers::others() const {
  StringRef second = labels[1], last = labels.back();
  StringRef stem = second.rtrim("0123456789");
  bool counted = stem.size() < second.size() && last.starts_with(stem) && all_of(last.drop_front(stem.size()), isDigit);
  return (second + ".." + (counted ? last.drop_front(stem.size()) : last)).str();
}

LayerFolding::LayerFolding(const PlanContents &plan, const Entry &entry, FoldAcross across)
    : numOperators(entry.operators.size()), runs(Finder(plan, entry, across).run()) {}

std::vector<LayerFolding::Row> LayerFolding::rows() const {
  std::vector<Row> result;
  auto run = runs.begin();
  for (uint32_t i = 0; i < numOperators;) {
    result.push_back({i++, nullptr});
    if (run != runs.end() && i == run->first + run->period) {
      result.push_back({i, &*run});
      i = run++->end();
    }
  }
  return result;
}

uint32_t LayerFolding::shownFor(uint32_t index) const {
  auto run = partition_point(runs, [&](const RepeatedLayers &layers) { return layers.end() <= index; });
  return run == runs.end() || index < run->first ? index : run->first + (index - run->first) % run->period;
}

} // namespace cleave::tool
