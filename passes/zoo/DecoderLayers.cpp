// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/zoo/DecoderLayers.h"

#include <limits>

namespace cleave {

Layer tokens(ModelBuilder &builder, const std::string &name, std::vector<int64_t> shape) {
  return builder.input(name, std::move(shape), onnx::TensorProto::INT64);
}

Layer floatRange(ModelBuilder &builder, const std::string &name, int64_t count, std::vector<int64_t> shape) {
  std::string first = builder.number(name + ".first", 0.0f), step = builder.number(name + ".step", 1.0f);
  std::string last = builder.number(name + ".last", static_cast<float>(count));
  builder.node("Range", name + ".range", {first, last, step});
  return builder.reshape(name, {name + ".range", {count}}, std::move(shape));
}

Mask causalMask(ModelBuilder &builder, int64_t sequence, const std::string &name, int64_t window) {
  auto range = [&](const std::string &positions, std::vector<int64_t> shape) {
    std::string zero = builder.integers(positions + ".first", {0}), one = builder.integers(positions + ".step", {1});
    std::string last = builder.integers(positions + ".last", {sequence});
    for (std::string *bound : {&zero, &last, &one}) {
      builder.node("Squeeze", *bound + ".number", {*bound});
      *bound += ".number";
    }
    builder.node("Range", positions + ".range", {zero, last, one});
    return builder.reshape(positions, {positions + ".range", {sequence}}, std::move(shape));
  };
  Layer rows = range(name + "/query", {sequence, 1}), columns = range(name + "/key", {1, sequence});
  std::string visible = name + "/visible", before = window ? name + "/before" : visible;
  builder.node("LessOrEqual", before, {columns.name, rows.name});
  if (window) {
    builder.node("Sub", name + "/hidden", {rows.name, builder.integers(name + "/window", {window})});
    builder.node("Less", name + "/near", {name + "/hidden", columns.name});
    builder.node("And", visible, {before, name + "/near"});
  }
  std::string lowest = builder.number(name + "/lowest", -std::numeric_limits<float>::infinity());
  return [&builder, visible, lowest](const std::string &masked, const Layer &scores) {
    builder.node("Where", masked, {visible, scores.name, lowest});
    return Layer{masked, scores.shape};
  };
}

Layer languageHead(ModelBuilder &builder, const Layer &input) {
  int64_t vocabulary = builder["vocabulary"], hidden = input.shape[2];
  if (!builder["tied"])
    return builder.dense("head", input, vocabulary, /*bias=*/false);
  Layer table = {"embedding/tokens.weight", {vocabulary, hidden}};
  return builder.matmul("head", input, builder.transpose("head.weight", table, {1, 0}));
}

} // namespace cleave
