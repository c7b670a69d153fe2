// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What threads wait for together: barriers of the block, and shuffles, votes and barriers among the lanes of a warp.

#include "Block.h"
#include "Values.h"

#include <algorithm>
#include <bit>

namespace cleave::ptx {
namespace {

constexpr size_t maskOperand = 5;
/// What a lane gets from one that has ended or does not exist: PTX leaves it open. As a number it is NaN, so that its
/// use shows.
constexpr uint32_t undefinedValue = 0x7fffdead;

} // namespace

std::span<Thread> Block::warpOf(uint32_t thread) {
  uint32_t first = thread / lanesOfWarp * lanesOfWarp;
  return std::span(threads).subspan(first, std::min<size_t>(lanesOfWarp, threads.size() - first));
}

void Block::orderLanes(std::span<Thread> warp, uint32_t mask) {
  uint32_t stamp = ++stamps[warp.front().index / lanesOfWarp];
  std::array<uint32_t, lanesOfWarp> joined{};
  for (uint32_t lane = 0; lane != warp.size(); ++lane)
    if ((mask >> lane & 1) && warp[lane].state == Thread::Waiting) {
      for (uint32_t other = 0; other != lanesOfWarp; ++other)
        joined[other] = std::max(joined[other], warp[lane].seen[other]);
      joined[lane] = stamp;
    }
  for (uint32_t lane = 0; lane != warp.size(); ++lane)
    if ((mask >> lane & 1) && warp[lane].state == Thread::Waiting)
      warp[lane].seen = joined;
}

bool Block::endWaits() {
  bool any = false;
  for (uint32_t first = 0; first < threads.size(); first += lanesOfWarp)
    any |= endWarpWaits(warpOf(first));
  return any || endBarrier();
}

/// Whether all lanes of the mask that have not ended wait for the same.
bool Block::allArrived(std::span<Thread> warp, const Thread &thread, uint32_t mask) {
  for (uint32_t lane = 0; lane != warp.size(); ++lane) {
    if (!(mask >> lane & 1) || warp[lane].state == Thread::Ended)
      continue;
    Thread &other = warp[lane];
    if (!other.waitsAt(thread.current->action) || other.current->kind != thread.current->kind ||
        other.word(maskOperand) != mask)
      return false;
  }
  return true;
}

bool Block::endWarpWaits(std::span<Thread> warp) {
  bool any = false;
  for (uint32_t lane = 0; lane != warp.size(); ++lane) {
    Thread &thread = warp[lane];
    if (thread.state != Thread::Waiting || thread.current->action == Action::Barrier)
      continue;
    at = &thread;
    auto mask = thread.word(maskOperand);
    if (!(mask >> lane & 1))
      throw Fault("the lane is not in its own mask " + hexadecimal(mask));
    if (!allArrived(warp, thread, mask))
      continue;
    if (thread.current->action == Action::Shuffle)
      shuffle(warp, mask);
    else if (thread.current->action == Action::Vote)
      vote(warp, mask);
    else
      orderLanes(warp, mask);
    for (uint32_t other = 0; other != warp.size(); ++other)
      if ((mask >> other & 1) && warp[other].state == Thread::Waiting)
        warp[other].state = Thread::Running;
    any = true;
  }
  return any;
}

/// As the PTX manual's section on shfl.sync has it.
void Block::shuffle(std::span<Thread> warp, uint32_t mask) {
  uint32_t values[lanesOfWarp];
  std::fill(std::begin(values), std::end(values), undefinedValue);
  for (uint32_t lane = 0; lane != warp.size(); ++lane)
    if ((mask >> lane & 1) && warp[lane].state == Thread::Waiting)
      values[lane] = warp[lane].word(2);
  for (uint32_t lane = 0; lane != warp.size(); ++lane) {
    Thread &thread = warp[lane];
    if (!(mask >> lane & 1) || thread.state != Thread::Waiting)
      continue;
    auto distance = static_cast<int>(thread.operand(3) & 31), clamp = static_cast<int>(thread.operand(4) & 31);
    int segments = static_cast<int>(thread.operand(4) >> 8 & 31), self = static_cast<int>(lane);
    int last = (self & segments) | (clamp & ~segments), first = self & segments;
    int from = self;
    bool inside = true;
    switch (static_cast<ShuffleKind>(thread.current->kind)) {
    case ShuffleKind::Up:
      from = self - distance;
      inside = from >= last;
      break;
    case ShuffleKind::Down:
      from = self + distance;
      inside = from <= last;
      break;
    case ShuffleKind::Butterfly:
      from = self ^ distance;
      inside = from <= last;
      break;
    case ShuffleKind::Index:
      from = first | (distance & ~segments);
      inside = from <= last;
      break;
    }
    if (!inside)
      from = self;
    at = &thread;
    if (!(mask >> from & 1))
      throw Fault("the shuffle reads lane " + std::to_string(from) + ", which is not in its mask " + hexadecimal(mask));
    uint64_t *slots = thread.frameSlots();
    slots[thread.current->operands[0]] = values[from];
    slots[thread.current->operands[1]] = inside;
  }
}

namespace {

uint64_t reduced(VoteKind kind, Type type, uint32_t a, uint32_t b) {
  bool isSigned = type == Type::S32, less = isSigned ? static_cast<int32_t>(a) < static_cast<int32_t>(b) : a < b;
  switch (kind) {
  case VoteKind::Add:
    return a + b;
  case VoteKind::Min:
    return less ? a : b;
  case VoteKind::Max:
    return less ? b : a;
  case VoteKind::And:
    return a & b;
  case VoteKind::Or:
    return a | b;
  default:
    return a ^ b;
  }
}

} // namespace

void Block::vote(std::span<Thread> warp, uint32_t mask) {
  std::vector<Thread *> voters;
  uint32_t ballot = 0, present = 0;
  for (uint32_t lane = 0; lane != warp.size(); ++lane) {
    if (!(mask >> lane & 1) || warp[lane].state != Thread::Waiting)
      continue;
    voters.push_back(&warp[lane]);
    present |= 1u << lane;
    ballot |= (warp[lane].operand(1) & 1) << lane;
  }
  auto kind = static_cast<VoteKind>(voters.front()->current->kind);
  Type type = voters.front()->current->type;
  auto value = [&](Thread *voter) { return bytesOf(type) == 8 ? voter->operand(1) : voter->word(1); };
  uint64_t total = static_cast<uint32_t>(voters.front()->operand(1));
  for (size_t i = 1; i < voters.size() && kind >= VoteKind::Add; ++i)
    total = reduced(kind, type, static_cast<uint32_t>(total), voters[i]->word(1));
  std::vector<uint64_t> results;
  for (Thread *voter : voters) {
    uint64_t matches = 0;
    for (Thread *other : voters)
      if (kind == VoteKind::MatchAny && (value(voter) == value(other)))
        matches |= uint64_t(1) << other->index % lanesOfWarp;
    results.push_back(kind == VoteKind::Any        ? ballot != 0
                      : kind == VoteKind::All      ? ballot == present
                      : kind == VoteKind::Uniform  ? ballot == present || ballot == 0
                      : kind == VoteKind::Ballot   ? ballot
                      : kind == VoteKind::MatchAny ? matches
                                                   : total);
  }
  for (size_t i = 0; i != voters.size(); ++i)
    voters[i]->frameSlots()[voters[i]->current->operands[0]] = results[i];
}

/// All threads wait at a barrier: whether it is the same one, and as it should be.
void Block::checkBarrier() {
  for (Thread &thread : threads) {
    at = &thread;
    Thread &first = threads.front();
    const Instruction &i = *thread.current;
    if (thread.word(1) != first.word(1) || i.kind != first.current->kind)
      throw Fault("the thread waits at barrier " + std::to_string(thread.word(1)) + ", but thread 0 at barrier " +
                  std::to_string(first.word(1)) + " in line " + std::to_string(first.current->line));
    if (i.operands[2] != noSlot && thread.word(2) != threads.size())
      throw Fault("a barrier of " + std::to_string(thread.word(2)) + " threads is not supported where the block has " +
                  std::to_string(threads.size()));
    const Instruction *lead = warpOf(thread.index).front().current;
    if (i.count && &i != lead)
      throw Fault("threads of one warp wait at different barriers, the first one in line " +
                  std::to_string(lead->line));
  }
}

bool Block::endBarrier() {
  for (Thread &thread : threads)
    if (!thread.waitsAt(Action::Barrier))
      return false;
  checkBarrier();
  uint64_t count = 0;
  auto kind = static_cast<BarrierKind>(threads.front().current->kind);
  if (kind != BarrierKind::Plain)
    for (Thread &thread : threads)
      count += thread.operand(3) & 1;
  for (Thread &thread : threads) {
    if (kind != BarrierKind::Plain)
      thread.frameSlots()[thread.current->operands[0]] = kind == BarrierKind::Count ? count
                                                         : kind == BarrierKind::And ? count == threads.size()
                                                                                    : count != 0;
    thread.state = Thread::Running;
  }
  ++phase;
  return true;
}

void Block::reportDeadlock() {
  const Thread *waiting = nullptr, *other = nullptr;
  for (Thread &thread : threads)
    if (thread.state == Thread::Waiting && (!waiting || thread.current->action != Action::Barrier)) {
      waiting = at = &thread;
    }
  for (Thread &thread : threads)
    if (&thread != waiting && (thread.state == Thread::Ended || thread.current != waiting->current))
      other = &thread;
  std::string what = waiting->current->action == Action::Barrier
                         ? "the thread waits at a barrier that not all threads of the block meet"
                         : "the thread waits for lanes of its mask that do not come";
  if (other)
    what += ": thread " + std::to_string(other->index) +
            (other->state == Thread::Ended ? " has ended" : " waits in line " + std::to_string(other->current->line));
  throw Fault(what);
}

} // namespace cleave::ptx
