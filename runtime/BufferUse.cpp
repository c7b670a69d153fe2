// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Views count for the buffer that they show.

#include "runtime/BufferUse.h"

#include <algorithm>

namespace cleave::runtime {

static uint32_t rootOf(const Program &program, uint32_t buffer) {
  while (program.buffers[buffer].viewOf >= 0)
    buffer = static_cast<uint32_t>(program.buffers[buffer].viewOf);
  return buffer;
}

static std::vector<uint32_t> rootsOf(const Program &program, const Action &action) {
  std::vector<uint32_t> roots = buffersOf(action);
  for (uint32_t &buffer : roots)
    buffer = rootOf(program, buffer);
  std::erase_if(roots, [&](uint32_t root) { return program.buffers[root].isInHost(); });
  std::ranges::sort(roots);
  roots.erase(std::ranges::unique(roots).begin(), roots.end());
  return roots;
}

BufferUse::BufferUse(const Program &program) : program(program), uses(program.buffers.size()) {
  std::vector<bool> prepared(program.buffers.size());
  for (const Instruction &instruction : program.prepare)
    for (uint32_t root : rootsOf(program, instruction.action))
      prepared[root] = true;
  std::vector<bool> counted(program.buffers.size());
  for (const Instruction &instruction : program.body) {
    std::vector<uint32_t> &list = buffersOfInstruction.emplace_back();
    for (uint32_t root : rootsOf(program, instruction.action)) {
      if (!prepared[root]) {
        list.push_back(root);
        ++uses[root];
      } else if (!counted[root]) {
        counted[root] = true;
        lasting += static_cast<double>(program.buffers[root].bytes);
      }
    }
  }
}

double BufferUse::Progress::begin(uint32_t instruction) {
  live.resize(left.size());
  double bytes = 0;
  for (uint32_t buffer : use->buffersOfInstruction[instruction])
    if (!live[buffer]) {
      live[buffer] = true;
      bytes += static_cast<double>(use->program.buffers[buffer].bytes);
    }
  return bytes;
}

double BufferUse::Progress::end(uint32_t instruction) {
  double bytes = 0;
  for (uint32_t buffer : use->buffersOfInstruction[instruction])
    if (--left[buffer] == 0) {
      live[buffer] = false;
      bytes += static_cast<double>(use->program.buffers[buffer].bytes);
    }
  return bytes;
}

} // namespace cleave::runtime
