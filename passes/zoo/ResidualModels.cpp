// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The zoo's networks with skip connections: residual networks and U-Net.

#include "passes/zoo/ModelBuilder.h"

namespace cleave {

static Layer normalized(ModelBuilder &builder, const std::string &name, const Layer &input, int64_t channels,
                        Slide slide) {
  return builder.batchNorm(name + ".norm", builder.conv(name, input, channels, slide, 1, /*bias=*/false));
}

/// A bottleneck: 1x1 to `inner` channels, 3x3 with the stride, 1x1 to `channels`, and the shortcut around it.
static Layer bottleneck(ModelBuilder &builder, const std::string &name, const Layer &input, int64_t inner,
                        int64_t channels, int64_t stride) {
  Layer layer = relu(builder, normalized(builder, name + "/conv1", input, inner, {1}));
  layer = relu(builder, normalized(builder, name + "/conv2", layer, inner, {3, stride, 1}));
  layer = normalized(builder, name + "/conv3", layer, channels, {1});
  Layer shortcut = input;
  if (stride != 1 || input.shape[1] != channels)
    shortcut = normalized(builder, name + "/shortcut", input, channels, {1, stride});
  return relu(builder, builder.join(name + "/add", "Add", layer, shortcut.name));
}

/// He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, 2015; with the stride in the 3x3 convolution, as
/// is usual now. Wider inner layers after Zagoruyko, Komodakis: Wide Residual Networks, 2016.
onnx::ModelProto buildResnet(ModelBuilder &builder) {
  static constexpr int64_t blocks[] = {3, 4, 6, 3};
  int64_t size = builder["image-size"], channels = 64;
  Layer layer = builder.input("input", {builder["batch"], 3, size, size});
  layer = relu(builder, normalized(builder, "conv1", layer, channels, {7, 2, 3}));
  layer = builder.pool("pool1", layer, "MaxPool", {3, 2, 1});
  for (int64_t stage = 0; stage < 4; ++stage, channels *= 2) {
    // 101 layers: 23 blocks in the third stage.
    int64_t count = stage == 2 && builder["layers"] == 101 ? 23 : blocks[stage];
    for (int64_t i = 0; i < count; ++i)
      layer = bottleneck(builder, "stage" + std::to_string(stage + 1) + "/block" + std::to_string(i), layer,
                         channels * builder["width"], channels * 4, i == 0 && stage > 0 ? 2 : 1);
  }
  layer = builder.flatten("flatten", builder.globalAverage("pool", layer));
  return builder.finish("output", builder.dense("fc", layer, builder["classes"]));
}

/// Ronneberger, Fischer, Brox: U-Net: Convolutional Networks for Biomedical Image Segmentation, 2015; with padded
/// convolutions, so that the result is as large as the image.
onnx::ModelProto buildUnet(ModelBuilder &builder) {
  constexpr int64_t depth = 4;
  auto twice = [&](const std::string &name, const Layer &input, int64_t channels) {
    Layer first = relu(builder, builder.conv(name + "/conv1", input, channels, {3, 1, 1}));
    return relu(builder, builder.conv(name + "/conv2", first, channels, {3, 1, 1}));
  };
  int64_t size = builder["image-size"], channels = builder["features"];
  Layer layer = builder.input("input", {builder["batch"], builder["channels"], size, size});
  std::vector<Layer> skips;
  for (int64_t i = 0; i < depth; ++i, channels *= 2) {
    skips.push_back(twice("down" + std::to_string(i), layer, channels));
    layer = builder.pool("down" + std::to_string(i) + "/pool", skips.back(), "MaxPool", {2, 2});
  }
  layer = twice("bottom", layer, channels);
  for (int64_t i = depth - 1; i >= 0; --i) {
    channels /= 2;
    std::string name = "up" + std::to_string(i);
    Layer larger = builder.upConv(name + "/upconv", layer, channels, 2);
    layer = twice(name, builder.concat(name + "/concat", {skips[static_cast<size_t>(i)], larger}), channels);
  }
  return builder.finish("output", builder.conv("head", layer, builder["classes"], {1}));
}

} // namespace cleave
