// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules to choose from, and chunks of stages. Where layers repeat, it does not matter for what a stage takes which
// of the equal layers it has: layers in a row stand for those of its chunks, and only in the end each gets its own.

#include "passes/planner/search/Searcher.h"

#include <algorithm>

namespace cleave::search {

/// The chunks come from the longest part of the model in which every group of so many layers is like the next one.
void Searcher::findRepeatedLayers() {
  if (!request.training || !request.pinned.empty() || !request.fixed.empty())
    return;
  constexpr unsigned mostInGroup = 8;
  unsigned layers = intervals.numLayers(), longest = 0;
  auto alike = [&](unsigned left, unsigned right) {
    auto sizeOf = [&](unsigned layer) { return graph.boundaries[layer + 1].at - graph.boundaries[layer].at; };
    return sizeOf(left) == sizeOf(right) && intervals.classOf(left, left + 1) == intervals.classOf(right, right + 1);
  };
  for (unsigned size = 1; size <= mostInGroup; ++size)
    for (unsigned first = 0; first + 2 * size <= layers;) {
      unsigned last = first + size;
      while (last < layers && alike(last - size, last))
        ++last;
      // Larger groups of the same layers would only leave fewer ways to cut them.
      if (unsigned count = (last - first) / size; count > 1 && count * size > longest) {
        longest = count * size;
        repeated = {first, size, count};
      }
      first = last - size + 1;
    }
}

/// The layers at which groups begin that chunks are made of, and the end: a multiple of `chunks` groups, two for each
/// chunk or more; empty where there are none. What is before and after the repeated layers is in the first and the last
/// group, which always keep their places. One of both is a group of its own, where it has half a whole group's
/// operators, as an embedding with most of a layer; so are both, where together they have those of two, but for half,
/// as an embedding with all of a layer and a layer with the head, and that makes such a multiple. Else they add to
/// their neighbours.
static std::vector<unsigned> groupsOf(const RepeatedLayers &repeated, const SearchGraph &graph, unsigned chunks) {
  auto operatorsOf = [&](unsigned first, unsigned last) {
    return graph.boundaries[last].at - graph.boundaries[first].at;
  };
  if (repeated.count == 0)
    return {};
  auto layers = static_cast<unsigned>(graph.boundaries.size() - 1),
       end = repeated.first + repeated.count * repeated.size;
  unsigned whole = operatorsOf(repeated.first, repeated.first + repeated.size), before = operatorsOf(0, repeated.first),
           after = operatorsOf(end, layers);
  bool mayBegin = 2 * before >= whole, mayEnd = 2 * after >= whole,
       mayBoth = mayBegin && mayEnd && 2 * (before + after) >= 3 * whole;
  llvm::SmallVector<std::pair<bool, bool>, 2> ways = {{mayBegin, mayEnd && !mayBegin}};
  if (mayBoth)
    ways.insert(ways.begin(), {true, true});
  for (auto [begins, ends] : ways) {
    unsigned count = repeated.count + begins + ends;
    if (count % chunks != 0 || count < 2 * chunks)
      continue;
    std::vector<unsigned> groups;
    if (begins)
      groups.push_back(0);
    for (unsigned group = 0; group != repeated.count; ++group)
      groups.push_back(repeated.first + group * repeated.size);
    if (ends)
      groups.push_back(end);
    groups.front() = 0;
    groups.push_back(layers);
    return groups;
  }
  return {};
}

/// The numbers of chunks that stages can have: with at least two stages, whose chunks are equally long.
std::vector<unsigned> Searcher::chunksOf(const pipeline::ScheduleRow &row) const {
  if (row.mostChunks == 1)
    return {1};
  std::vector<unsigned> numbers;
  unsigned most = repeated.count == 0 ? 0 : (repeated.count + 2) / 2;
  for (unsigned chunks = row.fewestChunks; chunks <= std::min(row.mostChunks, most); ++chunks)
    if (request.chunks.value_or(chunks) == chunks && !groupsOf(repeated, graph, chunks).empty())
      numbers.push_back(chunks);
  return numbers;
}

std::vector<ScheduleChoice> Searcher::schedules(int64_t microbatches) const {
  const Degrees &degrees = request.degrees;
  bool isOneStage = request.pinned.empty() && degrees.any() && degrees.pipeline.value_or(1) == 1;
  if (!request.schedule && (!request.training || microbatches == 1 || isOneStage))
    return {{pipeline::Schedule(), 1}};
  std::vector<ScheduleChoice> choices;
  auto add = [&](pipeline::Schedule schedule) {
    for (unsigned chunks : chunksOf(*schedule))
      choices.push_back({schedule, chunks});
  };
  if (request.schedule)
    add(*request.schedule);
  else
    for (const pipeline::ScheduleRow &row : pipeline::scheduleTable())
      if (row.isSearched)
        add(row);
  return choices;
}

/// Whether the first stage has both ends of the model: an even number of rounds ends where it begins.
static bool comesBack(const ScheduleChoice &choice) {
  return choice.schedule->chunkOrder == pipeline::ChunkOrder::Turns && choice.chunks % 2 == 0;
}

/// Where layers may be cut so that each stage has as many groups of equal layers for one chunk as for another: every so
/// many groups. Where rounds come back, the last group is in front of the first one, on the ring.
std::vector<unsigned> Searcher::cutsFor(const ScheduleChoice &choice) const {
  std::vector<unsigned> cuts;
  if (choice.chunks == 1)
    return cuts;
  std::vector<unsigned> groups = groupsOf(repeated, graph, choice.chunks);
  auto count = static_cast<unsigned>(groups.size() - 1);
  for (unsigned group = 0; group <= count; group += choice.chunks)
    if (!comesBack(choice))
      cuts.push_back(groups[group]);
    else
      cuts.push_back(group == 0 ? groups[count - 1] : intervals.numLayers() + groups[group - 1]);
  return cuts;
}

/// The operators before a layer on the ring.
unsigned Searcher::operatorsBefore(unsigned layer) const {
  unsigned layers = intervals.numLayers();
  return layer <= layers ? graph.boundaries[layer].at
                         : graph.boundaries[layers].at + graph.boundaries[layer - layers].at;
}

/// The groups of the model, of `count`, that a stage has where it has those from `begin` to `end` in a row: chunk after
/// chunk, but the last group first where rounds come back. Of each v groups in a row a chunk has one, the chunk's part
/// of the model being a v-th of all groups.
static std::vector<unsigned> groupsOfStage(const ScheduleChoice &choice, unsigned begin, unsigned end, unsigned count) {
  unsigned first = begin / choice.chunks, own = (end - begin) / choice.chunks, round = count / choice.chunks;
  std::vector<unsigned> groups;
  for (unsigned chunk = 0; chunk != choice.chunks; ++chunk) {
    bool isBack = choice.schedule->chunkOrder == pipeline::ChunkOrder::Turns && chunk % 2 == 1;
    for (unsigned group = 0; group != own; ++group)
      groups.push_back(chunk * round + (isBack ? round - first - own : first) + group);
  }
  if (begin == 0 && comesBack(choice))
    std::rotate(groups.begin(), groups.end() - 1, groups.end());
  return groups;
}

/// By position among the operators as stages have them in a row: the operator in the model. The first and the last
/// group stand for themselves, and all others for groups like them.
std::vector<unsigned> Searcher::orderOf(const stages::StagePlan &plan, const ScheduleChoice &choice) const {
  if (choice.chunks == 1)
    return {};
  std::vector<unsigned> order, groups = groupsOf(repeated, graph, choice.chunks), cuts = cutsFor(choice);
  auto groupAt = [&](unsigned cut) {
    return choice.chunks * static_cast<unsigned>(llvm::find(cuts, cut) - cuts.begin());
  };
  for (const stages::Stage &stage : plan.stages)
    for (unsigned group : groupsOfStage(choice, groupAt(stage.first), groupAt(stage.last), groups.size() - 1))
      for (unsigned layer = groups[group]; layer != groups[group + 1]; ++layer)
        for (unsigned at = graph.boundaries[layer].at; at != graph.boundaries[layer + 1].at; ++at)
          order.push_back(at);
  return order;
}

} // namespace cleave::search
