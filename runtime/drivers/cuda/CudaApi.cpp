// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds CUDA's libraries and their functions.

#include "runtime/drivers/cuda/CudaApi.h"

#include <array>
#include <cstdlib>
#include <dlfcn.h>

namespace cleave::runtime {

/// The places where a file may be, the best first. $CUDA_PATH is what someone chose; without a folder dlopen searches
/// LD_LIBRARY_PATH and the system's list.
static std::vector<std::string> candidates(const CudaLibraryFile &library) {
  std::vector<std::string> folders;
  if (const char *chosen = std::getenv("CUDA_PATH"); chosen && *chosen)
    folders.push_back(std::string(chosen) + "/lib64/");
  folders.insert(folders.end(), {"", "/usr/local/cuda/lib64/"});
  std::vector<std::string> paths;
  for (const std::string &folder : folders)
    for (const char *file : library.files)
      paths.push_back(folder + file);
  return paths;
}

Error openCudaLibrary(const CudaLibraryFile &library, std::span<const CudaFunction> functions) {
  void *handle = nullptr;
  std::string path, tried;
  for (const std::string &candidate : candidates(library)) {
    path = candidate;
    if ((handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)))
      break;
    tried += (tried.empty() ? "" : ", ") + path;
  }
  if (!handle)
    return makeError(Status::Unsupported, library.name, " is not on this machine, tried ", tried, "; ", library.remedy);
  for (const CudaFunction &function : functions) {
    *function.place = dlsym(handle, function.name);
    if (!*function.place)
      return makeError(Status::Unsupported, library.name, " in ", path, " lacks the function ", function.name,
                       "; install a newer version of it");
  }
  return Error::success();
}

CudaLibraryFile CudaRuntime::file() {
  static constexpr std::array<const char *, 2> files = {"libcudart.so.13", "libcudart.so.12"};
  return {"the CUDA runtime", files, "install the CUDA toolkit, or set CUDA_PATH to where it is"};
}

Error checkCuda(const CudaRuntime &cuda, cudaError_t code, const char *what, Status status) {
  if (code == cudaSuccess)
    return Error::success();
  return makeError(status, what, ": ", cuda.cudaGetErrorName(code), " (", cuda.cudaGetErrorString(code), ")");
}

} // namespace cleave::runtime
