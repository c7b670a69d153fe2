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
  int elementType = onnx::TensorProto::FLOAT;
};

/// How a convolution or pooling slides over an image, the same in both directions.
struct Slide {
  int64_t window = 1, stride = 1, pad = 0;
  bool ceil = false;
};

// Attributes of nodes.
void setInt(onnx::NodeProto &node, const std::string &name, int64_t value);
void setFloat(onnx::NodeProto &node, const std::string &name, float value);
void setString(onnx::NodeProto &node, const std::string &name, const std::string &value);
void setInts(onnx::NodeProto &node, const std::string &name, const std::vector<int64_t> &values);
/// Sets "value".
void setTensor(onnx::NodeProto &node, int elementType, const std::vector<int64_t> &shape, std::string bytes);

/// The number of elements from a dimension on.
int64_t product(const std::vector<int64_t> &shape, size_t from = 0);

/// Builds one model. Every method adds the nodes of a layer under the layer's name and returns its result.
class ModelBuilder {
public:
  ModelBuilder(const std::string &name, const ZooOptions &options, std::map<std::string, int64_t> numbers);

  /// A number of the model.
  int64_t operator[](const std::string &name) const { return numbers.at(name); }
  /// Whether the model has a number of this name that is not 0.
  bool has(const std::string &name) const {
    auto number = numbers.find(name);
    return number != numbers.end() && number->second != 0;
  }
  /// Standard deviation of the weights made from now on; 0: sqrt(2 / inputs of a unit) (He et al. 2015).
  void setDeviation(double value) { deviation = value; }
  /// The versions that the model is written for: 17 and 8 where nothing else is said.
  void setVersion(int64_t operatorSet, int64_t irVersion);
  /// Version 1 of a further domain of operators.
  void addDomain(const std::string &domain);

  /// `dims`: the numbers of the model that its dimensions are, as far as they may be symbolic.
  Layer input(const std::string &name, std::vector<int64_t> shape, int elementType = onnx::TensorProto::FLOAT,
              const std::vector<std::string> &dims = {});
  /// A product with a matrix of weights over the last dimension.
  Layer dense(const std::string &name, const Layer &input, int64_t units, bool bias = true);
  Layer concat(const std::string &name, const std::vector<Layer> &inputs);
  /// A node of one input that keeps its shape.
  Layer apply(const std::string &name, const std::string &kind, const Layer &input);
  /// A node of two inputs that has the first's shape.
  Layer join(const std::string &name, const std::string &kind, const Layer &input, const std::string &operand);

  // Layers of convolutional networks (ImageLayers.cpp).
  Layer conv(const std::string &name, const Layer &input, int64_t channels, Slide slide, int64_t groups = 1,
             bool bias = true);
  /// A transposed convolution that makes images larger by `factor`.
  Layer upConv(const std::string &name, const Layer &input, int64_t channels, int64_t factor);
  Layer batchNorm(const std::string &name, const Layer &input);
  Layer pool(const std::string &name, const Layer &input, const std::string &kind, Slide slide);
  Layer globalAverage(const std::string &name, const Layer &input);
  Layer normalizeResponse(const std::string &name, const Layer &input, int64_t size, float alpha, float beta);
  Layer flatten(const std::string &name, const Layer &input);

  // Layers of sequence models (SequenceLayers.cpp).
  /// Rows of a table of weights, looked up; the table is `name`.weight.
  Layer embedding(const std::string &name, const Layer &indices, int64_t rows, int64_t width);
  /// A table of weights that is added to the input, whose last dimensions it has.
  Layer addTable(const std::string &name, const Layer &input, const std::vector<int64_t> &shape);
  /// Over the last dimension.
  Layer layerNorm(const std::string &name, const Layer &input);
  /// Divided by the root of the mean square over the last dimension (Zhang, Sennrich: Root Mean Square Layer
  /// Normalization, 2019).
  Layer rmsNorm(const std::string &name, const Layer &input);
  /// A part of 0.1 of the elements is zero in training, where the model has a number "dropout" of 1.
  Layer dropout(const std::string &name, const Layer &input);
  Layer reshape(const std::string &name, const Layer &input, std::vector<int64_t> shape);
  Layer transpose(const std::string &name, const Layer &input, const std::vector<int64_t> &order);
  /// A stack of matrix products; a first operand of less rank, or with sizes of one, repeats.
  Layer matmul(const std::string &name, const Layer &lhs, const Layer &rhs);
  /// Sequence x batch x inputs to sequence x batch x hidden.
  Layer lstm(const std::string &name, const Layer &input, int64_t hidden);

  // Operands of nodes.
  std::string weight(const std::string &name, const std::vector<int64_t> &shape, int64_t inputs);
  /// Weights that are all the same at first.
  std::string filled(const std::string &name, const std::vector<int64_t> &shape, float value);
  std::string integers(const std::string &name, const std::vector<int64_t> &values);
  /// A constant of rank 0.
  std::string number(const std::string &name, float value);

  onnx::NodeProto &node(const std::string &kind, const std::string &name, const std::vector<std::string> &inputs);

  /// `dims` as for inputs.
  void addOutput(const std::string &name, const Layer &output, const std::vector<std::string> &dims = {});
  /// Declares the model's (last) output and gives the model.
  onnx::ModelProto finish(const std::string &name, const Layer &output, const std::vector<std::string> &dims = {});

private:
  /// Those of the numbers that are to be symbolic dimensions; the others empty.
  std::vector<std::string> openAmong(std::vector<std::string> dims) const;

  onnx::ModelProto model;
  ZooOptions options;
  std::map<std::string, int64_t> numbers;
  double deviation = 0;
  uint64_t numWeights = 0;
};

/// A rectifier behind `input`, named after it.
inline Layer relu(ModelBuilder &builder, const Layer &input) {
  return builder.apply(input.name + ".relu", "Relu", input);
}

/// The zoo's models.
onnx::ModelProto buildMlp(ModelBuilder &builder);
onnx::ModelProto buildLenet(ModelBuilder &builder);
onnx::ModelProto buildAlexnet(ModelBuilder &builder);
onnx::ModelProto buildInception(ModelBuilder &builder);
onnx::ModelProto buildVgg16(ModelBuilder &builder);
onnx::ModelProto buildResnet(ModelBuilder &builder);
onnx::ModelProto buildUnet(ModelBuilder &builder);
onnx::ModelProto buildLstm(ModelBuilder &builder);
onnx::ModelProto buildGpt(ModelBuilder &builder);
onnx::ModelProto buildLlama(ModelBuilder &builder);
onnx::ModelProto buildMixtral(ModelBuilder &builder);
onnx::ModelProto buildDeepseek(ModelBuilder &builder);
onnx::ModelProto buildBert(ModelBuilder &builder);
onnx::ModelProto buildMoe(ModelBuilder &builder);

} // namespace cleave

#endif // CLEAVE_PASSES_ZOO_MODELBUILDER_H
