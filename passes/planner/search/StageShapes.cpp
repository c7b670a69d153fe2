// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which grids a stage may be on: those that degrees or pins say, every one of two axes, and those whose axes have
// roles.

#include "passes/planner/search/Searcher.h"

#include "llvm/ADT/StringSwitch.h"

#include <numeric>

namespace cleave::search {

AxisRole roleOf(llvm::StringRef degree) {
  return llvm::StringSwitch<AxisRole>(degree)
      .Case(dataAxis, AxisRole::Batch)
      .Case(sequenceAxis, AxisRole::Sequence)
      .Case(expertAxis, AxisRole::Experts)
      .Default(AxisRole::NotBatch);
}

const std::vector<Shape> &Searcher::shapesOf(unsigned kind, unsigned devices) {
  auto [entry, isNew] = shapes.try_emplace({kind, devices});
  std::vector<Shape> &list = entry->second;
  if (!isNew)
    return list;
  if (unsigned pin = runs[kind].pin; pin != none) {
    Shape &shape = list.emplace_back();
    for (const MeshAxis &axis : request.pinned[pin].axes) {
      shape.sizes.push_back(axis.size);
      shape.names.push_back(axis.name);
      if (request.pinned[pin].axesAreDegrees)
        shape.roles.push_back(roleOf(axis.name));
    }
    return list;
  }
  const Degrees &degrees = request.degrees;
  if (degrees.data || degrees.model || degrees.sequence || degrees.expert) {
    Shape shape;
    auto add = [&](std::optional<int64_t> size, llvm::StringRef name) {
      if (size.value_or(1) == 1)
        return;
      shape.sizes.push_back(*size);
      shape.roles.push_back(roleOf(name));
      shape.names.push_back(name.str());
    };
    add(degrees.data, dataAxis);
    add(degrees.sequence, sequenceAxis);
    add(degrees.expert, expertAxis);
    add(degrees.model, modelAxis);
    int64_t product = std::accumulate(shape.sizes.begin(), shape.sizes.end(), int64_t(1), std::multiplies<>());
    if (product == devices)
      list.push_back(std::move(shape));
    return list;
  }
  if (devices == 1) {
    list.emplace_back();
    return list;
  }
  unsigned hostSize = runs[kind].hostSize;
  for (unsigned inner = 1; inner < devices; ++inner) {
    if (devices % inner != 0 || (devices > hostSize && hostSize % inner != 0))
      continue;
    Shape &shape = list.emplace_back();
    if (inner > 1)
      shape.sizes = {devices / inner, inner};
    else
      shape.sizes = {devices};
  }
  addPlainShapes(list);
  addSequenceShapes(list, kind, devices);
  return list;
}

bool Searcher::isOnAllGrids(unsigned kind, unsigned devices, int64_t microbatches) const {
  return (!request.training || onAllGrids.count(microbatches)) && llvm::is_contained(sizesOnAllGrids[kind], devices);
}

bool Searcher::mayBeOnGrid(unsigned kind, unsigned devices, const Shape &shape, int64_t microbatches,
                           bool isWhole) const {
  // What somebody fixed, and a single device.
  if (!shape.names.empty() || shape.sizes.empty())
    return true;
  bool isForAll = isOnAllGrids(kind, devices, microbatches), any = isForAll && !looksQuickly;
  if (!isPlain(shape))
    return any;
  if (cutsSequence(shape))
    return isForAll && runsOutOfSamples(shape, microbatches) && !isOfAllGrids(shape, runs[kind].hostSize);
  return (isWhole || !any) &&
         (shape.roles.front() != AxisRole::Batch || shape.sizes.front() <= samplesOf(microbatches));
}

bool Searcher::bounds(unsigned kind, unsigned devices, const Shape &shape, int64_t microbatches) const {
  return mayBeOnGrid(kind, devices, shape, microbatches, /*isWhole=*/true) &&
         !(isPlain(shape) && !cutsSequence(shape) && isOnAllGrids(kind, devices, microbatches));
}

bool Searcher::cutsSequence(const Shape &shape) {
  return shape.names.empty() && llvm::is_contained(shape.roles, AxisRole::Sequence);
}

bool Searcher::isOfAllGrids(const Shape &shape, unsigned hostSize) {
  return shape.sizes.size() == 1 || (shape.sizes.size() == 2 && hostSize % shape.sizes.back() == 0);
}

bool Searcher::runsOutOfSamples(const Shape &shape, int64_t microbatches) const {
  int64_t samples = samplesOf(microbatches), parts = shape.roles.front() == AxisRole::Batch ? shape.sizes.front() : 1;
  return parts <= samples && samples < 2 * parts;
}

/// The batch along one axis, weights along the other, or one of them alone. What is best for a weighted sum need not be
/// best where the longer of two things counts: these are what people would do, and no plan that is found is worse. With
/// numbers of microbatches and sizes of stages that are on all grids only for a stage that holds the whole model: in
/// pipelines little of a step is spent on gradients.
void Searcher::addPlainShapes(std::vector<Shape> &list) const {
  if (!request.training)
    return;
  for (unsigned index = 0, count = list.size(); index != count; ++index) {
    Shape shape = list[index];
    shape.roles.assign(shape.sizes.size(), AxisRole::NotBatch);
    if (shape.sizes.size() == 1)
      list.push_back(shape);
    shape.roles.front() = AxisRole::Batch;
    list.push_back(std::move(shape));
  }
}

/// Whether there are more devices than samples on a host each, or what products with weights make of one sample takes
/// much of a host's memory: otherwise positions are cut for no use that the batch, weights and layers do not have, at a
/// multiple of the time that a search takes.
bool Searcher::needsSequences(unsigned kind) const {
  if (llvm::none_of(graph.operators, [](const Operator &op) { return op.sequence != none; }))
    return false;
  double made = 0, hostSize = runs[kind].hostSize;
  for (const Operator &op : graph.operators)
    if (op.cost.costClass == CostClass::Contraction &&
        llvm::any_of(op.operands, [](const Operand &operand) { return operand.parameter != none; }))
      for (unsigned result : op.results)
        made += graph.tensors[result].bytes / static_cast<double>(graph.batch) * precision().activation;
  return static_cast<double>(batch()) * hostSize < static_cast<double>(busy.size()) ||
         made / hostSize > memoryOf(kind) / 4;
}

/// The batch in about as many parts as it has samples, then positions in sequences, then weights inside a host. With
/// fewer parts of the batch than samples allow, positions would be cut for nothing.
void Searcher::addSequenceShapes(std::vector<Shape> &list, unsigned kind, unsigned devices) const {
  if (!needsSequences(kind))
    return;
  unsigned hostSize = runs[kind].hostSize;
  for (unsigned inner = 1; inner < devices; ++inner) {
    if (devices % inner != 0 || (devices > hostSize && hostSize % inner != 0))
      continue;
    unsigned outer = devices / inner;
    for (unsigned data = 1; data < outer; ++data) {
      if (outer % data != 0)
        continue;
      Shape &shape = list.emplace_back();
      auto add = [&](int64_t size, AxisRole role) {
        if (size == 1)
          return;
        shape.sizes.push_back(size);
        shape.roles.push_back(role);
      };
      add(data, AxisRole::Batch);
      add(outer / data, AxisRole::Sequence);
      add(inner, AxisRole::NotBatch);
    }
  }
}

} // namespace cleave::search
