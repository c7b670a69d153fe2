// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which algorithm of a library is the fastest for a kernel: measured once in a process, and once for all processes
// where the environment's CLEAVE_ALGORITHM_CACHE names a file. Knows no library.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDALIBRARYALGORITHMS_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDALIBRARYALGORITHMS_H

#include "runtime/LibraryKernelDesc.h"
#include "runtime/drivers/cuda/CudaApi.h"

#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

namespace cleave::runtime {

/// Algorithms by what they compute and where. A key holds the library with its version, the GPU's name and the kernel,
/// so that an entry of another version or GPU is never found; the value is the library's own text. Thread-safe.
///
/// The file has a line an entry, `checksum tab key tab value`, the checksum (64-bit FNV-1a, in hexadecimal) being that
/// of what follows it. Lines that do not hold are ignored: whoever else writes may have been cut off in the middle. Of
/// several entries of a key the last counts. New entries are appended, by several processes at once if need be; a file
/// that cannot be read or written is none.
class CudaAlgorithmCache {
public:
  /// `file`: empty for none.
  explicit CudaAlgorithmCache(std::filesystem::path file);
  /// The process's, with the environment's file.
  static CudaAlgorithmCache &ofProcess();

  std::optional<std::string> find(const std::string &key);
  void insert(const std::string &key, const std::string &value);

private:
  std::mutex mutex;
  std::filesystem::path file;
  std::map<std::string, std::string> values;
};

/// The key of a kernel on the current GPU: `library` with its version, the GPU's name, and all of the description that
/// tells kernels apart.
Expected<std::string> algorithmKey(const CudaRuntime &cuda, const std::string &library, const LibraryKernelDesc &desc);

/// Milliseconds that a call of `work` takes on the stream, the least of a few rounds; the stream is idle. `work` puts
/// its work on the stream and is called several times. What takes clearly longer than `least`, another one's
/// milliseconds, is not measured to the end. One measurement at a time in a process.
Expected<float> measureOnStream(const CudaRuntime &cuda, cudaStream_t stream, const std::function<Error()> &work,
                                float least = std::numeric_limits<float>::infinity());

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDALIBRARYALGORITHMS_H
