// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The search. States are layouts; dimensions are written with the target's factors wherever that says the same, so that
// an axis knows where it would go.

#include "dialects/dist/Reshard.h"

#include <queue>

using namespace mlir;

namespace cleave::dist {
namespace {

class ReshardSearch {
public:
  ReshardSearch(const Layout &to, RankedTensorType type, const MeshShape &mesh, const ReshardCost &cost)
      : target(to), type(type), mesh(mesh), cost(cost), context(type.getContext()), goal(to.toAttribute(context)) {}

  ReshardPath run(const Layout &from);

private:
  struct State {
    Layout layout;
    double seconds = 0;
    LayoutAttr previous;
    StepKind kind = StepKind::Slice;
    bool done = false;
  };

  void expand(const Layout &layout, double seconds, LayoutAttr at);
  /// A state reached from the one that is expanded.
  void reach(Layout layout, StepKind kind, double seconds);
  /// The end, straight from devices that have what others need.
  void reachTarget(const Layout &from);
  /// Where the target has the axis, if that is the next axis to cut there.
  bool push(Layout &layout, StringAttr axis) const;
  /// Writes a dimension with the target's factors where that says the same.
  void align(Layout &layout) const;
  double bytesOf(const Layout &layout) const { return static_cast<double>(layout.localBytes(type, mesh)); }

  const Layout &target;
  RankedTensorType type;
  const MeshShape &mesh;
  const ReshardCost &cost;
  MLIRContext *context;
  LayoutAttr goal, current;
  double reached = 0;
  llvm::DenseMap<LayoutAttr, State> states;
  using Entry = std::tuple<double, uint64_t, LayoutAttr>;
  struct Later {
    bool operator()(const Entry &a, const Entry &b) const {
      return std::tie(std::get<0>(a), std::get<1>(a)) > std::tie(std::get<0>(b), std::get<1>(b));
    }
  };
  std::priority_queue<Entry, std::vector<Entry>, Later> open;
  uint64_t counter = 0;
};

/// `parts` as factors of `sizes`; none where a cut would not stay the same.
std::optional<DimParts> refine(const DimParts &parts, const DimParts &wanted, const MeshShape &mesh) {
  DimParts refined;
  size_t next = 0;
  for (const Part &part : parts) {
    if (part.reach)
      return std::nullopt;
    int64_t size = 1;
    bool first = true;
    while (next != wanted.size() && (size < part.size || (first && part.size <= 1))) {
      Part made{wanted[next++].size, {}, {}};
      if (first)
        made.axes = part.axes;
      size *= made.size;
      // The blocks of the first factor must be those of the whole part.
      if (first && made.size != part.size && made.isPadded(mesh))
        return std::nullopt;
      first = false;
      refined.push_back(std::move(made));
    }
    if (size != part.size)
      return std::nullopt;
  }
  for (; next != wanted.size(); ++next) {
    if (wanted[next].size != 1)
      return std::nullopt;
    refined.push_back(Part{});
  }
  return refined;
}

void ReshardSearch::align(Layout &layout) const {
  for (auto [parts, wanted] : llvm::zip_equal(layout.dims, target.dims))
    if (auto refined = refine(parts, wanted, mesh))
      parts = std::move(*refined);
}

bool ReshardSearch::push(Layout &layout, StringAttr axis) const {
  for (auto [parts, wanted] : llvm::zip_equal(layout.dims, target.dims)) {
    for (auto [index, goalPart] : llvm::enumerate(wanted)) {
      auto found = llvm::find(goalPart.axes, axis);
      if (found == goalPart.axes.end())
        continue;
      size_t position = found - goalPart.axes.begin();
      if (parts.size() != wanted.size() || parts[index].size != goalPart.size || goalPart.reach ||
          ArrayRef(parts[index].axes) != ArrayRef(goalPart.axes).take_front(position))
        return false;
      parts[index].axes.push_back(axis);
      return true;
    }
  }
  return false;
}

void ReshardSearch::reach(Layout layout, StepKind kind, double seconds) {
  layout.canonicalize(mesh);
  LayoutAttr key = layout.toAttribute(context);
  seconds += reached;
  auto [found, isNew] = states.try_emplace(key);
  State &state = found->second;
  if (!isNew && state.seconds <= seconds)
    return;
  state = {std::move(layout), seconds, current, kind, false};
  open.emplace(seconds, counter++, key);
}

void ReshardSearch::expand(const Layout &from, double seconds, LayoutAttr at) {
  reached = seconds;
  current = at;
  double bytes = bytesOf(from);
  Axes joined;
  for (StringAttr axis : from.partial)
    if (!llvm::is_contained(target.partial, axis))
      joined.push_back(axis);
  Layout layout = from;
  align(layout);

  if (!joined.empty()) {
    Layout reduced = from;
    llvm::erase_if(reduced.partial, [&](StringAttr axis) { return llvm::is_contained(joined, axis); });
    reach(reduced, StepKind::AllReduce, cost.allReduce(joined, bytes));
    for (StringAttr axis : joined) {
      Layout scattered = layout;
      llvm::erase(scattered.partial, axis);
      if (push(scattered, axis))
        reach(scattered, StepKind::ReduceScatter, cost.reduceScatter(axis, bytes));
    }
  }
  for (StringAttr axis : mesh.getAxes()) {
    Layout sliced = layout;
    if (!from.uses(axis) && push(sliced, axis))
      reach(sliced, StepKind::Slice, cost.slice(bytesOf(sliced)));
  }
  for (size_t dim = 0; dim != layout.dims.size(); ++dim) {
    for (size_t index = 0; index != layout.dims[dim].size(); ++index) {
      Layout gathered = layout;
      Axes &axes = gathered.dims[dim][index].axes;
      Axes popped;
      while (!axes.empty()) {
        popped.push_back(axes.pop_back_val());
        reach(gathered, StepKind::AllGather, cost.allGather(popped, bytesOf(gathered)));
        Layout exchanged = gathered;
        align(exchanged);
        if (popped.size() == 1 && push(exchanged, popped.front()))
          reach(exchanged, StepKind::AllToAll, cost.allToAll(popped, bytes * static_cast<double>(mesh.ways(popped))));
      }
    }
  }
  if (joined.empty() && from.partial == target.partial)
    reachTarget(from);
}

void ReshardSearch::reachTarget(const Layout &from) {
  Layout plain = target;
  bool overlaps = false;
  for (DimParts &parts : plain.dims)
    for (Part &part : parts)
      overlaps |= std::exchange(part.reach, std::nullopt).has_value();
  plain.canonicalize(mesh);
  Axes moved = movedAxes(from, target, mesh);
  double bytes = bytesOf(target);
  // Blocks that neighbours hold already, but for what windows read beyond them.
  if (overlaps && plain == from)
    reach(target, StepKind::HaloExchange, cost.exchangeHalo(moved, std::max(0.0, bytes - bytesOf(from))));
  else
    reach(target, overlaps ? StepKind::HaloExchange : StepKind::Permute,
          cost.exchange(moved, bytes, mesh.ways(moved) - 1));
}

ReshardPath ReshardSearch::run(const Layout &from) {
  LayoutAttr start = from.toAttribute(context);
  states[start] = {from, 0, {}, StepKind::Slice, false};
  open.emplace(0.0, counter++, start);
  while (!open.empty()) {
    auto [seconds, order, key] = open.top();
    open.pop();
    State &state = states[key];
    if (state.done || state.seconds < seconds)
      continue;
    state.done = true;
    if (key == goal)
      break;
    Layout layout = state.layout;
    expand(layout, seconds, key);
  }
  ReshardPath path;
  path.seconds = states[goal].seconds;
  for (LayoutAttr at = goal; at != start; at = states[at].previous)
    path.steps.push_back({states[at].kind, states[at].layout});
  std::reverse(path.steps.begin(), path.steps.end());
  return path;
}

} // namespace

ReshardPath findReshard(const Layout &from, const Layout &to, RankedTensorType type, const MeshShape &mesh,
                        const ReshardCost &cost) {
  if (from == to)
    return {};
  return ReshardSearch(to, type, mesh, cost).run(from);
}

} // namespace cleave::dist
