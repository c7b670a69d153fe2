// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Starts the program again with libgomp's setting.

#include "runtime/drivers/cpu/Spinning.h"

#include <climits>
#include <cstdlib>
#include <string>
#include <unistd.h>

namespace cleave::runtime {

void limitSpinning(char **argv) {
  // Iterations of about a nanosecond: longer than threads of a loop with equal parts are apart, shorter than a turn of
  // the system's scheduler. What was measured is in docs/rationale/waiting-awake.md.
  constexpr const char *iterations = "10000";
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY"))
    return;
  // By its path, not as /proc/self/exe, which would become the process's name.
  std::string path(PATH_MAX, '\0');
  ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0 || static_cast<size_t>(length) >= path.size())
    return;
  path.resize(static_cast<size_t>(length));
  if (setenv("GOMP_SPINCOUNT", iterations, 0) != 0)
    return;
  // Goes on as it is where that fails: slower beside other processes, not wrong.
  execv(path.c_str(), argv);
}

} // namespace cleave::runtime
