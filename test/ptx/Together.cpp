// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the threads of a warp together, instruction by instruction, as long as they go the same way: most do all of the
// time, and an instruction is then looked at once for all of them.

#include "Block.h"

namespace cleave::ptx {

/// Threads of a warp that run, in frames at the same place.
struct Block::Group {
  std::array<Thread *, lanesOfWarp> threads;
  size_t count = 0;
  /// The next instruction of all, and the slots of the warp's first lane.
  uint32_t next;
  uint64_t *slots;
  uint64_t jumps = 0;
  /// All others of the warp have ended: nobody reads their slots any more.
  bool isAll = true;

  uint64_t *slotsOf(size_t thread) const { return slots + threads[thread]->index % lanesOfWarp; }
  bool obeys(const Instruction &i, size_t thread) const {
    return i.guard == noSlot || bool(slotsOf(thread)[i.guard] & 1) != i.guardInverted;
  }
  /// How many are to do what the instruction says.
  size_t countObeying(const Instruction &i) const {
    if (i.guard == noSlot)
      return count;
    size_t found = 0;
    for (size_t k = 0; k != count; ++k)
      found += obeys(i, k);
    return found;
  }
  void leaveIn(Thread::State state, const Instruction &i) {
    for (size_t k = 0; k != count; ++k) {
      threads[k]->state = state;
      threads[k]->current = &i;
    }
  }
};

/// Does all but computing. False when the threads do not go on together; `next` is then what each of them does next.
bool Block::doTogether(Group &group, const Instruction &i) {
  auto each = [&](auto access) {
    for (size_t k = 0; k != group.count; ++k)
      if (group.obeys(i, k)) {
        at = group.threads[k];
        at->current = &i;
        (this->*access)(*at, i, group.slotsOf(k));
      }
    ++group.next;
    return true;
  };
  if (i.action == Action::Load)
    return each(&Block::load);
  if (i.action == Action::Store)
    return each(&Block::store);
  if (i.action == Action::Atomic)
    return each(&Block::performAtomic);
  size_t obeying = group.countObeying(i);
  if (obeying == 0) {
    ++group.next;
    return true;
  }
  if (obeying != group.count)
    return false;
  switch (i.action) {
  case Action::Jump:
    group.next = static_cast<uint32_t>(i.immediate);
    // Whoever jumps too often is found by runThread(), which counts again.
    return ++group.jumps <= launch.maxJumps;
  case Action::Return:
    if (group.threads.front()->frames.size() == 1)
      group.leaveIn(Thread::Ended, i);
    return false;
  case Action::Exit:
    group.leaveIn(Thread::Ended, i);
    return false;
  case Action::Barrier:
  case Action::WarpBarrier:
  case Action::Shuffle:
  case Action::Vote:
    ++group.next;
    group.leaveIn(Thread::Waiting, i);
    return false;
  default:
    return false;
  }
}

void Block::runTogether(std::span<Thread> warp) {
  Group group;
  for (Thread &thread : warp)
    if (thread.state == Thread::Running)
      group.threads[group.count++] = &thread;
    else
      group.isAll &= thread.state == Thread::Ended;
  if (group.count == 0)
    return;
  const Frame &frame = group.threads.front()->frames.back();
  for (size_t k = 1; k != group.count; ++k) {
    const Frame &other = group.threads[k]->frames.back();
    if (other.function != frame.function || other.next != frame.next || other.slots != frame.slots ||
        group.threads[k]->frames.size() != group.threads.front()->frames.size())
      return;
  }
  const Instruction *code = frame.function->code.data();
  group.next = frame.next;
  group.slots = group.threads.front()->slots->data() + frame.slots * lanesOfWarp;
  for (;;) {
    const Instruction &i = code[group.next];
    if (i.action != Action::Compute) {
      if (!doTogether(group, i))
        break;
      continue;
    }
    ++group.next;
    if (i.guard == noSlot && i.compute.lanes && group.isAll)
      i.compute.lanes(i, group.slots);
    else
      for (size_t k = 0; k != group.count; ++k)
        if (group.obeys(i, k))
          i.compute.one(i, group.slotsOf(k));
  }
  for (size_t k = 0; k != group.count; ++k)
    group.threads[k]->frames.back().next = group.next;
}

} // namespace cleave::ptx
