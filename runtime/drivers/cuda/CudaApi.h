// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CUDA's libraries as tables of functions, which dlopen fills at the first use: programs start fast, run on machines
// without CUDA, and say clearly what is missing. A library is a list of its functions; tests put a table of their own
// in the library's place.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAAPI_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAAPI_H

#include "runtime/Error.h"

// The C interface alone: cuda_runtime.h overloads some of these functions, whose types a table could not name then.
#include <cuda_runtime_api.h>

#include <atomic>
#include <span>
#include <vector>

namespace cleave::runtime {

/// A library as the loader finds it.
struct CudaLibraryFile {
  const char *name = nullptr; ///< for people
  /// File names to try, the best first: in $CUDA_PATH, where the system looks, and in /usr/local/cuda.
  std::span<const char *const> files;
  const char *remedy = nullptr; ///< what to do when it is missing
  /// The version of CUDA that a library, as dlopen has opened it, is for, and the one that the GPU's driver is for, as
  /// 1000 times the major version and more; 0 for what is not known. Null where neither matters.
  struct Versions {
    int library = 0, driver = 0;
  };
  Versions (*versions)(void *handle) = nullptr;
};

/// The names of a library's file that end in CUDA's major version: first that of the headers that this is built with,
/// then others from the newest. The library's functions are those of the headers, and their structures have the same
/// sizes.
class CudaFileNames {
public:
  explicit CudaFileNames(const std::string &stem);
  std::span<const char *const> list() const { return pointers; }

private:
  std::vector<std::string> names;
  std::vector<const char *> pointers;
};

/// A function that a table wants; one that is optional stays null where the library lacks it.
struct CudaFunction {
  const char *name = nullptr;
  void **place = nullptr;
  bool isOptional = false;
};

#define CLEAVE_FUNCTION_TEXT_(name) #name
#define CLEAVE_FUNCTION_TEXT(name) CLEAVE_FUNCTION_TEXT_(name)
#define CLEAVE_FUNCTION_MEMBER(name) decltype(&::name) name = nullptr;
#define CLEAVE_FUNCTION_ENTRY(name) {CLEAVE_FUNCTION_TEXT(name), reinterpret_cast<void **>(&this->name)},
#define CLEAVE_OPTIONAL_FUNCTION_ENTRY(name)                                                                           \
  {CLEAVE_FUNCTION_TEXT(name), reinterpret_cast<void **>(&this->name), /*isOptional=*/true},
#define CLEAVE_NO_FUNCTIONS(X)

/// Declares `struct Table`, with a pointer for each function of the list X-macro `LIST`, of the type that the library's
/// header gives it. The table gets its library as `static CudaLibraryFile file()`, which a source file defines.
#define CLEAVE_FUNCTIONS(Table, LIST) CLEAVE_FUNCTIONS_AND_OPTIONAL(Table, LIST, CLEAVE_NO_FUNCTIONS)
/// The same, with functions that the library may lack.
#define CLEAVE_FUNCTIONS_AND_OPTIONAL(Table, LIST, OPTIONAL)                                                           \
  struct Table {                                                                                                       \
    LIST(CLEAVE_FUNCTION_MEMBER)                                                                                       \
    OPTIONAL(CLEAVE_FUNCTION_MEMBER)                                                                                   \
    std::vector<::cleave::runtime::CudaFunction> functions() {                                                         \
      return {LIST(CLEAVE_FUNCTION_ENTRY) OPTIONAL(CLEAVE_OPTIONAL_FUNCTION_ENTRY)};                                   \
    }                                                                                                                  \
    static ::cleave::runtime::CudaLibraryFile file();                                                                  \
  };

/// Opens the library for good and fills in its functions, from the first of its files that has all of them and is for
/// no newer CUDA than the GPU's driver. Status::Unsupported when there is none; the message says what each lacks, and
/// what to do.
Error openCudaLibrary(const CudaLibraryFile &library, std::span<const CudaFunction> functions);

namespace detail {
template <typename Table> std::atomic<const Table *> cudaReplacement{nullptr};
}

/// The library's functions, loaded at the first call and there for as long as the program; openCudaLibrary's errors.
/// Thread-safe.
template <typename Table> Expected<const Table *> cudaLibrary() {
  if (const Table *replacement = detail::cudaReplacement<Table>.load(std::memory_order_acquire))
    return replacement;
  static const Expected<const Table *> loaded = []() -> Expected<const Table *> {
    static Table table;
    if (Error error = openCudaLibrary(Table::file(), table.functions()))
      return error;
    return static_cast<const Table *>(&table);
  }();
  return loaded;
}

/// From here on cudaLibrary<Table>() gives `table`; null: the library again. For tests.
template <typename Table> void replaceCudaLibrary(const Table *table) {
  detail::cudaReplacement<Table>.store(table, std::memory_order_release);
}

// clang-format off
#define CLEAVE_CUDA_RUNTIME_FUNCTIONS(X)                                                                               \
  X(cudaDeviceCanAccessPeer)                                                                                           \
  X(cudaDeviceEnablePeerAccess)                                                                                        \
  X(cudaDeviceGetAttribute)                                                                                            \
  X(cudaDeviceGetPCIBusId)                                                                                             \
  X(cudaDeviceSynchronize)                                                                                             \
  X(cudaDriverGetVersion)                                                                                              \
  X(cudaEventCreateWithFlags)                                                                                          \
  X(cudaEventDestroy)                                                                                                  \
  X(cudaEventElapsedTime)                                                                                              \
  X(cudaEventQuery)                                                                                                    \
  X(cudaEventRecord)                                                                                                   \
  X(cudaEventSynchronize)                                                                                              \
  X(cudaFree)                                                                                                          \
  X(cudaFreeHost)                                                                                                      \
  X(cudaFuncGetAttributes)                                                                                             \
  X(cudaFuncSetAttribute)                                                                                              \
  X(cudaGetDevice)                                                                                                     \
  X(cudaGetDeviceCount)                                                                                                \
  X(cudaGetDeviceProperties)                                                                                           \
  X(cudaGetErrorName)                                                                                                  \
  X(cudaGetErrorString)                                                                                                \
  X(cudaGetLastError)                                                                                                  \
  X(cudaGraphDestroy)                                                                                                  \
  X(cudaGraphExecDestroy)                                                                                              \
  X(cudaGraphGetNodes)                                                                                                 \
  X(cudaGraphInstantiate)                                                                                              \
  X(cudaGraphLaunch)                                                                                                   \
  X(cudaGraphUpload)                                                                                                   \
  X(cudaLaunchHostFunc)                                                                                                \
  X(cudaLaunchKernel)                                                                                                  \
  X(cudaLibraryGetKernel)                                                                                              \
  X(cudaLibraryLoadData)                                                                                               \
  X(cudaLibraryUnload)                                                                                                 \
  X(cudaMalloc)                                                                                                        \
  X(cudaMallocHost)                                                                                                    \
  X(cudaMemGetInfo)                                                                                                    \
  X(cudaMemcpy)                                                                                                        \
  X(cudaMemcpy2DAsync)                                                                                                 \
  X(cudaMemcpyAsync)                                                                                                   \
  X(cudaMemcpyPeerAsync)                                                                                               \
  X(cudaMemsetAsync)                                                                                                   \
  X(cudaPeekAtLastError)                                                                                               \
  X(cudaRuntimeGetVersion)                                                                                             \
  X(cudaSetDevice)                                                                                                     \
  X(cudaStreamBeginCapture)                                                                                            \
  X(cudaStreamCreateWithFlags)                                                                                         \
  X(cudaStreamDestroy)                                                                                                 \
  X(cudaStreamEndCapture)                                                                                              \
  X(cudaStreamIsCapturing)                                                                                             \
  X(cudaStreamQuery)                                                                                                   \
  X(cudaStreamSynchronize)                                                                                             \
  X(cudaStreamWaitEvent)
// clang-format on

/// The CUDA runtime.
CLEAVE_FUNCTIONS(CudaRuntime, CLEAVE_CUDA_RUNTIME_FUNCTIONS)

/// The CUDA runtime's functions; see cudaLibrary.
inline Expected<const CudaRuntime *> cudaRuntime() { return cudaLibrary<CudaRuntime>(); }

/// Success, or `status` with a message that says what failed and CUDA's name and text for `code`.
Error checkCuda(const CudaRuntime &cuda, cudaError_t code, const char *what, Status status = Status::Failure);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAAPI_H
