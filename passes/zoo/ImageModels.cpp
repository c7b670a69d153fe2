// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The zoo's multilayer perceptron and convolutional networks.

#include "passes/zoo/ModelBuilder.h"

namespace cleave {

onnx::ModelProto buildMlp(ModelBuilder &builder) {
  Layer layer = builder.input("input", {builder["batch"], builder["inputs"]});
  for (int64_t i = 1; i < builder["layers"]; ++i)
    layer = relu(builder, builder.dense("fc" + std::to_string(i), layer, builder["hidden"]));
  layer = builder.dense("fc" + std::to_string(builder["layers"]), layer, builder["classes"]);
  return builder.finish("output", layer);
}

/// LeNet for images of 28 x 28, in the variant with rectifiers and average pools.
onnx::ModelProto buildLenet(ModelBuilder &builder) {
  builder.setDeviation(0.01);
  Layer layer = builder.input("input", {builder["batch"], 1, 28, 28});
  layer = relu(builder, builder.conv("conv1", layer, 20, {3}));
  layer = builder.pool("pool1", layer, "AveragePool", {2, 2});
  layer = relu(builder, builder.conv("conv2", layer, 50, {5}));
  layer = builder.pool("pool2", layer, "AveragePool", {2, 2});
  layer = relu(builder, builder.dense("fc1", builder.flatten("flatten", layer), 128));
  return builder.finish("output", builder.dense("fc2", layer, builder["classes"]));
}

/// Krizhevsky, Sutskever, Hinton: ImageNet Classification with Deep Convolutional Neural Networks, 2012.
onnx::ModelProto buildAlexnet(ModelBuilder &builder) {
  auto reduced = [&](const std::string &index, const Layer &input) {
    Layer normal = builder.normalizeResponse("norm" + index, relu(builder, input), 5, 1e-4f, 0.75f);
    return builder.pool("pool" + index, normal, "MaxPool", {3, 2});
  };
  auto hidden = [&](const std::string &index, const Layer &input) {
    return builder.apply("drop" + index, "Dropout", relu(builder, builder.dense("fc" + index, input, 4096)));
  };
  Layer layer = builder.input("input", {builder["batch"], 3, 224, 224});
  layer = reduced("1", builder.conv("conv1", layer, 96, {11, 4, 2}));
  layer = reduced("2", builder.conv("conv2", layer, 256, {5, 1, 2}, 2));
  layer = relu(builder, builder.conv("conv3", layer, 384, {3, 1, 1}));
  layer = relu(builder, builder.conv("conv4", layer, 384, {3, 1, 1}, 2));
  layer = relu(builder, builder.conv("conv5", layer, 256, {3, 1, 1}, 2));
  layer = builder.flatten("flatten", builder.pool("pool5", layer, "MaxPool", {3, 2}));
  layer = builder.dense("fc8", hidden("7", hidden("6", layer)), builder["classes"]);
  return builder.finish("output", builder.apply("softmax", "Softmax", layer));
}

/// Simonyan, Zisserman: Very Deep Convolutional Networks for Large-Scale Image Recognition, 2014, configuration D.
onnx::ModelProto buildVgg16(ModelBuilder &builder) {
  static constexpr int64_t channels[] = {64, 128, 256, 512, 512}, convolutions[] = {2, 2, 3, 3, 3};
  int64_t size = builder["image-size"];
  Layer layer = builder.input("input", {builder["batch"], 3, size, size});
  for (int64_t stage = 0; stage < 5; ++stage) {
    std::string name = std::to_string(stage + 1);
    for (int64_t i = 0; i < convolutions[stage]; ++i)
      layer =
          relu(builder, builder.conv("conv" + name + "_" + std::to_string(i + 1), layer, channels[stage], {3, 1, 1}));
    layer = builder.pool("pool" + name, layer, "MaxPool", {2, 2});
  }
  layer = builder.flatten("flatten", layer);
  for (const char *name : {"6", "7"}) {
    layer = relu(builder, builder.dense(std::string("fc") + name, layer, 4096));
    layer = builder.apply(std::string("drop") + name, "Dropout", layer);
  }
  return builder.finish("output", builder.dense("fc8", layer, builder["classes"]));
}

namespace {
/// Channels of an inception module's branches: 1x1; 3x3 and the reduction before it; 5x5 likewise; after the pool.
struct Inception {
  const char *name;
  int64_t one, threeReduce, three, fiveReduce, five, pool;
  bool poolAfter;
};
} // namespace

static Layer inception(ModelBuilder &builder, const Layer &input, const Inception &size) {
  std::string name = std::string("inception_") + size.name + "/";
  auto conv = [&](const std::string &part, const Layer &from, int64_t channels, Slide slide) {
    return relu(builder, builder.conv(name + part, from, channels, slide));
  };
  Layer one = conv("1x1", input, size.one, {1});
  Layer three = conv("3x3", conv("3x3_reduce", input, size.threeReduce, {1}), size.three, {3, 1, 1});
  Layer five = conv("5x5", conv("5x5_reduce", input, size.fiveReduce, {1}), size.five, {5, 1, 2});
  Layer pool = conv("pool_proj", builder.pool(name + "pool", input, "MaxPool", {3, 1, 1}), size.pool, {1});
  Layer output = builder.concat(name + "output", {one, three, five, pool});
  if (!size.poolAfter)
    return output;
  return builder.pool(std::string("pool_") + size.name, output, "MaxPool", {3, 2, 0, /*ceil=*/true});
}

/// Szegedy et al.: Going Deeper with Convolutions, 2014, table 1, without the auxiliary classifiers.
onnx::ModelProto buildInception(ModelBuilder &builder) {
  static constexpr Inception modules[] = {
      {"3a", 64, 96, 128, 16, 32, 32, false},    {"3b", 128, 128, 192, 32, 96, 64, true},
      {"4a", 192, 96, 208, 16, 48, 64, false},   {"4b", 160, 112, 224, 24, 64, 64, false},
      {"4c", 128, 128, 256, 24, 64, 64, false},  {"4d", 112, 144, 288, 32, 64, 64, false},
      {"4e", 256, 160, 320, 32, 128, 128, true}, {"5a", 256, 160, 320, 32, 128, 128, false},
      {"5b", 384, 192, 384, 48, 128, 128, false}};
  Slide halve = {3, 2, 0, /*ceil=*/true};
  Layer layer = builder.input("input", {builder["batch"], 3, builder["image-size"], builder["image-size"]});
  layer = relu(builder, builder.conv("conv1", layer, 64, {7, 2, 3}));
  layer = builder.pool("pool1", layer, "MaxPool", halve);
  layer = builder.normalizeResponse("norm1", layer, 5, 1e-4f, 0.75f);
  layer = relu(builder, builder.conv("conv2_reduce", layer, 64, {1}));
  layer = relu(builder, builder.conv("conv2", layer, 192, {3, 1, 1}));
  layer = builder.normalizeResponse("norm2", layer, 5, 1e-4f, 0.75f);
  layer = builder.pool("pool2", layer, "MaxPool", halve);
  for (const Inception &module : modules)
    layer = inception(builder, layer, module);
  layer = builder.flatten("flatten", builder.globalAverage("pool5", layer));
  layer = builder.dense("fc", builder.apply("drop", "Dropout", layer), builder["classes"]);
  return builder.finish("output", builder.apply("softmax", "Softmax", layer));
}

} // namespace cleave
