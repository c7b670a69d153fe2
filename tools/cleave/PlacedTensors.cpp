// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the loads and stores of a plan's programs and says their tiles by the tensors' own dimensions.

#include "tools/cleave/PlacedTensors.h"

#include "runtime/Tile.h"
#include "runtime/training/KeptParameters.h"
#include "runtime/training/LearningRate.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave::tool {

using namespace runtime;

namespace {

/// Elements [begin, end).
struct Part {
  int64_t begin = 0, end = 0;

  bool operator==(const Part &other) const {
    return (begin >= end && other.begin >= other.end) || (begin == other.begin && end == other.end);
  }
};

Part partOf(const TileDim &dim, const Coordinates &at) {
  Span span = spanOf(dim, at);
  return {span.global, span.global + std::max<int64_t>(0, span.extent)};
}

/// What a device holds of a dimension that is several of the tile's; nothing where those are not neighbours.
std::optional<Part> partOf(llvm::ArrayRef<TileDim> group, const Coordinates &at) {
  Part all{0, 1};
  bool isWhole = true; // of the dimensions that were looked at, the innermost ones
  int64_t inner = 1;
  for (const TileDim &dim : llvm::reverse(group)) {
    Part part = partOf(dim, at);
    if (part.begin >= part.end)
      return Part{};
    if (!isWhole && part.end - part.begin != 1)
      return std::nullopt;
    all = isWhole ? Part{part.begin * inner, part.end * inner}
                  : Part{part.begin * inner + all.begin, part.begin * inner + all.end};
    isWhole = isWhole && part.end - part.begin == dim.size;
    inner *= dim.size;
  }
  return all;
}

/// Neighbouring dimensions of a tile as one; nothing where no cuts say what the devices hold.
std::optional<TileDim> joined(llvm::ArrayRef<TileDim> group, const Mesh &mesh) {
  TileDim whole{1, {}, 1};
  if (llvm::any_of(group, isWindow))
    return std::nullopt;
  for (const TileDim &dim : group) {
    whole.size *= dim.size;
    whole.length *= dim.length;
    for (Cut &cut : whole.cuts)
      cut.block *= dim.size;
    llvm::append_range(whole.cuts, dim.cuts);
  }
  if (group.size() == 1 || whole.cuts.empty())
    return whole;
  bool isSame = true;
  forEachPart(mesh, whole.cuts, [&](const Coordinates &at) {
    auto part = partOf(group, at);
    isSame = isSame && part && *part == partOf(whole, at);
  });
  if (!isSame)
    return std::nullopt;
  return whole;
}

/// The tile with a dimension for each of the shape's.
std::optional<std::vector<TileDim>> inDimensionsOf(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<TileDim> tile,
                                                   const Mesh &mesh) {
  bool alike = shape.size() == tile.size() && llvm::all_of(llvm::zip(shape, tile), [](const auto &pair) {
                 return std::get<0>(pair) == std::get<1>(pair).size;
               });
  std::vector<TileDim> dims;
  for (int64_t size : shape) {
    size_t taken = alike ? 1 : 0;
    for (int64_t product = 1; !alike && product < size && taken < tile.size(); ++taken)
      product *= tile[taken].size;
    // A dimension of one element may be one of the tile's, or none.
    if (!alike && size == 1 && !tile.empty() && tile.front().size == 1)
      taken = 1;
    auto dim = joined(tile.take_front(taken), mesh);
    if (!dim || dim->size != size)
      return std::nullopt;
    dims.push_back(std::move(*dim));
    tile = tile.drop_front(taken);
  }
  if (llvm::any_of(tile, [](const TileDim &rest) { return rest.size != 1 || !rest.cuts.empty(); }))
    return std::nullopt;
  return dims;
}

class PlacementReader {
public:
  PlacementReader(const PlanContents &plan, const Entry &entry) : plan(plan), entry(entry) {}

  /// Adds what a load or store says, unless it is known.
  void add(PlacedTensor &tensor, const Program &program, uint32_t buffer, int32_t tile, int32_t within = -1) const {
    add(tensor, program.mesh, tile, within, program.buffers[buffer].bytes);
  }

  /// Adds a parameter's home.
  void add(PlacedTensor &tensor, const Home &home) const {
    const Tile *tile = entry.tile(home.tile);
    uint64_t elements = (tile ? bufferElements(*tile) : tensor.type->elementCount()).value_or(0);
    add(tensor, home.mesh, home.tile, -1, elements * elementBytes(tensor.type->element));
  }

private:
  void add(PlacedTensor &tensor, uint32_t meshIndex, int32_t tile, int32_t within, uint64_t bytes) const {
    Placement placement;
    placement.mesh = meshIndex;
    placement.tile = entry.tile(tile);
    placement.within = entry.tile(within);
    placement.bytes = bytes;
    const Mesh &mesh = plan.meshes[meshIndex];
    std::vector<TileDim> whole;
    for (int64_t size : tensor.type->shape)
      whole.push_back({size, {}, size});
    llvm::ArrayRef<TileDim> dims = placement.tile ? placement.tile->dims : whole;
    if (!placement.within)
      placement.dims = inDimensionsOf(tensor.type->shape, dims, mesh);
    if (!placement.within && !placement.dims)
      readMicrobatches(placement, tensor.type->shape, dims, mesh);
    for (const Placement &known : tensor.placements)
      if (known.mesh == placement.mesh && isSame(known, placement))
        return;
    tensor.placements.push_back(std::move(placement));
  }

  /// A step's samples are those of one microbatch after the other, each of which is cut.
  static void readMicrobatches(Placement &placement, std::vector<int64_t> shape, llvm::ArrayRef<TileDim> tile,
                               const Mesh &mesh) {
    if (shape.empty() || tile.empty() || tile.front().size < 2 || !tile.front().cuts.empty() ||
        isWindow(tile.front()) || shape.front() % tile.front().size != 0)
      return;
    shape.front() /= tile.front().size;
    if ((placement.dims = inDimensionsOf(shape, tile.drop_front(), mesh)))
      placement.microbatches = tile.front().size;
  }

  static bool isSame(const Placement &a, const Placement &b) {
    auto sameDim = [](const TileDim &x, const TileDim &y) {
      auto sameCut = [](const Cut &s, const Cut &t) { return s.axis == t.axis && s.block == t.block; };
      return x.size == y.size && x.length == y.length && x.step == y.step && x.before == y.before &&
             std::equal(x.cuts.begin(), x.cuts.end(), y.cuts.begin(), y.cuts.end(), sameCut);
    };
    auto sameDims = [&](const std::vector<TileDim> &x, const std::vector<TileDim> &y) {
      return std::equal(x.begin(), x.end(), y.begin(), y.end(), sameDim);
    };
    if (a.dims && b.dims)
      return a.microbatches == b.microbatches && sameDims(*a.dims, *b.dims);
    auto sameTile = [&](const Tile *x, const Tile *y) { return x && y ? sameDims(x->dims, y->dims) : x == y; };
    return !a.dims && !b.dims && sameTile(a.tile, b.tile) && sameTile(a.within, b.within);
  }

  const PlanContents &plan;
  const Entry &entry;
};

/// Calls `visit` with the actions of that kind, and their programs, in the plan's order.
template <typename ActionKind, typename Visitor> void forEachAction(const Entry &entry, Visitor visit) {
  for (const Program &program : entry.programs)
    for (Phase phase : {Phase::Prepare, Phase::Body})
      for (const Instruction &instruction : program.instructions(phase))
        if (const auto *action = std::get_if<ActionKind>(&instruction.action))
          visit(program, *action);
}

std::vector<PlacedTensor> portsOf(const std::vector<Port> &ports) {
  std::vector<PlacedTensor> tensors;
  for (const Port &port : ports)
    tensors.push_back({port.name, &port.type, TensorRole::Model, false, {}});
  return tensors;
}

/// The parameters that steps write, by what programs keep or what was decided.
std::set<uint32_t> trainedParameters(const Entry &entry) {
  std::set<uint32_t> trained = keptParameters(entry);
  for (const Home &home : entry.homes)
    if (home.isTrained)
      trained.insert(home.parameter);
  return trained;
}

} // namespace

std::vector<PlacedTensor> placedParameters(const PlanContents &plan, const Entry &entry) {
  std::vector<PlacedTensor> tensors;
  std::set<uint32_t> trained = trainedParameters(entry), named = trained;
  // Also of what has no home: names tell whose it is.
  for (uint32_t i = 0; entry.isDecision() && i != plan.parameters.size(); ++i)
    named.insert(i);
  std::set<uint32_t> models = modelParameters(plan, named);
  for (uint32_t i = 0; i != plan.parameters.size(); ++i) {
    const Parameter &parameter = plan.parameters[i];
    bool isOptimizers = named.contains(i) ? !models.contains(i) : isOfLearningRate(parameter.name);
    TensorRole role = isOptimizers                                             ? TensorRole::Optimizer
                      : std::holds_alternative<InlineSource>(parameter.source) ? TensorRole::Constant
                                                                               : TensorRole::Model;
    tensors.push_back({parameter.name, &parameter.type, role, trained.contains(i), {}});
  }
  PlacementReader reader(plan, entry);
  for (const Home &home : entry.homes)
    reader.add(tensors[home.parameter], home);
  // Where steps write a parameter, its home is what they write.
  for (const Program &program : entry.programs)
    for (const State &state : program.state)
      reader.add(tensors[state.parameter], program, state.buffer, state.tile);
  forEachAction<LoadParameter>(entry, [&](const Program &program, const LoadParameter &load) {
    reader.add(tensors[load.parameter], program, load.buffer, load.tile);
  });
  // A decided parameter is listed even where its layout cannot be expressed.
  if (!entry.isDecision())
    llvm::erase_if(tensors, [](const PlacedTensor &tensor) { return tensor.placements.empty(); });
  return tensors;
}

std::vector<PlacedTensor> placedInputs(const PlanContents &plan, const Entry &entry) {
  std::vector<PlacedTensor> tensors = portsOf(entry.inputs);
  PlacementReader reader(plan, entry);
  forEachAction<LoadInput>(entry, [&](const Program &program, const LoadInput &load) {
    reader.add(tensors[load.input], program, load.buffer, load.tile, load.within);
  });
  return tensors;
}

std::vector<PlacedTensor> placedOutputs(const PlanContents &plan, const Entry &entry) {
  std::vector<PlacedTensor> tensors = portsOf(entry.outputs);
  PlacementReader reader(plan, entry);
  forEachAction<StoreOutput>(entry, [&](const Program &program, const StoreOutput &store) {
    reader.add(tensors[store.output], program, store.buffer, store.tile, store.within);
  });
  return tensors;
}

} // namespace cleave::tool
