// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the threads of a block in turns: each runs until it waits for others, or ends. Those of a warp run together as
// long as they go the same way.

#ifndef CLEAVE_TEST_PTX_BLOCK_H
#define CLEAVE_TEST_PTX_BLOCK_H

#include "AccessOrder.h"

#include <span>

namespace cleave::ptx {

/// A function that is being called.
struct Frame {
  const Function *function;
  const CallSite *site;
  uint32_t next;
  /// Where the frame's slots begin among the lane's, and its parameters and local memory among the thread's.
  size_t slots, parameters, local;
};

struct Thread {
  enum State : uint8_t { Running, Waiting, Ended };

  State state;
  uint32_t index;
  /// What it runs, or waits at.
  const Instruction *current;
  std::vector<Frame> frames;
  /// The slots of all lanes of the warp: slot by slot, those of the lanes side by side; how many slots this one uses.
  std::vector<uint64_t> *slots;
  size_t slotCount;
  std::vector<std::byte> parameters, local;
  /// What orders the thread after others of its warp: see Accessor.
  std::array<uint32_t, lanesOfWarp> seen;

  /// Null where no instruction of the warp has slots.
  uint64_t *frameSlots() {
    return slots->empty() ? nullptr : slots->data() + frames.back().slots * lanesOfWarp + index % lanesOfWarp;
  }
  /// The value of the instruction's operand, and its low 32 bits: the others may be anything where it has no more.
  uint64_t operand(size_t number) { return frameSlots()[current->operands[number]]; }
  uint32_t word(size_t number) { return static_cast<uint32_t>(operand(number)); }
  bool waitsAt(Action action) const { return state == Waiting && current->action == action; }
};

class Block {
public:
  Block(const Program &program, const Function &entry, const Launch &launch, GlobalMemory &memory);

  /// Runs the block with this number. Throws Fault.
  void run(uint32_t number);

  /// The thread and line at work, for messages.
  uint32_t thread() const { return at ? at->index : 0; }
  uint32_t line() const { return at && at->current ? at->current->line : 0; }

private:
  // Block.cpp
  void start(std::span<Thread> warp);
  void enter(Thread &thread, const Function &function, const CallSite *site);
  void fillSlots(Thread &thread, const Function &function);
  void call(Thread &thread, const CallSite &site);
  /// False when the thread ends with it.
  bool leave(Thread &thread);
  void runThread(Thread &thread);

  // Together.cpp
  /// Runs the warp's threads until they wait or end, or go different ways: what is left is for runThread().
  void runTogether(std::span<Thread> warp);
  struct Group;
  bool doTogether(Group &group, const Instruction &i);
  uint64_t valueOf(Special special, const Thread &thread) const;

  // Access.cpp
  void load(Thread &thread, const Instruction &i, uint64_t *slots);
  void store(Thread &thread, const Instruction &i, uint64_t *slots);
  std::byte *access(Thread &thread, const Instruction &i, uint64_t address, size_t bytes, bool writes);
  std::byte *inWindow(std::vector<std::byte> &bytes, const char *space, uint64_t address, size_t size, bool writes);
  void noteOrder(AccessOrder &order, const Thread &thread, const Instruction &i, uint64_t address, size_t bytes,
                 bool writes);
  void performAtomic(Thread &thread, const Instruction &i, uint64_t *slots);

  // Waiting.cpp
  std::span<Thread> warpOf(uint32_t thread);
  /// Lets those go on whose wait is over; false if there is none.
  bool endWaits();
  bool endWarpWaits(std::span<Thread> warp);
  bool allArrived(std::span<Thread> warp, const Thread &thread, uint32_t mask);
  void shuffle(std::span<Thread> warp, uint32_t mask);
  void vote(std::span<Thread> warp, uint32_t mask);
  bool endBarrier();
  void checkBarrier();
  [[noreturn]] void reportDeadlock();
  /// Orders what the warp's lanes of `mask` did before what they do from now on.
  void orderLanes(std::span<Thread> warp, uint32_t mask);

  const Program &program;
  const Function &entry;
  const Launch &launch;
  GlobalMemory &memory;
  std::vector<std::byte> shared;
  std::vector<Thread> threads;
  /// For each warp.
  std::vector<std::vector<uint64_t>> slots;
  uint32_t number = 0;
  uint32_t dynamicShared;
  Thread *at = nullptr;

  AccessOrder globalOrder{"global", false}, sharedOrder{"shared", true};
  uint32_t phase = 0, firstPhase = 0;
  /// For each warp, how many barriers of lanes it has met.
  std::vector<uint32_t> stamps;
};

} // namespace cleave::ptx

#endif
