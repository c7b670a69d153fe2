// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums of products of unsigned by signed integers of 8 bits with AVX2, exact. The processor multiplies bytes and adds
// the products of two in 16 bits, where they saturate if weights are large: those are widened to 16 bits, of which it
// adds two products in 32.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_INTEGERTILES_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_INTEGERTILES_H

#include <cstdint>
#include <span>

/// Of a function that is compiled for AVX2, whatever the others of its file are compiled for.
#define CLEAVE_AVX2 __attribute__((target("avx2")))

namespace cleave::runtime::integers {

/// Rows of a tile, whose sums and operands fill the registers, and its columns: those of a panel of weights.
constexpr int64_t tileRows = 6, panelColumns = 16;

/// Whether this machine has the instructions.
bool hasTiles();

/// Numbers of a row that one step of a tile multiplies, and bytes of the weights of a step.
constexpr int64_t stepNumbers = 4, stepBytes = stepNumbers * panelColumns;

/// Copies `count` pixels of `depth` numbers each, next to each other, and fills each up with zeros to whole steps. What
/// lies in front of `end` may be read, and `mostBehind` numbers behind the last may be written.
void copyPixels(const uint8_t *from, int64_t depth, int64_t count, const uint8_t *end, uint8_t *to);
constexpr int64_t mostBehind = 12;

/// The steps in which rows of numbers are multiplied by a panel of weights, [quad][c][stepNumbers], four numbers of a
/// row each. Sums are exact in any order.
class PanelSteps {
public:
  /// Bytes for the steps of rows of `quads` times four numbers.
  static int64_t bytes(int64_t quads) {
    return (quads + quads / 2) * static_cast<int64_t>(sizeof(int32_t)) + quads * static_cast<int64_t>(sizeof(int16_t));
  }
  /// `memory` is of bytes(quads), aligned to 4.
  PanelSteps(void *memory, int64_t quads)
      : singles(static_cast<int32_t *>(memory)), doubles(singles + quads),
        limits(reinterpret_cast<int16_t *>(doubles + quads / 2)), quads(quads) {}

  /// Looks at the numbers of `count` rows, one or more: the smaller they are, the larger weights may be.
  void readRows(const uint8_t *rows, int64_t stride, int64_t count);
  /// Tells for these rows how the quads of a panel are multiplied.
  void divide(const int8_t *panel);

  using Quads = std::span<const int32_t>;
  /// Whose products fit in 16 bits together with those of the next quad.
  Quads twofold() const { return {doubles, static_cast<size_t>(numTwofold)}; }
  /// Of the others: those whose products fit, two by two, and those that are multiplied in 16 bits.
  Quads narrow() const { return {singles, static_cast<size_t>(numNarrow)}; }
  Quads wide() const { return {singles + quads - numWide, static_cast<size_t>(numWide)}; }

private:
  /// Narrow quads from the front, wide ones from the back.
  int32_t *singles;
  int32_t *doubles;
  /// By quad: what the sum of weights of one sign may be.
  int16_t *limits;
  int64_t quads, numTwofold = 0, numNarrow = 0, numWide = 0;
};

/// sums[r * panelColumns + c] = the sum over k of rows[r * stride + k] * panel[k / stepNumbers][c][k % stepNumbers],
/// for 1 to tileRows rows.
void multiplyTile(const uint8_t *rows, int64_t stride, int64_t count, const int8_t *panel, const PanelSteps &steps,
                  int32_t *sums);

/// sums[r * panelColumns + c] = the sum over t < `count` of taps[r * count + t][from + c] *
/// weights[t * panelColumns + c], for panelColumns channels of 1 to tileRows rows.
void multiplyChannels(const uint8_t *const *taps, int64_t rows, int64_t count, int64_t from, const int8_t *weights,
                      int32_t *sums);

} // namespace cleave::runtime::integers

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_INTEGERTILES_H
