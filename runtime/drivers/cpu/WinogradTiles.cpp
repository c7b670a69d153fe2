// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tile of 4 x 4 results needs 6 x 6 pixels. Along each of its sides the transforms are polynomials' values at six
// points: 0, 1/sqrt(2) and sqrt(2) with both signs, and infinity, whose powers stay closest to one, and with them
// rounding errors. What is transformed is multiplied value by value, that is, as 36 products of [tiles, C] and [C, O].

#include "runtime/drivers/cpu/WinogradTiles.h"

#include "runtime/MemoryLayout.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

/// Of functions that are compiled for AVX2, whatever the others of their file are compiled for.
#define CLEAVE_AVX2_FMA __attribute__((target("avx2,fma")))

namespace cleave::runtime::onednn {

namespace {

constexpr int64_t side = 4, window = 3, points = side + window - 1, lanes = 8;
constexpr float near = 0.70710678f, far = 1.41421356f; // their squares are 1/2 and 2

typedef float Lanes __attribute__((vector_size(lanes * sizeof(float)), aligned(sizeof(float))));

/// What a side's six pixels are at the points, up to factors that are the weights'.
CLEAVE_AVX2_FMA inline void transformPixels(const Lanes *pixels, Lanes *values) {
  Lanes evenNear = pixels[4] - 2.0f * pixels[2], oddNear = near * (pixels[3] - 2.0f * pixels[1]);
  Lanes evenFar = pixels[4] - 0.5f * pixels[2], oddFar = far * (pixels[3] - 0.5f * pixels[1]);
  values[0] = pixels[0] - 2.5f * pixels[2] + pixels[4];
  values[1] = evenNear + oddNear;
  values[2] = evenNear - oddNear;
  values[3] = evenFar + oddFar;
  values[4] = evenFar - oddFar;
  values[5] = pixels[1] - 2.5f * pixels[3] + pixels[5];
}

/// Four results from the products at the points.
CLEAVE_AVX2_FMA inline void transformProducts(const Lanes *products, Lanes *results) {
  Lanes evenNear = products[1] + products[2], oddNear = near * (products[1] - products[2]);
  Lanes evenFar = products[3] + products[4], oddFar = far * (products[3] - products[4]);
  results[0] = products[0] + evenNear + evenFar;
  results[1] = oddNear + oddFar;
  results[2] = 0.5f * evenNear + 2.0f * evenFar;
  results[3] = 0.5f * oddNear + 2.0f * oddFar + products[5];
}

/// The weights' transform, a row a point, with the factors that pixels lack: products of differences of points.
constexpr double weightsAt[points][window] = {{1, 0, 0},
                                              {-1 / 1.5, -0.70710678118654752 / 1.5, -0.5 / 1.5},
                                              {-1 / 1.5, 0.70710678118654752 / 1.5, -0.5 / 1.5},
                                              {1 / 6.0, 1.41421356237309505 / 6, 2 / 6.0},
                                              {1 / 6.0, -1.41421356237309505 / 6, 2 / 6.0},
                                              {0, 0, 1}};

int64_t filledUp(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

/// Floats from one row of a matrix to the next: rows of a multiple of 1 KiB would meet in the same sets of the cache.
int64_t rowFloats(int64_t channels) {
  int64_t floats = filledUp(channels, lanes);
  return floats % 256 == 0 ? floats + 2 * lanes : floats;
}

/// The sizes of a convolution, and how its tiles are taken a chunk at a time.
struct Sizes {
  int64_t images, channels, filters, height, width, resultHeight, resultWidth, padTop, padLeft;

  int64_t tileRows() const { return (resultHeight + side - 1) / side; }
  int64_t tileColumns() const { return (resultWidth + side - 1) / side; }
  int64_t tiles() const { return images * tileRows() * tileColumns(); }
  int64_t pixelFloats() const { return rowFloats(channels); }
  int64_t resultFloats() const { return rowFloats(filters); }
  /// Tiles whose values at all points lie in memory at once: as many as a few MiB hold, but enough for the weights to
  /// be read for many rows.
  int64_t chunk() const {
    constexpr int64_t floats = 1 << 20, least = 48;
    int64_t most = std::max(least, floats / (points * points * (pixelFloats() + resultFloats())));
    int64_t count = (tiles() + most - 1) / most;
    return (tiles() + count - 1) / count;
  }
  /// Transformed pixels, products, and the bias filled up.
  uint64_t scratchBytes() const {
    auto floats =
        static_cast<uint64_t>(points * points * chunk()) * static_cast<uint64_t>(pixelFloats() + resultFloats());
    return (floats + static_cast<uint64_t>(resultFloats())) * sizeof(float);
  }
};

TensorType blocked(std::vector<int64_t> shape) {
  Layout layout = blockedLayout(shape, 1, lanes);
  return {ElementType::F32, std::move(shape), std::move(layout)};
}

TensorType packedWeights(const Sizes &sizes) {
  return {ElementType::F32, {points * points, sizes.channels, sizes.resultFloats()}, std::nullopt};
}

bool isTiled(const LibraryKernelDesc &desc) { return desc.operation == "convolution.winograd"; }

/// An attribute with one value for each of two dimensions.
std::optional<std::array<int64_t, 2>> pair(const LibraryKernelDesc &desc, const char *name, int64_t fallback) {
  auto found = desc.ints.find(name);
  if (found == desc.ints.end() || found->second.empty())
    return std::array<int64_t, 2>{fallback, fallback};
  if (found->second.size() != 2)
    return std::nullopt;
  return std::array<int64_t, 2>{found->second[0], found->second[1]};
}

/// What does not fit, for a message; empty where all does. Layouts do not count.
std::string readSizes(const LibraryKernelDesc &desc, Sizes &sizes) {
  constexpr int64_t most = 1 << 24;
  constexpr uint64_t mostElements = uint64_t(1) << 40;
  const TensorType &data = desc.inputs[0], &result = desc.outputs[0];
  for (const TensorType *type : {&data, &result}) {
    if (type->element != ElementType::F32 || type->shape.size() != 4)
      return "images f32[N, C, H, W]";
    for (int64_t size : type->shape)
      if (size < 1 || size > most)
        return "dimensions from 1 to " + std::to_string(most);
    if (type->elementCount().value_or(mostElements + 1) > mostElements)
      return "at most " + std::to_string(mostElements) + " elements";
  }
  auto strides = pair(desc, "strides", 1), dilations = pair(desc, "dilations", 1);
  auto before = pair(desc, "pads_begin", 0), behind = pair(desc, "pads_end", 0);
  std::array<int64_t, 2> ones = {1, 1};
  auto groups = desc.ints.find("groups");
  if (strides != ones || dilations != ones || (groups != desc.ints.end() && groups->second != std::vector<int64_t>{1}))
    return "strides, dilations and groups of 1";
  for (size_t dim = 0; dim != 2; ++dim) {
    if (!before || !behind || (*before)[dim] < 0 || (*before)[dim] > most || (*behind)[dim] < 0 ||
        (*behind)[dim] > most)
      return "padding from 0 to " + std::to_string(most);
    if (data.shape[dim + 2] + (*before)[dim] + (*behind)[dim] - (window - 1) != result.shape[dim + 2])
      return "a window of 3 x 3 that leads from " + data.text() + " to " + result.text();
  }
  if (data.shape[0] != result.shape[0])
    return "as many images in as out";
  sizes = {data.shape[0],   data.shape[1],   result.shape[1], data.shape[2], data.shape[3],
           result.shape[2], result.shape[3], (*before)[0],    (*before)[1]};
  return "";
}

/// Inputs of the convolution itself: those of post operations follow.
size_t numOperands(const LibraryKernelDesc &desc) {
  size_t extra = std::count_if(desc.postOps.begin(), desc.postOps.end(),
                               [](const LibraryPostOp &postOp) { return postOp.argument >= 0; });
  return desc.inputs.size() < extra ? 0 : desc.inputs.size() - extra;
}

/// What does not fit of a convolution but its layouts.
std::string readConvolution(const LibraryKernelDesc &desc, Sizes &sizes) {
  size_t operands = numOperands(desc);
  if (operands < 2 || operands > 3 || desc.outputs.size() != 1)
    return "data, weights, perhaps a bias, and one result";
  if (std::string problem = readSizes(desc, sizes); !problem.empty())
    return problem;
  if (operands == 3 && desc.inputs[2] != TensorType{ElementType::F32, {sizes.filters}, std::nullopt})
    return "a bias of one f32 a channel";
  size_t next = operands;
  for (const LibraryPostOp &postOp : desc.postOps)
    if (postOp.kind == "binary_add" ? postOp.argument != static_cast<int>(next++)
                                    : postOp.kind != "relu" || postOp.argument >= 0)
      return "rectifiers and additions as post operations";
  for (size_t input = operands; input != desc.inputs.size(); ++input)
    if (desc.inputs[input].element != ElementType::F32 || desc.inputs[input].shape != desc.outputs[0].shape)
      return "additions of tensors of the result's type";
  return "";
}

Error refusal(const LibraryKernelDesc &desc, Status status, std::string_view expected) {
  return makeError(status, "onednn kernel ", desc.text(), ": expects ", expected);
}

class TileConvolution final : public LibraryKernelInstance {
public:
  TileConvolution(const LibraryKernelDesc &desc, const Sizes &sizes)
      : sizes(sizes), postOps(desc.postOps), hasBias(numOperands(desc) == 3), numInputs(desc.inputs.size()),
        chunk(sizes.chunk()), columns(sizes.tileColumns()), tilesOfImage(sizes.tileRows() * columns) {}

  Error run(void *const *arguments) override {
    const auto *data = static_cast<const float *>(arguments[0]), *weights = static_cast<const float *>(arguments[1]);
    int64_t tiles = sizes.tiles();
    auto *pixels = static_cast<float *>(arguments[numInputs + 1]);
    float *products = pixels + points * points * chunk * sizes.pixelFloats();
    float *bias = products + points * points * chunk * sizes.resultFloats();
    std::fill_n(bias, sizes.resultFloats(), 0.0f);
    if (hasBias)
      std::copy_n(static_cast<const float *>(arguments[2]), sizes.filters, bias);
    std::atomic<dnnl_status_t> failed{dnnl_success};
    int64_t filters = filledUp(sizes.filters, lanes), parts = filterParts();
    int64_t perPart = filledUp((filters + parts - 1) / parts, lanes);
#pragma omp parallel
    for (int64_t first = 0; first < tiles; first += chunk) {
      int64_t count = std::min(chunk, tiles - first);
#pragma omp for collapse(2) schedule(static)
      for (int64_t tile = 0; tile < count; ++tile)
        for (int64_t channel = 0; channel < sizes.channels; channel += lanes)
          readTile(data, channel, first + tile, pixels + tile * sizes.pixelFloats() + channel);
#pragma omp for collapse(2) schedule(static)
      for (int64_t point = 0; point < points * points; ++point)
        for (int64_t part = 0; part < parts; ++part) {
          int64_t from = part * perPart, width = std::min(perPart, filters - from);
          if (width <= 0)
            continue;
          dnnl_status_t status = dnnl_sgemm(
              'N', 'N', count, width, sizes.channels, 1.0f, pixels + point * chunk * sizes.pixelFloats(),
              sizes.pixelFloats(), weights + point * sizes.channels * sizes.resultFloats() + from, sizes.resultFloats(),
              0.0f, products + point * chunk * sizes.resultFloats() + from, sizes.resultFloats());
          if (status != dnnl_success)
            failed = status;
        }
#pragma omp for collapse(2) schedule(static)
      for (int64_t tile = 0; tile < count; ++tile)
        for (int64_t filter = 0; filter < sizes.filters; filter += lanes)
          writeTile(arguments, products + tile * sizes.resultFloats() + filter, bias, filter, first + tile);
    }
    return failed == dnnl_success
               ? Error::success()
               : makeError(Status::Failure, "onednn sgemm failed with status ", static_cast<int>(failed.load()));
  }

private:
  /// Where a tile's results begin.
  struct Place {
    int64_t image, row, column;
  };
  Place placeOf(int64_t tile) const {
    int64_t inImage = tile % tilesOfImage;
    return {tile / tilesOfImage, inImage / columns * side, inImage % columns * side};
  }
  /// A block of channels of an image.
  static int64_t planeOf(int64_t image, int64_t channels, int64_t channel, int64_t height, int64_t width) {
    return (image * filledUp(channels, lanes) + channel) * height * width;
  }

  /// Into how many parts the products at a point are divided, so that all threads have some.
  int64_t filterParts() const {
    constexpr int64_t turns = 4, leastFilters = 64;
    int64_t wanted = (turns * omp_get_max_threads() + points * points - 1) / (points * points);
    return std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, sizes.filters / leastFilters));
  }

  /// Writes what eight channels of a tile are at all points, `chunk` rows apart.
  CLEAVE_AVX2_FMA void readTile(const float *data, int64_t channel, int64_t tile, float *values) const {
    Place place = placeOf(tile);
    const float *plane = data + planeOf(place.image, sizes.channels, channel, sizes.height, sizes.width);
    int64_t top = place.row - sizes.padTop, left = place.column - sizes.padLeft;
    bool isInside = top >= 0 && left >= 0 && top + points <= sizes.height && left + points <= sizes.width;
    Lanes along[points][points];
    for (int64_t i = 0; i != points; ++i) {
      Lanes row[points];
      for (int64_t j = 0; j != points; ++j) {
        int64_t y = top + i, x = left + j;
        bool isPixel = isInside || (y >= 0 && y < sizes.height && x >= 0 && x < sizes.width);
        row[j] = isPixel ? *reinterpret_cast<const Lanes *>(plane + (y * sizes.width + x) * lanes) : Lanes{};
      }
      transformPixels(row, along[i]);
    }
    int64_t apart = chunk * sizes.pixelFloats();
    for (int64_t j = 0; j != points; ++j) {
      Lanes column[points], made[points];
      for (int64_t i = 0; i != points; ++i)
        column[i] = along[i][j];
      transformPixels(column, made);
      for (int64_t i = 0; i != points; ++i)
        *reinterpret_cast<Lanes *>(values + (i * points + j) * apart) = made[i];
    }
  }

  /// Writes eight channels of a tile's results, of which those inside the image, with what follows them.
  CLEAVE_AVX2_FMA void writeTile(void *const *arguments, const float *products, const float *bias, int64_t filter,
                                 int64_t tile) const {
    int64_t apart = chunk * sizes.resultFloats();
    Lanes across[side][points];
    for (int64_t j = 0; j != points; ++j) {
      Lanes column[points], made[side];
      for (int64_t i = 0; i != points; ++i)
        column[i] = *reinterpret_cast<const Lanes *>(products + (i * points + j) * apart);
      transformProducts(column, made);
      for (int64_t i = 0; i != side; ++i)
        across[i][j] = made[i];
    }
    Place place = placeOf(tile);
    int64_t plane = planeOf(place.image, sizes.filters, filter, sizes.resultHeight, sizes.resultWidth);
    Lanes shift = *reinterpret_cast<const Lanes *>(bias + filter);
    for (int64_t i = 0; i != side && place.row + i < sizes.resultHeight; ++i) {
      Lanes results[side];
      transformProducts(across[i], results);
      for (int64_t j = 0; j != side && place.column + j < sizes.resultWidth; ++j) {
        int64_t at = plane + ((place.row + i) * sizes.resultWidth + place.column + j) * lanes;
        Lanes value = results[j] + shift;
        for (const LibraryPostOp &postOp : postOps) {
          if (postOp.argument < 0)
            value = value > 0.0f ? value : value != value ? value : Lanes{};
          else
            value += *reinterpret_cast<const Lanes *>(static_cast<const float *>(arguments[postOp.argument]) + at);
        }
        *reinterpret_cast<Lanes *>(static_cast<float *>(arguments[numInputs]) + at) = value;
      }
    }
  }

  Sizes sizes;
  std::vector<LibraryPostOp> postOps;
  bool hasBias;
  size_t numInputs;
  /// Tiles at once, in a row of an image, and in an image.
  int64_t chunk, columns, tilesOfImage;
};

/// [O, C, 3, 3] to [36, C, O].
class WeightPacking final : public LibraryKernelInstance {
public:
  explicit WeightPacking(const Sizes &sizes) : sizes(sizes) {}

  Error run(void *const *arguments) override {
    const auto *weights = static_cast<const float *>(arguments[0]);
    auto *packed = static_cast<float *>(arguments[1]);
    int64_t row = sizes.resultFloats(), matrix = sizes.channels * row;
#pragma omp parallel for
    for (int64_t channel = 0; channel < sizes.channels; ++channel)
      for (int64_t filter = 0; filter < row; ++filter) {
        double along[points][window] = {};
        if (filter < sizes.filters)
          for (int64_t i = 0; i != points; ++i)
            for (int64_t tap = 0; tap != window * window; ++tap)
              along[i][tap % window] +=
                  weightsAt[i][tap / window] * weights[(filter * sizes.channels + channel) * window * window + tap];
        for (int64_t i = 0; i != points; ++i)
          for (int64_t j = 0; j != points; ++j) {
            double value = 0;
            for (int64_t tap = 0; tap != window; ++tap)
              value += along[i][tap] * weightsAt[j][tap];
            packed[(i * points + j) * matrix + channel * row + filter] = static_cast<float>(value);
          }
      }
    return Error::success();
  }

private:
  Sizes sizes;
};

} // namespace

bool takesOwnTiles() {
  auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  return (isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2 &&
         (isa & dnnl_cpu_isa_avx512_core) != dnnl_cpu_isa_avx512_core && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("fma");
}

bool isTileConvolution(const LibraryKernelDesc &desc) {
  if (isTiled(desc))
    return desc.inputs.size() >= 2 && desc.inputs[1].shape.size() == 3;
  return desc.operation == "winograd_weights" && desc.outputs.size() == 1 && desc.outputs[0].shape.size() == 3;
}

Expected<LibraryChoice> chooseTileConvolution(const LibraryKernelQuery &query) {
  const LibraryKernelDesc &desc = query.desc;
  Sizes sizes{};
  if (std::string problem = readConvolution(desc, sizes); !problem.empty())
    return refusal(desc, Status::Unsupported, problem);
  std::vector<int64_t> shape = {sizes.filters, sizes.channels, window, window};
  if (!query.isConstant(1) || !query.isAnyInput(1) || desc.inputs[1].shape != shape)
    return refusal(desc, Status::Unsupported, "constant weights without groups");
  LibraryChoice choice{desc, {}, {}};
  choice.desc.library = "onednn";
  choice.desc.implementation = "cleave:avx2:winograd";
  TensorType data = blocked(desc.inputs[0].shape), result = blocked(desc.outputs[0].shape);
  auto settle = [&](TensorType &type, bool isAny, const TensorType &wanted) {
    bool fits = isAny || type == wanted;
    type = wanted;
    return fits;
  };
  bool fits = settle(choice.desc.inputs[0], query.isAnyInput(0), data) &&
              settle(choice.desc.outputs[0], query.isAnyOutput(0), result);
  for (size_t input = numOperands(desc); input != desc.inputs.size(); ++input)
    fits &= settle(choice.desc.inputs[input], query.isAnyInput(input), result);
  if (!fits)
    return refusal(desc, Status::Unsupported, "images in blocks of 8 channels");
  choice.desc.inputs[1] = packedWeights(sizes);
  choice.desc.scratchBytes = sizes.scratchBytes();
  for (const TensorType &type : choice.desc.inputs)
    choice.inputBytes.push_back(*type.byteSize());
  choice.outputBytes.push_back(*result.byteSize());
  LibraryKernelDesc &packing = choice.packings[1];
  packing.library = "onednn";
  packing.operation = "winograd_weights";
  packing.implementation = choice.desc.implementation;
  packing.inputs = {{ElementType::F32, shape, std::nullopt}};
  packing.outputs = {choice.desc.inputs[1]};
  return choice;
}

Expected<std::unique_ptr<LibraryKernelInstance>> makeTileConvolution(const LibraryKernelDesc &desc) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return makeError(Status::Unsupported, "onednn kernel ", desc.text(), ": needs a processor with AVX2 and FMA");
  Sizes sizes{};
  if (!isTiled(desc)) {
    if (desc.inputs.size() != 1 || desc.inputs[0].shape.size() != 4 || !desc.inputs[0].byteSize() ||
        !desc.outputs[0].byteSize())
      return refusal(desc, Status::Rejected, "weights [O, C, 3, 3]");
    sizes.filters = desc.inputs[0].shape[0];
    sizes.channels = desc.inputs[0].shape[1];
    if (desc.inputs[0] != TensorType{ElementType::F32, {sizes.filters, sizes.channels, window, window}, std::nullopt} ||
        desc.outputs[0] != packedWeights(sizes))
      return refusal(desc, Status::Rejected, "weights f32[O, C, 3, 3] and a result f32[36, C, O]");
    return std::unique_ptr<LibraryKernelInstance>(new WeightPacking(sizes));
  }
  if (std::string problem = readConvolution(desc, sizes); !problem.empty())
    return refusal(desc, Status::Rejected, problem);
  TensorType result = blocked(desc.outputs[0].shape);
  bool fits = desc.inputs[0] == blocked(desc.inputs[0].shape) && desc.inputs[1] == packedWeights(sizes) &&
              desc.outputs[0] == result;
  for (size_t input = numOperands(desc); input != desc.inputs.size(); ++input)
    fits &= desc.inputs[input] == result;
  for (const TensorType &type : desc.inputs)
    fits &= type.byteSize().has_value();
  if (!fits || !result.byteSize())
    return refusal(desc, Status::Rejected,
                   "images in blocks of 8 channels, and packed weights " + packedWeights(sizes).text());
  if (desc.scratchBytes < sizes.scratchBytes())
    return makeError(Status::Infeasible, "onednn kernel ", desc.text(), ": expects ", sizes.scratchBytes(),
                     " bytes of scratch, got ", desc.scratchBytes);
  return std::unique_ptr<LibraryKernelInstance>(new TileConvolution(desc, sizes));
}

} // namespace cleave::runtime::onednn
