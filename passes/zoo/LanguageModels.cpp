// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The zoo's language models: LSTMs and transformers. Blocks are numbered from 0; the nodes of block 3 are named
// block3/attention/query, block3/mlp/fc1 and so on, for placement files to match (docs/guide.md lists them).

#include "passes/zoo/ModelBuilder.h"

#include <cmath>
#include <functional>
#include <limits>

namespace cleave {

static Layer tokens(ModelBuilder &builder, const std::string &name, std::vector<int64_t> shape) {
  return builder.input(name, std::move(shape), onnx::TensorProto::INT64);
}

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

/// What a query may not attend to, by `apply` to the scores.
using Mask = std::function<Layer(const std::string &name, const Layer &scores)>;

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

/// 0, 1, 2, … as float32 of a shape.
static Layer floatRange(ModelBuilder &builder, const std::string &name, int64_t count, std::vector<int64_t> shape) {
  std::string first = builder.number(name + ".first", 0.0f), step = builder.number(name + ".step", 1.0f);
  std::string last = builder.number(name + ".last", static_cast<float>(count));
  builder.node("Range", name + ".range", {first, last, step});
  return builder.reshape(name, {name + ".range", {count}}, std::move(shape));
}

/// A mask under which no query attends to later keys, and with a window only to as many as it has, its own the last.
/// The positions are compared in the graph: no table of their pairs is in the file.
static Mask causalMask(ModelBuilder &builder, int64_t sequence, const std::string &name = "mask", int64_t window = 0) {
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

/// The product with the embedding's table, or with a table of its own.
static Layer languageHead(ModelBuilder &builder, const Layer &input) {
  int64_t vocabulary = builder["vocabulary"], hidden = input.shape[2];
  if (!builder["tied"])
    return builder.dense("head", input, vocabulary, /*bias=*/false);
  Layer table = {"embedding/tokens.weight", {vocabulary, hidden}};
  return builder.matmul("head", input, builder.transpose("head.weight", table, {1, 0}));
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

//===-- llama -------------------------------------------------------------------------------------------------===//

namespace {
/// Cosines and sines of every position (sequence x 1 x pairs).
struct RotaryTables {
  std::string cosine, sine;
};
} // namespace

/// Position p turns pair i by p base^(-2i / size) (Su et al.: RoFormer, 2021); computed in the graph: no table of the
/// positions is in the file.
static RotaryTables rotaryTables(ModelBuilder &builder, int64_t size) {
  constexpr float base = 500000.0f;
  int64_t sequence = builder["sequence"], pairs = size / 2;
  Layer positions = floatRange(builder, "rotary/position", sequence, {sequence, 1, 1});
  Layer exponents = floatRange(builder, "rotary/pair", pairs, {1, 1, pairs});
  builder.node("Mul", "rotary/exponent",
               {exponents.name, builder.number("rotary/log", -2.0f * std::log(base) / static_cast<float>(size))});
  builder.node("Exp", "rotary/frequency", {"rotary/exponent"});
  builder.node("Mul", "rotary/angle", {positions.name, "rotary/frequency"});
  builder.node("Cos", "rotary/cosine", {"rotary/angle"});
  builder.node("Sin", "rotary/sine", {"rotary/angle"});
  return {"rotary/cosine", "rotary/sine"};
}

/// Turns the pairs of the last dimension, element i and element i + size / 2.
static Layer rotate(ModelBuilder &builder, const Layer &input, const RotaryTables &tables) {
  const std::string &name = input.name;
  std::string first = name + ".first", second = name + ".second";
  onnx::NodeProto &split = builder.node("Split", first, {name});
  split.add_output(second);
  setInt(split, "axis", -1);
  setInt(split, "num_outputs", 2);
  auto times = [&](const std::string &part, const std::string &table, const std::string &result) {
    builder.node("Mul", result, {part, table});
    return result;
  };
  std::string turned = name + ".turned";
  builder.node("Sub", turned + ".first",
               {times(first, tables.cosine, turned + ".cc"), times(second, tables.sine, turned + ".ss")});
  builder.node("Add", turned + ".second",
               {times(second, tables.cosine, turned + ".cs"), times(first, tables.sine, turned + ".sc")});
  setInt(builder.node("Concat", turned, {turned + ".first", turned + ".second"}), "axis", -1);
  return {turned, input.shape};
}

static int64_t headSize(ModelBuilder &builder) {
  return builder["head-size"] ? builder["head-size"] : builder["hidden"] / builder["heads"];
}

/// Attention in which several heads of queries share one of keys and values (Ainslie et al.: GQA, 2023), which products
/// repeat; normalized by heads (Henry et al.: Query-Key Normalization for Transformers, 2020) where asked: batch x
/// groups x heads of a group x sequence x size. Groups, heads and positions stay dimensions of their own, so that each
/// can be divided.
static Layer groupedAttention(ModelBuilder &builder, const std::string &name, const Layer &input,
                              const RotaryTables &tables, const Mask &mask) {
  int64_t batch = input.shape[0], sequence = input.shape[1], hidden = input.shape[2];
  int64_t heads = builder["heads"], groups = builder["kv-heads"], each = heads / groups, size = headSize(builder);
  auto project = [&](const std::string &what, int64_t count) {
    Layer flat = builder.dense(name + "/" + what, input, count * size, /*bias=*/false);
    return builder.reshape(flat.name + ".heads", flat, {batch, sequence, count, size});
  };
  auto turned = [&](const std::string &what, int64_t count) {
    Layer apart = project(what, count);
    return rotate(builder, builder.has("query-norm") ? builder.rmsNorm(name + "/" + what + ".norm", apart) : apart,
                  tables);
  };
  auto inGroups = [&](const std::string &what, const Layer &layer, int64_t perGroup,
                      const std::vector<int64_t> &order) {
    std::string part = name + "/" + what;
    Layer apart = builder.reshape(part + ".groups", layer, {batch, sequence, groups, perGroup, size});
    return builder.transpose(part + ".transpose", apart, order);
  };
  Layer query = inGroups("query", turned("query", heads), each, {0, 2, 3, 1, 4});
  Layer key = inGroups("key", turned("key", groups), 1, {0, 2, 3, 4, 1});
  Layer value = inGroups("value", project("value", groups), 1, {0, 2, 3, 1, 4});
  std::string root = builder.number(name + "/scale.root", std::sqrt(static_cast<float>(size)));
  Layer scores = builder.join(name + "/scale", "Div", builder.matmul(name + "/scores", query, key), root);
  Layer weights = builder.apply(name + "/softmax", "Softmax", mask(name + "/mask", scores));
  Layer context = builder.matmul(name + "/context", weights, value);
  context = builder.transpose(name + "/context.transpose", context, {0, 3, 1, 2, 4});
  context = builder.reshape(name + "/context.merge", context, {batch, sequence, heads * size});
  return builder.dense(name + "/output", context, hidden, /*bias=*/false);
}

/// Two products, one of them through SiLU, multiplied (Shazeer: GLU Variants Improve Transformer, 2020).
static Layer gatedMlp(ModelBuilder &builder, const std::string &name, const Layer &input) {
  int64_t inner = builder["ffn"];
  Layer gate = builder.dense(name + "/gate", input, inner, /*bias=*/false);
  builder.node("Sigmoid", name + "/sigmoid", {gate.name});
  builder.node("Mul", name + "/silu", {gate.name, name + "/sigmoid"});
  Layer up = builder.dense(name + "/up", input, inner, /*bias=*/false);
  Layer gated = builder.join(name + "/gated", "Mul", {name + "/silu", gate.shape}, up.name);
  return builder.dense(name + "/down", gated, input.shape[2], /*bias=*/false);
}

/// Decoder blocks with rotary positions and grouped heads.
static onnx::ModelProto buildRotaryDecoder(ModelBuilder &builder, FeedForward feedForward) {
  builder.setVersion(20, 9);
  builder.setDeviation(0.02);
  Layer layer =
      builder.embedding("embedding/tokens", tokens(builder, "tokens", {builder["batch"], builder["sequence"]}),
                        builder["vocabulary"], builder["hidden"]);
  Mask mask = causalMask(builder, builder["sequence"]), near = mask;
  if (builder.has("window"))
    near = causalMask(builder, builder["sequence"], "window", builder["window"]);
  RotaryTables tables = rotaryTables(builder, headSize(builder));
  for (int64_t i = 0; i < builder["layers"]; ++i) {
    std::string name = "block" + std::to_string(i);
    Layer attended = groupedAttention(builder, name + "/attention", builder.rmsNorm(name + "/norm1", layer), tables,
                                      i % 2 == 0 ? near : mask);
    layer = builder.join(name + "/attention/residual", "Add", attended, layer.name);
    Layer changed = feedForward(builder, name, builder.rmsNorm(name + "/norm2", layer));
    layer = builder.join(name + "/residual", "Add", changed, layer.name);
  }
  return builder.finish("output", languageHead(builder, builder.rmsNorm("norm", layer)));
}

/// Touvron et al.: LLaMA, 2023, and Grattafiori et al.: The Llama 3 Herd of Models, 2024.
onnx::ModelProto buildLlama(ModelBuilder &builder) {
  return buildRotaryDecoder(builder, [](ModelBuilder &inner, const std::string &block, const Layer &input) {
    return gatedMlp(inner, block + "/mlp", input);
  });
}

/// The best experts of each token, each a gated MLP, as one node of ONNX Runtime's. Gates and the units beside them
/// take turns in the first weights.
static Layer sparseMixture(ModelBuilder &builder, const std::string &block, const Layer &input) {
  std::string name = block + "/moe";
  int64_t hidden = input.shape[2], count = input.shape[0] * input.shape[1];
  int64_t experts = builder["experts"], inner = builder["ffn"];
  Layer scores = builder.dense(name + "/gate", builder.reshape(name + "/tokens", input, {count, hidden}), experts,
                               /*bias=*/false);
  std::string first = builder.weight(name + "/fc1.weight", {experts, 2 * inner, hidden}, hidden);
  std::string second = builder.weight(name + "/fc2.weight", {experts, hidden, inner}, inner);
  onnx::NodeProto &node = builder.node("MoE", name, {input.name, scores.name, first, "", second});
  node.set_domain("com.microsoft");
  setInt(node, "k", builder["top"]);
  setInt(node, "normalize_routing_weights", 1);
  setString(node, "activation_type", "swiglu");
  setInt(node, "swiglu_fusion", 1);
  return {name, input.shape};
}

/// Jiang et al.: Mixtral of Experts, 2024.
onnx::ModelProto buildMixtral(ModelBuilder &builder) {
  builder.addDomain("com.microsoft");
  return buildRotaryDecoder(builder, sparseMixture);
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
