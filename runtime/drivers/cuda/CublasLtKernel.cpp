// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A CublasProblem as cuBLASLt's descriptors, and the search for its fastest algorithm. An epilogue that no algorithm
// has, or has only slower than it takes behind the product, is left to a kernel of our own; matrices whose columns are
// aligned badly are copied where that is faster.

#include "runtime/drivers/cuda/CublasLtKernel.h"

#include "runtime/drivers/cuda/CublasLtApi.h"
#include "runtime/drivers/cuda/CublasLtWays.h"
#include "runtime/drivers/cuda/CudaLibraryAlgorithms.h"
#include "runtime/drivers/cuda/CudaRows.h"

#include <array>
#include <charconv>
#include <limits>

namespace cleave::runtime {

namespace {

/// How many algorithms are measured; cuBLASLt gives the likeliest first.
constexpr int mostCandidates = 12;
/// Every argument's address is a multiple of it.
constexpr uint32_t alignment = 64;

/// The current device's handle. It may be used by all threads at once, and is never given back: what ends first, the
/// device or the library, is not ours to say.
Expected<cublasLtHandle_t> handleOf(const CublasLt &library, int device) {
  static std::mutex mutex;
  static auto &handles = *new std::map<std::pair<const CublasLt *, int>, cublasLtHandle_t>;
  std::lock_guard lock(mutex);
  cublasLtHandle_t &handle = handles[{&library, device}];
  if (!handle)
    if (Error error = checkCublasLt(library, library.cublasLtCreate(&handle), "cublasLtCreate"))
      return error;
  return handle;
}

/// The first address from `place` on that is aligned as cuBLASLt wants its workspace.
void *aligned(void *place) {
  constexpr uintptr_t multiple = CublasProblem::workspaceAlignment;
  return reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(place) + multiple - 1) / multiple * multiple);
}

cudaDataType_t dataType(ElementType element) { return element == ElementType::BF16 ? CUDA_R_16BF : CUDA_R_32F; }

cublasLtEpilogue_t epilogueOf(const CublasProblem &problem) {
  bool biased = problem.bias >= 0;
  switch (problem.activation) {
  case CublasProblem::Activation::Relu:
    return biased ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  case CublasProblem::Activation::Gelu:
    return biased ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  case CublasProblem::Activation::GeluGradient:
    return CUBLASLT_EPILOGUE_DGELU;
  case CublasProblem::Activation::None:
    break;
  }
  return biased ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/// The bytes of an algorithm in hexadecimal: cuBLASLt allows to keep them for the same version of it.
std::string algorithmText(const cublasLtMatmulAlgo_t &algorithm) {
  std::string text;
  char digits[20];
  for (uint64_t word : algorithm.data) {
    auto end = std::to_chars(digits, digits + sizeof(digits), word, 16).ptr;
    text.append(digits, end).push_back(' ');
  }
  return text;
}

std::optional<cublasLtMatmulAlgo_t> readAlgorithm(const std::string &text) {
  cublasLtMatmulAlgo_t algorithm;
  const char *next = text.data(), *end = next + text.size();
  for (uint64_t &word : algorithm.data) {
    auto [rest, error] = std::from_chars(next, end, word, 16);
    if (error != std::errc() || rest == end || *rest != ' ')
      return std::nullopt;
    next = rest + 1;
  }
  return next == end ? std::optional(algorithm) : std::nullopt;
}

class CublasLtKernel final : public CudaLibraryKernel {
public:
  CublasLtKernel(const CudaRuntime &cuda, const CublasLt &library, const LibraryKernelDesc &desc,
                 const CublasProblem &whole)
      : cuda(cuda), library(library), desc(desc), whole(whole), problem(whole),
        ways(cublasLtWays(whole, desc.scratchBytes)) {}
  ~CublasLtKernel() override;

  /// Makes the handle and descriptors, and asks for candidates, so that what no algorithm computes fails here.
  Error load();
  Error choose(void *const *arguments, cudaStream_t stream) override;
  Error enqueue(void *const *arguments, cudaStream_t stream) override { return run(arguments, stream, algorithm); }

private:
  Error useWay(size_t number);
  bool useKept(const std::string &text, void *const *arguments, cudaStream_t stream);
  Expected<float> measureCandidates(void *const *arguments, cudaStream_t stream);
  Error check(cublasStatus_t code, const char *routine) const;
  /// What cuBLASLt gets of the scratch, behind the first address that is aligned as it wants it; copies follow.
  uint64_t workspaceBytes() const {
    constexpr uint64_t most = CublasProblem::workspaceAlignment - alignment;
    uint64_t bytes = ways[way].isAligned ? whole.productBytes() : desc.scratchBytes;
    return bytes > most ? bytes - most : 0;
  }
  Error makeLayouts();
  Error makeLayout(cublasLtMatrixLayout_t &layout, const CublasMatrix &matrix) const;
  template <typename T> Error setOperation(cublasLtMatmulDescAttributes_t name, const T &value) const {
    return check(library.cublasLtMatmulDescSetAttribute(operation, name, &value, sizeof(value)),
                 "cublasLtMatmulDescSetAttribute");
  }
  Error makeOperation();
  Error setAuxiliary();
  Error findCandidates();
  Error askHeuristic(cublasLtMatmulPreference_t preference);
  bool isUsable(const cublasLtMatmulAlgo_t &kept) const;
  Error run(void *const *arguments, cudaStream_t stream, const cublasLtMatmulAlgo_t &with) const;
  Error multiply(void *const *arguments, void *workspace, std::array<void *, 3> matrices, cudaStream_t stream,
                 const cublasLtMatmulAlgo_t &with) const;
  Error multiplyCopies(void *const *arguments, void *workspace, std::array<void *, 3> matrices, cudaStream_t stream,
                       const cublasLtMatmulAlgo_t &with) const;

  const CudaRuntime &cuda;
  const CublasLt &library;
  LibraryKernelDesc desc;
  const CublasProblem whole;
  CublasProblem problem; ///< what cuBLASLt computes of it
  CudaEpilogue rest;     ///< what follows that
  CudaRows operandRows, resultRows;
  const std::vector<CublasLtWay> ways;
  size_t way = 0; ///< the one in use
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, result = nullptr;
  std::vector<cublasLtMatmulAlgo_t> candidates;
  cublasLtMatmulAlgo_t algorithm;
};

CublasLtKernel::~CublasLtKernel() {
  for (cublasLtMatrixLayout_t layout : {left, right, result})
    if (layout)
      library.cublasLtMatrixLayoutDestroy(layout);
  if (operation)
    library.cublasLtMatmulDescDestroy(operation);
}

Error CublasLtKernel::check(cublasStatus_t code, const char *routine) const {
  Error error = checkCublasLt(library, code, routine);
  return error ? makeError(error.status(), "cublaslt kernel ", desc.text(), ": ", error.message()) : error;
}

Error CublasLtKernel::makeLayouts() {
  for (auto [layout, matrix] :
       {std::pair{&left, &problem.left}, {&right, &problem.right}, {&result, &problem.result}}) {
    if (*layout)
      library.cublasLtMatrixLayoutDestroy(std::exchange(*layout, nullptr));
    if (Error error = makeLayout(*layout, *matrix))
      return error;
  }
  return Error::success();
}

Error CublasLtKernel::makeLayout(cublasLtMatrixLayout_t &layout, const CublasMatrix &matrix) const {
  if (Error error = check(library.cublasLtMatrixLayoutCreate(&layout, dataType(matrix.element), matrix.rows,
                                                             matrix.columns, matrix.leading),
                          "cublasLtMatrixLayoutCreate"))
    return error;
  if (problem.batches == 1)
    return Error::success();
  auto batches = static_cast<int32_t>(problem.batches);
  int64_t stride = matrix.batchStride;
  if (Error error = check(library.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches,
                                                                   sizeof(batches)),
                          "cublasLtMatrixLayoutSetAttribute"))
    return error;
  return check(library.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                        sizeof(stride)),
               "cublasLtMatrixLayoutSetAttribute");
}

Error CublasLtKernel::makeOperation() {
  if (operation)
    library.cublasLtMatmulDescDestroy(std::exchange(operation, nullptr));
  cublasComputeType_t compute = problem.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  if (Error error =
          check(library.cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F), "cublasLtMatmulDescCreate"))
    return error;
  for (auto [name, matrix] : {std::pair{CUBLASLT_MATMUL_DESC_TRANSA, &problem.left},
                              std::pair{CUBLASLT_MATMUL_DESC_TRANSB, &problem.right}}) {
    cublasOperation_t transpose = matrix->transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    if (Error error = setOperation(name, transpose))
      return error;
  }
  if (Error error = setOperation(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogueOf(problem)))
    return error;
  if (problem.activationInput >= 0)
    if (Error error = setAuxiliary())
      return error;
  if (problem.bias < 0)
    return Error::success();
  // The heuristic takes from the address how it is aligned.
  if (Error error = setOperation(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<void *>(uintptr_t(alignment))))
    return error;
  return setOperation(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, dataType(problem.result.element));
}

/// What the epilogue reads lies as the result does.
Error CublasLtKernel::setAuxiliary() {
  if (Error error =
          setOperation(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, reinterpret_cast<void *>(uintptr_t(alignment))))
    return error;
  if (Error error = setOperation(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, problem.result.leading))
    return error;
  return problem.batches == 1
             ? Error::success()
             : setOperation(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, problem.result.batchStride);
}

Error CublasLtKernel::askHeuristic(cublasLtMatmulPreference_t preference) {
  auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto &value) {
    return check(library.cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof(value)),
                 "cublasLtMatmulPreferenceSetAttribute");
  };
  if (Error error = set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspaceBytes()))
    return error;
  // No partial sums in bfloat16: in place they are added in the result's type.
  bool isWide = problem.result.element == ElementType::F32;
  if (Error error =
          set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
              uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | (isWide ? CUBLASLT_REDUCTION_SCHEME_INPLACE : 0))))
    return error;
  for (auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    if (Error error = set(name, alignment))
      return error;
  std::array<cublasLtMatmulHeuristicResult_t, mostCandidates> found;
  int count = 0;
  cublasStatus_t status = library.cublasLtMatmulAlgoGetHeuristic(handle, operation, left, right, result, result,
                                                                 preference, mostCandidates, found.data(), &count);
  if (Error error = check(status, "cublasLtMatmulAlgoGetHeuristic"))
    return error;
  for (int i = 0; i < count; ++i)
    if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= workspaceBytes())
      candidates.push_back(found[i].algo);
  if (candidates.empty())
    return check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
  return Error::success();
}

Error CublasLtKernel::findCandidates() {
  candidates.clear();
  cublasLtMatmulPreference_t preference = nullptr;
  if (Error error = check(library.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"))
    return error;
  Error error = askHeuristic(preference);
  library.cublasLtMatmulPreferenceDestroy(preference);
  return error;
}

Error CublasLtKernel::load() {
  int device = 0;
  if (Error error = checkCuda(cuda, cuda.cudaGetDevice(&device), "cudaGetDevice"))
    return error;
  auto found = handleOf(library, device);
  if (!found)
    return found.error();
  handle = *found;
  if (std::any_of(ways.begin(), ways.end(), [](const CublasLtWay &way) { return way.isAligned; }))
    for (auto [rows, element] : {std::pair{&operandRows, whole.left.element}, {&resultRows, whole.result.element}}) {
      auto loaded = CudaRows::load(cuda, element);
      if (!loaded)
        return loaded.error();
      *rows = std::move(*loaded);
    }
  Error last;
  for (size_t number = 0; number != ways.size(); ++number) {
    last = useWay(number);
    if (last)
      continue;
    if (number != 0 && !ways[number].rest.isEmpty())
      noteEpilogue("cuBLASLt", ways[number].rest, desc.text());
    return last;
  }
  return last;
}

/// Why cuBLASLt refuses a way it says in several manners, invalid values among them: any of them leaves the next one.
Error CublasLtKernel::useWay(size_t number) {
  way = number;
  problem = ways[number].problem;
  if (Error error = makeLayouts())
    return error;
  if (Error error = makeOperation())
    return error;
  if (Error error = findCandidates())
    return error;
  algorithm = candidates.front();
  auto loaded = CudaEpilogue::load(cuda, ways[number].rest);
  if (loaded)
    rest = std::move(*loaded);
  return loaded.error();
}

/// Whether what a file kept computes this product here, whatever else it may be.
bool CublasLtKernel::isUsable(const cublasLtMatmulAlgo_t &kept) const {
  cublasLtMatmulHeuristicResult_t checked = {};
  return library.cublasLtMatmulAlgoCheck(handle, operation, left, right, result, result, &kept, &checked) ==
             CUBLAS_STATUS_SUCCESS &&
         checked.workspaceSize <= workspaceBytes();
}

/// Whether the way and algorithm that were kept compute the product here. Running once loads code, which a graph
/// cannot.
bool CublasLtKernel::useKept(const std::string &text, void *const *arguments, cudaStream_t stream) {
  size_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool isOther = error != std::errc() || end == text.data() + text.size() || number >= ways.size();
  if (isOther || (number != way && useWay(number)))
    return false;
  auto kept = readAlgorithm(text.substr(end - text.data() + 1));
  if (!kept || !isUsable(*kept))
    return false;
  algorithm = *kept;
  return !run(arguments, stream, algorithm) && cuda.cudaStreamSynchronize(stream) == cudaSuccess;
}

Error CublasLtKernel::choose(void *const *arguments, cudaStream_t stream) {
  auto key = algorithmKey(cuda, "cublaslt " + std::to_string(library.cublasLtGetVersion()), desc);
  if (!key)
    return key.error();
  CudaAlgorithmCache &cache = CudaAlgorithmCache::ofProcess();
  const size_t first = way;
  if (auto text = cache.find(*key); text && useKept(*text, arguments, stream))
    return Error::success();

  // Candidates may still be refused when they are to run. An activation within the product may take longer than one
  // behind it: the way without it is measured as well, and that with copies.
  float least = std::numeric_limits<float>::infinity();
  size_t chosenWay = first;
  cublasLtMatmulAlgo_t chosenAlgorithm = algorithm;
  Error last;
  bool isRefused = false;
  bool isDone = false;
  for (size_t number = first; number != ways.size(); ++number) {
    if (isDone && !ways[number].isAligned)
      continue;
    last = number == way ? Error::success() : useWay(number);
    auto time = last ? Expected<float>(last) : measureCandidates(arguments, stream);
    if (!time) {
      last = time.error();
      isRefused |= least == std::numeric_limits<float>::infinity();
      continue;
    }
    bool mayBeSlow = ways[number].problem.activation != CublasProblem::Activation::None;
    if (*time < least) {
      least = *time;
      chosenWay = number;
      chosenAlgorithm = algorithm;
    }
    isDone |= !mayBeSlow;
  }
  if (least == std::numeric_limits<float>::infinity())
    return last;
  if (isRefused && !ways[chosenWay].rest.isEmpty())
    noteEpilogue("cuBLASLt", ways[chosenWay].rest, desc.text());
  if (chosenWay != way)
    if (Error error = useWay(chosenWay))
      return error;
  algorithm = chosenAlgorithm;
  cache.insert(*key, std::to_string(chosenWay) + ' ' + algorithmText(algorithm));
  return Error::success();
}

/// Leaves the fastest in `algorithm`. Milliseconds.
Expected<float> CublasLtKernel::measureCandidates(void *const *arguments, cudaStream_t stream) {
  float least = std::numeric_limits<float>::infinity();
  Error last;
  for (const cublasLtMatmulAlgo_t &candidate : candidates) {
    auto time = measureOnStream(cuda, stream, [&] { return run(arguments, stream, candidate); }, least);
    if (!time)
      last = time.error();
    else if (*time < least) {
      least = *time;
      algorithm = candidate;
    }
  }
  if (least == std::numeric_limits<float>::infinity())
    return last;
  return least;
}

Error CublasLtKernel::run(void *const *arguments, cudaStream_t stream, const cublasLtMatmulAlgo_t &with) const {
  void *output = arguments[desc.inputs.size()];
  if (problem.addsInPlace && arguments[problem.added] != output)
    return makeError(Status::Internal, "cublaslt kernel ", desc.text(), " adds to its output, which expects input ",
                     problem.added, " in the output's buffer");
  // cublasLtMatmul copies the descriptor: what a graph has captured keeps its own bias, and what else is read.
  if (problem.activationInput >= 0)
    if (Error error = setOperation(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, arguments[problem.activationInput]))
      return error;
  if (problem.bias >= 0)
    if (Error error = setOperation(CUBLASLT_MATMUL_DESC_BIAS_POINTER, arguments[problem.bias]))
      return error;
  void *workspace = workspaceBytes() == 0 ? nullptr : aligned(arguments[desc.inputs.size() + 1]);
  std::array<void *, 3> matrices = {arguments[1], arguments[0], output};
  Error error = ways[way].isAligned ? multiplyCopies(arguments, workspace, matrices, stream, with)
                                    : multiply(arguments, workspace, matrices, stream, with);
  return error ? error : rest.enqueue(output, arguments, stream);
}

/// `matrices` are left, right and result.
Error CublasLtKernel::multiply(void *const *arguments, void *workspace, std::array<void *, 3> matrices,
                               cudaStream_t stream, const cublasLtMatmulAlgo_t &with) const {
  const void *added = problem.added < 0 ? matrices[2] : arguments[problem.added];
  float one = 1, beta = problem.added < 0 ? 0 : problem.addedScale;
  return check(library.cublasLtMatmul(handle, operation, &one, matrices[0], left, matrices[1], right, &beta, added,
                                      result, matrices[2], result, &with, workspace, workspaceBytes(), stream),
               "cublasLtMatmul");
}

/// The same through copies of the matrices that the way has elsewhere.
Error CublasLtKernel::multiplyCopies(void *const *arguments, void *workspace, std::array<void *, 3> matrices,
                                     cudaStream_t stream, const cublasLtMatmulAlgo_t &with) const {
  std::array<void *, 3> places = matrices;
  auto *next = static_cast<std::byte *>(workspace) + workspaceBytes();
  constexpr std::array members = {&CublasProblem::left, &CublasProblem::right, &CublasProblem::result};
  for (size_t i = 0; i != members.size(); ++i) {
    const CublasMatrix &from = whole.*members[i], &to = problem.*members[i];
    if (from == to)
      continue;
    places[i] = aligned(next);
    next = static_cast<std::byte *>(places[i]) + bytesOf(to);
    if (i == 2)
      continue;
    if (Error error = operandRows.enqueue(matrices[i], places[i], rowsOfOperand(from, to), stream))
      return error;
  }
  if (Error error = multiply(arguments, workspace, places, stream, with))
    return error;
  return places[2] == matrices[2]
             ? Error::success()
             : resultRows.enqueue(places[2], matrices[2], rowsOfResult(problem.result, whole.result), stream);
}

} // namespace

Expected<std::unique_ptr<CudaLibraryKernel>> loadCublasLtKernel(const LibraryKernelDesc &desc) {
  auto cuda = cudaRuntime();
  if (!cuda)
    return cuda.error();
  auto library = cudaLibrary<CublasLt>();
  if (!library)
    return library.error();
  if (desc.operation != "matmul")
    return makeError(Status::Unsupported, "cublaslt has no operation \"", desc.operation, '"');
  auto problem = readCublasProblem(desc);
  if (!problem)
    return makeError(problem.error().status(), "cublaslt kernel ", desc.text(), ": ", problem.error().message());
  auto kernel = std::make_unique<CublasLtKernel>(**cuda, **library, desc, *problem);
  if (Error error = kernel->load())
    return error;
  return std::unique_ptr<CudaLibraryKernel>(std::move(kernel));
}

} // namespace cleave::runtime
