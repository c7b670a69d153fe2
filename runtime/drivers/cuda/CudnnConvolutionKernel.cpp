// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The three directions of a convolution: the fastest of all ways that there are, cuDNN's or not, by measuring.

#include "runtime/drivers/cuda/ConvolutionWays.h"
#include "runtime/drivers/cuda/CudaLibraryAlgorithms.h"
#include "runtime/drivers/cuda/CudnnKernel.h"

#include <iostream>
#include <limits>

namespace cleave::runtime {

Error ConvolutionTask::loadEpilogues() {
  if (problem.bias < 0)
    return Error::success();
  epilogueDesc.element = problem.element;
  epilogueDesc.channels = static_cast<uint64_t>(problem.result[1]);
  epilogueDesc.inner = 1;
  for (size_t d = 2; d != problem.result.size(); ++d)
    epilogueDesc.inner *= static_cast<uint64_t>(problem.result[d]);
  epilogueDesc.elements = static_cast<uint64_t>(problem.result[0]) * epilogueDesc.channels * epilogueDesc.inner;
  epilogueDesc.bias = problem.bias;
  epilogueDesc.added = problem.added;
  epilogueDesc.activation = problem.relu ? CudaEpilogueDesc::Activation::Relu : CudaEpilogueDesc::Activation::None;
  CudaEpilogueDesc afterAddition = epilogueDesc;
  afterAddition.added = -1;
  for (auto [desc, target] : {std::pair{&epilogueDesc, &epilogue}, std::pair{&afterAddition, &epilogueAfterAddition}}) {
    auto loaded = CudaEpilogue::load(cuda, *desc);
    if (!loaded)
      return loaded.error();
    *target = std::move(*loaded);
  }
  return Error::success();
}

Error ConvolutionWays::runOnce(const CudaRuntime &cuda, void *const *arguments, cudaStream_t stream) {
  if (Error error = enqueue(arguments, stream))
    return error;
  return checkCuda(cuda, cuda.cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

void noteOrder(const std::string &kernel) {
  std::cerr << "cleave: cuDNN has no algorithm for " + kernel +
                   " that gives the same result every time: the last bits may " + "differ from run to run\n";
}

namespace {

class ConvolutionKernel final : public CudaLibraryKernel {
public:
  ConvolutionKernel(const CudaRuntime &cuda, const Cudnn &library, const LibraryKernelDesc &desc,
                    const CudnnConvolution &problem)
      : library(library), task{cuda, desc, problem, {}, {}, {}} {}

  Error load();
  Error choose(void *const *arguments, cudaStream_t stream) override;
  Error enqueue(void *const *arguments, cudaStream_t stream) override;

private:
  bool takeKept(const std::string &text, void *const *arguments, cudaStream_t stream);
  Error chooseOf(ConvolutionWays::Order order, void *const *arguments, cudaStream_t stream);

  const Cudnn &library;
  ConvolutionTask task;
  /// The first does everything.
  std::vector<std::unique_ptr<ConvolutionWays>> families;
  size_t chosen = 0;
};

Error ConvolutionKernel::load() {
  if (Error error = task.loadEpilogues())
    return error;
  auto routines = loadCudnnRoutines(task, library);
  if (!routines)
    return routines.error();
  families.push_back(std::move(*routines));
  if (auto products = loadConvolutionProducts(task))
    families.push_back(std::move(products));
  if (auto engines = loadCudnnEngines(task, library))
    families.push_back(std::move(engines));
  return Error::success();
}

bool ConvolutionKernel::takeKept(const std::string &text, void *const *arguments, cudaStream_t stream) {
  for (chosen = 0; chosen != families.size(); ++chosen)
    if (!families[chosen]->take(text, arguments, stream))
      return true;
  chosen = 0;
  return false;
}

/// The fastest way of all families. The error is that of the family that does everything.
Error ConvolutionKernel::chooseOf(ConvolutionWays::Order order, void *const *arguments, cudaStream_t stream) {
  float least = std::numeric_limits<float>::infinity();
  Error first;
  for (size_t family = 0; family != families.size(); ++family) {
    auto time = families[family]->measure(arguments, stream, order);
    if (!time && family == 0)
      first = time.error();
    if (time && *time < least) {
      least = *time;
      chosen = family;
    }
  }
  return least == std::numeric_limits<float>::infinity() ? first : Error::success();
}

Error ConvolutionKernel::choose(void *const *arguments, cudaStream_t stream) {
  auto key = algorithmKey(task.cuda, "cudnn " + std::to_string(library.cudnnGetVersion()), task.desc);
  if (!key)
    return key.error();
  CudaAlgorithmCache &cache = CudaAlgorithmCache::ofProcess();
  if (auto text = cache.find(*key); text && takeKept(*text, arguments, stream))
    return Error::success();
  if (chooseOf(ConvolutionWays::Order::Repeatable, arguments, stream)) {
    if (Error error = chooseOf(ConvolutionWays::Order::Varying, arguments, stream))
      return error;
    noteOrder(task.desc.text());
  }
  cache.insert(*key, families[chosen]->text());
  return Error::success();
}

Error ConvolutionKernel::enqueue(void *const *arguments, cudaStream_t stream) {
  return families[families[chosen]->fits(arguments) ? chosen : 0]->enqueue(arguments, stream);
}

} // namespace

Expected<std::unique_ptr<CudaLibraryKernel>> loadCudnnConvolution(const CudaRuntime &cuda, const Cudnn &library,
                                                                  const LibraryKernelDesc &desc) {
  auto problem = readCudnnConvolution(desc);
  if (!problem)
    return problem.error();
  auto kernel = std::make_unique<ConvolutionKernel>(cuda, library, desc, *problem);
  if (Error error = kernel->load())
    return error;
  return std::unique_ptr<CudaLibraryKernel>(std::move(kernel));
}

} // namespace cleave::runtime
