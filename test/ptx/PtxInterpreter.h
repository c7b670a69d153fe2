// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs PTX in the host's memory, for tests of code for GPUs where there is none. It is exact where PTX is, and strict:
// accesses outside of allowed memory, data races, shared memory read before it was written, and barriers that not all
// threads meet are errors.

#ifndef CLEAVE_TEST_PTX_PTXINTERPRETER_H
#define CLEAVE_TEST_PTX_PTXINTERPRETER_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cleave::ptx {

struct Program;

/// PTX text, decoded. Copies share the module's variables, which keep their values between launches.
class Module {
public:
  /// The module, or an error that names the line: the text is malformed, or has an instruction, modifier or directive
  /// that the interpreter does not know.
  static std::variant<Module, std::string> parse(std::string_view ptx);

  /// The names of all entries (kernels), in the order of the text.
  std::vector<std::string> entries() const;
  /// The bytes of each parameter of an entry; none where there is none of that name.
  std::vector<size_t> parameterSizes(std::string_view entry) const;

  const Program &program() const { return *shared; }

private:
  explicit Module(std::shared_ptr<const Program> program) : shared(std::move(program)) {}
  std::shared_ptr<const Program> shared;
};

/// How an entry is launched: grid and block have one dimension.
struct Launch {
  std::string entry;
  uint32_t blocks = 1, threads = 1;
  /// Bytes of dynamic shared memory, behind those that the module's variables take.
  uint32_t sharedBytes = 0;
  /// A value a parameter, in order; a parameter of fewer bytes takes the value's low ones.
  std::vector<uint64_t> arguments;
  /// Whether to look for data races and for reads of shared memory that nobody wrote. Costs more than half of the
  /// speed, and 28 bytes for each four that are accessed. Blocks are never ordered, not even by atomic operations and
  /// fences: what one block wrote is a race for another one unless both are atomic.
  bool checkOrder = true;
  /// How many jumps a thread may take between two waits before it counts as one that never ends.
  uint64_t maxJumps = uint64_t(1) << 30;

  /// Sets the arguments as cudaLaunchKernel takes them: for each parameter, where as many bytes lie.
  void setArguments(const std::vector<size_t> &sizes, void *const *values);
};

/// The global memory that a launch may touch, besides the module's own variables.
struct Memory {
  void allow(const void *begin, size_t bytes, bool writable = true) {
    ranges.push_back({reinterpret_cast<uint64_t>(begin), bytes, writable});
  }

  struct Range {
    uint64_t begin;
    size_t bytes;
    bool writable;
  };
  std::vector<Range> ranges;
};

/// Runs all blocks of a launch, one after the other. The error, if any, names the entry, the line, the block and the
/// thread; memory is then as it was when the error was met.
std::optional<std::string> run(const Module &module, const Launch &launch, const Memory &memory);

} // namespace cleave::ptx

#endif
