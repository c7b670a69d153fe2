// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The zoo's language models: LSTMs and transformers with learned positions or linear biases. Blocks are numbered from
// 0; the nodes of block 3 are named block3/attention/query, block3/mlp/fc1 and so on, for placement files to match
// (docs/guide.md lists them).

#include "passes/zoo/DecoderLayers.h"

#include <cmath>

namespace cleave {

/// An embedding, layers of LSTM, and a decoder, as in Zaremba, Sutskever, Vinyals: Recurrent Neural Network
/// Regularization, 2014.
onnx::ModelProto buildLstm(ModelBuilder &builder) {
  builder.setDeviation(0.05);
  int64_t hidden = builder["hidden"];
  Layer layer =
      builder.input("tokens", {builder["batch"], builder["sequence"]}, onnx::TensorProto::INT64, {"batch", "sequence"});
  layer = builder.transpose("steps", layer, {1, 0});
  layer = builder.embedding("embedding", layer, builder["vocabulary"], hidden);
  for (int64_t i = 1; i <= builder["layers"]; ++i)
    layer = builder.lstm("lstm" + std::to_string(i), layer, hidden);
  layer = builder.dense("decoder", layer, builder["vocabulary"]);
  return builder.finish("output", builder.transpose("samples", layer, {1, 0, 2}), {"batch", "sequence"});
}

//===-- transformers ------------------------------------------------------------------------------------------===//

/// batch x sequence x hidden as batch x heads x sequence x size (or, transposed, x size x sequence).
static Layer splitHeads(ModelBuilder &builder, const Layer &input, int64_t heads, bool transposed = false) {
  int64_t batch = input.shape[0], sequence = input.shape[1], hidden = input.shape[2];
  Layer apart = builder.reshape(input.name + ".heads", input, {batch, sequence, heads, hidden / heads});
  return builder.transpose(input.name + ".transpose", apart,
                           transposed ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3});
}

/// Scaled dot-product attention of many heads (Vaswani et al.: Attention Is All You Need, 2017). Queries, keys and
/// values are three products, so that a split of their columns is a split of the heads.
static Layer attention(ModelBuilder &builder, const std::string &name, const Layer &input, const Mask &mask) {
  int64_t hidden = input.shape[2], heads = builder["heads"];
  Layer query = splitHeads(builder, builder.dense(name + "/query", input, hidden), heads);
  Layer key = splitHeads(builder, builder.dense(name + "/key", input, hidden), heads, /*transposed=*/true);
  Layer value = splitHeads(builder, builder.dense(name + "/value", input, hidden), heads);
  std::string root = builder.number(name + "/scale.root", std::sqrt(static_cast<float>(hidden / heads)));
  Layer scores = builder.join(name + "/scale", "Div", builder.matmul(name + "/scores", query, key), root);
  Layer weights = builder.apply(name + "/softmax", "Softmax", mask(name + "/mask", scores));
  weights = builder.dropout(name + "/dropout", weights);
  Layer context = builder.matmul(name + "/context", weights, value);
  context = builder.transpose(name + "/context.transpose", context, {0, 2, 1, 3});
  context = builder.reshape(name + "/context.merge", context, input.shape);
  return builder.dropout(name + "/output.dropout", builder.dense(name + "/output", context, hidden));
}

static Layer mlp(ModelBuilder &builder, const std::string &name, const Layer &input) {
  int64_t hidden = input.shape[2];
  Layer inner = builder.dense(name + "/fc1", input, 4 * hidden);
  return builder.dropout(name + "/dropout",
                         builder.dense(name + "/fc2", builder.apply(name + "/gelu", "Gelu", inner), hidden));
}

/// `count` numbers, 2^(-step (first + i stride)) for i from 0: heads x 1 x 1.
static Layer powersOfHalf(ModelBuilder &builder, const std::string &name, int64_t count, float step, float first,
                          float stride) {
  Layer index = floatRange(builder, name + ".index", count, {count, 1, 1});
  float log = -step * std::log(2.0f);
  builder.node("Mul", name + ".scaled", {index.name, builder.number(name + ".stride", log * stride)});
  builder.node("Add", name + ".moved", {name + ".scaled", builder.number(name + ".first", log * first)});
  builder.node("Exp", name, {name + ".moved"});
  return {name, {count, 1, 1}};
}

/// Press et al.: Train Short, Test Long, 2022: scores of far keys are less, by a slope of each head's own, in the place
/// of positions that are learned. Slopes are a geometric sequence for the largest power of two of heads; heads beyond
/// that have every other slope of the sequence for twice as many.
static Mask linearBiases(ModelBuilder &builder, const Mask &mask) {
  int64_t heads = builder["heads"], sequence = builder["sequence"], even = 1;
  while (2 * even <= heads)
    even *= 2;
  float step = 8.0f / static_cast<float>(even);
  Layer slopes = powersOfHalf(builder, "alibi/slopes", even, step, 1, 1);
  if (even != heads) {
    Layer more = powersOfHalf(builder, "alibi/more-slopes", heads - even, step / 2, 1, 2);
    setInt(builder.node("Concat", "alibi/all-slopes", {slopes.name, more.name}), "axis", 0);
    slopes = {"alibi/all-slopes", {heads, 1, 1}};
  }
  // Of two keys only the difference counts: positions do as well as distances.
  Layer keys = floatRange(builder, "alibi/key", sequence, {1, 1, sequence});
  builder.node("Mul", "alibi/bias", {slopes.name, keys.name});
  return [&builder, mask](const std::string &name, const Layer &scores) {
    return mask(name, builder.join(name + "/alibi", "Add", scores, "alibi/bias"));
  };
}

/// Tokens looked up, and positions that are learned, unless attention tells them.
static Layer embedTokens(ModelBuilder &builder, const Layer &ids) {
  int64_t hidden = builder["hidden"], sequence = builder["sequence"];
  Layer layer = builder.embedding("embedding/tokens", ids, builder["vocabulary"], hidden);
  if (!builder.has("alibi"))
    layer = builder.addTable("embedding/positions", layer, {sequence, hidden});
  return builder.dropout("embedding/dropout", layer);
}

/// What stands in the place of a block's MLP.
using FeedForward = Layer (*)(ModelBuilder &builder, const std::string &block, const Layer &input);

/// Pre-norm decoder blocks around whatever stands in the place of the MLP.
static onnx::ModelProto buildDecoder(ModelBuilder &builder, FeedForward feedForward) {
  builder.setVersion(20, 9);
  builder.setDeviation(0.02);
  Layer layer = embedTokens(builder, tokens(builder, "tokens", {builder["batch"], builder["sequence"]}));
  Mask mask = causalMask(builder, builder["sequence"]);
  if (builder.has("alibi"))
    mask = linearBiases(builder, mask);
  for (int64_t i = 0; i < builder["layers"]; ++i) {
    std::string name = "block" + std::to_string(i);
    Layer attended = attention(builder, name + "/attention", builder.layerNorm(name + "/norm1", layer), mask);
    layer = builder.join(name + "/attention/residual", "Add", attended, layer.name);
    Layer changed = feedForward(builder, name, builder.layerNorm(name + "/norm2", layer));
    layer = builder.join(name + "/residual", "Add", changed, layer.name);
  }
  return builder.finish("output", languageHead(builder, builder.layerNorm("norm", layer)));
}

/// Radford et al.: Language Models are Unsupervised Multitask Learners, 2019.
onnx::ModelProto buildGpt(ModelBuilder &builder) {
  return buildDecoder(builder, [](ModelBuilder &inner, const std::string &name, const Layer &input) {
    return mlp(inner, name + "/mlp", input);
  });
}

//===-- encoders ----------------------------------------------------------------------------------------------===//

/// Devlin et al.: BERT, 2018: post-norm encoder blocks and the pooler over the first token. "mask" is 1 for tokens and
/// 0 for padding.
onnx::ModelProto buildBert(ModelBuilder &builder) {
  builder.setVersion(20, 9);
  builder.setDeviation(0.02);
  int64_t batch = builder["batch"], sequence = builder["sequence"], hidden = builder["hidden"];
  Layer ids = tokens(builder, "tokens", {batch, sequence}), segments = tokens(builder, "segments", {batch, sequence});
  Layer present = builder.input("mask", {batch, sequence}, onnx::TensorProto::BOOL);
  Layer layer = embedTokens(builder, ids);
  Layer kinds = builder.embedding("embedding/segments", segments, 2, hidden);
  layer = builder.layerNorm("embedding/norm", builder.join("embedding/add", "Add", layer, kinds.name));
  Layer visible = builder.reshape("mask/visible", present, {batch, 1, 1, sequence});
  std::string lowest = builder.number("mask/lowest", -10000.0f);
  Mask mask = [&](const std::string &name, const Layer &scores) {
    builder.node("Where", name, {visible.name, scores.name, lowest});
    return Layer{name, scores.shape};
  };
  for (int64_t i = 0; i < builder["layers"]; ++i) {
    std::string name = "block" + std::to_string(i);
    Layer attended = attention(builder, name + "/attention", layer, mask);
    layer = builder.layerNorm(name + "/norm1", builder.join(name + "/attention/residual", "Add", attended, layer.name));
    Layer changed = mlp(builder, name + "/mlp", layer);
    layer = builder.layerNorm(name + "/norm2", builder.join(name + "/residual", "Add", changed, layer.name));
  }
  std::string first = builder.integers("pooler/first.index", {0});
  setInt(builder.node("Gather", "pooler/first", {layer.name, first}), "axis", 1);
  Layer pooled = builder.reshape("pooler/token", {"pooler/first", {batch, 1, hidden}}, {batch, hidden});
  builder.addOutput("output", layer);
  return builder.finish("pooled", builder.apply("pooler/tanh", "Tanh", builder.dense("pooler/fc", pooled, hidden)));
}

//===-- mixture of experts ------------------------------------------------------------------------------------===//

/// The share of every expert in every token: softmax's values for the best `top` experts, found one after the other,
/// and zero for all others.
static Layer routeTokens(ModelBuilder &builder, const std::string &name, const Layer &tokens, int64_t experts) {
  Layer logits = builder.dense(name, tokens, experts, /*bias=*/false);
  Layer shares = builder.apply(name + ".softmax", "Softmax", logits);
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < experts; ++i)
    positions.push_back(i);
  std::string all = builder.integers(name + ".experts", positions);
  std::string zero = builder.number(name + ".zero", 0.0f), taken = builder.number(name + ".taken", -1.0f);
  Layer left = shares, chosen;
  for (int64_t i = 0; i < builder["top"]; ++i) {
    std::string round = name + ".choice" + std::to_string(i);
    setInt(builder.node("ArgMax", round + ".best", {left.name}), "axis", -1);
    builder.node("Equal", round + ".mask", {round + ".best", all});
    builder.node("Where", round, {round + ".mask", shares.name, zero});
    chosen = i == 0 ? Layer{round, shares.shape} : builder.join(round + ".sum", "Add", chosen, round);
    builder.node("Where", round + ".rest", {round + ".mask", taken, left.name});
    left = {round + ".rest", shares.shape};
  }
  return chosen;
}

/// Every expert computes all tokens, in products whose batch is the experts, and a token's result is the sum of the
/// chosen ones' by their shares.
static Layer mixture(ModelBuilder &builder, const std::string &block, const Layer &input) {
  std::string name = block + "/moe";
  int64_t hidden = input.shape[2], count = input.shape[0] * input.shape[1], experts = builder["experts"];
  int64_t inner = 4 * hidden;
  Layer tokens = builder.reshape(name + "/tokens", input, {count, hidden});
  Layer shares = routeTokens(builder, name + "/gate", tokens, experts);
  auto expertWeight = [&](const std::string &weight, int64_t inputs, int64_t units) {
    return Layer{builder.weight(weight, {experts, inputs, units}, inputs), {experts, inputs, units}};
  };
  auto bias = [&](const std::string &fc, const Layer &product, int64_t units) {
    return builder.join(fc + ".add", "Add", product, builder.filled(fc + ".bias", {experts, 1, units}, 0.0f));
  };
  std::string fc1 = name + "/fc1", fc2 = name + "/fc2";
  Layer layer = builder.matmul(fc1, tokens, expertWeight(fc1 + ".weight", hidden, inner));
  layer = builder.apply(name + "/gelu", "Gelu", bias(fc1, layer, inner));
  layer = builder.matmul(fc2, layer, expertWeight(fc2 + ".weight", inner, hidden));
  layer = bias(fc2, layer, hidden);
  Layer factors = builder.reshape(name + "/combine.shares",
                                  builder.transpose(name + "/combine.transpose", shares, {1, 0}), {experts, count, 1});
  layer = builder.join(name + "/combine", "Mul", layer, factors.name);
  onnx::NodeProto &sum =
      builder.node("ReduceSum", name + "/sum", {layer.name, builder.integers(name + "/sum.axes", {0})});
  setInt(sum, "keepdims", 0);
  return builder.reshape(name + "/output", {name + "/sum", {count, hidden}}, input.shape);
}

/// The decoder with a mixture of experts in the place of every MLP (Shazeer et al.: Outrageously Large Neural Networks,
/// 2017; Fedus, Zoph, Shazeer: Switch Transformers, 2021).
onnx::ModelProto buildMoe(ModelBuilder &builder) { return buildDecoder(builder, mixture); }

} // namespace cleave
