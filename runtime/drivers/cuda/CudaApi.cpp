// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds CUDA's libraries and their functions.

#include "runtime/drivers/cuda/CudaApi.h"

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

CudaFileNames::CudaFileNames(const std::string &stem) {
  constexpr int built = CUDART_VERSION / 1000, newest = 13, oldest = 12;
  names.push_back(stem + std::to_string(built));
  for (int major = newest; major >= oldest; --major)
    if (major != built)
      names.push_back(stem + std::to_string(major));
  for (const std::string &name : names)
    pointers.push_back(name.c_str());
}

/// Fills in the functions; why the library is of no use, if it is not.
static std::string take(void *handle, const CudaLibraryFile &library, std::span<const CudaFunction> functions) {
  if (library.versions) {
    CudaLibraryFile::Versions versions = library.versions(handle);
    int needs = versions.library / 1000, has = versions.driver / 1000;
    if (has != 0 && needs > has)
      return "is for CUDA " + std::to_string(needs) + ", and the GPU's driver for CUDA " + std::to_string(has);
  }
  for (const CudaFunction &function : functions)
    if (!(*function.place = dlsym(handle, function.name)) && !function.isOptional)
      return std::string("lacks the function ") + function.name;
  return "";
}

Error openCudaLibrary(const CudaLibraryFile &library, std::span<const CudaFunction> functions) {
  std::string missing, unfit;
  for (const std::string &path : candidates(library)) {
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      missing += (missing.empty() ? "" : ", ") + path;
      continue;
    }
    std::string why = take(handle, library, functions);
    if (why.empty())
      return Error::success();
    dlclose(handle);
    unfit += (unfit.empty() ? "" : ", ") + path + " " + why;
  }
  if (unfit.empty())
    return makeError(Status::Unsupported, library.name, " is not on this machine, tried ", missing, "; ",
                     library.remedy);
  return makeError(Status::Unsupported, library.name, " expects a version that fits, got one where ", unfit,
                   "; install another version of it, or a newer driver of the GPU");
}

/// The number that a function of this name gives, which a library may lack; 0 where there is none.
static int versionBy(void *handle, const char *name) {
  int version = 0;
  auto ask = reinterpret_cast<cudaError_t (*)(int *)>(dlsym(handle, name));
  return ask && ask(&version) == cudaSuccess ? version : 0;
}

CudaLibraryFile CudaRuntime::file() {
  static const CudaFileNames names("libcudart.so.");
  return {"the CUDA runtime", names.list(), "install the CUDA toolkit, or set CUDA_PATH to where it is",
          [](void *handle) -> CudaLibraryFile::Versions {
            return {versionBy(handle, "cudaRuntimeGetVersion"), versionBy(handle, "cudaDriverGetVersion")};
          }};
}

Error checkCuda(const CudaRuntime &cuda, cudaError_t code, const char *what, Status status) {
  if (code == cudaSuccess)
    return Error::success();
  return makeError(status, what, ": ", cuda.cudaGetErrorName(code), " (", cuda.cudaGetErrorString(code), ")");
}

} // namespace cleave::runtime
