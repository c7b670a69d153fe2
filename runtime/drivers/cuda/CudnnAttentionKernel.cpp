// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention and its gradient by the fused engines of cuDNN's backend: the fastest by measuring. Their code is compiled
// when a plan is loaded.

#include "runtime/drivers/cuda/CudaLibraryAlgorithms.h"
#include "runtime/drivers/cuda/CudnnAttentionGraph.h"
#include "runtime/drivers/cuda/CudnnKernel.h"

#include <limits>

namespace cleave::runtime {

namespace {

/// How many plans of a heuristic are built and measured.
constexpr size_t mostAttentionPlans = 4;

class AttentionKernel final : public CudaLibraryKernel {
public:
  AttentionKernel(const CudaRuntime &cuda, const Cudnn &library, const LibraryKernelDesc &desc,
                  const CudnnAttention &problem)
      : cuda(cuda), library(library), desc(desc), problem(problem) {}

  Error choose(void *const *arguments, cudaStream_t stream) override;
  Error enqueue(void *const *arguments, cudaStream_t stream) override {
    return inCudnnKernel(desc, run(*plan, arguments, stream));
  }

private:
  Error withoutEngine(const Error &reason) const;
  Expected<CudnnPlan> usablePlan(const CudnnEngineChoice &choice) const;
  bool takeKept(const std::string &text, void *const *arguments, cudaStream_t stream);
  Error measure(void *const *arguments, cudaStream_t stream);
  Error run(const CudnnPlan &of, void *const *arguments, cudaStream_t stream) const;

  const CudaRuntime &cuda;
  const Cudnn &library;
  LibraryKernelDesc desc;
  CudnnAttention problem;
  /// Numbers that engines read: the lowest of float32 hides, since an infinity less an infinity is none.
  float scale = problem.scale, hidden = std::numeric_limits<float>::lowest(), one = 1;
  std::optional<CudnnGraph> graph;
  CudnnEngineChoice chosen;
  std::optional<CudnnPlan> plan;
};

/// What there is to say where no engine is left.
Error AttentionKernel::withoutEngine(const Error &reason) const {
  return inCudnnKernel(desc, makeError(reason.status(), "cuDNN ", library.cudnnGetVersion(),
                                       " has no engine for it on this GPU: ", reason.message(),
                                       "; compile the plan with --no-fused-attention"));
}

Expected<CudnnPlan> AttentionKernel::usablePlan(const CudnnEngineChoice &choice) const {
  auto made = graph->plan(choice);
  uint64_t most = cudnnWorkspaceBytes(desc.scratchBytes) - problem.rowSumsBytes() - problem.accumulatedBytes();
  if (made && made->workspaceBytes > most)
    return makeError(Status::Unsupported, choice.text(), " expects ", made->workspaceBytes, " bytes of workspace, got ",
                     most);
  return made;
}

Error AttentionKernel::run(const CudnnPlan &of, void *const *arguments, cudaStream_t stream) const {
  auto handle = cudnnHandleOf(cuda, library, stream);
  if (!handle)
    return handle.error();
  using Name = CudnnAttentionTensor;
  std::vector<std::pair<int64_t, void *>> tensors;
  auto add = [&](Name name, const void *place) {
    tensors.emplace_back(static_cast<int64_t>(name), const_cast<void *>(place));
  };
  std::vector<Name> names = {Name::Queries, Name::Keys, Name::Values};
  if (problem.isGradient)
    names.insert(names.end(), {Name::Result, Name::LogSums, Name::ResultGradient, Name::QueriesGradient,
                               Name::KeysGradient, Name::ValuesGradient});
  else
    names.push_back(Name::Result);
  if (problem.givesLogSums)
    names.push_back(Name::LogSums);
  for (size_t i = 0; i != names.size(); ++i)
    add(names[i], arguments[i]);
  add(Name::Scale, &scale);
  if (problem.isCausal)
    add(Name::Hidden, &hidden);
  auto *place = static_cast<std::byte *>(cudnnWorkspace(arguments[names.size()]));
  if (problem.isGradient) {
    add(Name::One, &one);
    add(Name::RowSums, place);
    place += problem.rowSumsBytes();
    if (!problem.isRepeatable())
      add(Name::Accumulated, place);
    place += problem.accumulatedBytes();
  }
  return graph->execute(*handle, of, tensors, place);
}

bool AttentionKernel::takeKept(const std::string &text, void *const *arguments, cudaStream_t stream) {
  auto choice = CudnnEngineChoice::read(text);
  if (!choice)
    return false;
  auto made = usablePlan(*choice);
  if (!made || run(*made, arguments, stream) ||
      checkCuda(cuda, cuda.cudaStreamSynchronize(stream), "cudaStreamSynchronize"))
    return false;
  chosen = *choice;
  plan.emplace(std::move(*made));
  return true;
}

Error AttentionKernel::measure(void *const *arguments, cudaStream_t stream) {
  auto found = fastestEngine(
      *graph, {{CUDNN_HEUR_MODE_A}, {CUDNN_HEUR_MODE_FALLBACK}}, mostAttentionPlans,
      [&](const CudnnEngineChoice &choice) { return usablePlan(choice); },
      [&](const CudnnPlan &of, float least) {
        return measureOnStream(cuda, stream, [&] { return run(of, arguments, stream); }, least);
      });
  if (!found)
    return withoutEngine(found.error());
  chosen = found->choice;
  plan.emplace(std::move(found->plan));
  return Error::success();
}

Error AttentionKernel::choose(void *const *arguments, cudaStream_t stream) {
  auto handle = cudnnHandleOf(cuda, library, stream);
  if (!handle)
    return handle.error();
  auto made = makeAttentionGraph(library, problem, *handle);
  if (!made)
    return withoutEngine(made.error());
  graph.emplace(std::move(*made));
  auto key = algorithmKey(cuda, "cudnn " + std::to_string(library.cudnnGetVersion()), desc);
  if (!key)
    return key.error();
  CudaAlgorithmCache &cache = CudaAlgorithmCache::ofProcess();
  if (auto text = cache.find(*key); text && takeKept(*text, arguments, stream))
    return Error::success();
  if (Error error = measure(arguments, stream))
    return error;
  if (!problem.isRepeatable())
    noteOrder(desc.text());
  cache.insert(*key, chosen.text());
  return Error::success();
}

} // namespace

Expected<std::unique_ptr<CudaLibraryKernel>> loadCudnnAttention(const CudaRuntime &cuda, const Cudnn &library,
                                                                const LibraryKernelDesc &desc) {
  auto problem = readCudnnAttention(desc);
  if (!problem)
    return problem.error();
  if (desc.scratchBytes < problem->workspaceBytes())
    return makeError(Status::Rejected, "expects ", problem->workspaceBytes(), " bytes of scratch memory, got ",
                     desc.scratchBytes);
  if (!hasCudnnBackend(library))
    return makeError(Status::Unsupported, "cuDNN ", library.cudnnGetVersion(),
                     " has no graphs; install cuDNN 9, or compile the plan with --no-fused-attention");
  return std::unique_ptr<CudaLibraryKernel>(std::make_unique<AttentionKernel>(cuda, library, desc, *problem));
}

} // namespace cleave::runtime
