// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asks CUDA for its GPUs and what they can do.

#include "runtime/drivers/cuda/CudaGpus.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <sstream>
#include <tuple>

namespace cleave::runtime {

Expected<CudaGpus> CudaGpus::find(const CudaRuntime &cuda) {
  int count = 0;
  cudaError_t code = cuda.cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) {
    std::string why = code == cudaSuccess ? "none is visible" : checkCuda(cuda, code, "CUDA says").message();
    (void)cuda.cudaGetLastError();
    return makeError(Status::Infeasible, "the driver \"cuda\" expects an NVIDIA GPU and its driver, got none: ", why,
                     "; run on a machine that has them, or compile the model for cpu devices");
  }
  CudaGpus gpus(cuda);
  const char *chosen = std::getenv("CLEAVE_GPUS");
  if (chosen && *chosen) {
    if (Error error = gpus.readOrder(chosen, count))
      return error;
  } else {
    gpus.order.resize(static_cast<size_t>(count));
    std::iota(gpus.order.begin(), gpus.order.end(), 0);
  }
  return gpus;
}

Error CudaGpus::readOrder(const std::string &text, int count) {
  std::istringstream list(text);
  for (std::string word; std::getline(list, word, ',');) {
    char *end = nullptr;
    long number = std::strtol(word.c_str(), &end, 10);
    if (word.empty() || *end != '\0' || number < 0 || number >= count)
      return makeError(Status::Usage, "CLEAVE_GPUS expects numbers of GPUs from 0 to ", count - 1,
                       " separated by commas, got \"", text, '"');
    order.push_back(static_cast<int>(number));
  }
  return Error::success();
}

Expected<bool> CudaGpus::connect(int from, int to) const {
  if (from == to)
    return true;
  int can = 0;
  if (Error error = checkCuda(*cuda, cuda->cudaDeviceCanAccessPeer(&can, from, to), "asking for access between GPUs"))
    return error;
  if (!can)
    return false;
  // For as long as the process, and once.
  static std::mutex mutex;
  static std::set<std::tuple<const CudaRuntime *, int, int>> connected;
  std::lock_guard lock(mutex);
  if (connected.contains({cuda, from, to}))
    return true;
  if (Error error = checkCuda(*cuda, cuda->cudaSetDevice(from), "using a GPU"))
    return error;
  cudaError_t code = cuda->cudaDeviceEnablePeerAccess(to, 0);
  // By someone else in the process.
  if (code == cudaErrorPeerAccessAlreadyEnabled)
    (void)cuda->cudaGetLastError();
  else if (Error error = checkCuda(*cuda, code, "connecting GPUs"))
    return error;
  connected.insert({cuda, from, to});
  return true;
}

/// The part of a chip's name behind "sm_" is its number, perhaps with a letter for code that runs on this one alone.
Error CudaGpus::checkChip(int gpu, const std::string &chip) const {
  int major = 0, minor = 0;
  if (Error error = checkCuda(*cuda, cuda->cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu),
                              "asking a GPU"))
    return error;
  if (Error error = checkCuda(*cuda, cuda->cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu),
                              "asking a GPU"))
    return error;
  int has = 10 * major + minor;
  char *rest = nullptr;
  long wanted = chip.rfind("sm_", 0) == 0 ? std::strtol(chip.c_str() + 3, &rest, 10) : 0;
  if (wanted == 0)
    return makeError(Status::Rejected, "code for GPUs expects a chip as \"sm_90\", got \"", chip, '"');
  bool runs = *rest == 'a' ? has == wanted : *rest == 'f' ? has / 10 == wanted / 10 && has >= wanted : has >= wanted;
  if (runs)
    return Error::success();
  return makeError(Status::Infeasible, "code for ", chip, " expects such a GPU", *rest ? "" : " or a newer one",
                   ", got ", name(gpu), " of sm_", has, "; compile the model for this chip");
}

std::string CudaGpus::name(int gpu) const {
  std::string number = "GPU " + std::to_string(gpu), product = productName(*cuda, gpu);
  return product.empty() ? number : number + " (" + product + ")";
}

std::string productName(const CudaRuntime &cuda, int gpu) {
  static std::mutex mutex;
  static std::map<std::pair<const CudaRuntime *, int>, std::string> names;
  std::lock_guard lock(mutex);
  auto [known, isNew] = names.try_emplace({&cuda, gpu});
  if (!isNew)
    return known->second;
  // Versions of CUDA differ in the struct's size, but not in where the name is.
  union {
    cudaDeviceProp properties;
    char room[16384];
  };
  std::memset(room, 0, sizeof room);
  if (cuda.cudaGetDeviceProperties(&properties, gpu) == cudaSuccess)
    known->second = properties.name;
  else
    (void)cuda.cudaGetLastError();
  return known->second;
}

} // namespace cleave::runtime
