// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A part is a range of one dimension, so the parts of an output cover it if they do so in that dimension.

#include "runtime/VerifyPorts.h"

#include "runtime/Tile.h"

#include <algorithm>
#include <optional>

namespace cleave::runtime {
namespace {

/// A tensor as `rows` blocks of `length` elements, and a part as the elements from `begin` to `end` of each.
struct PartOfPort {
  int64_t rows = 1, length = 1, begin = 0, end = 1;
};

/// Nothing where the tile is no such part. Expects a tile of as many positions as a tensor has elements, so that
/// products of lengths do not overflow.
std::optional<PartOfPort> partOf(const Tile &within) {
  PartOfPort part;
  bool isFound = false;
  for (const TileDim &dim : within.dims) {
    bool isCut = dim.length != dim.size;
    if (!dim.cuts.empty() || dim.step != 1 || dim.size < 1 || dim.before < 0 || dim.size > dim.length - dim.before ||
        (isCut && isFound))
      return std::nullopt;
    if (isCut)
      part = {part.rows, dim.length, dim.before, dim.before + dim.size};
    else if (isFound)
      part = {part.rows, part.length * dim.length, part.begin * dim.length, part.end * dim.length};
    else
      part.rows *= dim.length;
    isFound |= isCut;
  }
  return isFound ? std::optional(part) : std::nullopt;
}

Error checkParts(std::vector<PartOfPort> parts) {
  std::ranges::sort(parts, {}, &PartOfPort::begin);
  int64_t end = 0;
  for (const PartOfPort &part : parts) {
    if (part.begin != end || part.rows != parts.front().rows || part.length != parts.front().length)
      return reject("expects parts that follow each other, got one from ", part.begin, " on behind ", end);
    end = part.end;
  }
  if (end != parts.front().length)
    return reject("expects parts up to ", parts.front().length, ", got them up to ", end);
  return Error::success();
}

} // namespace

Error checkWithin(const Entry &entry, const Mesh &mesh, int32_t within, const TensorType &port) {
  if (within < -1 || within >= static_cast<int64_t>(entry.tiles.size()))
    return reject("has a part within tile ", within, ", but the entry has ", entry.tiles.size());
  const Tile &tile = *entry.tile(within);
  if (Error error = checkTile(tile, mesh, /*windows=*/true))
    return reject("has a part within tile ", within, ", whose ", error.message());
  if (port.layout || port.elementCount() != bufferElements(tile))
    return reject("has a part within tile ", within, ", expected one of a dense ", port.text(), ", got one of ",
                  bufferElements(tile).value_or(0), " elements");
  if (!partOf(tile))
    return reject("has a part within tile ", within, ", expected a range of one dimension, without cuts and steps");
  return Error::success();
}

Error checkOutputs(const Entry &entry) {
  std::vector<unsigned> stores(entry.outputs.size());
  std::vector<std::vector<PartOfPort>> parts(entry.outputs.size());
  for (const Program &program : entry.programs)
    for (const Instruction &instruction : program.body)
      if (const auto *store = std::get_if<StoreOutput>(&instruction.action)) {
        if (store->within == -1)
          ++stores[store->output];
        else
          parts[store->output].push_back(*partOf(*entry.tile(store->within)));
      }
  for (size_t i = 0; i != stores.size(); ++i) {
    unsigned times = stores[i] + (parts[i].empty() ? 0 : 1);
    Error error = times != 1         ? reject("expects to be stored once a step, got ", times)
                  : parts[i].empty() ? Error::success()
                                     : checkParts(std::move(parts[i]));
    if (error)
      return reject("output \"", entry.outputs[i].name, "\" ", error.message());
  }
  return Error::success();
}

} // namespace cleave::runtime
