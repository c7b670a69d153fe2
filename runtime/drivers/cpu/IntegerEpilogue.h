// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What follows sums of products of integers: a bias, scales and other post operations, and the conversion to the
// result's elements.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_INTEGEREPILOGUE_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_INTEGEREPILOGUE_H

#include "runtime/drivers/cpu/IntegerTiles.h"
#include "runtime/drivers/cpu/OneDnnBuilder.h"

namespace cleave::runtime::integers {

/// The epilogue of a kernel. Results are computed panelColumns channels at a time.
class Epilogue {
public:
  /// Reads the bias, an input numbered `bias` of one element a channel (-1: none), and the description's post
  /// operations, whose inputs have one element, one a channel, or the result's type. `channelDim` is the result's
  /// dimension of channels. Throws onednn::Refusal.
  Epilogue(const LibraryKernelDesc &desc, int bias, size_t channelDim);

  /// Whether input `index` is one that is read where the result is written, and has its layout.
  bool readsWhole(size_t index) const;
  /// Inputs that must be the output's buffer.
  const std::vector<size_t> &inPlace() const { return sums; }

  /// The arguments of a call, and what is read of them for a panel.
  class Panel {
  public:
    Panel(const Epilogue &epilogue, void *const *arguments);
    /// Goes to `count` channels from `first` on, at most panelColumns.
    void begin(int64_t first, int64_t count);
    /// Makes results of the sums of `rows` rows. Those of a row lie from element offsets[row] + `from` of the output
    /// on, `step` elements apart.
    void finish(const int32_t *sums, const int64_t *offsets, int64_t rows, int64_t from, int64_t step) const;

  private:
    friend class Epilogue;
    /// Most post operations of a kernel.
    static constexpr size_t mostSteps = 8;

    struct Reals;
    template <int Rows> void finishRows(const int32_t *sums, const int64_t *offsets, int64_t from, int64_t step) const;
    const float *operandOf(size_t step, int64_t offset, int64_t apart, float *gathered) const;

    const Epilogue &epilogue;
    void *const *arguments;
    int64_t count = 0;
    int32_t added[panelColumns] = {};
    float biases[panelColumns] = {}, values[mostSteps][panelColumns] = {};
    /// What sums are multiplied by first; ones where that is not the first step.
    float scales[panelColumns];
  };

private:
  enum class Kind : uint8_t { Add, Sub, Mul, Div, Max, Min, Round };
  /// What joins the results: a constant, an input of one element or of one a channel, or one of the result's type.
  enum class Operand : uint8_t { Constant, One, Channels, Whole };
  struct Step {
    Kind kind;
    Operand operand = Operand::Constant;
    int argument = -1;
    float constant = 0;
  };
  template <int Rows> static void join(Kind kind, const float *const *operands, Panel::Reals *reals);
  Operand operandOf(const LibraryKernelDesc &desc, const LibraryPostOp &postOp, size_t channelDim) const;

  int bias, output;
  bool biasIsInteger = false;
  ElementType element;
  std::vector<Step> steps;
  /// Whether the first step is the scale of a panel.
  bool isScaled = false;
  std::vector<size_t> sums;
};

} // namespace cleave::runtime::integers

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_INTEGEREPILOGUE_H
