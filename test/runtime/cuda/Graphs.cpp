// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Capture of streams and replay of graphs in the simulated CUDA.

#include "Simulation.h"

namespace cleave::simulated {

static cudaError_t beginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  Stream *stream = simulation.find(handle);
  if (!stream)
    return cudaErrorInvalidResourceHandle;
  if (!simulation.options.captures)
    return simulation.fail(cudaErrorStreamCaptureUnsupported);
  if (stream->capture)
    return simulation.misuse("capturing a stream twice", cudaErrorIllegalState);
  stream->capture = std::make_shared<Capture>();
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->streams = {stream};
  stream->captured.clear();
  return cudaSuccess;
}

/// Whether all that streams did comes before what the first stream stands behind.
static bool isJoined(const Capture &capture, const Stream &origin) {
  std::set<size_t> before;
  std::vector<size_t> next = origin.captured;
  while (!next.empty()) {
    size_t node = next.back();
    next.pop_back();
    if (before.insert(node).second)
      next.insert(next.end(), capture.nodes[node].before.begin(), capture.nodes[node].before.end());
  }
  return before.size() == capture.nodes.size();
}

static cudaError_t endCapture(cudaStream_t handle, cudaGraph_t *graph) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  *graph = nullptr;
  Stream *origin = simulation.find(handle);
  if (!origin || !origin->capture)
    return simulation.misuse("the end of a capture that never began", cudaErrorIllegalState);
  std::shared_ptr<Capture> capture = origin->capture;
  bool joined = isJoined(*capture, *origin);
  std::vector<Node> nodes = std::move(capture->nodes); // events may keep the capture
  for (Stream *stream : capture->streams) {
    stream->capture = nullptr;
    stream->captured.clear();
  }
  capture->streams.clear();
  if (capture->isBroken)
    return simulation.fail(cudaErrorStreamCaptureInvalidated);
  if (!joined)
    return simulation.misuse("a captured stream that does not come back", cudaErrorStreamCaptureUnjoined);
  auto made = std::make_unique<Graph>();
  made->nodes = std::move(nodes);
  *graph = reinterpret_cast<cudaGraph_t>(made.get());
  simulation.graphs[made.get()] = std::move(made);
  return simulation.begin();
}

static cudaError_t isCapturing(cudaStream_t handle, cudaStreamCaptureStatus *status) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  Stream *stream = simulation.find(handle);
  if (!stream)
    return cudaErrorInvalidResourceHandle;
  *status = !stream->capture            ? cudaStreamCaptureStatusNone
            : stream->capture->isBroken ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

static Graph *findGraph(Simulation &simulation, void *handle) {
  auto found = simulation.graphs.find(static_cast<Graph *>(handle));
  if (found == simulation.graphs.end()) {
    simulation.misuse("use of a graph that is gone");
    return nullptr;
  }
  return found->second.get();
}

static cudaError_t instantiate(cudaGraphExec_t *exec, cudaGraph_t handle, unsigned long long) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  Graph *graph = findGraph(simulation, handle);
  if (!graph)
    return cudaErrorInvalidValue;
  auto made = std::make_unique<Graph>(*graph);
  *exec = reinterpret_cast<cudaGraphExec_t>(made.get());
  ++simulation.graphsMade;
  simulation.graphs[made.get()] = std::move(made);
  return cudaSuccess;
}

/// The graph and the stream of a call that has the graph's memory on the GPU.
static cudaError_t findLaunch(Simulation &simulation, cudaGraphExec_t handle, cudaStream_t streamHandle, Graph *&graph,
                              Stream *&stream) {
  if (cudaError_t code = simulation.begin())
    return code;
  graph = findGraph(simulation, handle);
  stream = simulation.find(streamHandle);
  if (!graph || !stream)
    return cudaErrorInvalidValue;
  if (stream->capture)
    return simulation.misuse("a graph in a graph", cudaErrorStreamCaptureUnsupported);
  return simulation.options.holdsGraphs ? cudaSuccess : simulation.fail(cudaErrorMemoryAllocation);
}

static cudaError_t uploadGraph(cudaGraphExec_t handle, cudaStream_t streamHandle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  Graph *graph = nullptr;
  Stream *stream = nullptr;
  return findLaunch(simulation, handle, streamHandle, graph, stream);
}

/// A graph runs behind its own last run, too.
static cudaError_t launchGraph(cudaGraphExec_t handle, cudaStream_t streamHandle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  Graph *graph = nullptr;
  Stream *stream = nullptr;
  if (cudaError_t code = findLaunch(simulation, handle, streamHandle, graph, stream))
    return code;
  ++simulation.graphLaunches;
  std::vector<std::shared_ptr<Op>> ops, first = {stream->last, graph->last};
  for (const Node &node : graph->nodes) {
    std::vector<std::shared_ptr<Op>> before;
    for (size_t other : node.before)
      before.push_back(ops[other]);
    ops.push_back(
        simulation.put(node.gpu, ops.size() * 0x9e3779b97f4a7c15, node.task, before.empty() ? first : before));
  }
  ops.insert(ops.end(), first.begin(), first.end());
  stream->last = graph->last = simulation.put(stream->gpu, stream->priority, {}, ops);
  simulation.dawdle();
  return cudaSuccess;
}

static cudaError_t destroy(void *handle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  Graph *graph = findGraph(simulation, handle);
  if (!graph)
    return cudaErrorInvalidValue;
  simulation.graphs.erase(graph);
  return cudaSuccess;
}

static cudaError_t destroyGraph(cudaGraph_t graph) { return destroy(graph); }
static cudaError_t destroyExec(cudaGraphExec_t graph) { return destroy(graph); }

static cudaError_t getNodes(cudaGraph_t handle, cudaGraphNode_t *, size_t *count) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  Graph *graph = findGraph(simulation, handle);
  if (!graph)
    return cudaErrorInvalidValue;
  *count = graph->nodes.size();
  return cudaSuccess;
}

void fillGraphs(runtime::CudaRuntime &table) {
  table.cudaStreamBeginCapture = beginCapture;
  table.cudaStreamEndCapture = endCapture;
  table.cudaStreamIsCapturing = isCapturing;
  table.cudaGraphInstantiate = instantiate;
  table.cudaGraphLaunch = launchGraph;
  table.cudaGraphUpload = uploadGraph;
  table.cudaGraphDestroy = destroyGraph;
  table.cudaGraphExecDestroy = destroyExec;
  table.cudaGraphGetNodes = getNodes;
}

} // namespace cleave::simulated
