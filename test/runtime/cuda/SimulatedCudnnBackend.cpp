// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cuDNN's backend in memory of the host: descriptors that know their attributes' types, graphs of one convolution or of
// attention, and engines with different notes.

#include "test/runtime/cuda/SimulatedGraph.h"

#include <algorithm>
#include <span>

namespace cleave::simulated {

namespace {

using Rule = DescriptorRule;

/// The operations' attributes have the same order in all directions.
enum OperationPart { Alpha, Beta, Window, Weights, Data, Result };

int firstOf(cudnnBackendDescriptorType_t type) {
  return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ? CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA
         : type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
             ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA
             : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA;
}

std::vector<Rule> rulesOf(cudnnBackendDescriptorType_t type) {
  switch (type) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    return {{CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE},
            {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, 5},
            {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, 5},
            {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64},
            {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64},
            {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 0, 1},
            {CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 0, 1}};
  case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
    return {{CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
            {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE},
            {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64},
            {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, 3},
            {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, 3},
            {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, 3},
            {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, 3}};
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR: {
    std::vector<Rule> rules;
    for (int part : {Alpha, Beta, Window, Weights, Data, Result})
      rules.push_back({firstOf(type) + part, part <= Beta ? CUDNN_TYPE_FLOAT : CUDNN_TYPE_BACKEND_DESCRIPTOR});
    return rules;
  }
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    return {{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE},
            {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 64}};
  case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    return {{CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR},
            {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE}};
  case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    return {{CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR},
            {CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64}};
  case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
    return {{CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE},
            {CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64}};
  case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
    return {{CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR},
            {CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, 8}};
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
    return {{CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE},
            {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR}};
  case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    return {{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, 16},
            {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, 16},
            {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR}};
  default:
    return rulesOfGraphs(type);
  }
}

size_t bytesOf(cudnnBackendAttributeType_t type) {
  if (type == CUDNN_TYPE_BOOLEAN)
    return sizeof(bool);
  return type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_VOID_PTR || type == CUDNN_TYPE_HANDLE ||
                 type == CUDNN_TYPE_BACKEND_DESCRIPTOR
             ? 8
             : 4;
}

using Numerical = std::vector<cudnnBackendNumericalNote_t>;

/// Faster than what is exact are engines that round more, or that may add up in any order.
struct Engine {
  int64_t number;
  double milliseconds;
  uint64_t workspacePerElement;
  Numerical notes;
  std::vector<cudnnBackendBehaviorNote_t> behavior = {};
};
const Engine engines[] = {
    {0, 0.9, 0, {}},
    {1, 0.8, 1, {}}, // its one knob takes 0 and 1, which is faster
    {2, 0.4, 0, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
    {3, 0.5, 0, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}},
    {4, 0.05, 0, {CUDNN_NUMERICAL_NOTE_FFT}},
    {5, 0.06, 0, {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6}},
    {6, 0.7, 1024, {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4}},
    {7, 0.07, 0, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}},
    {8, 0.08, 0, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}},
    {9, 0.09, 0, {CUDNN_NUMERICAL_NOTE_WINOGRAD}},
    {10, 0.1, 0, {CUDNN_NUMERICAL_NOTE_TYPE_COUNT}},
    {11, 0.2, 0, {}, {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}}};
constexpr int64_t knob = CUDNN_KNOB_TYPE_TILE_SIZE, mostOfKnob = 1;

/// Of attention and of its gradient: all are compiled first.
const Engine attentionEngines[] = {{1, 0.9, 0, {}, {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}},
                                   {2, 0.5, 0, {}, {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}}};
const Engine gradientEngines[] = {{6, 1.8, 0, {}, {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}},
                                  {7, 2.8, 0, {}, {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}}};

bool isConvolution(const Descriptor &graph);

const Engine *engineNumbered(const Descriptor &graph, int64_t number) {
  std::span<const Engine> all = engines;
  if (!isConvolution(graph))
    all = Graph(graph).isGradient() ? gradientEngines : attentionEngines;
  auto found = std::find_if(all.begin(), all.end(), [&](const Engine &e) { return e.number == number; });
  return found == all.end() ? nullptr : &*found;
}

/// What heuristics give: engines, and the knob's settings.
std::vector<std::pair<int64_t, std::vector<int64_t>>> found(const Descriptor &graph, cudnnBackendHeurMode_t mode) {
  if (!isConvolution(graph)) {
    Graph made(graph);
    if (made.isGradient() && mode == CUDNN_HEUR_MODE_A)
      return {{7, {}}, {6, {}}};
    if (made.isAttention())
      return {{1, {}}, {2, {}}};
    return {};
  }
  if (mode == CUDNN_HEUR_MODE_FALLBACK)
    return {{0, {}}, {3, {}}};
  return {{4, {}},  {5, {}}, {7, {}}, {8, {}}, {9, {}},  {10, {}},
          {11, {}}, {3, {}}, {2, {}}, {6, {}}, {1, {0}}, {1, {1}}};
}

/// The convolution of a graph, and which of its tensors is computed.
struct Convolved {
  Problem problem;
  Target target;
  std::map<int64_t, Target> numbers; ///< of the tensors
  double beta;                       ///< what lies there is multiplied by
};

Convolved convolvedBy(const Descriptor &graph) {
  const Descriptor &operation = graph.object(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  int first = firstOf(operation.type);
  auto part = [&](OperationPart which) -> const Descriptor & { return operation.object(first + which); };
  const Descriptor &window = part(Window);
  Convolved c;
  c.beta = operation.one<float>(first + Beta);
  c.problem = {tensorOf(part(Data)), tensorOf(part(Weights)), tensorOf(part(Result)), {}};
  c.problem.convolution.pads = window.ints(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  c.problem.convolution.strides = window.ints(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  c.problem.convolution.dilations = window.ints(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  c.problem.convolution.compute = window.one<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  // The backend finds the groups by the channels.
  c.problem.convolution.groups = c.problem.data.dims[1] / c.problem.weights.dims[1];
  c.target = operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? Target::Result
             : operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? Target::Data
                                                                                              : Target::Weights;
  for (auto [which, target] : {std::pair{Data, Target::Data}, {Weights, Target::Weights}, {Result, Target::Result}})
    c.numbers[part(which).one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)] = target;
  return c;
}

/// Notes on an engine of a graph.
Numerical notesOf(const Engine &engine, Target target) {
  Numerical notes = engine.notes;
  if (libraryRefusals.repeatable && target != Target::Result && engine.number != 2)
    notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  return notes;
}

bool isOfConvolution(const Descriptor &descriptor) {
  return descriptor.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
         descriptor.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         descriptor.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

bool isConvolution(const Descriptor &graph) {
  return isOfConvolution(*graph.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).objects.front());
}

cudnnStatus_t setAttribute(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type, int64_t count, const void *values) {
  Descriptor &descriptor = *shared(to);
  std::vector<Rule> rules = rulesOf(descriptor.type);
  auto rule = std::find_if(rules.begin(), rules.end(), [&](const Rule &each) { return each.name == int(name); });
  if (descriptor.isFinished || !values || rule == rules.end() || rule->type != type || count < rule->least ||
      count < 1 || count > rule->most)
    return CUDNN_STATUS_BAD_PARAM;
  Value &value = descriptor.values[name];
  auto begin = static_cast<const std::byte *>(values);
  value.bytes.assign(begin, begin + count * bytesOf(type));
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    for (auto object : descriptor.list<cudnnBackendDescriptor_t>(name)) {
      if (!object || !shared(object)->isFinished)
        return CUDNN_STATUS_BAD_PARAM;
      value.objects.push_back(shared(object));
    }
  return CUDNN_STATUS_SUCCESS;
}

/// What there is to check beside the attributes' being there.
cudnnStatus_t check(const Descriptor &descriptor) {
  if (isOfConvolution(descriptor)) {
    int first = firstOf(descriptor.type);
    auto beta = descriptor.one<float>(first + Beta);
    bool isPlain = descriptor.one<float>(first + Alpha) == 1 && (beta == 0 || beta == 1);
    bool isTyped = descriptor.object(first + Window).type == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
    for (int part : {Weights, Data, Result})
      isTyped &= descriptor.object(first + part).type == CUDNN_BACKEND_TENSOR_DESCRIPTOR;
    return isPlain && isTyped ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
  }
  switch (descriptor.type) {
  case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: {
    auto rank = static_cast<size_t>(descriptor.one<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
    for (int name : {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                     CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS})
      if (descriptor.ints(name).size() != rank)
        return CUDNN_STATUS_BAD_PARAM;
    bool isCorrelation =
        descriptor.one<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION;
    return isCorrelation ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
  }
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    return isConvolution(descriptor) ? convolvedBy(descriptor).problem.check() : CUDNN_STATUS_SUCCESS;
  case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    ++engineSearches;
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    return engineNumbered(descriptor.object(CUDNN_ATTR_ENGINE_OPERATION_GRAPH),
                          descriptor.one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX))
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_BAD_PARAM;
  case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: {
    int64_t number = descriptor.object(CUDNN_ATTR_ENGINECFG_ENGINE).one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    auto knobs = descriptor.values.find(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
    if (knobs == descriptor.values.end())
      return CUDNN_STATUS_SUCCESS;
    for (const Shared &choice : knobs->second.objects) {
      auto value = choice->one<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
      if (number != 1 || choice->one<int>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE) != knob || value < 0 || value > mostOfKnob)
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
    return CUDNN_STATUS_SUCCESS;
  }
  default:
    return checkOperation(descriptor);
  }
}

cudnnStatus_t finalize(cudnnBackendDescriptor_t which) {
  Descriptor &descriptor = *shared(which);
  for (const Rule &rule : rulesOf(descriptor.type))
    if (rule.least != 0 && !descriptor.values.contains(rule.name))
      return CUDNN_STATUS_BAD_PARAM;
  cudnnStatus_t status = check(descriptor);
  descriptor.isFinished = status == CUDNN_STATUS_SUCCESS;
  return status;
}

/// Of an engine's configuration.
struct Configuration {
  const Engine &engine;
  bool isFast; ///< by its knob
  const Descriptor &graph;

  uint64_t workspace() const {
    if (isConvolution(graph))
      return engine.workspacePerElement * convolvedBy(graph).problem.result.count();
    Graph made(graph);
    constexpr uint64_t little = 1024;
    return made.isGradient() && !made.accumulates() ? made.scoresBytes() : little;
  }
};

Configuration configurationOf(const Descriptor &descriptor) {
  const Descriptor &engine = descriptor.object(CUDNN_ATTR_ENGINECFG_ENGINE);
  auto knobs = descriptor.values.find(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
  bool isFast = knobs != descriptor.values.end() &&
                knobs->second.objects[0]->one<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE) == mostOfKnob;
  const Descriptor &graph = engine.object(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  return {*engineNumbered(graph, engine.one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)), isFast, graph};
}

template <typename T>
void setObject(Descriptor &descriptor, cudnnBackendAttributeName_t name, const std::vector<T> &values) {
  auto bytes = std::as_bytes(std::span(values));
  descriptor.values[name].bytes.assign(bytes.begin(), bytes.end());
}

/// Fills in the objects that an attribute has, for which the caller has made descriptors of the type.
cudnnStatus_t giveObjects(const std::vector<Shared> &objects, int64_t most, int64_t *count, void *values) {
  *count = static_cast<int64_t>(objects.size());
  if (most == 0)
    return CUDNN_STATUS_SUCCESS;
  *count = std::min(*count, most);
  for (int64_t i = 0; i != *count; ++i) {
    Shared &place = shared(static_cast<cudnnBackendDescriptor_t *>(values)[i]);
    if (place->type != objects[i]->type || place->isFinished)
      return CUDNN_STATUS_BAD_PARAM;
    place = objects[i];
  }
  return CUDNN_STATUS_SUCCESS;
}

template <typename T> cudnnStatus_t give(const std::vector<T> &list, int64_t most, int64_t *count, void *values) {
  *count = std::min<int64_t>(most, static_cast<int64_t>(list.size()));
  std::copy_n(list.begin(), *count, static_cast<T *>(values));
  return CUDNN_STATUS_SUCCESS;
}

std::vector<Shared> resultsOf(const Descriptor &heuristic) {
  std::vector<Shared> results;
  const Shared &graph = heuristic.values.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).objects[0];
  for (const auto &[number, settings] :
       found(*graph, heuristic.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE))) {
    auto engine = std::make_shared<Descriptor>(Descriptor{CUDNN_BACKEND_ENGINE_DESCRIPTOR, true, {}});
    engine->values[CUDNN_ATTR_ENGINE_OPERATION_GRAPH].objects = {graph};
    setObject(*engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, std::vector{number});
    auto configuration = std::make_shared<Descriptor>(Descriptor{CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, true, {}});
    configuration->values[CUDNN_ATTR_ENGINECFG_ENGINE].objects = {engine};
    for (int64_t setting : settings) {
      auto choice = std::make_shared<Descriptor>(Descriptor{CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, true, {}});
      setObject(*choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, std::vector{CUDNN_KNOB_TYPE_TILE_SIZE});
      setObject(*choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, std::vector{setting});
      configuration->values[CUDNN_ATTR_ENGINECFG_KNOB_CHOICES].objects.push_back(choice);
    }
    results.push_back(configuration);
  }
  return results;
}

cudnnStatus_t getAttribute(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type, int64_t most, int64_t *count, void *values) {
  const Descriptor &descriptor = *shared(of);
  if (!descriptor.isFinished || !count || (most != 0 && !values))
    return CUDNN_STATUS_BAD_PARAM;
  auto is = [&](cudnnBackendDescriptorType_t wanted, cudnnBackendAttributeType_t wantedType) {
    return descriptor.type == wanted && type == wantedType;
  };
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && is(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR))
    return giveObjects(resultsOf(descriptor), most, count, values);
  if ((name == CUDNN_ATTR_ENGINECFG_ENGINE || name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES) &&
      is(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR)) {
    auto found = descriptor.values.find(name);
    return giveObjects(found == descriptor.values.end() ? std::vector<Shared>() : found->second.objects, most, count,
                       values);
  }
  if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX && is(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_TYPE_INT64))
    return give(descriptor.list<int64_t>(name), most, count, values);
  if (descriptor.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
    const Descriptor &graph = descriptor.object(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
    const Engine &engine = *engineNumbered(graph, descriptor.one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
    Target target = isConvolution(graph) ? convolvedBy(graph).target : Target::Result;
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE)
      return give(notesOf(engine, target), most, count, values);
    if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE && type == CUDNN_TYPE_BEHAVIOR_NOTE)
      return give(engine.behavior, most, count, values);
  }
  if (name == CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE && is(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_TYPE_KNOB_TYPE))
    return give(descriptor.list<cudnnBackendKnobType_t>(name), most, count, values);
  if (name == CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE && is(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_TYPE_INT64))
    return give(descriptor.list<int64_t>(name), most, count, values);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && is(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_TYPE_INT64))
    return give(std::vector{static_cast<int64_t>(
                    configurationOf(descriptor.object(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)).workspace())},
                most, count, values);
  return CUDNN_STATUS_BAD_PARAM;
}

/// Whether an engine's notes say of anything but the order of sums and tensor cores: it computes something else, to be
/// noticed.
bool isCoarse(const Engine &engine, const Problem &p) {
  for (cudnnBackendNumericalNote_t note : engine.notes)
    if (note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4)
      return p.data.type != CUDNN_DATA_FLOAT;
  return std::any_of(engine.notes.begin(), engine.notes.end(), [](auto note) {
    return note != CUDNN_NUMERICAL_NOTE_TENSOR_CORE && note != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
  });
}

cudnnStatus_t executeGraph(cudaStream_t stream, const Configuration &c, const std::vector<int64_t> &numbers,
                           const std::vector<void *> &pointers, void *workspace) {
  GraphPlaces places;
  for (size_t i = 0; i != numbers.size(); ++i)
    places[numbers[i]] = pointers[i];
  auto graph = std::make_shared<Graph>(c.graph);
  uint64_t needed = c.workspace();
  if (!graph->fits(places) || places.size() != numbers.size() || !workspace ||
      reinterpret_cast<uintptr_t>(workspace) % 256 != 0)
    return CUDNN_STATUS_BAD_PARAM;
  graph->readNumbers(places);
  enqueue(stream, [=, time = c.engine.milliseconds] {
    std::memset(workspace, 0xff, needed);
    // Each run begins with what lies in memory then: a captured call is repeated.
    Graph(*graph).run(places);
    if (spendTime)
      spendTime(time);
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t variants) {
  const Descriptor &pack = *shared(variants);
  if (!handle || !shared(plan)->isFinished || !pack.isFinished)
    return CUDNN_STATUS_BAD_PARAM;
  Configuration c = configurationOf(shared(plan)->object(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
  if (libraryRefusals.runningEngines.contains(c.engine.number))
    return CUDNN_STATUS_EXECUTION_FAILED;
  auto numbers = pack.list<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto pointers = pack.list<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  void *workspace = pack.one<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (numbers.size() != pointers.size())
    return CUDNN_STATUS_BAD_PARAM;
  if (!isConvolution(c.graph))
    return executeGraph(streamOf(handle), c, numbers, pointers, workspace);
  Convolved convolved = convolvedBy(c.graph);
  std::map<Target, void *> places;
  for (size_t i = 0; i != numbers.size(); ++i) {
    auto tensor = convolved.numbers.find(numbers[i]);
    if (tensor == convolved.numbers.end() || reinterpret_cast<uintptr_t>(pointers[i]) % 64 != 0)
      return CUDNN_STATUS_BAD_PARAM;
    places[tensor->second] = pointers[i];
  }
  uint64_t needed = c.workspace();
  if (places.size() != 3 || (needed != 0 && (!workspace || reinterpret_cast<uintptr_t>(workspace) % 256 != 0)))
    return CUDNN_STATUS_BAD_PARAM;
  Problem p = convolved.problem;
  const Numerical &notes = c.engine.notes;
  bool isRounded = std::find(notes.begin(), notes.end(), CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != notes.end();
  p.convolution.math = isRounded ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
  double factor = isCoarse(c.engine, p) ? 1.05 : 1, time = c.engine.milliseconds + (c.isFast ? -0.05 : 0);
  Target target = convolved.target;
  double beta = convolved.beta;
  enqueue(streamOf(handle), [=]() mutable {
    if (needed != 0)
      std::memset(workspace, 0xff, needed);
    storeAll(written(p, target), places[target],
             fastSums(p, target, places[Target::Data], places[Target::Weights], places[Target::Result]), factor, beta);
    if (spendTime)
      spendTime(time);
  });
  return CUDNN_STATUS_SUCCESS;
}

} // namespace

void fillBackend(runtime::Cudnn &t) {
  t.cudnnBackendCreateDescriptor = [](cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *made) {
    if ((libraryRefusals.engines && type == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) || rulesOf(type).empty())
      return CUDNN_STATUS_NOT_SUPPORTED;
    *made = new Shared(std::make_shared<Descriptor>(Descriptor{type, false, {}}));
    return CUDNN_STATUS_SUCCESS;
  };
  t.cudnnBackendDestroyDescriptor = [](cudnnBackendDescriptor_t descriptor) {
    delete &shared(descriptor);
    return CUDNN_STATUS_SUCCESS;
  };
  t.cudnnBackendSetAttribute = setAttribute;
  t.cudnnBackendFinalize = finalize;
  t.cudnnBackendGetAttribute = getAttribute;
  t.cudnnBackendExecute = execute;
}

} // namespace cleave::simulated
