// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses and prints stages.

#include "tools/cleave/StageRanges.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace cleave::tool {

using stages::CostGraph;
using stages::Stage;

/// The index of an operator.
static runtime::Expected<unsigned> findOp(StringRef name, const CostGraph &graph) {
  auto found = find_if(graph.ops, [&](const stages::CostOp &op) { return op.name == name; });
  if (found == graph.ops.end())
    return makeError(Status::Usage, "--evaluate expects names of operators, got \"", name.str(), "\"");
  return static_cast<unsigned>(found - graph.ops.begin());
}

static runtime::Expected<Stage> parseRange(StringRef text, const CostGraph &graph) {
  auto [range, replicas] = text.trim().rsplit(':');
  Stage stage;
  if (!to_integer(replicas, stage.devices, 10) || stage.devices == 0)
    return makeError(Status::Usage, "--evaluate expects FIRST..LAST:REPLICAS, got \"", text.str(), "\"");
  auto [firstName, lastName] = range.split("..");
  auto first = findOp(firstName, graph);
  if (!first)
    return first.error();
  auto last = lastName.empty() ? first : findOp(lastName, graph);
  if (!last)
    return last.error();
  stage.first = *first;
  stage.last = *last + 1;
  return stage;
}

runtime::Expected<std::vector<Stage>> parseStageRanges(StringRef text, const CostGraph &graph, unsigned numDevices) {
  std::vector<Stage> stages;
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  unsigned next = 0;
  uint64_t devices = 0;
  for (StringRef part : parts) {
    auto stage = parseRange(part, graph);
    if (!stage)
      return stage.error();
    if (stage->first != next || stage->last <= stage->first)
      return makeError(Status::Usage, "--evaluate expects ranges that follow each other in topological order, got \"",
                       part.str(), "\"",
                       next < graph.ops.size() ? " where \"" + graph.ops[next].name + "\" is the next operator"
                                               : std::string(" behind the last operator"));
    stage->firstDevice = static_cast<unsigned>(devices);
    next = stage->last;
    devices += stage->devices;
    stages.push_back(*stage);
    if (devices > numDevices)
      return makeError(Status::Infeasible, "--evaluate expects at most the machine's ", numDevices,
                       " devices, got stages with more");
  }
  if (next != graph.ops.size())
    return makeError(Status::Usage, "--evaluate expects all operators, got none from \"", graph.ops[next].name,
                     "\" on");
  return stages;
}

std::string stageRangesText(const std::vector<Stage> &stages, const CostGraph &graph) {
  std::string text;
  for (const Stage &stage : stages)
    text += (text.empty() ? "" : ",") + graph.ops[stage.first].name + ".." + graph.ops[stage.last - 1].name + ":" +
            std::to_string(stage.devices);
  return text;
}

} // namespace cleave::tool
