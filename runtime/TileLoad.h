// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads and stores of a device's part of a tensor that lies whole in the host's memory.

#ifndef CLEAVE_RUNTIME_TILELOAD_H
#define CLEAVE_RUNTIME_TILELOAD_H

#include "runtime/Tile.h"

#include <functional>

namespace cleave::runtime {

/// What an instruction moves between a tensor in the host's memory and the buffer of a device, worked out once.
struct TileLoad {
  /// From the tensor to the buffer for a load, from the buffer to the tensor for a store.
  std::vector<StridedCopy> boxes;
  /// Boxes of the buffer that a load fills with zeros.
  std::vector<StridedCopy> padding;
  /// For LoadIndex: the value.
  int64_t index = 0;
  unsigned elementBytes = 1;
};

/// The geometry of a LoadParameter, LoadInput, StoreOutput or LoadIndex on one device; nothing to move for a replica
/// that does not store, and for other actions.
TileLoad tileLoadOf(const Entry &entry, const Program &program, const Mesh &mesh, uint32_t member,
                    const Action &action);

/// What a device stores of a parameter that it keeps, the plan's State, into the whole tensor; nothing for a replica.
TileLoad stateStoreOf(const PlanContents &plan, const Entry &entry, const Site &site, const State &state);

/// Calls visit(site, state) for the devices that keep the parameter between steps: those of the first program that
/// does.
void forEachStateOf(const PlanContents &plan, const Entry &entry, uint32_t parameter,
                    const std::function<void(const Site &, const State &)> &visit);

/// Copies the load's boxes and fills its padding, on up to `threads` threads where the size is worth it.
void loadTile(const TileLoad &load, std::span<const std::byte> tensor, std::span<std::byte> buffer,
              unsigned threads = 1);
/// Copies the store's boxes, likewise.
void storeTile(const TileLoad &store, std::span<const std::byte> buffer, std::span<std::byte> tensor,
               unsigned threads = 1);
/// Makes the elements of the load's boxes, and fills its padding.
void generateTile(const TileLoad &load, const GeneratedSource &source, ElementType element,
                  std::span<std::byte> buffer);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TILELOAD_H
