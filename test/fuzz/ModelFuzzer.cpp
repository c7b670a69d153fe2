// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX models through import, placement on two devices and code generation; what can run is compared with plain loops
// on one device. A difference is a defect, as a crash is.

#include "runtime/Error.h"
#include "tools/cleave/Command.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <unistd.h>
#include <vector>

using namespace cleave;

static int runCommand(std::vector<std::string> words) {
  std::vector<char *> arguments;
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return tool::runCommandLine(static_cast<int>(words.size()), arguments.data());
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::string model = "fuzzed-model-" + std::to_string(getpid()) + ".onnx";
  std::ofstream(model, std::ios::binary)
      .write(reinterpret_cast<const char *>(data), static_cast<std::streamsize>(size));
  int code = 0;
  for (const char *strategy : {"single", "data"}) {
    code = runCommand({"cleave", "verify", model, "--numeric", "--machine",
                       std::string(strategy) == "single" ? "host:1" : "host:2", "--strategy", strategy});
    if (code == static_cast<int>(runtime::Status::Different)) {
      std::cerr << "the results differ under strategy " << strategy << "\n";
      std::abort();
    }
    if (code != 0)
      break; // the model is refused
  }
  unlink(model.c_str());
  return 0;
}
