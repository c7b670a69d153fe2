// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers of language models as ONNX nodes.

#include "passes/zoo/ModelBuilder.h"

#include <cmath>

namespace cleave {

Layer ModelBuilder::embedding(const std::string &name, const Layer &indices, int64_t rows, int64_t width) {
  node("Gather", name, {weight(name + ".weight", {rows, width}, width), indices.name});
  std::vector<int64_t> shape = indices.shape;
  shape.push_back(width);
  return {name, shape};
}

Layer ModelBuilder::addTable(const std::string &name, const Layer &input, const std::vector<int64_t> &shape) {
  return join(name, "Add", input, weight(name + ".weight", shape, shape.back()));
}

Layer ModelBuilder::layerNorm(const std::string &name, const Layer &input) {
  int64_t width = input.shape.back();
  node("LayerNormalization", name,
       {input.name, filled(name + ".weight", {width}, 1.0f), filled(name + ".bias", {width}, 0.0f)});
  return {name, input.shape};
}

Layer ModelBuilder::rmsNorm(const std::string &name, const Layer &input) {
  constexpr float epsilon = 1e-5f;
  node("Mul", name + ".square", {input.name, input.name});
  node("ReduceMean", name + ".mean", {name + ".square", integers(name + ".axes", {-1})});
  node("Add", name + ".shift", {name + ".mean", number(name + ".epsilon", epsilon)});
  node("Sqrt", name + ".root", {name + ".shift"});
  node("Div", name + ".scale", {input.name, name + ".root"});
  node("Mul", name, {name + ".scale", filled(name + ".weight", {input.shape.back()}, 1.0f)});
  return {name, input.shape};
}

Layer ModelBuilder::dropout(const std::string &name, const Layer &input) {
  constexpr float ratio = 0.1f;
  if (!has("dropout"))
    return input;
  node("Dropout", name, {input.name, number(name + ".ratio", ratio)});
  return {name, input.shape};
}

Layer ModelBuilder::reshape(const std::string &name, const Layer &input, std::vector<int64_t> shape) {
  // In terms of the input, so that the model can be imported with batches of other sizes: what stays, then what follows
  // from the rest.
  std::vector<int64_t> written = shape;
  size_t dim = 0;
  for (; dim != shape.size() && dim < input.shape.size() && shape[dim] == input.shape[dim]; ++dim)
    written[dim] = 0;
  if (dim != shape.size())
    written[dim] = -1;
  node("Reshape", name, {input.name, integers(name + ".shape", written)});
  return {name, std::move(shape)};
}

Layer ModelBuilder::transpose(const std::string &name, const Layer &input, const std::vector<int64_t> &order) {
  setInts(node("Transpose", name, {input.name}), "perm", order);
  std::vector<int64_t> shape;
  for (int64_t dim : order)
    shape.push_back(input.shape[static_cast<size_t>(dim)]);
  return {name, shape, input.elementType};
}

Layer ModelBuilder::matmul(const std::string &name, const Layer &lhs, const Layer &rhs) {
  node("MatMul", name, {lhs.name, rhs.name});
  std::vector<int64_t> shape = rhs.shape;
  size_t rank = std::max(lhs.shape.size(), rhs.shape.size());
  shape.insert(shape.begin(), rank - rhs.shape.size(), 1);
  for (size_t i = 2; i < lhs.shape.size(); ++i) {
    int64_t &size = shape[rank - 1 - i];
    size = std::max(size, lhs.shape[lhs.shape.size() - 1 - i]);
  }
  shape[rank - 2] = lhs.shape[lhs.shape.size() - 2];
  return {name, shape};
}

Layer ModelBuilder::lstm(const std::string &name, const Layer &input, int64_t hidden) {
  constexpr int64_t gates = 4;
  int64_t steps = input.shape[0], batch = input.shape[1], inputs = input.shape[2];
  std::string projection = weight(name + ".weight", {1, gates * hidden, inputs}, inputs);
  std::string recurrence = weight(name + ".recurrence", {1, gates * hidden, hidden}, hidden);
  std::string bias = filled(name + ".bias", {1, 2 * gates * hidden}, 0.0f);
  setInt(node("LSTM", name, {input.name, projection, recurrence, bias}), "hidden_size", hidden);
  return reshape(name + ".output", {name, {steps, 1, batch, hidden}}, {steps, batch, hidden});
}

} // namespace cleave
