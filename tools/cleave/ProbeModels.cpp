// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the models that are measured.

#include "tools/cleave/ProbeModels.h"

#include "passes/zoo/ModelBuilder.h"

namespace cleave::tool {
namespace {

/// A model with one number as input.
class ProbeModel {
public:
  explicit ProbeModel(const std::string &name) : builder(name, ZooOptions(), {}), one(builder.input("one", {1})) {}

  /// An activation that is there when the model runs, just written. `name` has no sample's prefix.
  Layer fresh(const std::string &name, const std::vector<int64_t> &shape) {
    std::string table = builder.weight("fresh/" + name + ".table", shape, 1);
    Layer result{table, shape};
    return builder.join("fresh/" + name, "Add", result, one.name);
  }

  /// What the model does not need it leaves out: every end is an output, but only a few of its elements.
  void finish(const std::string &name, const Layer &layer) {
    std::vector<int64_t> starts(layer.shape.size(), 0), ends(layer.shape.size(), 1);
    builder.node("Slice", "end/" + name,
                 {layer.name, builder.integers("end/" + name + ".starts", starts),
                  builder.integers("end/" + name + ".ends", ends)});
    results.push_back({"end/" + name, ends});
  }

  onnx::ModelProto build() {
    for (size_t i = 0; i + 1 < results.size(); ++i)
      builder.addOutput(results[i].name + ".output", results[i]);
    return builder.finish("output", results.back());
  }

  ModelBuilder builder;

private:
  Layer one;
  std::vector<Layer> results;
};

std::string shapeName(std::initializer_list<int64_t> sizes) {
  std::string name;
  for (int64_t size : sizes)
    name += (name.empty() ? "" : "x") + std::to_string(size);
  return name;
}

struct Product {
  int64_t rows, depth, columns;
};
constexpr Product products[] = {{32, 32, 32},      {16, 64, 64},      {64, 64, 64},    {8, 256, 256},
                                {128, 128, 128},   {32, 512, 512},    {256, 256, 256}, {197, 192, 768},
                                {64, 1024, 1024},  {512, 512, 512},   {197, 768, 768}, {1024, 256, 1024},
                                {128, 2048, 2048}, {1024, 1024, 1024}};
constexpr int64_t matrices[] = {128, 256, 512, 1024, 2048, 4096};

struct Convolution {
  int64_t batch, channels, size, filters, window, stride;
};
constexpr Convolution convolutions[] = {
    {1, 8, 16, 8, 3, 1},     {1, 32, 14, 64, 1, 1},  {1, 16, 32, 16, 3, 1},   {4, 20, 12, 50, 5, 1},
    {1, 32, 28, 96, 1, 1},   {1, 64, 28, 64, 3, 1},  {1, 256, 14, 64, 1, 1},  {1, 64, 56, 256, 1, 1},
    {1, 512, 28, 128, 1, 1}, {1, 3, 224, 64, 7, 2},  {1, 64, 56, 64, 3, 1},   {1, 128, 28, 128, 3, 1},
    {1, 256, 14, 256, 3, 1}, {1, 512, 7, 512, 3, 1}, {4, 64, 56, 64, 3, 1},   {1, 64, 112, 128, 3, 1},
    {1, 64, 224, 64, 3, 1},  {1, 64, 56, 64, 3, 2},  {1, 128, 56, 128, 3, 2}, {1, 256, 28, 256, 3, 2},
    {1, 64, 112, 128, 3, 2}, {4, 64, 56, 64, 5, 1}};

} // namespace

onnx::ModelProto buildProducts() {
  ProbeModel model("products");
  auto add = [&](const std::string &prefix, const Product &product) {
    std::string name = shapeName({product.rows, product.depth, product.columns});
    Layer layer = model.fresh(name, {product.rows, product.depth});
    model.finish(name, model.builder.dense(prefix + name, layer, product.columns));
  };
  for (const Product &product : products)
    add("contraction/", product);
  for (int64_t size : matrices)
    add("streaming/", {1, size, size});
  // Products of activations, as in attention.
  for (int64_t sequence : {64, 128, 256}) {
    std::string name = "attention" + std::to_string(sequence);
    Layer queries = model.fresh(name + ".queries", {8, sequence, 64});
    Layer keys = model.fresh(name + ".keys", {8, 64, sequence});
    model.finish(name, model.builder.matmul("contraction/" + name, queries, keys));
  }
  return model.build();
}

onnx::ModelProto buildConvolutions() {
  ProbeModel model("convolutions");
  for (const Convolution &conv : convolutions) {
    std::string name = shapeName({conv.batch, conv.channels, conv.size, conv.filters, conv.window, conv.stride});
    Layer layer = model.fresh(name, {conv.batch, conv.channels, conv.size, conv.size});
    bool isSmallWindow = conv.window == 3 && conv.stride == 1 && conv.channels >= 16;
    layer = model.builder.conv((isSmallWindow ? "winograd/" : "convolution/") + name, layer, conv.filters,
                               {conv.window, conv.stride, conv.window / 2});
    model.finish(name, model.builder.pool("reduction/pool." + name, layer, "MaxPool", {3, 2, 1}));
  }
  return model.build();
}

onnx::ModelProto buildMovements() {
  ProbeModel model("movements");
  for (int64_t size = 4; size <= 512; size *= 2) {
    std::string name = std::to_string(size);
    Layer layer = model.fresh(name, {size, size, 64});
    layer = model.builder.apply("reduction/softmax." + name, "Softmax", layer);
    layer = model.builder.transpose("movement/heads." + name, layer, {1, 0, 2});
    layer = model.builder.apply("elementwise/relu." + name, "Relu", layer);
    layer = model.builder.transpose("movement/inner." + name, layer, {0, 2, 1});
    layer = model.builder.apply("elementwise/sigmoid." + name, "Sigmoid", layer);
    Layer moved = model.builder.transpose("movement/outer." + name, layer, {0, 2, 1});
    Layer norm = model.builder.layerNorm("reduction/norm." + name, moved);
    layer = model.builder.transpose("movement/back." + name, norm, {1, 0, 2});
    model.finish(name, model.builder.join("elementwise/add." + name, "Add", layer, moved.name));
  }
  return model.build();
}

onnx::ModelProto buildLaunches() {
  ProbeModel model("launches");
  Layer layer = model.fresh("start", {4, 16});
  for (int i = 0; i < 32; ++i)
    layer = model.builder.apply("launch/" + std::to_string(i), "Softmax", layer);
  model.finish("chain", layer);
  return model.build();
}

onnx::ModelProto buildNeighbours() {
  ProbeModel model("neighbours");
  for (const std::string side : {"left/", "right/"}) {
    Layer rows = model.fresh(side + "rows", {256, 768});
    Layer image = model.fresh(side + "image", {1, 64, 56, 56});
    Layer table = model.fresh(side + "table", {256, 64, 64});
    for (int i = 0; i < 6; ++i) {
      std::string name = std::to_string(i);
      rows = model.builder.dense(side + "product" + name, rows, 768);
      image = model.builder.conv(side + "convolution" + name, image, 64, {3, 1, 1});
      table = model.builder.apply(side + "softmax" + name, "Softmax", table);
    }
    model.finish(side + "rows", rows);
    model.finish(side + "image", image);
    model.finish(side + "table", table);
  }
  return model.build();
}

onnx::ModelProto buildOverlap() {
  ProbeModel model("overlap");
  Layer rows = model.fresh("rows", {256, 768});
  for (int i = 0; i < 4; ++i) {
    std::string name = std::to_string(i);
    Layer table{model.builder.filled("give/" + name + ".table", {4096, 1024}, 1), {4096, 1024}};
    Layer given = model.builder.join("give/" + name, "Add", table, "one");
    Layer taken = model.builder.transpose("take/" + name, given, {1, 0});
    model.finish("take/" + name, taken);
    for (int j = 0; j < 3; ++j)
      rows = model.builder.dense("work/" + name + "." + std::to_string(j), rows, 768);
  }
  model.finish("rows", rows);
  return model.build();
}

onnx::ModelProto buildTransfers(int64_t bytes) {
  ProbeModel model("transfers");
  Layer layer = model.fresh("start", {bytes / 4 / 64, 64});
  for (int i = 0; i < 12; ++i)
    layer = model.builder.apply((i % 2 ? "odd/" : "even/") + std::to_string(i), "Relu", layer);
  model.finish("chain", layer);
  return model.build();
}

onnx::ModelProto buildReductions(int64_t bytes) {
  ProbeModel model("reductions");
  Layer layer = model.fresh("start", {bytes / 4});
  for (int i = 0; i < 6; ++i) {
    std::string name = std::to_string(i);
    std::string table = model.builder.filled("spread/" + name + ".table", {2, bytes / 4}, 1);
    Layer both = model.builder.join("spread/" + name, "Add", {table, {2, bytes / 4}}, layer.name);
    std::string axes = model.builder.integers("sum/" + name + ".axes", {0});
    onnx::NodeProto &sum = model.builder.node("ReduceSum", "sum/" + name, {both.name, axes});
    setInt(sum, "keepdims", 0);
    layer = {"sum/" + name, {bytes / 4}};
  }
  model.finish("chain", layer);
  return model.build();
}

} // namespace cleave::tool
