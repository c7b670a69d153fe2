// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes ONNX nodes layer by layer and follows the shapes.

#ifndef CLEAVE_PASSES_ZOO_MODELBUILDER_H
#define CLEAVE_PASSES_ZOO_MODELBUILDER_H

#include "passes/zoo/Zoo.h"

#include <vector>

namespace cleave {

/// A value and its shape.
struct Layer {
  std::string name;
  std::vector<int64_t> shape;
};

/// How a convolution or pooling slides over an image, the same in both directions.
struct Slide {
  int64_t window = 1, stride = 1, pad = 0;
  bool ceil = false;
};

/// Builds one model. Every method adds the nodes of a layer under the layer's name and returns its result.
class ModelBuilder {
public:
  ModelBuilder(const std::string &name, const ZooOptions &options, std::map<std::string, int64_t> numbers);

  /// A number of the model.
  int64_t operator[](const std::string &name) const { return numbers.at(name); }
  /// Standard deviation of the weights made from now on; 0: sqrt(2 / inputs of a unit) (He et al. 2015).
  void setDeviation(double value) { deviation = value; }

  Layer input(const std::string &name, std::vector<int64_t> shape);
  Layer conv(const std::string &name, const Layer &input, int64_t channels, Slide slide, int64_t groups = 1);
  Layer dense(const std::string &name, const Layer &input, int64_t units);
  Layer pool(const std::string &name, const Layer &input, const std::string &kind, Slide slide);
  Layer globalAverage(const std::string &name, const Layer &input);
  Layer normalizeResponse(const std::string &name, const Layer &input, int64_t size, float alpha, float beta);
  Layer flatten(const std::string &name, const Layer &input);
  Layer concat(const std::string &name, const std::vector<Layer> &inputs);
  /// A node of one input that keeps its shape.
  Layer apply(const std::string &name, const std::string &kind, const Layer &input);

  /// Declares the model's output and gives the model.
  onnx::ModelProto finish(const std::string &name, const Layer &output);

private:
  onnx::NodeProto &node(const std::string &kind, const std::string &name, const std::vector<std::string> &inputs);
  std::string weight(const std::string &name, const std::vector<int64_t> &shape, int64_t inputs);
  std::string zeros(const std::string &name, int64_t size);

  onnx::ModelProto model;
  ZooOptions options;
  std::map<std::string, int64_t> numbers;
  double deviation = 0;
  uint64_t numWeights = 0;
};

/// The zoo's models.
onnx::ModelProto buildMlp(ModelBuilder &builder);
onnx::ModelProto buildLenet(ModelBuilder &builder);
onnx::ModelProto buildAlexnet(ModelBuilder &builder);
onnx::ModelProto buildInception(ModelBuilder &builder);

} // namespace cleave

#endif // CLEAVE_PASSES_ZOO_MODELBUILDER_H
