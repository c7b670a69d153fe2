// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Block.h"

#include <algorithm>
#include <cstring>

namespace cleave::ptx {
namespace {

size_t alignUp(size_t value) { return (value + 15) / 16 * 16; }
constexpr size_t mostFrames = 1000;

} // namespace

Block::Block(const Program &program, const Function &entry, const Launch &launch, GlobalMemory &memory)
    : program(program), entry(entry), launch(launch), memory(memory), threads(launch.threads),
      slots((launch.threads + lanesOfWarp - 1) / lanesOfWarp) {
  dynamicShared = static_cast<uint32_t>(alignUp(program.sharedBytes));
  shared.resize(dynamicShared + launch.sharedBytes);
}

uint64_t Block::valueOf(Special special, const Thread &thread) const {
  uint32_t lane = thread.index % lanesOfWarp;
  switch (special) {
  case Special::ThreadX:
    return thread.index;
  case Special::ThreadsX:
    return launch.threads;
  case Special::BlockX:
    return number;
  case Special::BlocksX:
    return launch.blocks;
  case Special::Lane:
    return lane;
  case Special::Warp:
    return thread.index / lanesOfWarp;
  case Special::Warps:
    return (launch.threads + lanesOfWarp - 1) / lanesOfWarp;
  case Special::LaneMaskEq:
    return 1u << lane;
  case Special::LaneMaskLt:
    return (1u << lane) - 1;
  case Special::LaneMaskLe:
    return (2u << lane) - 1;
  case Special::LaneMaskGt:
    return ~((2u << lane) - 1);
  case Special::LaneMaskGe:
    return ~((1u << lane) - 1);
  case Special::DynamicShared:
    return firstAddress + dynamicShared;
  case Special::DynamicSharedBytes:
    return launch.sharedBytes;
  case Special::TotalSharedBytes:
    return shared.size();
  }
  return 0;
}

void Block::enter(Thread &thread, const Function &function, const CallSite *site) {
  if (thread.frames.size() == mostFrames)
    throw Fault("calls are nested more than " + std::to_string(mostFrames) + " deep");
  Frame frame{&function, site, 0, thread.slotCount, thread.parameters.size(), thread.local.size()};
  thread.slotCount += function.slots.size();
  if (thread.slots->size() < thread.slotCount * lanesOfWarp)
    thread.slots->resize(thread.slotCount * lanesOfWarp);
  thread.parameters.resize(alignUp(frame.parameters + function.parameterBytes));
  thread.local.resize(alignUp(frame.local + function.localBytes));
  thread.frames.push_back(frame);
}

/// What depends on the thread, in its last frame.
void Block::fillSlots(Thread &thread, const Function &function) {
  uint64_t *own = thread.frameSlots();
  for (auto [slot, special] : function.specials)
    own[slot * lanesOfWarp] = valueOf(special, thread);
  for (auto [slot, offset] : function.locals)
    own[slot * lanesOfWarp] = firstAddress + thread.frames.back().local + offset;
}

void Block::start(std::span<Thread> warp) {
  for (Thread &thread : warp) {
    thread.state = Thread::Running;
    thread.index = static_cast<uint32_t>(&thread - threads.data());
    thread.current = nullptr;
    thread.frames.clear();
    thread.slots = &slots[thread.index / lanesOfWarp];
    thread.slotCount = 0;
    thread.parameters.clear();
    thread.local.clear();
    thread.seen.fill(0);
    enter(thread, entry, nullptr);
    for (size_t i = 0; i != entry.parameters.size(); ++i)
      std::memcpy(thread.parameters.data() + entry.parameters[i].offset, &launch.arguments[i],
                  entry.parameters[i].bytes);
  }
  uint64_t *slot = warp.front().slots->data();
  for (uint64_t value : entry.slots)
    slot = std::fill_n(slot, lanesOfWarp, value);
  for (Thread &thread : warp)
    fillSlots(thread, entry);
}

void Block::call(Thread &thread, const CallSite &site) {
  const Function &callee = program.functions[site.function];
  if (!callee.defined)
    throw Fault("function '" + callee.name + "' has no body in this module");
  size_t caller = thread.frames.back().parameters;
  enter(thread, callee, &site);
  uint64_t *own = thread.frameSlots();
  for (size_t slot = 0; slot != callee.slots.size(); ++slot)
    own[slot * lanesOfWarp] = callee.slots[slot];
  fillSlots(thread, callee);
  for (const CallSite::Piece &piece : site.arguments)
    std::memcpy(&thread.parameters[thread.frames.back().parameters + piece.callee],
                &thread.parameters[caller + piece.caller], piece.bytes);
}

bool Block::leave(Thread &thread) {
  Frame left = thread.frames.back();
  if (thread.frames.size() == 1)
    return false;
  thread.frames.pop_back();
  for (const CallSite::Piece &piece : left.site->results)
    std::memcpy(&thread.parameters[thread.frames.back().parameters + piece.caller],
                &thread.parameters[left.parameters + piece.callee], piece.bytes);
  thread.slotCount = left.slots;
  thread.parameters.resize(left.parameters);
  thread.local.resize(left.local);
  return true;
}

void Block::runThread(Thread &thread) {
  at = &thread;
  const Instruction *code = thread.frames.back().function->code.data();
  uint64_t *slots = thread.frameSlots();
  uint32_t next = thread.frames.back().next;
  uint64_t jumps = 0;
  auto reload = [&] {
    code = thread.frames.back().function->code.data();
    slots = thread.frameSlots();
    next = thread.frames.back().next;
  };
  for (;;) {
    const Instruction &i = code[next++];
    if (i.guard != noSlot && bool(slots[i.guard] & 1) == i.guardInverted)
      continue;
    if (i.action == Action::Compute) {
      i.compute.one(i, slots);
      continue;
    }
    thread.current = &i;
    switch (i.action) {
    case Action::Jump:
      next = static_cast<uint32_t>(i.immediate);
      if (++jumps > launch.maxJumps)
        throw Fault("the thread does not end: it has jumped " + std::to_string(jumps) + " times");
      break;
    case Action::JumpByTable: {
      const std::vector<uint32_t> &table = thread.frames.back().function->jumpTables[i.immediate];
      auto index = static_cast<uint32_t>(slots[i.operands[0]]);
      if (index >= table.size())
        throw Fault("'brx' expects an index below " + std::to_string(table.size()) + ", got " + std::to_string(index));
      next = table[index];
      break;
    }
    case Action::Call:
      thread.frames.back().next = next;
      call(thread, thread.frames.back().function->calls[i.immediate]);
      reload();
      break;
    case Action::Return:
      if (leave(thread)) {
        reload();
        break;
      }
      thread.state = Thread::Ended;
      return;
    case Action::Exit:
      thread.state = Thread::Ended;
      return;
    case Action::Trap:
      throw Fault("the program traps");
    case Action::Load:
      load(thread, i, slots);
      break;
    case Action::Store:
      store(thread, i, slots);
      break;
    case Action::Atomic:
      performAtomic(thread, i, slots);
      break;
    default:
      thread.frames.back().next = next;
      thread.state = Thread::Waiting;
      return;
    }
  }
}

void Block::run(uint32_t block) {
  number = block;
  at = nullptr;
  firstPhase = ++phase;
  stamps.assign((threads.size() + lanesOfWarp - 1) / lanesOfWarp, 1);
  for (uint32_t first = 0; first < threads.size(); first += lanesOfWarp)
    start(warpOf(first));
  auto ended = [](const Thread &thread) { return thread.state == Thread::Ended; };
  do {
    for (uint32_t first = 0; first < threads.size(); first += lanesOfWarp) {
      runTogether(warpOf(first));
      for (Thread &thread : warpOf(first))
        if (thread.state == Thread::Running)
          runThread(thread);
    }
    if (!endWaits() && !std::all_of(threads.begin(), threads.end(), ended))
      reportDeadlock();
  } while (!std::all_of(threads.begin(), threads.end(), ended));
}

namespace {

std::string refusal(const Function &entry, const Launch &launch) {
  auto counts = [](const char *what, size_t expected, size_t actual) {
    return std::string("expects ") + std::to_string(expected) + " " + what + ", got " + std::to_string(actual);
  };
  constexpr uint32_t mostThreads = 1024;
  if (launch.arguments.size() != entry.parameters.size())
    return counts("arguments", entry.parameters.size(), launch.arguments.size());
  for (const Parameter &parameter : entry.parameters)
    if (parameter.bytes > sizeof(uint64_t))
      return "has a parameter of " + std::to_string(parameter.bytes) + " bytes, only 8 are supported";
  if (launch.blocks == 0)
    return "expects at least one block";
  if (launch.threads == 0 || launch.threads > mostThreads)
    return "expects 1 to 1024 threads a block, got " + std::to_string(launch.threads);
  if (entry.requiredThreads != 0 && launch.threads != entry.requiredThreads)
    return counts("threads a block", entry.requiredThreads, launch.threads);
  if (entry.maxThreads != 0 && launch.threads > entry.maxThreads)
    return counts("threads a block at most", entry.maxThreads, launch.threads);
  return {};
}

} // namespace

std::optional<std::string> run(const Module &module, const Launch &launch, const Memory &memory) {
  const Program &program = module.program();
  std::string name = "entry '" + launch.entry + "'";
  auto found = program.functionIndex.find(launch.entry);
  if (found == program.functionIndex.end() || !program.functions[found->second].entry ||
      !program.functions[found->second].defined)
    return name + " is not in the module";
  const Function &entry = program.functions[found->second];
  if (std::string why = refusal(entry, launch); !why.empty())
    return name + " " + why;
  GlobalMemory global(memory, program);
  Block block(program, entry, launch, global);
  for (uint32_t number = 0; number != launch.blocks; ++number) {
    try {
      block.run(number);
    } catch (const Fault &fault) {
      return name + ", line " + std::to_string(block.line()) + ", block " + std::to_string(number) + ", thread " +
             std::to_string(block.thread()) + ": " + fault.what();
    }
  }
  return std::nullopt;
}

} // namespace cleave::ptx
