// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PTX in decoded form: what the parser makes and the executor runs. All that an instruction computes with lies in the
// slots of its function's frame: registers, constants, special registers and addresses of variables alike, so that an
// operand is nothing but a slot's number.

#ifndef CLEAVE_TEST_PTX_PROGRAM_H
#define CLEAVE_TEST_PTX_PROGRAM_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cleave::ptx {

enum class Type : uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  F16x2,
  BF16,
  BF16x2,
  F32,
  F64
};

/// Bytes of a value of `type`; 1 for predicates.
size_t bytesOf(Type type);

enum class Space : uint8_t { Generic, Global, Const, Shared, Local, Param };

/// Where addresses of shared and local memory lie among generic ones: far above any address of the host.
constexpr uint64_t sharedWindow = uint64_t(0xF1) << 56, localWindow = uint64_t(0xF2) << 56;
/// The first address within shared and local memory: zero is no valid address.
constexpr uint64_t firstAddress = 1024;

enum class Rounding : uint8_t { Nearest, Zero, Down, Up, NearestAway };

/// What the executor does for an instruction. All that only reads and writes slots is `Compute`.
enum class Action : uint8_t {
  Compute,
  Jump,
  JumpByTable,
  Call,
  Return,
  Exit,
  Trap,
  Load,
  Store,
  Atomic,
  Barrier,
  WarpBarrier,
  Shuffle,
  Vote
};

/// What an `Atomic` does to memory.
enum class AtomicKind : uint8_t { Add, Min, Max, And, Or, Xor, Exchange, CompareAndSwap, Increment, Decrement };
enum class ShuffleKind : uint8_t { Up, Down, Butterfly, Index };
/// Of votes and reductions over the lanes of a warp.
enum class VoteKind : uint8_t { Any, All, Uniform, Ballot, MatchAny, Add, Min, Max, And, Or, Xor };
/// Of barriers that combine a predicate of all threads.
enum class BarrierKind : uint8_t { Plain, Count, And, Or };

/// The number of a slot; in instructions that are complete, how far from the frame's begin it lies. The slots of a
/// warp's lanes lie side by side, so that what one instruction computes for all of them is a loop over neighbours.
using Slot = uint32_t;
constexpr Slot noSlot = ~Slot(0);
constexpr uint32_t lanesOfWarp = 32;

struct Instruction {
  /// `slots` are those of one lane, or of the first one of a warp.
  using Function = void (*)(const Instruction &, uint64_t *slots);
  /// What an instruction computes: for one lane, and where that is worthwhile for all of a warp.
  struct Compute {
    Compute() = default;
    Compute(Function one, Function lanes = nullptr) : one(one), lanes(lanes) {}
    template <typename Lambda>
      requires std::is_convertible_v<Lambda, Function>
    Compute(Lambda lambda) : one(lambda) {}
    explicit operator bool() const { return one != nullptr; }

    Function one = nullptr, lanes = nullptr;
  };

  Compute compute;
  /// Results first, then sources.
  std::array<Slot, 8> operands{};
  /// Of memory accesses the offset in bytes, of jumps the target, of calls and tables the index.
  int64_t immediate = 0;
  uint32_t line = 0;
  /// The predicate under which the instruction runs, if any.
  Slot guard = noSlot;
  bool guardInverted = false;
  Action action = Action::Compute;
  Type type = Type::None;
  Space space = Space::Generic;
  Rounding rounding = Rounding::Nearest;
  /// One of the kinds above, or what the instruction's family says.
  uint8_t kind = 0;
  /// Elements of a vector; of one that is loaded, those up to the last whose register something reads. Compilers
  /// widen loads beyond what they need, which is no use of what lies there.
  uint8_t count = 1, used = 1;
  /// Subnormal numbers count as zero.
  bool flush = false;
  /// Results are clamped to what fits, or to 0 to 1.
  bool saturate = false;
  /// Memory: the access is atomic (.relaxed, .acquire, .release), or volatile.
  bool atomic = false;
  /// Memory: a load of what nobody writes while the launch runs (.nc).
  bool constant = false;
};

/// `function` of one lane and, made of it, of a warp's: of lanes that have ended, too, whose slots nobody reads.
template <Instruction::Function function> void onLanes(const Instruction &i, uint64_t *slots) {
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (uint32_t lane = 0; lane != lanesOfWarp; ++lane)
    function(i, slots + lane);
}
template <Instruction::Function function> Instruction::Compute together() { return {function, onLanes<function>}; }

/// Values that are known only when a thread starts.
enum class Special : uint8_t {
  ThreadX,
  ThreadsX,
  BlockX,
  BlocksX,
  Lane,
  Warp,
  Warps,
  LaneMaskEq,
  LaneMaskLt,
  LaneMaskLe,
  LaneMaskGt,
  LaneMaskGe,
  DynamicShared,
  DynamicSharedBytes,
  TotalSharedBytes
};

/// A call's parameters and results: bytes that move between the areas for parameters of two frames.
struct CallSite {
  struct Piece {
    uint32_t caller, callee, bytes;
  };
  uint32_t function;
  std::vector<Piece> arguments, results;
};

struct Parameter {
  uint32_t offset, bytes;
};

struct Function {
  std::string name;
  bool entry = false, defined = false;
  /// Where the function's parameters and results lie in its frame's area for parameters.
  std::vector<Parameter> parameters, results;
  uint32_t parameterBytes = 0, localBytes = 0;
  /// From `.reqntid` and `.maxntid`, 0 if not said.
  uint32_t requiredThreads = 0, maxThreads = 0;

  /// The static shared variables that the body names: addresses and bytes.
  std::map<uint64_t, uint32_t> shared;

  std::vector<Instruction> code;
  std::vector<CallSite> calls;
  std::vector<std::vector<uint32_t>> jumpTables;

  /// What slots hold when a frame is made.
  std::vector<uint64_t> slots;
  std::vector<std::pair<Slot, Special>> specials;
  /// Slots that hold addresses in local memory, with the offset within the frame's.
  std::vector<std::pair<Slot, uint32_t>> locals;
};

/// A module's variable in global or constant memory.
struct Variable {
  struct Release {
    void operator()(std::byte *bytes) const { ::operator delete[](bytes, std::align_val_t(256)); }
  };
  std::unique_ptr<std::byte[], Release> bytes;
  size_t size;
  bool writable;
};

struct Program {
  std::vector<Function> functions;
  std::unordered_map<std::string, uint32_t> functionIndex;
  std::vector<Variable> variables;
  /// Bytes of all static shared variables.
  uint32_t sharedBytes = 0;
};

/// What is wrong with the text, at a line. Thrown within the parser alone.
struct ParseFailure : std::runtime_error {
  ParseFailure(uint32_t line, const std::string &message) : std::runtime_error(message), line(line) {}
  uint32_t line;
};

} // namespace cleave::ptx

#endif
