// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "GlobalMemory.h"

#include <sstream>

namespace cleave::ptx {

std::string hexadecimal(uint64_t address) {
  std::ostringstream text;
  text << "0x" << std::hex << address;
  return text.str();
}

GlobalMemory::GlobalMemory(const Memory &memory, const Program &program) : ranges(memory.ranges) {
  for (const Variable &variable : program.variables)
    ranges.push_back({reinterpret_cast<uint64_t>(variable.bytes.get()), variable.size, variable.writable});
}

void GlobalMemory::find(uint64_t address, size_t bytes, bool writes) {
  bool readOnly = false;
  const Memory::Range *nearest = nullptr;
  for (const Memory::Range &range : ranges) {
    if (range.begin <= address && (!nearest || range.begin > nearest->begin))
      nearest = &range;
    if (address < range.begin || address - range.begin > range.bytes || range.bytes - (address - range.begin) < bytes)
      continue;
    readOnly = writes && !range.writable;
    if (readOnly)
      continue;
    last = range;
    return;
  }
  std::string what = std::string(writes ? "a write" : "a read") + " of " + std::to_string(bytes) +
                     " bytes at global address " + hexadecimal(address);
  if (readOnly)
    throw Fault(what + " goes to memory that may only be read");
  what += " is outside of the memory that the launch may touch";
  if (nearest)
    what += ": the nearest range below ends " +
            std::to_string(static_cast<int64_t>(address - nearest->begin - nearest->bytes)) + " bytes before it";
  throw Fault(what);
}

} // namespace cleave::ptx
