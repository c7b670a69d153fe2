// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The global memory that a launch may touch: the ranges that its caller allows, and the module's variables.

#ifndef CLEAVE_TEST_PTX_GLOBALMEMORY_H
#define CLEAVE_TEST_PTX_GLOBALMEMORY_H

#include "Program.h"
#include "PtxInterpreter.h"

namespace cleave::ptx {

/// What went wrong while a launch ran. Thrown within the executor alone.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// As people write addresses.
std::string hexadecimal(uint64_t address);

class GlobalMemory {
public:
  GlobalMemory(const Memory &memory, const Program &program);

  /// Where the access goes. Throws Fault if it is not within one allowed range.
  std::byte *at(uint64_t address, size_t bytes, bool writes) {
    if (address - last.begin > last.bytes || last.bytes - (address - last.begin) < bytes || (writes && !last.writable))
      find(address, bytes, writes);
    // Addresses are numbers in PTX. NOLINTNEXTLINE(performance-no-int-to-ptr)
    return reinterpret_cast<std::byte *>(address);
  }

private:
  void find(uint64_t address, size_t bytes, bool writes);

  std::vector<Memory::Range> ranges;
  /// The range that was used last.
  Memory::Range last{0, 0, false};
};

} // namespace cleave::ptx

#endif
