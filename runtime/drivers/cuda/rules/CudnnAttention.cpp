// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the tensors of attention, and counts what its gradient keeps.

#include "runtime/drivers/cuda/rules/CudnnAttention.h"

#include "runtime/MemoryLayout.h"
#include "runtime/drivers/cuda/rules/CudaDescription.h"

#include <cmath>
#include <limits>

namespace cleave::runtime {

namespace {

constexpr int64_t mostElements = std::numeric_limits<int32_t>::max();
constexpr int64_t largestHead = 128, headUnit = 8;
/// Tiles of queries and keys, of which engines keep whole ones.
constexpr int64_t tile = 128;
/// For what engines need beside the scores.
constexpr uint64_t roomForEngine = uint64_t(1) << 20;

uint64_t roundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

/// An argument of attention, by whose positions it goes.
struct Argument {
  const TensorType *type;
  int64_t positions;
};

Error checkTensor(const Argument &argument, const CudnnAttention &problem) {
  const TensorType &type = *argument.type;
  if (type.element != ElementType::BF16 || !isDense(type))
    return makeError(Status::Unsupported, "expects row-major arguments of bf16, got ", type.text());
  std::vector<int64_t> shape = problem.dimsOf(argument.positions);
  if (problem.positionsFirst)
    std::swap(shape[1], shape[2]);
  if (type.shape != shape)
    return makeError(Status::Rejected, "expects ", TensorType{ElementType::BF16, shape, std::nullopt}.text(), ", got ",
                     type.text());
  return Error::success();
}

Error checkLogSums(const TensorType &type, const CudnnAttention &problem) {
  std::vector<int64_t> shape = {problem.batch, problem.heads, problem.queries, 1};
  if (type.element != ElementType::F32 || type.shape != shape || !isDense(type))
    return makeError(Status::Rejected, "expects log sums ", TensorType{ElementType::F32, shape, std::nullopt}.text(),
                     ", got ", type.text());
  return Error::success();
}

} // namespace

std::vector<int64_t> CudnnAttention::stridesOf(int64_t positions) const {
  if (positionsFirst)
    return {positions * heads * size, size, heads * size, 1};
  return {heads * positions * size, positions * size, size, 1};
}

uint64_t CudnnAttention::scoresBytes() const {
  return static_cast<uint64_t>(batch * heads) * roundUp(queries, tile) * roundUp(keys, tile) * 2;
}

bool CudnnAttention::isRepeatable() const { return !isGradient || scoresBytes() <= mostScores; }

uint64_t CudnnAttention::rowSumsBytes() const { return isGradient ? roundUp(rows() * sizeof(float), 256) : 0; }

uint64_t CudnnAttention::accumulatedBytes() const {
  return isRepeatable() ? 0 : roundUp(queryElements() * sizeof(float), 256);
}

uint64_t CudnnAttention::workspaceBytes() const {
  if (!isGradient)
    return roomForEngine;
  // An engine may keep the gradient of the queries in float32 by itself.
  uint64_t ofEngine = isRepeatable() ? scoresBytes() : roundUp(queryElements() * sizeof(float), 256);
  return ofEngine + rowSumsBytes() + accumulatedBytes() + roomForEngine;
}

bool isCudnnAttention(std::string_view operation) {
  return operation == "attention" || operation == "attention_gradient";
}

Expected<CudnnAttention> readCudnnAttention(const LibraryKernelDesc &desc) {
  CudnnAttention problem;
  problem.isGradient = desc.operation == "attention_gradient";
  size_t inputs = problem.isGradient ? 6 : 3, outputs = desc.outputs.size();
  if (desc.inputs.size() != inputs || (problem.isGradient ? outputs != 3 : outputs != 1 && outputs != 2))
    return makeError(Status::Rejected, "expects ", inputs, " inputs and ", problem.isGradient ? "3" : "1 or 2",
                     " outputs, got ", desc.inputs.size(), " and ", outputs);
  if (!desc.postOps.empty())
    return makeError(Status::Unsupported, "cudnn has no post operations behind it");
  problem.givesLogSums = !problem.isGradient && outputs == 2;
  auto positionsFirst = readInteger(desc, "positions_first", 0, 0, 1), causal = readInteger(desc, "causal", 0, 0, 1);
  for (const auto *value : {&positionsFirst, &causal})
    if (!*value)
      return value->error();
  problem.positionsFirst = *positionsFirst == 1;
  problem.isCausal = *causal == 1;
  if (auto scale = desc.reals.find("scale"); scale != desc.reals.end()) {
    if (scale->second.size() != 1 || !std::isfinite(static_cast<float>(scale->second[0])))
      return makeError(Status::Rejected, "attribute \"scale\" expects one finite number");
    problem.scale = static_cast<float>(scale->second[0]);
  }
  const std::vector<int64_t> &queries = desc.inputs[0].shape, &keys = desc.inputs[1].shape;
  if (queries.size() != 4 || keys.size() != 4)
    return makeError(Status::Rejected, "expects queries and keys of 4 dimensions, got ", desc.inputs[0].text(), " and ",
                     desc.inputs[1].text());
  size_t position = problem.positionsFirst ? 1 : 2;
  problem.batch = queries[0];
  problem.heads = queries[3 - position];
  problem.queries = queries[position];
  problem.size = queries[3];
  problem.keys = keys[position];
  if (problem.size < headUnit || problem.size > largestHead || problem.size % headUnit != 0)
    return makeError(Status::Unsupported, "cudnn expects heads of ", headUnit, " to ", largestHead,
                     " elements, a multiple of ", headUnit, ", got ", problem.size);
  if (problem.batch < 1 || problem.heads < 1 || problem.queries < 1 || problem.keys < 1)
    return makeError(Status::Unsupported, "expects elements, got ", desc.inputs[0].text(), " and ",
                     desc.inputs[1].text());
  for (const std::vector<TensorType> *types : {&desc.inputs, &desc.outputs})
    for (const TensorType &type : *types)
      if (*type.elementCount() > static_cast<uint64_t>(mostElements))
        return makeError(Status::Unsupported, type.text(), " expects at most ", mostElements, " elements");

  std::vector<Argument> arguments = {{&desc.inputs[0], problem.queries},
                                     {&desc.inputs[1], problem.keys},
                                     {&desc.inputs[2], problem.keys},
                                     {&desc.outputs[0], problem.queries}};
  const TensorType *logSums = problem.givesLogSums ? &desc.outputs[1] : nullptr;
  if (problem.isGradient) {
    logSums = &desc.inputs[4];
    arguments.insert(arguments.end(), {{&desc.inputs[3], problem.queries},
                                       {&desc.inputs[5], problem.queries},
                                       {&desc.outputs[1], problem.keys},
                                       {&desc.outputs[2], problem.keys}});
  }
  for (const Argument &argument : arguments)
    if (Error error = checkTensor(argument, problem))
      return error;
  if (logSums)
    if (Error error = checkLogSums(*logSums, problem))
      return error;
  return problem;
}

} // namespace cleave::runtime
