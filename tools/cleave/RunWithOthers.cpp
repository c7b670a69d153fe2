// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave run`, `cleave serve` and `cleave train` under mpirun, which are cleave-run's.

#include "tools/cleave/Command.h"
#include "tools/cleave/Diagnostics.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <unistd.h>

namespace cleave::tool {

int runWithOthers(char **argv) {
  std::string command = argv[1];
  // Running is what cleave-run does without a command.
  if (command == "run") {
    argv[1] = argv[0];
    ++argv;
  }
  std::error_code failed;
  auto program = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path() / "cleave-run";
  execv(program.c_str(), argv);
  return report(makeError(Status::Failure, "cleave ", command,
                          " on several processes expects to start cleave-run, got ", std::strerror(errno), " for \"",
                          program.string(), "\""));
}

} // namespace cleave::tool
