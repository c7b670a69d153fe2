// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A load is the intersection of the whole tensor with the device's tile, a store the opposite.

#include "runtime/TileLoad.h"

#include "runtime/Generator.h"

#include <algorithm>
#include <system_error>
#include <thread>

namespace cleave::runtime {

/// The whole buffer as one run.
static std::vector<StridedCopy> wholeBuffer(const PlanBuffer &buffer) { return {{0, 0, {}, buffer.bytes}}; }

/// What a device holds of a tensor, and where that lies in the host's memory; of no dimensions where both are the
/// whole.
static std::pair<Tile, Tile> endsOf(const Tile *tile, const Tile *within) {
  Tile own = tile ? *tile : within ? wholeTile(*within) : Tile();
  return {own, within ? *within : wholeTile(own)};
}

TileLoad tileLoadOf(const Entry &entry, const Program &program, const Mesh &mesh, uint32_t member,
                    const Action &action) {
  TileLoad result;
  Coordinates at = coordinatesOf(mesh, member);
  auto load = [&](uint32_t index, int32_t tileIndex, const Tile *within) {
    const PlanBuffer &buffer = program.buffers[index];
    const Tile *tile = entry.tile(tileIndex);
    result.elementBytes = elementBytes(buffer.type.element);
    auto [own, whole] = endsOf(tile, within);
    result.boxes = tile || within ? intersect(whole, at, own, at, result.elementBytes) : wholeBuffer(buffer);
    result.padding = paddingOf(own, at, result.elementBytes);
  };
  if (const auto *parameter = std::get_if<LoadParameter>(&action)) {
    load(parameter->buffer, parameter->tile, nullptr);
  } else if (const auto *input = std::get_if<LoadInput>(&action)) {
    load(input->buffer, input->tile, entry.tile(input->within));
  } else if (const auto *output = std::get_if<StoreOutput>(&action)) {
    const PlanBuffer &buffer = program.buffers[output->buffer];
    const Tile *tile = entry.tile(output->tile), *within = entry.tile(output->within);
    result.elementBytes = elementBytes(buffer.type.element);
    auto [own, whole] = endsOf(tile, within);
    if (isFirstReplica(tile, at))
      result.boxes = tile || within ? intersect(own, at, whole, at, result.elementBytes) : wholeBuffer(buffer);
  } else if (const auto *index = std::get_if<LoadIndex>(&action)) {
    const TileDim &dim = entry.tiles[index->tile].dims[index->dim];
    result.index = index->what == IndexKind::Start ? startOf(dim, at) : spanOf(dim, at).extent;
  }
  return result;
}

TileLoad stateStoreOf(const PlanContents &plan, const Entry &entry, const Site &site, const State &state) {
  TileLoad result;
  const PlanBuffer &buffer = site.program->buffers[state.buffer];
  const Tile *tile = entry.tile(state.tile);
  Coordinates at = coordinatesOf(plan.meshes[site.mesh], site.member);
  result.elementBytes = elementBytes(buffer.type.element);
  if (isFirstReplica(tile, at))
    result.boxes = tile ? intersect(*tile, at, wholeTile(*tile), at, result.elementBytes) : wholeBuffer(buffer);
  return result;
}

void forEachStateOf(const PlanContents &plan, const Entry &entry, uint32_t parameter,
                    const std::function<void(const Site &, const State &)> &visit) {
  const Program *keeper = nullptr;
  for (const Site &site : sitesOf(plan, entry)) {
    auto state = std::ranges::find(site.program->state, parameter, &State::parameter);
    if (state == site.program->state.end() || (keeper && keeper != site.program))
      continue;
    keeper = site.program;
    visit(site, *state);
  }
}

static void fillPadding(const TileLoad &load, std::span<std::byte> buffer) {
  const std::vector<std::byte> zero(load.elementBytes);
  for (const StridedCopy &box : load.padding)
    fillBox(box, zero, buffer.data());
}

/// Parts of at least that many bytes take longer than it takes to begin a thread.
static constexpr uint64_t leastPart = uint64_t(1) << 20;

static void copyBoxes(const std::vector<StridedCopy> &boxes, const std::byte *source, std::byte *target,
                      unsigned threads) {
  uint64_t bytes = 0;
  for (const StridedCopy &box : boxes)
    bytes += box.bytes();
  threads = static_cast<unsigned>(std::clamp<uint64_t>(bytes / leastPart, 1, threads));
  std::vector<StridedCopy> parts;
  for (const StridedCopy &box : boxes)
    for (StridedCopy &part : partsOf(box, threads))
      parts.push_back(std::move(part));
  // Which parts a thread copies is settled beforehand: they are of about the same size.
  auto copy = [&](unsigned thread) {
    for (size_t i = thread; i < parts.size(); i += threads)
      copyBox(parts[i], source, target);
  };
  std::vector<std::jthread> others;
  unsigned begun = 1;
  try {
    for (; begun < threads; ++begun)
      others.emplace_back(copy, begun);
  } catch (const std::system_error &) {
    // The system has no more: what these would copy is left to this one.
  }
  for (unsigned thread = begun; thread < threads; ++thread)
    copy(thread);
  copy(0);
}

void loadTile(const TileLoad &load, std::span<const std::byte> tensor, std::span<std::byte> buffer, unsigned threads) {
  fillPadding(load, buffer);
  copyBoxes(load.boxes, tensor.data(), buffer.data(), threads);
}

void storeTile(const TileLoad &store, std::span<const std::byte> buffer, std::span<std::byte> tensor,
               unsigned threads) {
  copyBoxes(store.boxes, buffer.data(), tensor.data(), threads);
}

void generateTile(const TileLoad &load, const GeneratedSource &source, ElementType element,
                  std::span<std::byte> buffer) {
  fillPadding(load, buffer);
  for (const StridedCopy &box : load.boxes)
    if (box.runBytes != 0)
      forEachRun(box, [&](uint64_t from, uint64_t to) {
        generate(source, element, buffer.subspan(to, box.runBytes), from / load.elementBytes);
      });
}

} // namespace cleave::runtime
