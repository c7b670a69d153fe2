// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs ONNX's shape inference in a child process and reads the types back from it.

#include "passes/import/InferTypes.h"

#include "onnx/shape_inference/implementation.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cleave {

/// Seconds of processor time after which the child is given up.
static constexpr rlim_t longestInference = 20;

static std::string inferHere(onnx::ModelProto &model) {
  try {
    onnx::shape_inference::InferShapes(model);
  } catch (...) {
    // What was inferred before the exception stays of use.
  }
  onnx::GraphProto types;
  *types.mutable_value_info() = model.graph().value_info();
  *types.mutable_output() = model.graph().output();
  return types.SerializeAsString();
}

static void writeAll(int file, const std::string &bytes) {
  for (size_t done = 0; done < bytes.size();) {
    ssize_t count = write(file, bytes.data() + done, bytes.size() - done);
    if (count <= 0)
      return;
    done += static_cast<size_t>(count);
  }
}

static std::string readAll(int file) {
  std::string bytes;
  char buffer[1 << 16];
  ssize_t count = 0;
  while ((count = read(file, buffer, sizeof(buffer))) > 0)
    bytes.append(buffer, static_cast<size_t>(count));
  return bytes;
}

onnx::GraphProto inferTypes(onnx::ModelProto &model) {
  onnx::GraphProto types;
  int ends[2];
  if (pipe(ends) != 0)
    return types;
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    // No core files and no messages from a library that gives up.
    rlimit none = {0, 0}, limit = {longestInference, longestInference};
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_CPU, &limit);
    close(STDERR_FILENO);
    writeAll(ends[1], inferHere(model));
    _exit(0);
  }
  close(ends[1]);
  std::string bytes = child > 0 ? readAll(ends[0]) : std::string();
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || !types.ParseFromString(bytes))
    types.Clear();
  return types;
}

} // namespace cleave
