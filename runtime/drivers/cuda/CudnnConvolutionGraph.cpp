// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds what cuDNN's backend wants to know of a convolution, and asks it.

#include "runtime/drivers/cuda/CudnnConvolutionGraph.h"

#include <algorithm>
#include <sstream>

namespace cleave::runtime {

namespace {

/// The tensors' numbers in the graph.
enum TensorNumber : int64_t { dataNumber = 1, weightsNumber, resultNumber };

/// What all addresses of arguments are a multiple of.
constexpr int64_t argumentAlignment = 64;
/// More engines, and knobs of one, than there are.
constexpr int64_t mostEngines = 128, mostKnobs = 64;
/// More notes than this version of cuDNN has.
constexpr int64_t mostNotes = 64;

std::vector<int64_t> wide(const std::vector<int> &values) { return {values.begin(), values.end()}; }

Expected<CudnnBackendObject> makeTensor(const Cudnn &library, ElementType element, const std::vector<int> &dims,
                                        int64_t number) {
  std::vector<int64_t> sizes = wide(dims), strides(dims.size(), 1);
  for (size_t d = dims.size() - 1; d-- != 0;)
    strides[d] = strides[d + 1] * sizes[d + 1];
  CudnnBackendObject tensor(library, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, cudnnType(element))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, number)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, argumentAlignment);
  if (Error error = tensor.finalize())
    return error;
  return tensor;
}

Expected<CudnnBackendObject> makeConvolution(const Cudnn &library, const CudnnWindow &window) {
  CudnnBackendObject convolution(library, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(window.pads.size()))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, wide(window.dilations))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, wide(window.strides))
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, wide(window.pads))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, wide(window.pads));
  if (Error error = convolution.finalize())
    return error;
  return convolution;
}

/// An operation's type and attributes in a direction.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, data, weights, result;
};

OperationNames namesOf(CudnnConvolution::Direction direction) {
  switch (direction) {
  case CudnnConvolution::Direction::Forward:
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  case CudnnConvolution::Direction::BackwardData:
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
  case CudnnConvolution::Direction::BackwardWeights:
    break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

} // namespace

std::string CudnnEngineChoice::text() const {
  std::ostringstream stream;
  stream << "engine " << engine;
  for (auto [knob, value] : knobs)
    stream << ' ' << knob << '=' << value;
  return stream.str();
}

std::optional<CudnnEngineChoice> CudnnEngineChoice::read(const std::string &text) {
  std::istringstream stream(text);
  std::string family;
  CudnnEngineChoice choice;
  if (!(stream >> family >> choice.engine) || family != "engine")
    return std::nullopt;
  for (int64_t knob = 0, value = 0; stream >> knob;) {
    if (stream.get() != '=' || !(stream >> value))
      return std::nullopt;
    choice.knobs.emplace_back(knob, value);
  }
  return choice.text() == text ? std::optional(choice) : std::nullopt;
}

bool CudnnEngineNotes::has(cudnnBackendNumericalNote_t note) const {
  return std::find(numerical.begin(), numerical.end(), note) != numerical.end();
}

bool CudnnEngineNotes::has(cudnnBackendBehaviorNote_t note) const {
  return std::find(behavior.begin(), behavior.end(), note) != behavior.end();
}

bool CudnnEngineNotes::isExact(const CudnnConvolution &problem) const {
  bool isRounded = problem.element == ElementType::BF16 || problem.tf32;
  for (cudnnBackendNumericalNote_t note :
       {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
        CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13})
    if (has(note))
      return false;
  if (has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) && !isRounded)
    return false;
  if (has(CUDNN_NUMERICAL_NOTE_WINOGRAD) && (isRounded || !has(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4)))
    return false;
  // A newer cuDNN may round in ways that these headers do not know.
  return std::none_of(numerical.begin(), numerical.end(),
                      [](auto note) { return note >= CUDNN_NUMERICAL_NOTE_TYPE_COUNT; });
}

bool CudnnEngineNotes::isReady() const {
  return !has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) && !has(CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER) &&
         !has(CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER);
}

Expected<CudnnConvolutionGraph> CudnnConvolutionGraph::make(const Cudnn &library, const CudnnConvolution &problem,
                                                            bool adds, cudnnHandle_t handle,
                                                            const CudnnBackendObject *properties) {
  auto data = makeTensor(library, problem.element, problem.data, dataNumber);
  auto weights = makeTensor(library, problem.element, problem.weights, weightsNumber);
  auto result = makeTensor(library, problem.element, problem.result, resultNumber);
  auto convolution = makeConvolution(library, problem.window);
  for (const auto *part : {&data, &weights, &result, &convolution})
    if (!*part)
      return part->error();
  OperationNames names = namesOf(problem.direction);
  std::vector<CudnnBackendObject> operations;
  CudnnBackendObject &operation = operations.emplace_back(library, names.type);
  operation.set(names.alpha, 1.0f)
      .set(names.beta, adds ? 1.0f : 0.0f)
      .set(names.convolution, *convolution)
      .set(names.data, *data)
      .set(names.weights, *weights)
      .set(names.result, *result);
  if (Error error = operation.finalize())
    return error;
  CudnnBackendObject graph(library, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (handle)
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  if (Error error = graph.finalize())
    return error;
  return CudnnConvolutionGraph(library, handle, properties, std::move(graph));
}

Expected<std::vector<CudnnEngineChoice>> CudnnConvolutionGraph::find(cudnnBackendHeurMode_t mode) const {
  CudnnBackendObject heuristic(*library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
#if CUDNN_VERSION >= 90800
  if (properties)
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *properties);
#endif
  if (Error error = heuristic.finalize())
    return error;
  auto count = heuristic.countObjects(CUDNN_ATTR_ENGINEHEUR_RESULTS);
  if (!count)
    return count.error();
  auto configurations = heuristic.getObjects(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                             std::clamp<int64_t>(*count, 0, mostEngines));
  if (!configurations)
    return configurations.error();
  std::vector<CudnnEngineChoice> choices;
  for (const CudnnBackendObject &configuration : *configurations) {
    auto engines = configuration.getObjects(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
    auto knobs =
        configuration.getObjects(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, mostKnobs);
    if (!engines || engines->empty() || !knobs)
      continue;
    auto number = engines->front().getOne<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    if (!number)
      continue;
    CudnnEngineChoice choice{*number, {}};
    for (const CudnnBackendObject &knob : *knobs) {
      auto type = knob.getOne<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
      auto value = knob.getOne<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
      if (type && value)
        choice.knobs.emplace_back(*type, *value);
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

Expected<CudnnBackendObject> CudnnConvolutionGraph::engine(int64_t number) const {
  CudnnBackendObject engine(*library, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, number);
#if CUDNN_VERSION >= 90800
  if (properties)
    engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *properties);
#endif
  if (Error error = engine.finalize())
    return error;
  return engine;
}

Expected<CudnnEngineNotes> CudnnConvolutionGraph::notesOf(int64_t number) const {
  auto made = engine(number);
  if (!made)
    return made.error();
  auto numerical = made->get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, mostNotes);
  if (!numerical)
    return numerical.error();
  auto behavior = made->get<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, mostNotes);
  if (!behavior)
    return behavior.error();
  return CudnnEngineNotes{std::move(*numerical), std::move(*behavior)};
}

Expected<CudnnPlan> CudnnConvolutionGraph::plan(const CudnnEngineChoice &choice) const {
  auto made = engine(choice.engine);
  if (!made)
    return made.error();
  std::vector<CudnnBackendObject> parts;
  for (auto [knob, value] : choice.knobs) {
    CudnnBackendObject &part = parts.emplace_back(*library, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    part.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(knob))
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
    if (Error error = part.finalize())
      return error;
  }
  CudnnBackendObject configuration(*library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  configuration.set(CUDNN_ATTR_ENGINECFG_ENGINE, *made);
  if (!parts.empty())
    configuration.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, parts);
  if (Error error = configuration.finalize())
    return error;
  CudnnBackendObject plan(*library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (handle)
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
#if CUDNN_VERSION >= 90800
  if (properties)
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *properties);
#endif
  if (Error error = plan.finalize())
    return error;
  auto bytes = plan.getOne<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  if (!bytes)
    return bytes.error();
  parts.push_back(std::move(*made));
  parts.push_back(std::move(configuration));
  return CudnnPlan{std::move(parts), std::move(plan), static_cast<uint64_t>(std::max<int64_t>(*bytes, 0))};
}

Error CudnnConvolutionGraph::execute(cudnnHandle_t on, const CudnnPlan &plan, void *data, void *weights, void *result,
                                     void *workspace) const {
  CudnnBackendObject pack(*library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::vector<int64_t>{dataNumber, weightsNumber, resultNumber})
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::vector<void *>{data, weights, result})
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  if (Error error = pack.finalize())
    return error;
  return checkCudnn(*library, library->cudnnBackendExecute(on, plan.plan.descriptor(), pack.descriptor()),
                    "cudnnBackendExecute");
}

} // namespace cleave::runtime
