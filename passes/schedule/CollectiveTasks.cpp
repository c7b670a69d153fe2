// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tasks of collectives: reductions, and exchanges of parts.

#include "passes/schedule/ProgramTasks.h"

#include "dialects/plan/Tile.h"

using namespace mlir;

namespace cleave {

/// Whether a value shows the bytes of another.
static bool isView(Value value) { return isa_and_present<dfg::ReshapeOp, plan::ViewOp>(value.getDefiningOp()); }

SmallVector<plan::TileAttr, 1> ProgramTasks::tilesOf(unsigned device, ArrayRef<dist::Layout> layouts) {
  SmallVector<plan::TileAttr, 1> tiles;
  if (llvm::any_of(layouts, [](const dist::Layout &layout) { return !layout.isWhole(); }))
    for (const dist::Layout &layout : layouts)
      tiles.push_back(plan::toTile(layout, meshes[device], module.getContext()));
  return tiles;
}

LogicalResult ProgramTasks::addReduction(unsigned device, dist::Collective op) {
  const dist::MeshShape &mesh = meshes[device];
  dist::Axes joined;
  for (StringAttr axis : op.getFromLayout(0).getPartial())
    if (!llvm::is_contained(op.getToLayout(0).getPartial(), axis))
      joined.push_back(axis);
  StringRef combiner = dist::combinerName(op.getFromLayout(0).getCombiner());
  ReductionTask task{op, nextChannel++, plan::axisIndices(joined, mesh), combiner, {}};
  std::vector<unsigned> reads, writes;
  int64_t bytes = 0;
  bool scatters = false;
  for (auto [index, operand, result] : llvm::enumerate(op->getOperands(), op->getResults())) {
    dist::Layout from = dist::Layout::of(op.getFromLayout(index)), to = dist::Layout::of(op.getToLayout(index));
    scatters = from.dims != to.dims;
    if (scatters) {
      auto tile = plan::toScatterTile(from, to, joined, mesh, module.getContext());
      if (!tile)
        return op->emitOpError("expects its result to cut the blocks of its operand along the axes that it joins, got ")
               << op.getFromLayout(index) << " and " << op.getToLayout(index);
      task.tiles.push_back(*tile);
    }
    reads.push_back(getValue(operand));
    writes.push_back(addValue(device, result));
    // What nobody else reads is joined where it lies.
    if (!scatters && operand.hasOneUse() && !isView(operand))
      problem.values[writes.back()].inPlaceOf = reads.back();
    bytes += bytesOf(operand);
  }
  const MeshCost &cost = costs->meshCost(meshOps[device]);
  SmallVector<unsigned> axes = axisNumbers(joined, mesh);
  double seconds = scatters ? cost.reduceScatter(static_cast<double>(bytes), axes)
                            : cost.allReduce(static_cast<double>(bytes), axes);
  schedule::Task &made = addTask(device, std::move(task), seconds);
  made.collective = true;
  made.reads = std::move(reads);
  made.writes = std::move(writes);
  return success();
}

std::vector<unsigned> ProgramTasks::beforePassingOn(unsigned device, dist::Collective op) {
  auto exchange = dyn_cast<dist::PermuteOp>(op.getOperation());
  auto before = exchange ? exchange.getInput().getDefiningOp<dist::PermuteOp>() : dist::PermuteOp();
  std::vector<unsigned> tasks;
  if (!before)
    return tasks;
  unsigned brought = getValue(before.getResult());
  for (size_t task = problem.tasks.size(); task-- != 0;) {
    const schedule::Task &earlier = problem.tasks[task];
    if (earlier.device == device && llvm::is_contained(earlier.writes, brought))
      break;
    if (earlier.device == device && !earlier.communicates())
      tasks.push_back(static_cast<unsigned>(task));
  }
  return tasks;
}

void ProgramTasks::addExchange(unsigned device, dist::Collective op) {
  SmallVector<dist::Layout, 1> from, to;
  std::vector<unsigned> reads, writes;
  double bytes = 0;
  int64_t peers = 0;
  dist::Axes moved;
  for (auto [index, operand, result] : llvm::enumerate(op->getOperands(), op->getResults())) {
    from.push_back(dist::Layout::of(op.getFromLayout(index)));
    to.push_back(dist::Layout::of(op.getToLayout(index)));
    reads.push_back(getValue(operand));
    writes.push_back(addValue(device, result));
    plan::ExchangeTraffic traffic = plan::trafficOf(tileOf(device, op.getFromLayout(index)),
                                                    tileOf(device, op.getToLayout(index)), meshes[device].getSizes());
    auto type = cast<RankedTensorType>(result.getType());
    bytes += traffic.elements * static_cast<double>((type.getElementTypeBitWidth() + 7) / 8);
    peers = std::max(peers, traffic.peers);
    for (StringAttr axis : dist::movedAxes(from.back(), to.back(), meshes[device]))
      if (!llvm::is_contained(moved, axis))
        moved.push_back(axis);
  }
  // Who receives nothing copies.
  SmallVector<unsigned> axes = axisNumbers(moved, meshes[device]);
  double seconds =
      peers ? costs->meshCost(meshOps[device]).exchange(bytes, peers, axes) : copySeconds(device, op->getResult(0));
  ExchangeTask task{op, nextChannel++, tilesOf(device, from), tilesOf(device, to)};
  std::vector<unsigned> before = beforePassingOn(device, op);
  schedule::Task &made = addTask(device, std::move(task), seconds);
  made.collective = true;
  made.reads = std::move(reads);
  made.writes = std::move(writes);
  made.after = std::move(before);
}

/// Channels are numbered in the order of the programs, which all devices of a mesh share.
LogicalResult ProgramTasks::addCollective(unsigned device, dist::Collective op) {
  if (op.getFromLayout(0).getPartial() != op.getToLayout(0).getPartial())
    return addReduction(device, op);
  addExchange(device, op);
  return success();
}

} // namespace cleave
