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
struct Entry {
  ZooModel model;
  onnx::ModelProto (*build)(ModelBuilder &);
};
} // namespace

static llvm::ArrayRef<Entry> entries() {
  static const ZooNumber batch = {"batch", 1, "examples in a batch"};
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
      {{"inception", "GoogLeNet on images of 224 x 224", {batch, {"classes", 1000, "outputs"}}}, buildInception}};
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
    if (value < 1 || value > number.largest)
      return llvm::createStringError(model.name + " expects " + name + " from 1 to " + std::to_string(number.largest) +
                                     ", got " + std::to_string(value));
    numbers[name] = value;
  }
  return numbers;
}

llvm::Expected<onnx::ModelProto> buildZooModel(llvm::StringRef name, const ZooOptions &options) {
  for (const Entry &entry : entries()) {
    if (entry.model.name != name)
      continue;
    auto numbers = chooseNumbers(entry.model, options);
    if (!numbers)
      return numbers.takeError();
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
