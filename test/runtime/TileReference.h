// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What tiles mean, element by element and straight from the definition in plan.fbs: the reference for everything that
// computes with boxes.

#ifndef CLEAVE_TEST_RUNTIME_TILEREFERENCE_H
#define CLEAVE_TEST_RUNTIME_TILEREFERENCE_H

#include "runtime/Tile.h"

#include <random>

namespace cleave::runtime::test {

/// For each position of a device's buffer the element of the tensor that it stands for, or nothing: padding.
std::vector<std::optional<int64_t>> elementsHeld(const Tile &tile, const Coordinates &at);

/// A mesh of these axes; devices are numbered from `firstDevice` on.
Mesh meshOf(const std::vector<uint32_t> &axes, uint32_t firstDevice = 0);

/// A dimension cut along `axes` (outermost first) into blocks of the smallest size that covers it.
TileDim blocks(int64_t size, const std::vector<uint32_t> &axes, const Mesh &mesh);

/// A random tile of a tensor whose dimensions are products of neighbouring `factors`; with windows if asked.
Tile randomTile(const std::vector<int64_t> &factors, const Mesh &mesh, bool windows, std::mt19937 &random);

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_TILEREFERENCE_H
