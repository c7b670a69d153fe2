// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The module is never unloaded: gRPC's threads may outlive a server.

#include "runtime/serve/grpc/GrpcServer.h"

#include <dlfcn.h>
#include <filesystem>

namespace cleave::runtime::serve {

Expected<std::unique_ptr<GrpcServer>> openGrpcServer(const GrpcOptions &options, InferenceServer &server) {
#ifdef CLEAVE_GRPC
  std::error_code ignored;
  auto file = std::filesystem::read_symlink("/proc/self/exe", ignored).replace_filename("cleave-grpc.so");
  void *module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  void *found = module ? dlsym(module, "cleaveOpenGrpcServer") : nullptr;
  if (!found)
    return makeError(Status::Failure,
                     "--grpc expects its module beside the program, and the libraries that it needs: ", dlerror());
  Error error;
  std::unique_ptr<GrpcServer> opened(reinterpret_cast<decltype(&cleaveOpenGrpcServer)>(found)(options, server, error));
  return opened ? Expected(std::move(opened)) : Expected<std::unique_ptr<GrpcServer>>(error);
#else
  (void)options, (void)server;
  return makeError(Status::Usage, "--grpc expects a program that was built with gRPC (CLEAVE_GRPC)");
#endif
}

} // namespace cleave::runtime::serve
