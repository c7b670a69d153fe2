// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of numbers, those that one pixel's windows see, are brought next to each other, as many as stay in a core's
// cache, and multiplied by one panel of weights after the other. Rows of a matrix are where they are needed.
// Convolutions of single channels go along the channels instead. Threads divide rows and panels.

#include "runtime/drivers/cpu/IntegerProducts.h"

#include "runtime/MemoryLayout.h"
#include "runtime/drivers/cpu/IntegerEpilogue.h"
#include "runtime/drivers/cpu/IntegerTiles.h"
#include "runtime/drivers/cpu/OneDnnOperations.h"
#include "runtime/drivers/cpu/OneDnnWindow.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace cleave::runtime::onednn {

using integers::panelColumns;
using integers::stepNumbers;
using integers::tileRows;

namespace {

constexpr size_t space = 3;
/// Bytes of rows that a thread keeps, beside a panel of weights, in the caches of its core, and the least and the most
/// rows.
constexpr int64_t blockBytes = 256 * 1024, leastRows = 2 * tileRows, mostRows = 20 * tileRows;

constexpr int64_t roundedUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/// The strides of a type without inner blocks.
std::vector<int64_t> stridesOf(const TensorType &type) {
  if (!type.layout)
    return denseLayout(type.shape).strides;
  if (!type.layout->innerBlocks.empty())
    refuse(Status::Unsupported, "expects numbers and results without blocks, got ", layoutText(type));
  return type.layout->strides;
}

/// What both kinds of product have in common: rows, which a window collects from an image of up to three dimensions (a
/// matrix is one of single pixels), times a matrix of each group.
struct Geometry {
  int64_t images = 1, groups = 1;
  /// Of a group: numbers of a pixel, and those in memory; results.
  int64_t depth = 1, paddedDepth = 1, columns = 1;
  /// From the outermost to the innermost.
  std::array<int64_t, space> in = {1, 1, 1}, out = {1, 1, 1}, window = {1, 1, 1}, strides = {1, 1, 1},
                             dilations = {1, 1, 1}, pads = {0, 0, 0};
  /// Elements from one image, channel and pixel to the next.
  struct Steps {
    int64_t image = 0, channel = 0;
    std::array<int64_t, space> pixel = {0, 0, 0};
  };
  Steps data, result;
  /// The weights as their layout has them.
  TensorType weights;

  bool isDepthwise() const { return groups > 1 && depth == 1 && columns == 1; }
  int64_t taps() const { return window[0] * window[1] * window[2]; }
  int64_t rows() const { return images * out[0] * out[1] * out[2]; }
  int64_t rowNumbers() const { return taps() * paddedDepth; }
  int64_t panels() const { return roundedUp(columns, panelColumns) / panelColumns; }
  int64_t quads() const { return rowNumbers() / stepNumbers; }
  /// Rows that a thread goes over at once.
  int64_t blockRows() const {
    int64_t fitting = blockBytes / rowNumbers() / tileRows * tileRows;
    return std::min(std::clamp(fitting, leastRows, mostRows), roundedUp(rows(), tileRows));
  }
  /// Of `count` rows, one or more, the first that are gone over at once, so that the last are about as many.
  int64_t blockOf(int64_t count) const {
    int64_t blocks = roundedUp(count, blockRows()) / blockRows();
    return roundedUp((count + blocks - 1) / blocks, tileRows);
  }
  /// Bytes that a thread takes: rows, then the steps of a panel.
  int64_t rowBytes() const { return isMatrix() ? 0 : roundedUp(blockRows() * rowNumbers() + integers::mostBehind, 64); }
  uint64_t laneBytes() const {
    if (isDepthwise())
      return 0;
    return static_cast<uint64_t>(rowBytes() + roundedUp(integers::PanelSteps::bytes(quads()), 64));
  }
  /// Whether rows are next to each other in memory, without anything between their numbers.
  bool isMatrix() const {
    int64_t step = depth;
    for (size_t d = space; d-- > 0; step *= in[d])
      if (window[d] != 1 || strides[d] != 1 || in[d] != out[d] || (in[d] != 1 && data.pixel[d] != step))
        return false;
    return groups == 1 && depth == paddedDepth && data.channel == 1 && (images == 1 || data.image == step);
  }
};

/// The inner blocks of a panel: 16 results by four numbers, as two by two, which no layout of oneDNN's has.
std::vector<int64_t> panelBlocks() { return {panelColumns, 2, stepNumbers / 2}; }

/// Panels of 16 results, in each four numbers side by side: [G, O, C, kernel...] as gOkhwC16o2c2c without letters for
/// what there is not. `columns` and `depth` are the dimensions' numbers; the kernel's are those from `kernel` on.
Layout panelLayout(const std::vector<int64_t> &shape, size_t columns, size_t depth, size_t kernel) {
  Layout layout{shape, std::vector<int64_t>(shape.size(), 0), panelBlocks(), {}};
  layout.innerDims = {static_cast<int32_t>(columns), static_cast<int32_t>(depth), static_cast<int32_t>(depth)};
  layout.padded[columns] = roundedUp(shape[columns], panelColumns);
  layout.padded[depth] = roundedUp(shape[depth], stepNumbers);
  int64_t stride = integers::stepBytes;
  layout.strides[depth] = stride;
  stride *= layout.padded[depth] / stepNumbers;
  for (size_t dim = shape.size(); dim-- > kernel;) {
    layout.strides[dim] = stride;
    stride *= shape[dim];
  }
  layout.strides[columns] = stride;
  stride *= layout.padded[columns] / panelColumns;
  if (kernel == 3)
    layout.strides[0] = stride;
  return layout;
}

/// Of single channels, [G, 1, 1, kernel...]: 16 groups side by side.
Layout channelLayout(const std::vector<int64_t> &shape) {
  Layout layout{shape, std::vector<int64_t>(shape.size(), 0), {panelColumns}, {0}};
  layout.padded[0] = roundedUp(shape[0], panelColumns);
  int64_t stride = panelColumns;
  for (size_t dim = shape.size(); dim-- > 3; stride *= shape[dim])
    layout.strides[dim] = stride;
  std::fill_n(layout.strides.begin(), 3, stride);
  return layout;
}

TensorType channelsLast(const TensorType &type) {
  std::vector<unsigned> order = {0};
  for (unsigned dim = 2; dim < type.shape.size(); ++dim)
    order.push_back(dim);
  order.push_back(1);
  TensorType laid{type.element, type.shape, permutedLayout(type.shape, order)};
  return isPlain(laid) ? TensorType{type.element, type.shape, std::nullopt} : laid;
}

Geometry::Steps imageSteps(const TensorType &type) {
  std::vector<int64_t> strides = stridesOf(type);
  Geometry::Steps steps{strides[0], strides[1], {}};
  std::copy(strides.begin() + 2, strides.end(), steps.pixel.end() - static_cast<long>(strides.size() - 2));
  return steps;
}

/// Checks a convolution. Types that are left open must have been decided.
Geometry readConvolution(const Builder &builder) {
  Geometry geometry;
  const TensorType &data = builder.inputType(0), &result = builder.outputType();
  size_t rank = data.shape.size();
  geometry.groups = builder.integer("groups", 1, 1);
  std::vector<int64_t> view = weightView(builder, builder.inputType(1), geometry.groups);
  size_t kernel = view.size() - (rank - 2);
  Window window = readWindow(builder, data, result, std::span(view).subspan(kernel));
  geometry.columns = view[kernel - 2];
  geometry.depth = view[kernel - 1];
  geometry.paddedDepth = roundedUp(geometry.depth, stepNumbers);
  if (data.shape[0] != result.shape[0] || data.shape[1] != geometry.groups * geometry.depth ||
      result.shape[1] != geometry.groups * geometry.columns)
    refuse(Status::Rejected, "weights ", builder.inputType(1).text(), " do not lead from ", data.text(), " to ",
           result.text());
  geometry.images = data.shape[0];
  size_t first = space - (rank - 2);
  for (size_t d = 0; d != rank - 2; ++d) {
    geometry.in[first + d] = data.shape[d + 2];
    geometry.out[first + d] = result.shape[d + 2];
    geometry.window[first + d] = view[kernel + d];
    geometry.strides[first + d] = window.strides[d];
    geometry.dilations[first + d] = window.dilations[d] + 1;
    geometry.pads[first + d] = window.padsBegin[d];
  }
  geometry.data = imageSteps(data);
  geometry.result = imageSteps(result);
  geometry.weights = {ElementType::I8, view,
                      geometry.isDepthwise() ? channelLayout(view) : panelLayout(view, kernel - 2, kernel - 1, kernel)};
  return geometry;
}

Geometry readMatmul(const Builder &builder) {
  const TensorType &left = builder.inputType(0), &right = builder.inputType(1), &result = builder.outputType();
  if (left.shape.size() != 2 || right.shape.size() != 2 || result.shape.size() != 2)
    refuse(Status::Unsupported, "expects matrices of integers, got ", left.text(), " x ", right.text());
  if (left.shape[1] != right.shape[0] || result.shape != std::vector{left.shape[0], right.shape[1]})
    refuse(Status::Rejected, "expects [M, K] x [K, N] -> [M, N], got ", left.text(), " x ", right.text(), " -> ",
           result.text());
  Geometry geometry;
  geometry.images = left.shape[0];
  geometry.depth = left.shape[1];
  geometry.paddedDepth = roundedUp(geometry.depth, stepNumbers);
  geometry.columns = right.shape[1];
  std::vector<int64_t> data = stridesOf(left), written = stridesOf(result);
  geometry.data = {data[0], data[1], {}};
  geometry.result = {written[0], written[1], {}};
  geometry.weights = {ElementType::I8, right.shape, panelLayout(right.shape, 1, 0, 2)};
  return geometry;
}

bool isConvolution(const LibraryKernelDesc &desc) { return desc.operation == "convolution"; }

Geometry readGeometry(const Builder &builder) {
  builder.expectOperands(2, 3);
  for (const TensorType *type : {&builder.inputType(0), &builder.inputType(1), &builder.outputType()})
    for (int64_t size : type->shape)
      if (size < 1)
        refuse(Status::Unsupported, "expects no empty tensors, got ", type->text());
  return isConvolution(builder.desc()) ? readConvolution(builder) : readMatmul(builder);
}

integers::Epilogue readEpilogue(const Builder &builder) {
  return {builder.desc(), builder.numOperands() == 3 ? 2 : -1, /*channelDim=*/1};
}

//===-- the kernel --------------------------------------------------------------------------------------------===//

/// The part of `count` that falls to `index` of `parts`, in whole units.
std::pair<int64_t, int64_t> partOf(int64_t count, int64_t unit, int64_t index, int64_t parts) {
  int64_t units = (count + unit - 1) / unit;
  return {std::min(units * index / parts * unit, count), std::min(units * (index + 1) / parts * unit, count)};
}

class IntegerProduct final : public LibraryKernelInstance {
public:
  IntegerProduct(const Geometry &geometry, integers::Epilogue epilogue, const LibraryKernelDesc &desc, unsigned lanes)
      : geometry(geometry), epilogue(std::move(epilogue)), operation(desc.operation), output(desc.inputs.size()),
        dataBytes(static_cast<int64_t>(*desc.inputs[0].byteSize())), lanes(lanes) {
    divide();
  }

  Error run(void *const *arguments) override {
    for (size_t input : epilogue.inPlace())
      if (arguments[input] != arguments[output])
        return makeError(Status::Internal, "onednn kernel ", operation, " adds to its output, which expects input ",
                         input, " in the output's buffer");
    // A team may have fewer threads than were asked for.
#pragma omp parallel for schedule(static, 1) num_threads(static_cast<int>(lanes))
    for (unsigned lane = 0; lane < lanes; ++lane)
      if (geometry.isDepthwise())
        goAlongChannels(lane, arguments);
      else
        multiply(lane, arguments);
    return Error::success();
  }

private:
  /// Divides rows, and columns where rows do not divide evenly: most even, and of those with the fewest parts of
  /// columns, since each collects the rows anew.
  void divide() {
    double best = 0;
    for (int64_t parts = 1; parts <= static_cast<int64_t>(lanes); ++parts) {
      if (lanes % parts != 0)
        continue;
      auto evenness = [](int64_t units, int64_t over) {
        return static_cast<double>(units) / static_cast<double>(roundedUp(units, over));
      };
      int64_t tiles = roundedUp(geometry.rows(), tileRows) / tileRows;
      double even = evenness(tiles, lanes / parts) * evenness(geometry.panels(), parts);
      if (even > 1.05 * best) {
        best = even;
        columnParts = parts;
      }
    }
  }

  /// The windows of rows, one after the other.
  class Walk {
  public:
    Walk(const Geometry &geometry, int64_t row) : geometry(geometry) {
      for (size_t d = space; d-- > 0; row /= geometry.out[d])
        position[d] = row % geometry.out[d];
      image = row;
    }
    void next() {
      for (size_t d = space; d-- > 0;) {
        if (++position[d] != geometry.out[d])
          return;
        position[d] = 0;
      }
      ++image;
    }
    /// Where the result lies.
    int64_t result() const {
      int64_t offset = image * geometry.result.image;
      for (size_t d = 0; d != space; ++d)
        offset += position[d] * geometry.result.pixel[d];
      return offset;
    }
    /// Calls `each(tap, offset, count)` for taps of the window, one or more of a line of them: `count` taps from `tap`
    /// on, the first at `offset` of the data; without an offset they lie outside of the image.
    template <typename Each> void forEachLine(const Each &each) const {
      const auto &[depths, heights, widths] = geometry.window;
      int64_t width = geometry.dilations[2], begin = position[2] * geometry.strides[2] - geometry.pads[2];
      bool isWhole = begin >= 0 && begin + (widths - 1) * width < geometry.in[2];
      int64_t tap = 0;
      for (int64_t i = 0; i != depths; ++i)
        for (int64_t j = 0; j != heights; ++j, tap += widths) {
          auto first = offsetOf(0, i), second = offsetOf(1, j);
          if (!first || !second) {
            each(tap, std::optional<int64_t>(), widths);
            continue;
          }
          int64_t line = image * geometry.data.image + *first + *second;
          if (isWhole) {
            each(tap, std::optional(line + begin * geometry.data.pixel[2]), widths);
            continue;
          }
          for (int64_t k = 0; k != widths; ++k) {
            auto third = offsetOf(2, k);
            each(tap + k, third ? std::optional(line + *third) : std::nullopt, 1);
          }
        }
    }

  private:
    std::optional<int64_t> offsetOf(size_t d, int64_t tap) const {
      int64_t at = position[d] * geometry.strides[d] - geometry.pads[d] + tap * geometry.dilations[d];
      return at >= 0 && at < geometry.in[d] ? std::optional(at * geometry.data.pixel[d]) : std::nullopt;
    }

    const Geometry &geometry;
    std::array<int64_t, space> position;
    int64_t image;
  };

  /// Copies what a row's window sees of a group.
  void collect(const uint8_t *data, int64_t group, const Walk &walk, uint8_t *to) const {
    const uint8_t *end = data + dataBytes;
    int64_t depth = geometry.depth, padded = geometry.paddedDepth,
            step = geometry.dilations[2] * geometry.data.pixel[2];
    bool isSideBySide = geometry.data.channel == 1 && step == depth;
    data += group * depth * geometry.data.channel;
    walk.forEachLine([&](int64_t tap, std::optional<int64_t> offset, int64_t count) {
      uint8_t *numbers = to + tap * padded;
      if (!offset) {
        std::fill_n(numbers, count * padded, uint8_t(0));
      } else if (isSideBySide) {
        integers::copyPixels(data + *offset, depth, count, end, numbers);
      } else {
        for (int64_t i = 0; i != count; ++i, numbers += padded) {
          const uint8_t *pixel = data + *offset + i * step;
          if (geometry.data.channel == 1) {
            integers::copyPixels(pixel, depth, 1, end, numbers);
            continue;
          }
          for (int64_t channel = 0; channel != depth; ++channel)
            numbers[channel] = pixel[channel * geometry.data.channel];
          std::fill(numbers + depth, numbers + padded, uint8_t(0));
        }
      }
    });
  }

  void multiply(unsigned lane, void *const *arguments) const {
    int64_t rowParts = lanes / columnParts, row = lane / columnParts, column = lane % columnParts;
    auto [firstRow, endRow] = partOf(geometry.rows(), tileRows, row, rowParts);
    auto [firstPanel, endPanel] = partOf(geometry.panels(), 1, column, columnParts);
    if (firstRow == endRow)
      return;
    auto *data = static_cast<const uint8_t *>(arguments[0]);
    auto *weights = static_cast<const int8_t *>(arguments[1]);
    auto *copies = static_cast<uint8_t *>(arguments[output + 1]) + lane * geometry.laneBytes();
    integers::PanelSteps steps(copies + geometry.rowBytes(), geometry.quads());
    int64_t numbers = geometry.rowNumbers(), block = geometry.blockOf(endRow - firstRow);
    bool isMatrix = geometry.isMatrix();
    integers::Epilogue::Panel panel(epilogue, arguments);
    std::array<int64_t, mostRows> results;
    alignas(32) std::array<int32_t, tileRows * panelColumns> sums;
    for (int64_t group = 0; group != geometry.groups; ++group)
      for (int64_t first = firstRow; first < endRow; first += block) {
        int64_t count = std::min(block, endRow - first);
        Walk walk(geometry, first);
        const uint8_t *rows = isMatrix ? data + first * numbers : copies;
        for (int64_t i = 0; i != count; ++i, walk.next()) {
          results[i] = walk.result();
          if (!isMatrix)
            collect(data, group, walk, copies + i * numbers);
        }
        steps.readRows(rows, numbers, count);
        for (int64_t p = firstPanel; p < endPanel; ++p) {
          int64_t channel = group * geometry.columns + p * panelColumns;
          panel.begin(channel, std::min(panelColumns, geometry.columns - p * panelColumns));
          const int8_t *own = weights + (group * geometry.panels() + p) * numbers * panelColumns;
          steps.divide(own);
          for (int64_t i = 0; i < count; i += tileRows) {
            int64_t some = std::min(tileRows, count - i);
            integers::multiplyTile(rows + i * numbers, numbers, some, own, steps, sums.data());
            panel.finish(sums.data(), results.data() + i, some, channel * geometry.result.channel,
                         geometry.result.channel);
          }
        }
      }
  }

  /// The kernel of one channel a group.
  void goAlongChannels(unsigned lane, void *const *arguments) const {
    auto *data = static_cast<const uint8_t *>(arguments[0]);
    auto *weights = static_cast<const int8_t *>(arguments[1]);
    auto [firstRow, endRow] = partOf(geometry.rows(), 1, lane, lanes);
    int64_t taps = geometry.taps(), width = geometry.dilations[2] * geometry.data.pixel[2];
    bool isSideBySide = geometry.data.channel == 1;
    // What lies outside of the image, and windows of channels that do not fill a panel or lie apart.
    std::vector<uint8_t> nothing(static_cast<size_t>(roundedUp(geometry.groups, panelColumns)));
    std::vector<uint8_t> copies(static_cast<size_t>(tileRows * taps * panelColumns));
    std::vector<const uint8_t *> seen(static_cast<size_t>(tileRows * taps)), copied(seen.size());
    for (size_t i = 0; i != copied.size(); ++i)
      copied[i] = copies.data() + i * panelColumns;
    std::array<int64_t, tileRows> results;
    alignas(32) std::array<int32_t, tileRows * panelColumns> sums;
    integers::Epilogue::Panel panel(epilogue, arguments);
    Walk walk(geometry, firstRow);
    for (int64_t first = firstRow; first < endRow; first += tileRows) {
      int64_t some = std::min(tileRows, endRow - first);
      for (int64_t row = 0; row != some; ++row, walk.next()) {
        results[row] = walk.result();
        const uint8_t **own = seen.data() + row * taps;
        walk.forEachLine([&](int64_t tap, std::optional<int64_t> offset, int64_t count) {
          for (int64_t i = 0; i != count; ++i)
            own[tap + i] = offset ? data + *offset + i * width : nothing.data();
        });
      }
      for (int64_t channel = 0; channel < geometry.groups; channel += panelColumns) {
        int64_t count = std::min(panelColumns, geometry.groups - channel);
        const int8_t *own = weights + channel * taps;
        panel.begin(channel, count);
        if (isSideBySide && count == panelColumns) {
          integers::multiplyChannels(seen.data(), some, taps, channel, own, sums.data());
        } else {
          for (int64_t i = 0; i != some * taps; ++i)
            for (int64_t j = 0; j != count; ++j) {
              bool isOutside = seen[i] == nothing.data();
              copies[i * panelColumns + j] = isOutside ? 0 : seen[i][(channel + j) * geometry.data.channel];
            }
          integers::multiplyChannels(copied.data(), some, taps, 0, own, sums.data());
        }
        panel.finish(sums.data(), results.data(), some, channel * geometry.result.channel, geometry.result.channel);
      }
    }
  }

  Geometry geometry;
  integers::Epilogue epilogue;
  std::string operation;
  size_t output;
  int64_t dataBytes;
  unsigned lanes;
  int64_t columnParts = 1;
};

bool multipliesBytes(const LibraryKernelDesc &desc) {
  return (isConvolution(desc) || desc.operation == "matmul") && desc.inputs.size() >= 2 && desc.outputs.size() == 1 &&
         desc.inputs[0].element == ElementType::U8 && desc.inputs[1].element == ElementType::I8;
}

} // namespace

bool wantsIntegerProduct(const LibraryKernelDesc &desc) {
  // Wider registers without VNNI multiply as many reals.
  auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  auto has = [&](unsigned set) { return (isa & set) == set; };
  return multipliesBytes(desc) && has(dnnl_cpu_isa_avx2) && !has(dnnl_cpu_isa_avx512_core) && !multipliesIntegers() &&
         integers::hasTiles();
}

bool isIntegerProduct(const LibraryKernelDesc &desc) {
  if (!multipliesBytes(desc) || !desc.inputs[1].layout)
    return false;
  const Layout &layout = *desc.inputs[1].layout;
  if (layout.innerBlocks == panelBlocks())
    return true;
  // With VNNI oneDNN has the same layout of single channels.
  return !multipliesIntegers() && layout.innerBlocks == std::vector<int64_t>{panelColumns} &&
         layout.innerDims == std::vector<int32_t>{0};
}

LibraryChoice chooseIntegerProduct(const LibraryKernelQuery &query, unsigned threads) {
  LibraryKernelQuery decided = query;
  LibraryKernelDesc &desc = decided.desc;
  auto isOpen = [](const std::vector<bool> &any, size_t index) { return index < any.size() && any[index]; };
  auto decide = [&](TensorType &type) {
    type.layout.reset();
    if (isConvolution(desc) && type.shape.size() > 2)
      type = channelsLast(type);
  };
  if (isOpen(query.anyInputs, 0))
    decide(desc.inputs[0]);
  if (isOpen(query.anyOutputs, 0))
    decide(desc.outputs[0]);
  decided.anyInputs.clear();
  decided.anyOutputs.clear();
  Builder builder(decided);
  Geometry geometry = readGeometry(builder);
  if (isOpen(query.anyInputs, 1))
    desc.inputs[1] = geometry.weights;
  integers::Epilogue epilogue = readEpilogue(builder);
  for (size_t i = builder.numOperands(); i != desc.inputs.size(); ++i)
    if (isOpen(query.anyInputs, i))
      desc.inputs[i].layout = epilogue.readsWhole(i) ? desc.outputs[0].layout : std::nullopt;
  desc.library = "onednn";
  desc.scratchBytes = threads * geometry.laneBytes();
  desc.implementation = geometry.isDepthwise() ? "cleave:avx2:channels" : "cleave:avx2:panels";
  LibraryChoice choice{desc, {}, {}};
  for (const TensorType &type : desc.inputs)
    choice.inputBytes.push_back(*type.byteSize());
  choice.outputBytes.push_back(*desc.outputs[0].byteSize());
  if (geometry.data.channel != 1)
    choice.quality = KernelQuality::Indirect;
  // As when it is loaded.
  (void)makeIntegerProduct(choice.desc, threads);
  return choice;
}

std::unique_ptr<LibraryKernelInstance> makeIntegerProduct(const LibraryKernelDesc &desc, unsigned threads) {
  if (!integers::hasTiles())
    refuse(Status::Unsupported, "weights in panels expect a processor with AVX2; a plan made on another machine has to "
                                "be compiled on this one");
  LibraryKernelQuery query{desc, {}, {}};
  Builder builder(query);
  Geometry geometry = readGeometry(builder);
  if (desc.inputs[1] != geometry.weights)
    refuse(Status::Rejected, "weights expect the layout ", layoutText(geometry.weights), ", got ",
           layoutText(desc.inputs[1]));
  integers::Epilogue epilogue = readEpilogue(builder);
  for (size_t i = builder.numOperands(); i != desc.inputs.size(); ++i)
    if (epilogue.readsWhole(i) && stridesOf(desc.inputs[i]) != stridesOf(desc.outputs[0]))
      refuse(Status::Unsupported, "input ", i, " expects to lie as the result, ", layoutText(desc.outputs[0]), ", got ",
             layoutText(desc.inputs[i]));
  uint64_t lane = geometry.laneBytes(),
           lanes = lane == 0 ? threads : std::min<uint64_t>(threads, desc.scratchBytes / lane);
  if (lanes == 0)
    refuse(Status::Infeasible, "expects ", lane, " bytes of scratch, got ", desc.scratchBytes);
  return std::make_unique<IntegerProduct>(geometry, std::move(epilogue), desc, static_cast<unsigned>(lanes));
}

} // namespace cleave::runtime::onednn
