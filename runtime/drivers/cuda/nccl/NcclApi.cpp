// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where NCCL is found, and its errors.

#include "runtime/drivers/cuda/nccl/NcclApi.h"

namespace cleave::runtime {

CudaLibraryFile Nccl::file() {
  static constexpr const char *files[] = {"libnccl.so.2"};
  return {"NCCL", files, "install NCCL, or run the plan without mpirun: one process drives all GPUs of a host"};
}

Error checkNccl(const Nccl &nccl, ncclResult_t code, const char *what, Status status) {
  if (code == ncclSuccess)
    return Error::success();
  const char *last = nccl.ncclGetLastError(nullptr);
  std::string detail = last && *last ? std::string(" (") + last + ")" : "";
  return makeError(status, what, ": NCCL says \"", nccl.ncclGetErrorString(code), "\"", detail);
}

} // namespace cleave::runtime
