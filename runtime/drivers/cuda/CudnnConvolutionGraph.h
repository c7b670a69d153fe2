// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A convolution as a graph of one operation of cuDNN's backend; the engines that cuDNN would compute it with, what is
// said of their arithmetic, and plans to run them.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNCONVOLUTIONGRAPH_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNCONVOLUTIONGRAPH_H

#include "runtime/drivers/cuda/CudnnBackend.h"
#include "runtime/drivers/cuda/rules/CudnnProblem.h"

namespace cleave::runtime {

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
  /// Whether sums are as exact as sums of products in the problem's arithmetic, as routines' have to be
  /// (docs/rationale/kernels-for-gpus.md).
  bool isExact(const CudnnConvolution &problem) const;
  /// Whether the engine can be used without further ado: its code is there, and tensors are as they lie.
  bool isReady() const;
};

/// A finished plan, and what it was made from, which lives longer.
struct CudnnPlan {
  std::vector<CudnnBackendObject> parts;
  CudnnBackendObject plan;
  uint64_t workspaceBytes = 0;
};

class CudnnConvolutionGraph {
public:
  /// `adds`: what is computed is added to what lies there. For the handle's device; or, with null, for what
  /// `properties` describe, a finished descriptor of a device's properties, which need not be there. Both live longer.
  static Expected<CudnnConvolutionGraph> make(const Cudnn &library, const CudnnConvolution &problem, bool adds,
                                              cudnnHandle_t handle, const CudnnBackendObject *properties = nullptr);

  /// The configurations of engines that cuDNN's heuristic finds, the likeliest first.
  Expected<std::vector<CudnnEngineChoice>> find(cudnnBackendHeurMode_t mode) const;
  Expected<CudnnEngineNotes> notesOf(int64_t engine) const;
  Expected<CudnnPlan> plan(const CudnnEngineChoice &choice) const;
  /// Puts a plan on the handle's stream.
  Error execute(cudnnHandle_t on, const CudnnPlan &plan, void *data, void *weights, void *result,
                void *workspace) const;

private:
  CudnnConvolutionGraph(const Cudnn &library, cudnnHandle_t handle, const CudnnBackendObject *properties,
                        CudnnBackendObject graph)
      : library(&library), handle(handle), properties(properties), graph(std::move(graph)) {}
  Expected<CudnnBackendObject> engine(int64_t number) const;

  const Cudnn *library;
  cudnnHandle_t handle;
  const CudnnBackendObject *properties;
  CudnnBackendObject graph;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNCONVOLUTIONGRAPH_H
