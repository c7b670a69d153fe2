// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The three directions of a convolution by cuDNN. Which of its algorithms computes one the fastest cuDNN measures by
// itself; a forward convolution with an epilogue has the choice of one fused routine or the convolution and a kernel of
// our own as well, which is measured here.

#include "runtime/drivers/cuda/CudaEpilogue.h"
#include "runtime/drivers/cuda/CudaLibraryAlgorithms.h"
#include "runtime/drivers/cuda/CudnnKernel.h"
#include "runtime/drivers/cuda/rules/CudnnProblem.h"

#include <algorithm>
#include <iostream>
#include <limits>
#include <sstream>

namespace cleave::runtime {

namespace {

/// A way to compute the kernel: cuDNN's number for the algorithm in the convolution's direction, with which arithmetic,
/// and whether the epilogue is part of the routine.
struct Way {
  int algorithm = 0, math = CUDNN_FMA_MATH;
  bool fused = false;
};

/// Whether the sums that an algorithm makes are as exact as sums of products in the arithmetic that was asked for. A
/// Fourier transform spreads the rounding of a tile's largest elements over all of the tile. So does Winograd's
/// transform, the more the larger its tiles are: the fused algorithms' are of 4 x 4 elements, whose transforms add up
/// four of them at most and are about as exact as sums of products; those that are not fused have 6 x 6, or 13 x 13 for
/// windows of 5 x 5. Rounding to TF32 or bfloat16 behind such a transform would lose more than rounding before it.
bool isExact(CudnnConvolution::Direction direction, const Way &way, ElementType element) {
  bool isWinograd = false;
  switch (direction) {
  case CudnnConvolution::Direction::Forward:
    if (way.algorithm == CUDNN_CONVOLUTION_FWD_ALGO_FFT || way.algorithm == CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING ||
        way.algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED)
      return false;
    isWinograd = way.algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD;
    break;
  case CudnnConvolution::Direction::BackwardData:
    if (way.algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT ||
        way.algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING ||
        way.algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED)
      return false;
    isWinograd = way.algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD;
    break;
  case CudnnConvolution::Direction::BackwardWeights:
    if (way.algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT ||
        way.algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING ||
        way.algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED)
      return false;
    isWinograd = way.algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD;
    break;
  }
  return !isWinograd || (element == ElementType::F32 && way.math == CUDNN_FMA_MATH);
}

/// How many of cuDNN's algorithms are measured with an epilogue.
constexpr size_t mostAlgorithms = 3;

class ConvolutionKernel final : public CudaLibraryKernel {
public:
  ConvolutionKernel(const CudaRuntime &cuda, const Cudnn &library, const LibraryKernelDesc &desc,
                    const CudnnConvolution &problem)
      : cuda(cuda), library(library), desc(desc), problem(problem) {}

  Error load();
  Error choose(void *const *arguments, cudaStream_t stream) override;
  Error enqueue(void *const *arguments, cudaStream_t stream) override;

private:
  using Direction = CudnnConvolution::Direction;

  Error check(cudnnStatus_t code, const char *routine) const {
    return inCudnnKernel(desc, checkCudnn(library, code, routine));
  }
  Error loadConvolution();
  Error loadEpilogue();

  /// The tensors of the forward convolution among the arguments.
  void *dataOf(void *const *arguments) const { return arguments[problem.direction == Direction::BackwardData ? 2 : 0]; }
  void *weightsOf(void *const *arguments) const {
    return arguments[problem.direction == Direction::BackwardWeights ? 2 : 1];
  }
  void *resultOf(void *const *arguments) const {
    return arguments[problem.direction == Direction::Forward        ? desc.inputs.size()
                     : problem.direction == Direction::BackwardData ? 0
                                                                    : 1];
  }
  void *workspaceOf(void *const *arguments) const {
    return desc.scratchBytes == 0 ? nullptr : arguments[desc.inputs.size() + 1];
  }

  /// Only bfloat16, whose products are exact in any of cuDNN's arithmetics, and TF32 leave the choice to it.
  bool leavesMath() const { return problem.element == ElementType::BF16 || problem.tf32; }
  bool isAcceptable(const Way &way);
  std::vector<Way> inAllowedMath(std::vector<Way> ways);
  Expected<std::vector<Way>> measuredByCudnn(void *const *arguments);
  std::vector<Way> withEpilogues(const std::vector<Way> &ways) const;
  Error chooseFirst(const std::vector<Way> &ways, void *const *arguments, cudaStream_t stream);
  Error chooseByMeasuring(const std::vector<Way> &ways, void *const *arguments, cudaStream_t stream);
  Error useMath(const Way &way) {
    return check(library.cudnnSetConvolutionMathType(convolution, static_cast<cudnnMathType_t>(way.math)),
                 "cudnnSetConvolutionMathType");
  }
  Error run(void *const *arguments, const Way &way, cudaStream_t stream);
  Error runFused(void *const *arguments, const Way &way);

  const CudaRuntime &cuda;
  const Cudnn &library;
  LibraryKernelDesc desc;
  CudnnConvolution problem;
  CudnnTensor data, result, bias;
  CudnnFilter weights;
  CudnnDescriptor<cudnnConvolutionDescriptor_t> convolution;
  CudnnDescriptor<cudnnActivationDescriptor_t> activation;
  CudaEpilogueDesc epilogueDesc;
  /// All of the epilogue, and what is left when the convolution has added what lies where its result goes.
  CudaEpilogue epilogue, epilogueInPlace;
  cudnnHandle_t handle = nullptr;
  Way chosen;
};

Error ConvolutionKernel::load() {
  if (Error error = makeCudnnTensor(library, data, problem.element, problem.data))
    return error;
  if (Error error = makeCudnnTensor(library, result, problem.element, problem.result))
    return error;
  if (Error error =
          checkCudnn(library, weights.make(library.cudnnCreateFilterDescriptor, library.cudnnDestroyFilterDescriptor),
                     "cudnnCreateFilterDescriptor"))
    return error;
  if (Error error = checkCudnn(
          library,
          library.cudnnSetFilterNdDescriptor(weights, cudnnType(problem.element), CUDNN_TENSOR_NCHW,
                                             static_cast<int>(problem.weights.size()), problem.weights.data()),
          "cudnnSetFilterNdDescriptor"))
    return error;
  if (Error error = loadConvolution())
    return error;
  return problem.bias < 0 ? Error::success() : loadEpilogue();
}

Error ConvolutionKernel::loadConvolution() {
  if (Error error = checkCudnn(
          library,
          convolution.make(library.cudnnCreateConvolutionDescriptor, library.cudnnDestroyConvolutionDescriptor),
          "cudnnCreateConvolutionDescriptor"))
    return error;
  const CudnnWindow &window = problem.window;
  if (Error error =
          checkCudnn(library,
                     library.cudnnSetConvolutionNdDescriptor(
                         convolution, static_cast<int>(window.pads.size()), window.pads.data(), window.strides.data(),
                         window.dilations.data(), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                     "cudnnSetConvolutionNdDescriptor"))
    return error;
  if (Error error = checkCudnn(library, library.cudnnSetConvolutionGroupCount(convolution, problem.groups),
                               "cudnnSetConvolutionGroupCount"))
    return error;
  // Until an algorithm is chosen: those that compute everything, repeatably.
  chosen.algorithm = problem.direction == Direction::Forward        ? int(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM)
                     : problem.direction == Direction::BackwardData ? int(CUDNN_CONVOLUTION_BWD_DATA_ALGO_1)
                                                                    : int(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
  // float32 is multiplied as it is: the default would round it to TF32 first.
  chosen.math = problem.element == ElementType::BF16 ? CUDNN_TENSOR_OP_MATH
                : problem.tf32                       ? CUDNN_DEFAULT_MATH
                                                     : CUDNN_FMA_MATH;
  return checkCudnn(library,
                    library.cudnnSetConvolutionMathType(convolution, static_cast<cudnnMathType_t>(chosen.math)),
                    "cudnnSetConvolutionMathType");
}

Error ConvolutionKernel::loadEpilogue() {
  std::vector<int> dims(problem.result.size(), 1);
  dims[1] = problem.result[1];
  if (Error error = makeCudnnTensor(library, bias, problem.element, dims))
    return error;
  if (Error error = checkCudnn(
          library, activation.make(library.cudnnCreateActivationDescriptor, library.cudnnDestroyActivationDescriptor),
          "cudnnCreateActivationDescriptor"))
    return error;
  // The fused routine has no ReLU that keeps NaN.
  if (Error error = checkCudnn(
          library,
          library.cudnnSetActivationDescriptor(
              activation, problem.relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN, 0),
          "cudnnSetActivationDescriptor"))
    return error;
  epilogueDesc.element = problem.element;
  epilogueDesc.channels = static_cast<uint64_t>(problem.result[1]);
  epilogueDesc.inner = 1;
  for (size_t d = 2; d != problem.result.size(); ++d)
    epilogueDesc.inner *= static_cast<uint64_t>(problem.result[d]);
  epilogueDesc.elements = static_cast<uint64_t>(problem.result[0]) * epilogueDesc.channels * epilogueDesc.inner;
  epilogueDesc.bias = problem.bias;
  epilogueDesc.added = problem.added;
  epilogueDesc.activation = problem.relu ? CudaEpilogueDesc::Activation::Relu : CudaEpilogueDesc::Activation::None;
  CudaEpilogueDesc inPlace = epilogueDesc;
  inPlace.added = -1;
  for (auto [desc, target] : {std::pair{&epilogueDesc, &epilogue}, {&inPlace, &epilogueInPlace}}) {
    auto loaded = CudaEpilogue::load(cuda, *desc);
    if (!loaded)
      return loaded.error();
    *target = std::move(*loaded);
  }
  return Error::success();
}

/// The successful ones of what cuDNN has measured, the fastest first, that need no more than the workspace there is:
/// those that give the same result every time, or the others.
template <typename Perf>
std::vector<Way> usable(const std::vector<Perf> &measured, bool areRepeatable, uint64_t workspace) {
  std::vector<Way> ways;
  for (const Perf &perf : measured)
    if (perf.status == CUDNN_STATUS_SUCCESS && (perf.determinism == CUDNN_DETERMINISTIC) == areRepeatable &&
        perf.memory <= workspace)
      ways.push_back({static_cast<int>(perf.algo), static_cast<int>(perf.mathType), false});
  return ways;
}

/// Says on standard error that a kernel's sums may be added in another order each time.
void noteOrder(const std::string &kernel) {
  std::cerr << "cleave: cuDNN has no algorithm for " + kernel +
                   " that gives the same result every time: the last bits may " + "differ from run to run\n";
}

/// float32 is multiplied as it is, whatever arithmetic cuDNN has measured: what it measured so comes first, and what it
/// calls by another name has to be possible so.
std::vector<Way> ConvolutionKernel::inAllowedMath(std::vector<Way> ways) {
  if (leavesMath()) {
    std::erase_if(ways, [&](const Way &way) { return !isExact(problem.direction, way, problem.element); });
    return ways;
  }
  std::stable_partition(ways.begin(), ways.end(), [&](const Way &way) { return way.math == chosen.math; });
  std::vector<Way> allowed;
  for (Way way : ways) {
    way.math = chosen.math;
    bool isKnown =
        std::any_of(allowed.begin(), allowed.end(), [&](const Way &other) { return other.algorithm == way.algorithm; });
    if (!isKnown && isAcceptable(way))
      allowed.push_back(way);
  }
  return allowed;
}

Expected<std::vector<Way>> ConvolutionKernel::measuredByCudnn(void *const *arguments) {
  void *x = dataOf(arguments), *w = weightsOf(arguments), *y = resultOf(arguments), *space = workspaceOf(arguments);
  auto find = [&]<typename Perf>(Perf, int most, const char *routine, auto &&ask) -> Expected<std::vector<Way>> {
    // Each algorithm with two kinds of arithmetic.
    std::vector<Perf> measured(2 * most);
    int count = 0;
    if (Error error = check(ask(static_cast<int>(measured.size()), &count, measured.data()), routine))
      return error;
    measured.resize(std::clamp<int>(count, 0, static_cast<int>(measured.size())));
    auto ways = inAllowedMath(usable(measured, /*areRepeatable=*/true, desc.scratchBytes));
    if (!ways.empty())
      return ways;
    ways = inAllowedMath(usable(measured, /*areRepeatable=*/false, desc.scratchBytes));
    if (!ways.empty())
      noteOrder(desc.text());
    return ways;
  };
  switch (problem.direction) {
  case Direction::Forward:
    return find(cudnnConvolutionFwdAlgoPerf_t(), CUDNN_CONVOLUTION_FWD_ALGO_COUNT,
                "cudnnFindConvolutionForwardAlgorithmEx", [&](int most, int *count, auto *measured) {
                  return library.cudnnFindConvolutionForwardAlgorithmEx(handle, data, x, weights, w, convolution,
                                                                        result, y, most, count, measured, space,
                                                                        desc.scratchBytes);
                });
  case Direction::BackwardData:
    return find(cudnnConvolutionBwdDataAlgoPerf_t(), CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
                "cudnnFindConvolutionBackwardDataAlgorithmEx", [&](int most, int *count, auto *measured) {
                  return library.cudnnFindConvolutionBackwardDataAlgorithmEx(handle, weights, w, result, y, convolution,
                                                                             data, x, most, count, measured, space,
                                                                             desc.scratchBytes);
                });
  case Direction::BackwardWeights:
    break;
  }
  return find(cudnnConvolutionBwdFilterAlgoPerf_t(), CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT,
              "cudnnFindConvolutionBackwardFilterAlgorithmEx", [&](int most, int *count, auto *measured) {
                return library.cudnnFindConvolutionBackwardFilterAlgorithmEx(handle, data, x, result, y, convolution,
                                                                             weights, w, most, count, measured, space,
                                                                             desc.scratchBytes);
              });
}

/// Whether cuDNN computes this convolution so, within the workspace and as exactly as was asked for.
bool ConvolutionKernel::isAcceptable(const Way &way) {
  if (!isExact(problem.direction, way, problem.element) || useMath(way) || (way.fused && problem.bias < 0))
    return false;
  size_t bytes = 0;
  cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
  switch (problem.direction) {
  case Direction::Forward:
    status = library.cudnnGetConvolutionForwardWorkspaceSize(
        handle, data, weights, convolution, result, static_cast<cudnnConvolutionFwdAlgo_t>(way.algorithm), &bytes);
    break;
  case Direction::BackwardData:
    status = library.cudnnGetConvolutionBackwardDataWorkspaceSize(
        handle, weights, result, convolution, data, static_cast<cudnnConvolutionBwdDataAlgo_t>(way.algorithm), &bytes);
    break;
  case Direction::BackwardWeights:
    status = library.cudnnGetConvolutionBackwardFilterWorkspaceSize(
        handle, data, result, convolution, weights, static_cast<cudnnConvolutionBwdFilterAlgo_t>(way.algorithm),
        &bytes);
    break;
  }
  return status == CUDNN_STATUS_SUCCESS && bytes <= desc.scratchBytes;
}

/// Each of the fastest algorithms with the epilogue in the routine and behind it. Without an activation cuDNN has it
/// in one algorithm alone.
std::vector<Way> ConvolutionKernel::withEpilogues(const std::vector<Way> &ways) const {
  std::vector<Way> result;
  for (size_t i = 0; i != ways.size(); ++i) {
    bool isAlwaysFusable = ways[i].algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    if (isAlwaysFusable || (problem.relu && i < mostAlgorithms))
      result.push_back({ways[i].algorithm, ways[i].math, true});
    if (i < mostAlgorithms)
      result.push_back(ways[i]);
  }
  return result;
}

std::string textOf(const Way &way) {
  return std::to_string(way.algorithm) + ' ' + std::to_string(way.math) + (way.fused ? " 1" : " 0");
}

std::optional<Way> readWay(const std::string &text) {
  std::istringstream stream(text);
  Way way;
  if (stream >> way.algorithm >> way.math >> way.fused)
    return way;
  return std::nullopt;
}

/// The first that runs to its end. Running once also loads its code, which a graph cannot.
Error ConvolutionKernel::chooseFirst(const std::vector<Way> &ways, void *const *arguments, cudaStream_t stream) {
  Error last;
  for (const Way &way : ways) {
    last = run(arguments, way, stream);
    if (!last)
      last = checkCuda(cuda, cuda.cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    if (!last) {
      chosen = way;
      return last;
    }
  }
  return last;
}

Error ConvolutionKernel::chooseByMeasuring(const std::vector<Way> &ways, void *const *arguments, cudaStream_t stream) {
  float least = std::numeric_limits<float>::infinity();
  Error last;
  bool refusesFused = false, hasFused = false;
  for (const Way &way : ways) {
    auto time = measureOnStream(cuda, stream, [&] { return run(arguments, way, stream); });
    (time ? hasFused : refusesFused) |= way.fused;
    if (!time)
      last = time.error();
    else if (*time < least) {
      least = *time;
      chosen = way;
    }
  }
  if (refusesFused && !hasFused)
    noteEpilogue("cuDNN", epilogueDesc, desc.text());
  return least == std::numeric_limits<float>::infinity() ? last : Error::success();
}

Error ConvolutionKernel::choose(void *const *arguments, cudaStream_t stream) {
  auto found = cudnnHandleOf(cuda, library, stream);
  if (!found)
    return found.error();
  handle = *found;
  auto key = algorithmKey(cuda, "cudnn " + std::to_string(library.cudnnGetVersion()), desc);
  if (!key)
    return key.error();
  CudaAlgorithmCache &cache = CudaAlgorithmCache::ofProcess();
  if (auto text = cache.find(*key))
    if (auto way = readWay(*text); way && (leavesMath() || way->math == chosen.math) && isAcceptable(*way) &&
                                   !chooseFirst({*way}, arguments, stream))
      return Error::success();
  auto ways = measuredByCudnn(arguments);
  if (!ways)
    return ways.error();
  if (ways->empty())
    return makeError(Status::Unsupported, "cudnn kernel ", desc.text(), ": no algorithm of cuDNN ",
                     library.cudnnGetVersion(), " computes it in ", desc.scratchBytes, " bytes of workspace");
  // What cuDNN has measured needs no second time, but may have been measured in another arithmetic.
  Error error = problem.bias < 0 ? chooseFirst(*ways, arguments, stream)
                                 : chooseByMeasuring(withEpilogues(*ways), arguments, stream);
  if (error)
    return error;
  cache.insert(*key, textOf(chosen));
  return useMath(chosen);
}

Error ConvolutionKernel::enqueue(void *const *arguments, cudaStream_t stream) {
  auto found = cudnnHandleOf(cuda, library, stream);
  if (!found)
    return found.error();
  handle = *found;
  return run(arguments, chosen, stream);
}

Error ConvolutionKernel::run(void *const *arguments, const Way &way, cudaStream_t stream) {
  if (Error error = useMath(way))
    return error;
  void *x = dataOf(arguments), *w = weightsOf(arguments), *y = resultOf(arguments), *space = workspaceOf(arguments);
  const float one = 1, zero = 0;
  // What is added may lie where the result goes: the convolution adds to it then.
  bool isInPlace = problem.added >= 0 && arguments[problem.added] == y;
  switch (problem.direction) {
  case Direction::Forward:
    if (way.fused && !isInPlace)
      return runFused(arguments, way);
    if (Error error =
            check(library.cudnnConvolutionForward(handle, &one, data, x, weights, w, convolution,
                                                  static_cast<cudnnConvolutionFwdAlgo_t>(way.algorithm), space,
                                                  desc.scratchBytes, isInPlace ? &one : &zero, result, y),
                  "cudnnConvolutionForward"))
      return error;
    return (isInPlace ? epilogueInPlace : epilogue).enqueue(y, arguments, stream);
  case Direction::BackwardData:
    return check(library.cudnnConvolutionBackwardData(handle, &one, weights, w, result, y, convolution,
                                                      static_cast<cudnnConvolutionBwdDataAlgo_t>(way.algorithm), space,
                                                      desc.scratchBytes, &zero, data, x),
                 "cudnnConvolutionBackwardData");
  case Direction::BackwardWeights:
    break;
  }
  return check(library.cudnnConvolutionBackwardFilter(handle, &one, data, x, result, y, convolution,
                                                      static_cast<cudnnConvolutionBwdFilterAlgo_t>(way.algorithm),
                                                      space, desc.scratchBytes, &zero, weights, w),
               "cudnnConvolutionBackwardFilter");
}

Error ConvolutionKernel::runFused(void *const *arguments, const Way &way) {
  void *y = resultOf(arguments), *added = problem.added < 0 ? y : arguments[problem.added];
  const float one = 1, scale = problem.added < 0 ? 0 : 1;
  return check(library.cudnnConvolutionBiasActivationForward(
                   handle, &one, data, dataOf(arguments), weights, weightsOf(arguments), convolution,
                   static_cast<cudnnConvolutionFwdAlgo_t>(way.algorithm), workspaceOf(arguments), desc.scratchBytes,
                   &scale, result, added, bias, arguments[problem.bias], activation, result, y),
               "cudnnConvolutionBiasActivationForward");
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
