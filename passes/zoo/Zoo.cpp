// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The list of standard models, and the checks of what users ask for.

#include "passes/zoo/Zoo.h"

#include "passes/zoo/ModelBuilder.h"

#include "llvm/ADT/StringExtras.h"

namespace cleave {

/// The format holds 2 GiB; a message above that cannot be written.
static constexpr uint64_t largestModel = uint64_t(1) << 31;

namespace {
using Numbers = std::map<std::string, int64_t>;

struct Entry {
  ZooModel model;
  onnx::ModelProto (*build)(ModelBuilder &);
  /// What the model expects of its numbers beyond their ranges; empty: it holds. Null: nothing.
  std::string (*check)(const Numbers &) = nullptr;
};
} // namespace

static std::string checkResnet(const Numbers &numbers) {
  int64_t layers = numbers.at("layers");
  return layers == 50 || layers == 101 ? "" : "50 or 101 layers, got " + std::to_string(layers);
}

static std::string checkUnet(const Numbers &numbers) {
  int64_t size = numbers.at("image-size");
  return size % 16 == 0 ? "" : "image-size to be a multiple of 16, got " + std::to_string(size);
}

static std::string checkTransformer(const Numbers &numbers);

static std::string checkLlama(const Numbers &numbers) {
  int64_t hidden = numbers.at("hidden"), heads = numbers.at("heads"), groups = numbers.at("kv-heads");
  int64_t size = numbers.at("head-size");
  if (std::string problem = checkTransformer(numbers); !problem.empty())
    return problem;
  if (heads % groups != 0)
    return "kv-heads to divide heads (" + std::to_string(heads) + "), got " + std::to_string(groups);
  size = size ? size : hidden / heads;
  return size % 2 == 0 ? "" : "heads of an even size, got " + std::to_string(size);
}

static std::string checkTransformer(const Numbers &numbers) {
  int64_t hidden = numbers.at("hidden"), heads = numbers.at("heads");
  bool saysSize = numbers.count("head-size") && numbers.at("head-size");
  if (!saysSize && hidden % heads != 0)
    return "heads to divide hidden (" + std::to_string(hidden) + "), got " + std::to_string(heads);
  if (numbers.count("top") && numbers.at("top") > numbers.at("experts"))
    return "top to be at most experts (" + std::to_string(numbers.at("experts")) + "), got " +
           std::to_string(numbers.at("top"));
  return "";
}

static std::string checkDeepseek(const Numbers &numbers) {
  if (std::string problem = checkTransformer(numbers); !problem.empty())
    return problem;
  int64_t turning = numbers.at("rotary-size");
  return turning % 2 == 0 ? "" : "an even rotary-size, got " + std::to_string(turning);
}

static llvm::ArrayRef<Entry> entries() {
  static const ZooNumber batch = {"batch", 1, "examples in a batch"};
  static const ZooNumber classes = {"classes", 1000, "outputs"};
  static const ZooNumber tied = {"tied", 1, "1: the head's table is the embedding's", 1, 0};
  auto transformer = [](int64_t layers, int64_t hidden, int64_t heads, int64_t sequence, int64_t vocabulary) {
    return llvm::SmallVector<ZooNumber>{batch,
                                        {"layers", layers, "layers", 1 << 16},
                                        {"hidden", hidden, "units of inner layers"},
                                        {"heads", heads, "heads of attention; they divide the hidden units"},
                                        {"sequence", sequence, "tokens in a sequence"},
                                        {"vocabulary", vocabulary, "different tokens"}};
  };
  auto with = [](llvm::SmallVector<ZooNumber> numbers, std::initializer_list<ZooNumber> more) {
    numbers.append(more);
    return numbers;
  };
  static const ZooNumber dropout = {"dropout", 0, "1: dropout of 0.1 in training", 1, 0};
  static const ZooNumber kvHeads = {"kv-heads", 8, "heads of keys and values; they divide the heads"};
  static const ZooNumber headSize = {"head-size", 0, "units of a head; 0: the hidden units over the heads", 1 << 16, 0};
  static const ZooNumber queryNorm = {"query-norm", 0, "1: each head's queries and keys are normalized", 1, 0};
  static const ZooNumber window = {
      "window", 0, "keys that a token of every other layer sees, from the first on; 0: all", 1 << 24, 0};
  static const ZooNumber alibi = {"alibi", 0, "1: linear biases of attention in the place of learned positions", 1, 0};
  static const ZooNumber imageSize = {"image-size", 224, "rows and columns of an image", 1 << 14, 32};
  static const std::vector<Entry> all = {
      {{"mlp",
        "dense layers with rectifiers",
        {batch,
         {"layers", 3, "dense layers", 1 << 16},
         {"inputs", 784, "inputs"},
         {"hidden", 512, "units of inner layers"},
         {"classes", 10, "outputs"}}},
       buildMlp},
      {{"lenet", "LeNet on images of 28 x 28", {batch, {"classes", 10, "outputs"}}}, buildLenet},
      {{"alexnet", "AlexNet on images of 224 x 224", {batch, {"classes", 1000, "outputs"}}}, buildAlexnet},
      {{"inception", "GoogLeNet", {batch, imageSize, classes}}, buildInception},
      {{"vgg16", "VGG-16", {batch, imageSize, classes}}, buildVgg16},
      {{"resnet50",
        "residual network of bottlenecks",
        {batch,
         {"layers", 50, "50 or 101 layers", 101, 50},
         {"width", 1, "factor of inner channels", 64},
         imageSize,
         classes}},
       buildResnet,
       checkResnet},
      {{"wide-resnet",
        "residual network of wide bottlenecks",
        {batch,
         {"layers", 50, "50 or 101 layers", 101, 50},
         {"width", 2, "factor of inner channels", 64},
         imageSize,
         classes}},
       buildResnet,
       checkResnet},
      {{"unet",
        "U-Net for images of a multiple of 16 pixels",
        {batch,
         {"image-size", 256, "rows and columns of an image", 1 << 14, 16},
         {"channels", 1, "channels of an image"},
         {"features", 64, "channels after the first layer", 1 << 12},
         {"classes", 2, "outputs a pixel"}}},
       buildUnet,
       checkUnet},
      {{"lstm",
        "embedding, layers of LSTM, decoder",
        {batch,
         {"layers", 2, "layers", 1 << 16},
         {"hidden", 650, "units of inner layers"},
         {"sequence", 35, "tokens in a sequence", 1 << 14, 1, /*mayBeSymbolic=*/true},
         {"vocabulary", 10000, "different tokens"}}},
       buildLstm},
      {{"gpt", "pre-norm decoder of GPT-2", with(transformer(12, 768, 12, 1024, 50257), {tied, dropout, alibi})},
       buildGpt,
       checkTransformer},
      {{"llama", "decoder of Llama 3",
        with(transformer(32, 4096, 32, 8192, 128256), {kvHeads,
                                                       headSize,
                                                       queryNorm,
                                                       window,
                                                       {"ffn", 14336, "units of the MLP"},
                                                       {"tied", 0, "1: the head's table is the embedding's", 1, 0}})},
       buildLlama,
       checkLlama},
      {{"mixtral", "decoder of Mixtral: of 8 experts, each token has 2",
        with(transformer(32, 4096, 32, 8192, 32000), {kvHeads,
                                                      headSize,
                                                      queryNorm,
                                                      window,
                                                      {"ffn", 14336, "units of an expert"},
                                                      {"experts", 8, "experts of a mixture", 1 << 12},
                                                      {"top", 2, "experts of a token, at most all", 1 << 12},
                                                      {"tied", 0, "1: the head's table is the embedding's", 1, 0}})},
       buildMixtral,
       checkLlama},
      {{"deepseek", "decoder of DeepSeek V3, without what predicts further tokens",
        with(transformer(61, 7168, 128, 4096, 129280),
             {{"query-rank", 1536, "units that queries are made of"},
              {"kv-rank", 512, "units that keys and values are made of"},
              {"head-size", 128, "units of a head that have no positions, and of its values"},
              {"rotary-size", 64, "units of a head that have positions", 1 << 16, 2},
              {"dense-layers", 3, "layers without experts, the first ones", 1 << 16, 0},
              {"ffn", 18432, "units of the MLP of these layers"},
              {"experts", 256, "experts of a mixture", 1 << 12},
              {"top", 8, "experts of a token, at most all", 1 << 12},
              {"expert-ffn", 2048, "units of an expert"},
              {"shared", 1, "experts that every token has, too", 1 << 12, 0},
              {"tied", 0, "1: the head's table is the embedding's", 1, 0}})},
       buildDeepseek,
       checkDeepseek},
      {{"bert", "encoder of BERT, with pooler", transformer(12, 768, 12, 512, 30522)}, buildBert, checkTransformer},
      {{"moe", "decoder with mixtures of experts",
        with(transformer(12, 768, 12, 1024, 50257),
             {tied, {"experts", 8, "experts of a mixture", 1 << 12}, {"top", 1, "experts of a token", 8}})},
       buildMoe,
       checkTransformer}};
  return all;
}

llvm::ArrayRef<ZooModel> getZooModels() {
  static const std::vector<ZooModel> models = [] {
    std::vector<ZooModel> result;
    for (const Entry &entry : entries())
      result.push_back(entry.model);
    return result;
  }();
  return models;
}

/// The model's numbers: defaults, and what the user set.
static llvm::Expected<std::map<std::string, int64_t>> chooseNumbers(const ZooModel &model, const ZooOptions &options) {
  std::map<std::string, int64_t> numbers;
  for (const ZooNumber &number : model.numbers)
    numbers[number.name] = number.value;
  for (const auto &[name, value] : options.numbers) {
    if (!numbers.count(name)) {
      auto names = llvm::map_range(model.numbers, [](const ZooNumber &number) { return number.name; });
      return llvm::createStringError(model.name + " expects the numbers " + llvm::join(names, ", ") + ", got " + name);
    }
    const ZooNumber &number = *llvm::find_if(model.numbers, [&](const ZooNumber &one) { return one.name == name; });
    if (value < number.smallest || value > number.largest)
      return llvm::createStringError(model.name + " expects " + name + " from " + std::to_string(number.smallest) +
                                     " to " + std::to_string(number.largest) + ", got " + std::to_string(value));
    numbers[name] = value;
  }
  return numbers;
}

/// What may be left open is so by the model's structure: nothing else of it depends on that number.
static llvm::Error checkSymbolic(const ZooModel &model, const ZooOptions &options) {
  std::vector<std::string> possible;
  for (const ZooNumber &number : model.numbers)
    if (number.mayBeSymbolic)
      possible.push_back(number.name);
  for (const std::string &name : options.symbolic)
    if (!llvm::is_contained(possible, name))
      return llvm::createStringError(model.name + " expects " +
                                     (possible.empty() ? "no symbolic dimension" : llvm::join(possible, ", ")) +
                                     " to be left open, got " + name);
  return llvm::Error::success();
}

llvm::Expected<onnx::ModelProto> buildZooModel(llvm::StringRef name, const ZooOptions &options) {
  for (const Entry &entry : entries()) {
    if (entry.model.name != name)
      continue;
    auto numbers = chooseNumbers(entry.model, options);
    if (!numbers)
      return numbers.takeError();
    if (llvm::Error error = checkSymbolic(entry.model, options))
      return error;
    if (std::string problem = entry.check ? entry.check(*numbers) : ""; !problem.empty())
      return llvm::createStringError(entry.model.name + " expects " + problem);
    // The bytes of the weights are known from the model without them.
    if (options.weights) {
      ZooOptions sketch = options;
      sketch.weights = false;
      ModelBuilder builder(entry.model.name, sketch, *numbers);
      onnx::ModelProto without = entry.build(builder);
      uint64_t bytes = 0;
      for (const onnx::NodeProto &node : without.graph().node())
        for (const onnx::AttributeProto &attribute : node.attribute())
          if (attribute.name() == "shape") {
            uint64_t size = sizeof(float);
            for (int64_t dim : attribute.ints())
              size = llvm::SaturatingMultiply(size, static_cast<uint64_t>(dim));
            bytes = llvm::SaturatingAdd(bytes, size);
          }
      if (bytes >= largestModel)
        return llvm::createStringError(entry.model.name + " expects weights below 2 GiB to fit the file, got " +
                                       std::to_string(bytes) + " bytes; leave the weights out");
    }
    ModelBuilder builder(entry.model.name, options, *numbers);
    return entry.build(builder);
  }
  auto names = llvm::map_range(getZooModels(), [](const ZooModel &model) { return model.name; });
  return llvm::createStringError("expects one of " + llvm::join(names, ", ") + " as the model, got \"" + name.str() +
                                 "\"");
}

} // namespace cleave
