// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which bytes of a program's arena are in use when: a buffer, with all its views, from the begin of the first
// instruction of a step that names it to the end of the last; what `prepare` fills and the body reads, always.

#ifndef CLEAVE_RUNTIME_BUFFERUSE_H
#define CLEAVE_RUNTIME_BUFFERUSE_H

#include "runtime/Plan.h"

namespace cleave::runtime {

/// What the body of a program does to its buffers.
class BufferUse {
public:
  explicit BufferUse(const Program &program);

  /// Bytes that stay from step to step.
  double lastingBytes() const { return lasting; }
  /// Where one site is in a step.
  class Progress {
  public:
    explicit Progress(const BufferUse &use) : use(&use), left(use.uses) {}
    void beginStep() { left = use->uses; }
    /// The bytes that begin, and those that cease to be in use with an instruction.
    double begin(uint32_t instruction);
    double end(uint32_t instruction);

  private:
    const BufferUse *use;
    std::vector<uint32_t> left; ///< by buffer: instructions that have not ended
    std::vector<bool> live;
  };

private:
  const Program &program;
  std::vector<std::vector<uint32_t>> buffersOfInstruction; ///< those that last a part of a step, each once
  std::vector<uint32_t> uses;                              ///< by buffer
  double lasting = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BUFFERUSE_H
