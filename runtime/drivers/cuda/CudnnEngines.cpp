// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A convolution by the engines of cuDNN's backend: what its heuristics find, as far as it is exact, and the fastest of
// that by measuring. The epilogue is a kernel of our own; what is added where the result goes, the engine adds.

#include "runtime/drivers/cuda/ConvolutionWays.h"
#include "runtime/drivers/cuda/CudaLibraryAlgorithms.h"
#include "runtime/drivers/cuda/CudnnConvolutionGraph.h"

#include <algorithm>
#include <limits>

namespace cleave::runtime {

namespace {

/// How many plans are built and measured.
constexpr size_t mostPlans = 8;

class Engines final : public ConvolutionWays {
public:
  Engines(const ConvolutionTask &task, const Cudnn &library) : task(task), library(library) {}

  Expected<float> measure(void *const *arguments, cudaStream_t stream, Order order) override;
  std::string text() const override { return chosen.text(); }
  Error take(const std::string &text, void *const *arguments, cudaStream_t stream) override;
  bool fits(void *const *arguments) const override { return task.isInPlace(arguments) == adds; }
  Error enqueue(void *const *arguments, cudaStream_t stream) override;

private:
  Error load(void *const *arguments, cudaStream_t stream);
  Expected<CudnnPlan> usablePlan(const CudnnEngineChoice &choice, std::optional<Order> order) const;
  Error run(const CudnnPlan &plan, void *const *arguments, cudaStream_t stream) const;
  uint64_t workspaceBytes() const { return cudnnWorkspaceBytes(task.desc.scratchBytes); }

  const ConvolutionTask &task;
  const Cudnn &library;
  bool adds = false; ///< to what lies where the result goes
  std::optional<CudnnGraph> graph;
  CudnnEngineChoice chosen;
  std::optional<CudnnPlan> plan; ///< of what was chosen
};

Error Engines::load(void *const *arguments, cudaStream_t stream) {
  if (graph && fits(arguments))
    return Error::success();
  adds = task.isInPlace(arguments);
  auto handle = cudnnHandleOf(task.cuda, library, stream);
  if (!handle)
    return handle.error();
  auto made = makeConvolutionGraph(library, task.problem, adds, *handle);
  if (!made)
    return made.error();
  graph.emplace(std::move(*made));
  return Error::success();
}

/// A plan that is exact, of the order if one is asked for, and within the workspace.
Expected<CudnnPlan> Engines::usablePlan(const CudnnEngineChoice &choice, std::optional<Order> order) const {
  auto notes = graph->notesOf(choice.engine);
  if (!notes)
    return notes.error();
  bool isOther = order && notes->isRepeatable() != (*order == Order::Repeatable);
  if (isOther || !isExact(*notes, task.problem) || !notes->isReady())
    return makeError(Status::Unsupported, choice.text(), " computes otherwise");
  auto made = graph->plan(choice);
  if (made && made->workspaceBytes > workspaceBytes())
    return makeError(Status::Unsupported, choice.text(), " expects ", made->workspaceBytes, " bytes of workspace, got ",
                     workspaceBytes());
  return made;
}

Error Engines::run(const CudnnPlan &of, void *const *arguments, cudaStream_t stream) const {
  auto handle = cudnnHandleOf(task.cuda, library, stream);
  if (!handle)
    return handle.error();
  void *workspace = of.workspaceBytes != 0 ? cudnnWorkspace(task.workspaceOf(arguments)) : nullptr;
  void *result = task.resultOf(arguments);
  if (Error error = graph->execute(*handle, of,
                                   {{cudnnDataNumber, task.dataOf(arguments)},
                                    {cudnnWeightsNumber, task.weightsOf(arguments)},
                                    {cudnnResultNumber, result}},
                                   workspace))
    return makeError(error.status(), "cudnn kernel ", task.desc.text(), ": ", error.message());
  return (adds ? task.epilogueAfterAddition : task.epilogue).enqueue(result, arguments, stream);
}

Expected<float> Engines::measure(void *const *arguments, cudaStream_t stream, Order order) {
  if (Error error = load(arguments, stream))
    return error;
  // The third heuristic knows little that the first does not.
  auto found = fastestEngine(
      *graph, {{CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}, {CUDNN_HEUR_MODE_B}}, mostPlans,
      [&](const CudnnEngineChoice &choice) { return usablePlan(choice, order); },
      [&](const CudnnPlan &of, float least) {
        return measureOnStream(task.cuda, stream, [&] { return run(of, arguments, stream); }, least);
      });
  if (!found)
    return found.error();
  chosen = found->choice;
  plan.emplace(std::move(found->plan));
  return found->milliseconds;
}

Error Engines::take(const std::string &text, void *const *arguments, cudaStream_t stream) {
  auto choice = CudnnEngineChoice::read(text);
  if (!choice)
    return makeError(Status::Unsupported, "\"", text, "\" is no engine of cuDNN");
  if (Error error = load(arguments, stream))
    return error;
  auto made = usablePlan(*choice, std::nullopt);
  if (!made)
    return made.error();
  chosen = *choice;
  plan.emplace(std::move(*made));
  return runOnce(task.cuda, arguments, stream);
}

Error Engines::enqueue(void *const *arguments, cudaStream_t stream) { return run(*plan, arguments, stream); }

} // namespace

std::unique_ptr<ConvolutionWays> loadCudnnEngines(const ConvolutionTask &task, const Cudnn &library) {
  return hasCudnnBackend(library) ? std::make_unique<Engines>(task, library) : nullptr;
}

} // namespace cleave::runtime
