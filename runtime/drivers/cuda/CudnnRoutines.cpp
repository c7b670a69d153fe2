// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The three directions of a convolution by cuDNN's routines with a descriptor each. Which of their algorithms is the
// fastest cuDNN measures by itself; a forward convolution with an epilogue has the choice of one fused routine or the
// convolution and a kernel of our own as well, which is measured here.

#include "runtime/drivers/cuda/ConvolutionWays.h"
#include "runtime/drivers/cuda/CudaLibraryAlgorithms.h"
#include "runtime/drivers/cuda/CudnnKernel.h"

#include <algorithm>
#include <limits>
#include <sstream>

namespace cleave::runtime {

namespace {

/// A way to compute the kernel: cuDNN's number for the algorithm in the convolution's direction, with which arithmetic,
/// and whether the epilogue is part of the routine.
struct Routine {
  int algorithm = 0, math = CUDNN_FMA_MATH;
  bool fused = false;
};

/// Algorithms by their numbers in a direction.
struct TransformNumbers {
  int winograd;            ///< with tiles of 4 x 4 elements of the data
  std::vector<int> coarse; ///< Winograd's with larger tiles, and Fourier's transform
};

TransformNumbers transformsOf(CudnnConvolution::Direction direction) {
  switch (direction) {
  case CudnnConvolution::Direction::Forward:
    return {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD,
            {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED, CUDNN_CONVOLUTION_FWD_ALGO_FFT,
             CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING}};
  case CudnnConvolution::Direction::BackwardData:
    return {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD,
            {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT,
             CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING}};
  case CudnnConvolution::Direction::BackwardWeights:
    break;
  }
  return {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD,
          {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT,
           CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING}};
}

/// Whether the sums that an algorithm makes are as exact as sums of products in the arithmetic that was asked for
/// (docs/rationale/kernels-for-gpus.md).
bool isExact(const CudnnConvolution &problem, const Routine &way) {
  TransformNumbers numbers = transformsOf(problem.direction);
  if (std::find(numbers.coarse.begin(), numbers.coarse.end(), way.algorithm) != numbers.coarse.end())
    return false;
  return way.algorithm != numbers.winograd || (problem.element == ElementType::F32 && way.math == CUDNN_FMA_MATH);
}

/// How many of cuDNN's algorithms are measured again, with an epilogue and without: cuDNN has measured the latter.
constexpr size_t mostAlgorithms = 3, mostWithoutEpilogue = 2;

class Routines final : public ConvolutionWays {
public:
  Routines(const ConvolutionTask &task, const Cudnn &library) : task(task), problem(task.problem), library(library) {}

  Error load();
  Expected<float> measure(void *const *arguments, cudaStream_t stream, Order order) override;
  std::string text() const override;
  Error take(const std::string &text, void *const *arguments, cudaStream_t stream) override;
  Error enqueue(void *const *arguments, cudaStream_t stream) override;

private:
  using Direction = CudnnConvolution::Direction;

  Error check(cudnnStatus_t code, const char *routine) const {
    return inCudnnKernel(task.desc, checkCudnn(library, code, routine));
  }
  Error useStream(cudaStream_t stream);
  Error loadConvolution();
  Error loadActivation();
  bool isAcceptable(const Routine &way);
  std::vector<Routine> inAllowedMath(std::vector<Routine> ways);
  Expected<std::vector<Routine>> measuredByCudnn(void *const *arguments, Order order);
  std::vector<Routine> withEpilogues(const std::vector<Routine> &ways) const;
  Error useMath(const Routine &way) {
    return check(library.cudnnSetConvolutionMathType(convolution, static_cast<cudnnMathType_t>(way.math)),
                 "cudnnSetConvolutionMathType");
  }
  Error run(void *const *arguments, const Routine &way, cudaStream_t stream);
  Error runFused(void *const *arguments, const Routine &way);

  const ConvolutionTask &task;
  const CudnnConvolution &problem;
  const Cudnn &library;
  CudnnTensor data, result, bias;
  CudnnFilter weights;
  CudnnDescriptor<cudnnConvolutionDescriptor_t> convolution;
  CudnnDescriptor<cudnnActivationDescriptor_t> activation;
  cudnnHandle_t handle = nullptr;
  Routine chosen;
};

Error Routines::load() {
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
  return problem.bias < 0 ? Error::success() : loadActivation();
}

Error Routines::loadConvolution() {
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

Error Routines::loadActivation() {
  std::vector<int> dims(problem.result.size(), 1);
  dims[1] = problem.result[1];
  if (Error error = makeCudnnTensor(library, bias, problem.element, dims))
    return error;
  if (Error error = checkCudnn(
          library, activation.make(library.cudnnCreateActivationDescriptor, library.cudnnDestroyActivationDescriptor),
          "cudnnCreateActivationDescriptor"))
    return error;
  // The fused routine has no ReLU that keeps NaN.
  return checkCudnn(
      library,
      library.cudnnSetActivationDescriptor(activation, problem.relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY,
                                           CUDNN_NOT_PROPAGATE_NAN, 0),
      "cudnnSetActivationDescriptor");
}

/// The successful ones of what cuDNN has measured, the fastest first, that need no more than the workspace there is:
/// those that give the same result every time, or the others.
template <typename Perf>
std::vector<Routine> usable(const std::vector<Perf> &measured, bool areRepeatable, uint64_t workspace) {
  std::vector<Routine> ways;
  for (const Perf &perf : measured)
    if (perf.status == CUDNN_STATUS_SUCCESS && (perf.determinism == CUDNN_DETERMINISTIC) == areRepeatable &&
        perf.memory <= workspace)
      ways.push_back({static_cast<int>(perf.algo), static_cast<int>(perf.mathType), false});
  return ways;
}

/// float32 is multiplied as it is, whatever arithmetic cuDNN has measured: what it measured so comes first, and what it
/// calls by another name has to be possible so.
std::vector<Routine> Routines::inAllowedMath(std::vector<Routine> ways) {
  if (task.leavesMath()) {
    std::erase_if(ways, [&](const Routine &way) { return !isExact(problem, way); });
    return ways;
  }
  std::stable_partition(ways.begin(), ways.end(), [&](const Routine &way) { return way.math == chosen.math; });
  std::vector<Routine> allowed;
  for (Routine way : ways) {
    way.math = chosen.math;
    bool isKnown = std::any_of(allowed.begin(), allowed.end(),
                               [&](const Routine &other) { return other.algorithm == way.algorithm; });
    if (!isKnown && isAcceptable(way))
      allowed.push_back(way);
  }
  return allowed;
}

Expected<std::vector<Routine>> Routines::measuredByCudnn(void *const *arguments, Order order) {
  void *x = task.dataOf(arguments), *w = task.weightsOf(arguments), *y = task.resultOf(arguments);
  void *space = task.workspaceOf(arguments);
  const uint64_t bytes = task.desc.scratchBytes;
  auto find = [&]<typename Perf>(Perf, int most, const char *routine, auto &&ask) -> Expected<std::vector<Routine>> {
    // Each algorithm with two kinds of arithmetic.
    std::vector<Perf> measured(2 * most);
    int count = 0;
    if (Error error = check(ask(static_cast<int>(measured.size()), &count, measured.data()), routine))
      return error;
    measured.resize(std::clamp<int>(count, 0, static_cast<int>(measured.size())));
    return inAllowedMath(usable(measured, order == Order::Repeatable, bytes));
  };
  switch (problem.direction) {
  case Direction::Forward:
    return find(cudnnConvolutionFwdAlgoPerf_t(), CUDNN_CONVOLUTION_FWD_ALGO_COUNT,
                "cudnnFindConvolutionForwardAlgorithmEx", [&](int most, int *count, auto *measured) {
                  return library.cudnnFindConvolutionForwardAlgorithmEx(handle, data, x, weights, w, convolution,
                                                                        result, y, most, count, measured, space, bytes);
                });
  case Direction::BackwardData:
    return find(cudnnConvolutionBwdDataAlgoPerf_t(), CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
                "cudnnFindConvolutionBackwardDataAlgorithmEx", [&](int most, int *count, auto *measured) {
                  return library.cudnnFindConvolutionBackwardDataAlgorithmEx(
                      handle, weights, w, result, y, convolution, data, x, most, count, measured, space, bytes);
                });
  case Direction::BackwardWeights:
    break;
  }
  return find(cudnnConvolutionBwdFilterAlgoPerf_t(), CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT,
              "cudnnFindConvolutionBackwardFilterAlgorithmEx", [&](int most, int *count, auto *measured) {
                return library.cudnnFindConvolutionBackwardFilterAlgorithmEx(
                    handle, data, x, result, y, convolution, weights, w, most, count, measured, space, bytes);
              });
}

/// Whether cuDNN computes this convolution so, within the workspace and as exactly as was asked for.
bool Routines::isAcceptable(const Routine &way) {
  if (!isExact(problem, way) || useMath(way) || (way.fused && problem.bias < 0))
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
  return status == CUDNN_STATUS_SUCCESS && bytes <= task.desc.scratchBytes;
}

/// Each of the fastest algorithms with the epilogue in the routine and behind it. Without an activation cuDNN has it
/// in one algorithm alone.
std::vector<Routine> Routines::withEpilogues(const std::vector<Routine> &ways) const {
  if (problem.bias < 0)
    return ways;
  std::vector<Routine> result;
  for (size_t i = 0; i != ways.size(); ++i) {
    bool isAlwaysFusable = ways[i].algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    if (isAlwaysFusable || (problem.relu && i < mostAlgorithms))
      result.push_back({ways[i].algorithm, ways[i].math, true});
    if (i < mostAlgorithms)
      result.push_back(ways[i]);
  }
  return result;
}

std::string Routines::text() const {
  return "routine " + std::to_string(chosen.algorithm) + ' ' + std::to_string(chosen.math) +
         (chosen.fused ? " 1" : " 0");
}

/// Earlier versions' texts begin with the algorithm. What they were the fastest of was less.
std::optional<Routine> readWay(const std::string &text) {
  std::istringstream stream(text);
  std::string family;
  Routine way;
  if (stream >> family >> way.algorithm >> way.math >> way.fused && family == "routine")
    return way;
  return std::nullopt;
}

Error Routines::useStream(cudaStream_t stream) {
  auto found = cudnnHandleOf(task.cuda, library, stream);
  if (!found)
    return found.error();
  handle = *found;
  return Error::success();
}

/// What cuDNN has measured may have been in another arithmetic, and other families' ways are measured here: the
/// likeliest are measured again.
Expected<float> Routines::measure(void *const *arguments, cudaStream_t stream, Order order) {
  if (Error error = useStream(stream))
    return error;
  auto ways = measuredByCudnn(arguments, order);
  if (!ways)
    return ways.error();
  Error last = makeError(Status::Unsupported, "cudnn kernel ", task.desc.text(), ": no algorithm of cuDNN ",
                         library.cudnnGetVersion(), " computes it in ", task.desc.scratchBytes, " bytes of workspace");
  float least = std::numeric_limits<float>::infinity();
  bool refusesFused = false, hasFused = false;
  size_t measured = 0;
  for (const Routine &way : withEpilogues(*ways)) {
    if (measured == mostWithoutEpilogue && problem.bias < 0)
      break;
    auto time = measureOnStream(task.cuda, stream, [&] { return run(arguments, way, stream); }, least);
    (time ? hasFused : refusesFused) |= way.fused;
    measured += bool(time);
    if (!time)
      last = time.error();
    else if (*time < least) {
      least = *time;
      chosen = way;
    }
  }
  if (refusesFused && !hasFused)
    noteEpilogue("cuDNN", task.epilogueDesc, task.desc.text());
  if (least == std::numeric_limits<float>::infinity())
    return last;
  return least;
}

Error Routines::take(const std::string &text, void *const *arguments, cudaStream_t stream) {
  if (Error error = useStream(stream))
    return error;
  auto way = readWay(text);
  Routine before = chosen;
  if (!way || (!task.leavesMath() && way->math != chosen.math) || !isAcceptable(*way))
    return makeError(Status::Unsupported, "cuDNN's routines have no \"", text, "\" for ", task.desc.text());
  chosen = *way;
  Error error = runOnce(task.cuda, arguments, stream);
  if (error)
    chosen = before;
  return error;
}

Error Routines::enqueue(void *const *arguments, cudaStream_t stream) {
  if (Error error = useStream(stream))
    return error;
  return run(arguments, chosen, stream);
}

Error Routines::run(void *const *arguments, const Routine &way, cudaStream_t stream) {
  if (Error error = useMath(way))
    return error;
  void *x = task.dataOf(arguments), *w = task.weightsOf(arguments), *y = task.resultOf(arguments);
  void *space = task.workspaceOf(arguments);
  const float one = 1, zero = 0;
  // What is added may lie where the result goes: the convolution adds to it then.
  bool isInPlace = task.isInPlace(arguments);
  switch (problem.direction) {
  case Direction::Forward:
    if (way.fused && !isInPlace)
      return runFused(arguments, way);
    if (Error error =
            check(library.cudnnConvolutionForward(handle, &one, data, x, weights, w, convolution,
                                                  static_cast<cudnnConvolutionFwdAlgo_t>(way.algorithm), space,
                                                  task.desc.scratchBytes, isInPlace ? &one : &zero, result, y),
                  "cudnnConvolutionForward"))
      return error;
    return (isInPlace ? task.epilogueAfterAddition : task.epilogue).enqueue(y, arguments, stream);
  case Direction::BackwardData:
    return check(library.cudnnConvolutionBackwardData(handle, &one, weights, w, result, y, convolution,
                                                      static_cast<cudnnConvolutionBwdDataAlgo_t>(way.algorithm), space,
                                                      task.desc.scratchBytes, &zero, data, x),
                 "cudnnConvolutionBackwardData");
  case Direction::BackwardWeights:
    break;
  }
  return check(library.cudnnConvolutionBackwardFilter(handle, &one, data, x, result, y, convolution,
                                                      static_cast<cudnnConvolutionBwdFilterAlgo_t>(way.algorithm),
                                                      space, task.desc.scratchBytes, &zero, weights, w),
               "cudnnConvolutionBackwardFilter");
}

Error Routines::runFused(void *const *arguments, const Routine &way) {
  void *y = task.resultOf(arguments), *added = problem.added < 0 ? y : arguments[problem.added];
  const float one = 1, scale = problem.added < 0 ? 0 : 1;
  return check(library.cudnnConvolutionBiasActivationForward(
                   handle, &one, data, task.dataOf(arguments), weights, task.weightsOf(arguments), convolution,
                   static_cast<cudnnConvolutionFwdAlgo_t>(way.algorithm), task.workspaceOf(arguments),
                   task.desc.scratchBytes, &scale, result, added, bias, arguments[problem.bias], activation, result, y),
               "cudnnConvolutionBiasActivationForward");
}

} // namespace

Expected<std::unique_ptr<ConvolutionWays>> loadCudnnRoutines(const ConvolutionTask &task, const Cudnn &library) {
  auto routines = std::make_unique<Routines>(task, library);
  if (Error error = routines->load())
    return error;
  return std::unique_ptr<ConvolutionWays>(std::move(routines));
}

} // namespace cleave::runtime
