// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asks cuDNN's backend about graphs, and runs them.

#include "runtime/drivers/cuda/CudnnGraph.h"

#include <algorithm>
#include <limits>
#include <sstream>

namespace cleave::runtime {

namespace {

/// More engines, and knobs of one, than there are.
constexpr int64_t mostEngines = 128, mostKnobs = 64;
/// More notes than this version of cuDNN has.
constexpr int64_t mostNotes = 64;

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

bool CudnnEngineNotes::isReady() const {
  return !has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) && !has(CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER) &&
         !has(CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER);
}

Expected<CudnnGraph> CudnnGraph::make(const Cudnn &library, const std::vector<CudnnBackendObject> &operations,
                                      cudnnHandle_t handle, const CudnnBackendObject *properties) {
  CudnnBackendObject graph(library, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (handle)
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  if (Error error = graph.finalize())
    return error;
  return CudnnGraph(library, handle, properties, std::move(graph));
}

Expected<std::vector<CudnnEngineChoice>> CudnnGraph::find(cudnnBackendHeurMode_t mode) const {
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

Expected<CudnnBackendObject> CudnnGraph::engine(int64_t number) const {
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

Expected<CudnnEngineNotes> CudnnGraph::notesOf(int64_t number) const {
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

Expected<CudnnPlan> CudnnGraph::plan(const CudnnEngineChoice &choice) const {
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

Error CudnnGraph::execute(cudnnHandle_t on, const CudnnPlan &plan,
                          const std::vector<std::pair<int64_t, void *>> &tensors, void *workspace) const {
  std::vector<int64_t> numbers;
  std::vector<void *> places;
  for (auto [number, place] : tensors) {
    numbers.push_back(number);
    places.push_back(place);
  }
  CudnnBackendObject pack(*library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, numbers)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, places)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  if (Error error = pack.finalize())
    return error;
  return checkCudnn(*library, library->cudnnBackendExecute(on, plan.plan.descriptor(), pack.descriptor()),
                    "cudnnBackendExecute");
}

Expected<CudnnMeasuredEngine>
fastestEngine(const CudnnGraph &graph, const std::vector<std::vector<cudnnBackendHeurMode_t>> &groups, size_t most,
              const std::function<Expected<CudnnPlan>(const CudnnEngineChoice &)> &usable,
              const std::function<Expected<float>(const CudnnPlan &, float least)> &measure) {
  std::optional<CudnnMeasuredEngine> fastest;
  Error last = makeError(Status::Unsupported, "cuDNN's heuristics find none");
  std::vector<CudnnEngineChoice> tried;
  auto measureChoice = [&](const CudnnEngineChoice &choice) {
    auto plan = usable(choice);
    if (!plan) {
      last = plan.error();
      return false;
    }
    float least = fastest ? fastest->milliseconds : std::numeric_limits<float>::infinity();
    auto time = measure(*plan, least);
    if (!time)
      last = time.error();
    else if (*time < least)
      fastest = {choice, std::move(*plan), *time};
    return true;
  };
  for (const std::vector<cudnnBackendHeurMode_t> &group : groups) {
    size_t measured = 0;
    for (cudnnBackendHeurMode_t mode : group) {
      auto choices = graph.find(mode);
      if (!choices) {
        last = choices.error();
        continue;
      }
      for (const CudnnEngineChoice &choice : *choices) {
        if (measured == most)
          break;
        if (std::find(tried.begin(), tried.end(), choice) != tried.end())
          continue;
        tried.push_back(choice);
        measured += measureChoice(choice);
      }
    }
    if (fastest)
      return std::move(*fastest);
  }
  return last;
}

uint64_t cudnnWorkspaceBytes(uint64_t bytes) {
  constexpr uint64_t most = cudnnWorkspaceAlignment - cudnnArgumentAlignment;
  return bytes > most ? bytes - most : 0;
}

void *cudnnWorkspace(void *scratch) {
  constexpr uint64_t alignment = cudnnWorkspaceAlignment;
  auto begin = reinterpret_cast<uintptr_t>(scratch);
  return reinterpret_cast<void *>((begin + alignment - 1) / alignment * alignment);
}

} // namespace cleave::runtime
