// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When Winograd's algorithm is taken, and the packing of its weights.

#include "runtime/drivers/cpu/OneDnnWinograd.h"

#include "runtime/MemoryLayout.h"
#include "runtime/drivers/cpu/OneDnnOperations.h"
#include "runtime/drivers/cpu/OneDnnWindow.h"
#include "runtime/drivers/cpu/WinogradTiles.h"

#include <algorithm>

namespace cleave::runtime::onednn {

using dnnl::memory;
using dnnl::prop_kind;

dnnl::algorithm convolutionAlgorithm(const Builder &builder, dnnl::algorithm direct, dnnl::algorithm winograd) {
  if (builder.kind().empty())
    return direct;
  if (builder.kind() != "winograd")
    refuse(Status::Unsupported, "onednn has no ", builder.family(), " of kind \"", builder.kind(), '"');
  return winograd;
}

bool readsPackedWeights(const Builder &builder) {
  return builder.kind() == "winograd" && (builder.inputType(1).shape.size() == 1 || builder.mayPack(1));
}

std::vector<int64_t> winogradWeightShape(const Builder &builder, const TensorType &data, const TensorType &result) {
  if (data.shape.size() != 4 || result.shape.size() != 4 || builder.integer("groups", 1, 1) != 1)
    refuse(Status::Rejected, "expects images [N, C, H, W] and no groups for packed weights, got ", data.text(), " and ",
           result.text());
  return {result.shape[1], data.shape[1], 3, 3};
}

/// What tells formats apart that have as many bytes.
static std::vector<int64_t> packedFormat(const memory::desc &weights) {
  if (weights.data.format_kind != dnnl_format_kind_wino)
    refuse(Status::Unsupported, "onednn packs no weights for this convolution");
  const dnnl_wino_desc_t &format = weights.data.format_desc.wino_desc;
  return {format.wino_format, format.r,        format.alpha,     format.ic,       format.oc,
          format.ic_block,    format.oc_block, format.ic2_block, format.oc2_block};
}

void checkPackedFormat(const Builder &builder, const memory::desc &weights) {
  std::vector<int64_t> format = packedFormat(weights);
  auto recorded = builder.desc().ints.find("format");
  if (recorded != builder.desc().ints.end() && recorded->second != format)
    refuse(Status::Unsupported, "onednn packs weights otherwise on this processor: a plan made on another machine has "
                                "to be compiled on this one");
}

LibraryKernelDesc packingOf(LibraryKernelDesc &convolution, const TensorType &weights, const memory::desc &format) {
  LibraryKernelDesc packing;
  packing.library = convolution.library;
  packing.operation = "winograd_weights";
  packing.ints["format"] = convolution.ints["format"] = packedFormat(format);
  packing.ints["data"] = convolution.inputs[0].shape;
  packing.ints["result"] = convolution.outputs[0].shape;
  for (const char *name : {"pads_begin", "pads_end"})
    if (auto found = convolution.ints.find(name); found != convolution.ints.end())
      packing.ints[name] = found->second;
  packing.inputs = {weights};
  packing.outputs = {convolution.inputs[1]};
  packing.implementation = "reorder";
  return packing;
}

/// The format is that of the convolution that the attributes describe.
Primitive buildWinogradWeights(Builder &builder) {
  builder.expectOperands(1, 1);
  TensorType data{ElementType::F32, builder.integers("data", 4, 1, 1), std::nullopt};
  TensorType result{ElementType::F32, builder.integers("result", 4, 1, 1), std::nullopt};
  std::vector<int64_t> shape = winogradWeightShape(builder, data, result);
  if (builder.inputType(0).shape != shape || !isDense(builder.inputType(0)))
    refuse(Status::Rejected, "expects dense weights of shape ", TensorType{ElementType::F32, shape, {}}.text(),
           ", got ", builder.inputType(0).text());
  Window window = readWindow(builder, data, result, std::span(shape).subspan(2));
  auto any = [](const std::vector<int64_t> &dims) {
    return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
  };
  dnnl::convolution_forward::desc desc(prop_kind::forward_inference, dnnl::algorithm::convolution_winograd,
                                       any(data.shape), any(shape), any(result.shape), window.strides, window.dilations,
                                       window.padsBegin, window.padsEnd);
  memory::desc format = describe(desc, {}).query_md(dnnl::query::exec_arg_md, DNNL_ARG_WEIGHTS);
  checkPackedFormat(builder, format);
  memory::desc weights = builder.input(0, DNNL_ARG_FROM, shape);
  builder.packedOutput(DNNL_ARG_TO, format);
  return builder.finish(dnnl::reorder::primitive_desc(engine(), weights, engine(), format, builder.attributes()));
}

/// Tiles of `side` x `side` pixels that cover an image, in pixels of the image.
static double tiled(const std::vector<int64_t> &image, int64_t side) {
  auto covered = [&](int64_t size) { return (size + side - 1) / side * side; };
  return static_cast<double>(covered(image[2]) * covered(image[3])) / static_cast<double>(image[2] * image[3]);
}

/// What Winograd's algorithm takes of the time of direct code, from 150 shapes on Zen 4, of 16 to 512 channels and 7 to
/// 224 pixels a side. Tiles of 4 x 4 pixels multiply a quarter as often and move what they transform; a transform of
/// the weights takes as long as 170 pixels, and that of their gradient as 90.
static double shareOfLargeTiles(const std::vector<int64_t> &image, bool ofWeights) {
  double pixels = static_cast<double>(image[0] * image[2] * image[3]);
  return 0.38 * tiled(image, 4) + (ofWeights ? 90 : 170) / pixels;
}
/// The same of tiles of 2 x 2, which multiply 4 times for 9 and which oneDNN has for packed weights alone.
static double shareOfSmallTiles(const std::vector<int64_t> &image) { return 0.6 * tiled(image, 2); }
/// Of our own tiles of 4 x 4 for AVX2: what is left to do for each weight takes as long as 60 pixels.
static double shareOfOwnTiles(const std::vector<int64_t> &image) {
  return 0.42 * tiled(image, 4) + 60.0 / static_cast<double>(image[0] * image[2] * image[3]);
}

/// Of a share above that, it is not certain that it is one.
static constexpr double largestShare = 0.9;
/// Fewer are filled up to a vector.
static constexpr int64_t leastChannels = 16;

std::optional<LibraryKernelQuery> inWinogradTiles(const LibraryKernelQuery &query) {
  const LibraryKernelDesc &desc = query.desc;
  bool isForward = desc.operation == "convolution", isBackward = desc.operation == "deconvolution";
  bool ofWeights = desc.operation == "convolution_weights";
  if (!query.mayTransform || !(isForward || isBackward || ofWeights) || desc.inputs.size() < 2 ||
      desc.outputs.size() != 1)
    return std::nullopt;
  const TensorType &data = desc.inputs[0], &weights = ofWeights ? desc.outputs[0] : desc.inputs[1];
  const TensorType &image = ofWeights ? desc.inputs[1] : desc.outputs[0];
  for (const TensorType *type : {&data, &weights, &image})
    if (type->shape.size() != 4 || type->element != ElementType::F32 || type->elementCount().value_or(0) == 0)
      return std::nullopt;
  if (weights.shape[2] != 3 || weights.shape[3] != 3 || data.shape[1] < leastChannels ||
      (ofWeights && image.shape[1] < leastChannels))
    return std::nullopt;
  for (const char *name : {"strides", "dilations", "groups"})
    if (auto found = desc.ints.find(name);
        found != desc.ints.end() &&
        std::any_of(found->second.begin(), found->second.end(), [](int64_t n) { return n != 1; }))
      return std::nullopt;
  bool isPacked = isForward && query.isConstant(1) && query.isAnyInput(1);
  double share = shareOfLargeTiles(image.shape, ofWeights);
  if (takesOwnTiles())
    share = isPacked ? shareOfOwnTiles(image.shape) : 1;
  else if (isPacked && !query.sharesConstants)
    share = std::min(share, shareOfSmallTiles(image.shape));
  if (share > largestShare)
    return std::nullopt;
  LibraryKernelQuery tiles = query;
  tiles.desc.operation += ".winograd";
  return tiles;
}

bool isFasterUnpacked(const LibraryChoice &choice) {
  auto packing = choice.packings.find(1);
  if (packing == choice.packings.end())
    return false;
  constexpr size_t alpha = 2; // the side of a transformed tile: 4 of 2 x 2 pixels, 6 of 4 x 4
  const std::vector<int64_t> &image = choice.desc.outputs[0].shape;
  auto format = packing->second.ints.find("format");
  return format != packing->second.ints.end() && format->second[alpha] == 4 &&
         shareOfLargeTiles(image, /*ofWeights=*/false) < shareOfSmallTiles(image);
}

} // namespace cleave::runtime::onednn
