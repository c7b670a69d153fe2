// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A graph of operations of cuDNN's backend; the engines that cuDNN would compute it with, what is said of their
// arithmetic, and plans to run them.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNGRAPH_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNGRAPH_H

#include "runtime/drivers/cuda/CudnnBackend.h"

#include <functional>

namespace cleave::runtime {

/// What all addresses of a kernel's arguments are a multiple of, and what that of an engine's workspace has to be one
/// of.
inline constexpr int64_t cudnnArgumentAlignment = 64, cudnnWorkspaceAlignment = 256;

/// An engine by cuDNN's number, with its knobs' settings: cuDNN's number of the knob, and the value.
struct CudnnEngineChoice {
  int64_t engine = 0;
  std::vector<std::pair<int64_t, int64_t>> knobs;

  bool operator==(const CudnnEngineChoice &) const = default;
  /// "engine 67 2=12 18=0".
  std::string text() const;
  /// What text() wrote, or nothing.
  static std::optional<CudnnEngineChoice> read(const std::string &text);
};

/// What cuDNN says of an engine.
struct CudnnEngineNotes {
  std::vector<cudnnBackendNumericalNote_t> numerical;
  std::vector<cudnnBackendBehaviorNote_t> behavior;

  bool has(cudnnBackendNumericalNote_t note) const;
  bool has(cudnnBackendBehaviorNote_t note) const;
  bool isRepeatable() const { return !has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC); }
  /// Whether the engine can be used without further ado: its code is there, and tensors are as they lie.
  bool isReady() const;
};

/// A finished plan, and what it was made from, which lives longer.
struct CudnnPlan {
  std::vector<CudnnBackendObject> parts;
  CudnnBackendObject plan;
  uint64_t workspaceBytes = 0;
};

class CudnnGraph {
public:
  /// Of finished operations. For the handle's device; or, with null, for what `properties` describe, a finished
  /// descriptor of a device's properties, which need not be there. Both live longer.
  static Expected<CudnnGraph> make(const Cudnn &library, const std::vector<CudnnBackendObject> &operations,
                                   cudnnHandle_t handle, const CudnnBackendObject *properties = nullptr);

  /// The configurations of engines that cuDNN's heuristic finds, the likeliest first.
  Expected<std::vector<CudnnEngineChoice>> find(cudnnBackendHeurMode_t mode) const;
  Expected<CudnnEngineNotes> notesOf(int64_t engine) const;
  Expected<CudnnPlan> plan(const CudnnEngineChoice &choice) const;
  /// Puts a plan on the handle's stream: where each of the graph's tensors is, by its number.
  Error execute(cudnnHandle_t on, const CudnnPlan &plan, const std::vector<std::pair<int64_t, void *>> &tensors,
                void *workspace) const;

private:
  CudnnGraph(const Cudnn &library, cudnnHandle_t handle, const CudnnBackendObject *properties, CudnnBackendObject graph)
      : library(&library), handle(handle), properties(properties), graph(std::move(graph)) {}
  Expected<CudnnBackendObject> engine(int64_t number) const;

  const Cudnn *library;
  cudnnHandle_t handle;
  const CudnnBackendObject *properties;
  CudnnBackendObject graph;
};

/// An engine that was taken, and what a run of it takes.
struct CudnnMeasuredEngine {
  CudnnEngineChoice choice;
  CudnnPlan plan;
  float milliseconds = 0;
};

/// The fastest of the engines that cuDNN's heuristics find for a graph, in modes tried in turn: those of a further
/// group only where no engine of the groups before runs. Of a group up to `most` plans are measured. `usable` builds
/// the plan of a choice, or says why it is not to be used; `measure` gives milliseconds, and need not measure to the
/// end what is clearly slower than `least`. An error is the last of those on the way; success of none is
/// Status::Unsupported.
Expected<CudnnMeasuredEngine>
fastestEngine(const CudnnGraph &graph, const std::vector<std::vector<cudnnBackendHeurMode_t>> &groups, size_t most,
              const std::function<Expected<CudnnPlan>(const CudnnEngineChoice &)> &usable,
              const std::function<Expected<float>(const CudnnPlan &, float least)> &measure);

/// The workspace for engines in a kernel's scratch memory of `bytes` bytes, and where it begins there.
uint64_t cudnnWorkspaceBytes(uint64_t bytes);
void *cudnnWorkspace(void *scratch);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNGRAPH_H
