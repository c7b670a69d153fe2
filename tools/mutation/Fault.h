// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The switch of planted faults: CLEAVE_FAULT names the one that is active in a process and in those that it starts,
// CLEAVE_FAULTS_REACHED a file in which byte i becomes 1 once the place of fault i has run.

#ifndef CLEAVE_TOOLS_MUTATION_FAULT_H
#define CLEAVE_TOOLS_MUTATION_FAULT_H

#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cleave::mutation {

/// Bytes of the file of CLEAVE_FAULTS_REACHED, the most faults that one tree can hold.
inline constexpr int mostFaults = 4096;

/// What the environment says, read once. The mapping is shared, so that places count that ran before a crash.
struct FaultSwitch {
  int active = -1;
  unsigned char *reached = nullptr;

  FaultSwitch() {
    if (const char *number = std::getenv("CLEAVE_FAULT"))
      active = std::atoi(number);
    const char *path = std::getenv("CLEAVE_FAULTS_REACHED");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
      return;
    void *bytes = mmap(nullptr, mostFaults, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (bytes != MAP_FAILED)
      reached = static_cast<unsigned char *>(bytes);
  }
};

/// Whether fault `number` is active.
inline bool isActive(int number) {
  static const FaultSwitch faults;
  if (faults.reached)
    faults.reached[number] = 1;
  return number == faults.active;
}

} // namespace cleave::mutation

#define CLEAVE_FAULT(number) ::cleave::mutation::isActive(number)

#endif
