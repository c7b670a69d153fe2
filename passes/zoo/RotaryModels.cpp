// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The zoo's decoders with rotary positions.

#include "passes/zoo/DecoderLayers.h"

#include <cmath>

namespace cleave {

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
static Layer gatedMlp(ModelBuilder &builder, const std::string &name, const Layer &input, int64_t inner) {
  Layer gate = builder.dense(name + "/gate", input, inner, /*bias=*/false);
  builder.node("Sigmoid", name + "/sigmoid", {gate.name});
  builder.node("Mul", name + "/silu", {gate.name, name + "/sigmoid"});
  Layer up = builder.dense(name + "/up", input, inner, /*bias=*/false);
  Layer gated = builder.join(name + "/gated", "Mul", {name + "/silu", gate.shape}, up.name);
  return builder.dense(name + "/down", gated, input.shape[2], /*bias=*/false);
}

/// The best experts of each token, each a gated MLP, as one node of ONNX Runtime's. Gates and the units beside them
/// take turns in the first weights.
static Layer sparseMixture(ModelBuilder &builder, const std::string &block, const Layer &input, int64_t inner) {
  std::string name = block + "/moe";
  int64_t hidden = input.shape[2], count = input.shape[0] * input.shape[1];
  int64_t experts = builder["experts"];
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

/// A part of the last dimension, and the rest of it.
static std::pair<Layer, Layer> splitLast(ModelBuilder &builder, const Layer &input, int64_t first) {
  std::vector<int64_t> shapes[2] = {input.shape, input.shape};
  shapes[0].back() = first;
  shapes[1].back() -= first;
  std::string sizes = builder.integers(input.name + ".sizes", {first, shapes[1].back()});
  onnx::NodeProto &split = builder.node("Split", input.name + ".part", {input.name, sizes});
  split.add_output(input.name + ".rest");
  setInt(split, "axis", -1);
  return {{input.name + ".part", shapes[0]}, {input.name + ".rest", shapes[1]}};
}

/// Attention whose keys and values are products of one short vector a token, and of which a part of each head alone has
/// positions, in keys the same for all heads (DeepSeek-AI: DeepSeek-V2, 2024).
static Layer latentAttention(ModelBuilder &builder, const std::string &name, const Layer &input,
                             const RotaryTables &tables, const Mask &mask) {
  int64_t batch = input.shape[0], sequence = input.shape[1], hidden = input.shape[2];
  int64_t heads = builder["heads"], size = builder["head-size"], turning = builder["rotary-size"];
  auto inHeads = [&](const Layer &flat, int64_t count) {
    return builder.reshape(flat.name + ".heads", flat, {batch, sequence, count, flat.shape.back() / count});
  };
  auto up = [&](const std::string &what, const Layer &latent, int64_t units) {
    Layer normal = builder.rmsNorm(name + "/" + what + ".norm", latent);
    return inHeads(builder.dense(name + "/" + what, normal, heads * units, /*bias=*/false), heads);
  };
  auto both = [&](const std::string &what, const Layer &fixed, const Layer &turned) {
    setInt(builder.node("Concat", name + "/" + what, {fixed.name, turned.name}), "axis", -1);
    return Layer{name + "/" + what, {batch, sequence, heads, size + turning}};
  };
  Layer query =
      up("query", builder.dense(name + "/query-latent", input, builder["query-rank"], /*bias=*/false), size + turning);
  auto [fixedQuery, turnedQuery] = splitLast(builder, query, size);
  query = both("query-both", fixedQuery, rotate(builder, turnedQuery, tables));
  Layer latent = builder.dense(name + "/latent", input, builder["kv-rank"] + turning, /*bias=*/false);
  auto [compressed, position] = splitLast(builder, latent, builder["kv-rank"]);
  auto [fixedKey, value] = splitLast(builder, up("key-value", compressed, 2 * size), size);
  Layer turnedKey = rotate(builder, inHeads(position, 1), tables);
  builder.node("Expand", name + "/key-positions", {turnedKey.name, builder.integers(name + "/key-heads", {heads, 1})});
  Layer key = both("key-both", fixedKey, {name + "/key-positions", {batch, sequence, heads, turning}});

  query = builder.transpose(name + "/query.transpose", query, {0, 2, 1, 3});
  key = builder.transpose(name + "/key.transpose", key, {0, 2, 3, 1});
  value = builder.transpose(name + "/value.transpose", value, {0, 2, 1, 3});
  std::string root = builder.number(name + "/scale.root", std::sqrt(static_cast<float>(size + turning)));
  Layer scores = builder.join(name + "/scale", "Div", builder.matmul(name + "/scores", query, key), root);
  Layer weights = builder.apply(name + "/softmax", "Softmax", mask(name + "/mask", scores));
  Layer context = builder.matmul(name + "/context", weights, value);
  context = builder.transpose(name + "/context.transpose", context, {0, 2, 1, 3});
  context = builder.reshape(name + "/context.merge", context, {batch, sequence, heads * size});
  return builder.dense(name + "/output", context, hidden, /*bias=*/false);
}

namespace {
/// What a layer does to its normalized input.
using LayerAttention = Layer (*)(ModelBuilder &builder, const std::string &name, const Layer &input,
                                 const RotaryTables &tables, const Mask &mask);
using LayerMlp = Layer (*)(ModelBuilder &builder, const std::string &block, int64_t number, const Layer &input);
} // namespace

/// Pre-norm decoder blocks with rotary positions of `turning` units of each head.
static onnx::ModelProto buildRotaryDecoder(ModelBuilder &builder, int64_t turning, LayerAttention attention,
                                           LayerMlp feedForward) {
  builder.setVersion(20, 9);
  builder.setDeviation(0.02);
  Layer layer =
      builder.embedding("embedding/tokens", tokens(builder, "tokens", {builder["batch"], builder["sequence"]}),
                        builder["vocabulary"], builder["hidden"]);
  Mask mask = causalMask(builder, builder["sequence"]), near = mask;
  if (builder.has("window"))
    near = causalMask(builder, builder["sequence"], "window", builder["window"]);
  RotaryTables tables = rotaryTables(builder, turning);
  for (int64_t i = 0; i < builder["layers"]; ++i) {
    std::string name = "block" + std::to_string(i);
    Layer attended = attention(builder, name + "/attention", builder.rmsNorm(name + "/norm1", layer), tables,
                               i % 2 == 0 ? near : mask);
    layer = builder.join(name + "/attention/residual", "Add", attended, layer.name);
    Layer changed = feedForward(builder, name, i, builder.rmsNorm(name + "/norm2", layer));
    layer = builder.join(name + "/residual", "Add", changed, layer.name);
  }
  return builder.finish("output", languageHead(builder, builder.rmsNorm("norm", layer)));
}

/// Touvron et al.: LLaMA, 2023, and Grattafiori et al.: The Llama 3 Herd of Models, 2024.
onnx::ModelProto buildLlama(ModelBuilder &builder) {
  return buildRotaryDecoder(builder, headSize(builder), groupedAttention,
                            [](ModelBuilder &inner, const std::string &block, int64_t, const Layer &input) {
                              return gatedMlp(inner, block + "/mlp", input, inner["ffn"]);
                            });
}

/// Jiang et al.: Mixtral of Experts, 2024.
onnx::ModelProto buildMixtral(ModelBuilder &builder) {
  builder.addDomain("com.microsoft");
  return buildRotaryDecoder(builder, headSize(builder), groupedAttention,
                            [](ModelBuilder &inner, const std::string &block, int64_t, const Layer &input) {
                              return sparseMixture(inner, block, input, inner["ffn"]);
                            });
}

/// DeepSeek-AI: DeepSeek-V3 Technical Report, 2024, without what predicts further tokens; shares are softmax's among
/// the chosen experts.
onnx::ModelProto buildDeepseek(ModelBuilder &builder) {
  builder.addDomain("com.microsoft");
  return buildRotaryDecoder(builder, builder["rotary-size"], latentAttention,
                            [](ModelBuilder &inner, const std::string &block, int64_t number, const Layer &input) {
                              if (number < inner["dense-layers"])
                                return gatedMlp(inner, block + "/mlp", input, inner["ffn"]);
                              Layer chosen = sparseMixture(inner, block, input, inner["expert-ffn"]);
                              if (!inner["shared"])
                                return chosen;
                              Layer always =
                                  gatedMlp(inner, block + "/shared", input, inner["shared"] * inner["expert-ffn"]);
                              return inner.join(block + "/moe/sum", "Add", chosen, always.name);
                            });
}

} // namespace cleave
