// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules of memory in time. Each arena is cut into segments at the ends of its buffers; walking the events in an
// order in which they can happen, each segment remembers its last write and the reads since. Every read must come
// after a write that was meant for it, and every two accesses of which one writes must be ordered. A device begins a
// step of a program when all queues that it has for it have ended the one before, so only accesses of one step can
// race. Devices of a mesh have equal arenas and run equal lists: looking at the program looks at all of them.

#include "runtime/HappensBefore.h"
#include "runtime/Verify.h"
#include "runtime/VerifyState.h"

#include <algorithm>
#include <optional>

namespace cleave::runtime {
namespace {

using Occurrence = HappensBefore::Occurrence;
using Clock = HappensBefore::Clock;

/// An instruction's use of a buffer.
struct Access {
  Occurrence by;
  uint32_t buffer = 0;
  bool writes = false;
};

/// Bytes between two neighbouring buffer ends.
struct Segment {
  std::optional<Access> lastWrite;
  bool fromPrepare = false; ///< the last write was made by `prepare`
  std::vector<Access> readsSince;
  std::optional<Access> readAsPrepared;
};

/// The arena of one program.
struct Arena {
  std::vector<uint64_t> bounds;
  std::vector<Segment> segments;

  explicit Arena(const Program &program) {
    for (const PlanBuffer &buffer : program.buffers) {
      bounds.push_back(buffer.offset);
      bounds.push_back(buffer.offset + buffer.bytes);
    }
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    segments.resize(bounds.empty() ? 0 : bounds.size() - 1);
  }
  std::span<Segment> under(const PlanBuffer &buffer) {
    auto index = [&](uint64_t offset) {
      return static_cast<size_t>(std::lower_bound(bounds.begin(), bounds.end(), offset) - bounds.begin());
    };
    size_t first = index(buffer.offset);
    return std::span(segments).subspan(first, index(buffer.offset + buffer.bytes) - first);
  }
};

class OrderChecker {
public:
  OrderChecker(const PlanContents &plan, const Entry &entry) : plan(plan), entry(entry) {
    for (const Program &program : entry.programs)
      arenas.emplace_back(program);
  }

  Error check(Phase phase) {
    current = phase;
    HappensBefore order(plan, entry, phase);
    this->order = &order;
    Error error = order.walk(
        [&](std::span<const Occurrence> event, std::span<const Clock> clocks) { return visit(event, clocks); });
    // Everything in `prepare` is over before the body begins.
    for (Arena &arena : arenas)
      for (Segment &segment : arena.segments) {
        segment.fromPrepare = segment.lastWrite.has_value();
        segment.readsSince.clear();
      }
    return error;
  }

  /// What bodies read as `prepare` left it, after both phases have been checked.
  LastingOfPrograms lasting() const {
    LastingOfPrograms list(arenas.size());
    for (size_t program = 0; program != arenas.size(); ++program) {
      const Arena &arena = arenas[program];
      for (size_t i = 0; i != arena.segments.size(); ++i)
        if (const auto &access = arena.segments[i].readAsPrepared)
          list[program].push_back({arena.bounds[i], arena.bounds[i + 1], root(*access)});
    }
    return list;
  }

private:
  const Instruction &instruction(Occurrence at) const {
    return entry.programs[at.program].instructions(current)[at.instruction];
  }
  const PlanBuffer &buffer(const Access &access) const {
    return entry.programs[access.by.program].buffers[access.buffer];
  }
  uint32_t root(const Access &access) const {
    int32_t viewOf = buffer(access).viewOf;
    return viewOf < 0 ? access.buffer : static_cast<uint32_t>(viewOf);
  }
  template <typename... Parts> Error fail(const Access &access, const Parts &...parts) const {
    Error error = makeError(Status::Rejected, order->describe(access.by), access.writes ? " writes" : " reads",
                            " buffer \"", buffer(access).name, "\"", parts...);
    return error.atNode(instruction(access.by).node);
  }

  Error visit(std::span<const Occurrence> event, std::span<const Clock> clocks) {
    accesses.clear();
    for (Occurrence occurrence : event)
      collect(occurrence);
    auto clockOf = [&](const Access &access) -> const Clock & {
      return access.by.program == event.front().program ? clocks.front() : clocks.back();
    };
    if (Error error = checkOverlaps(event))
      return error;
    // An instruction reads its inputs before it writes its outputs.
    for (const Access &access : accesses)
      if (!access.writes)
        if (Error error = read(access, clockOf(access)))
          return error;
    for (const Access &access : accesses)
      if (access.writes)
        if (Error error = write(access, clockOf(access)))
          return error;
    return Error::success();
  }

  void collect(Occurrence at) {
    for (const BufferAccess &access : accessesOf(plan, instruction(at).action))
      accesses.push_back({at, access.buffer, access.writes});
  }

  /// Within one event: a kernel or an all-reduce may write exactly the bytes of an input, an all-reduce of several
  /// tensors those of the result's own, if both are the same buffer or views of it.
  Error checkOverlaps(std::span<const Occurrence> event) const {
    const Action &action = instruction(event.front()).action;
    bool calls = std::holds_alternative<Call>(action), joins = std::holds_alternative<AllReduce>(action);
    for (const Access &written : accesses) {
      if (!written.writes)
        continue;
      const PlanBuffer &target = buffer(written);
      for (const Access &other : accesses) {
        const PlanBuffer &source = buffer(other);
        if (&other == &written || other.by.program != written.by.program || target.bytes == 0 || source.bytes == 0 ||
            source.offset >= target.offset + target.bytes || target.offset >= source.offset + source.bytes)
          continue;
        // An operand's source stands before its target (accessesOf).
        bool elementwise = calls || (joins && &other + 1 == &written);
        bool inPlace = elementwise && !other.writes && root(other) == root(written) && source.offset == target.offset &&
                       source.bytes == target.bytes;
        if (!inPlace)
          return fail(written, " over buffer \"", source.name,
                      "\", which it uses at the same time; give them bytes "
                      "of their own, or make one a view of the other");
      }
    }
    return Error::success();
  }

  Error read(const Access &access, const Clock &clock) {
    for (Segment &segment : arenas[access.by.program].under(buffer(access))) {
      if (!segment.lastWrite)
        return fail(access, ", which nothing has written before; write it first, or wait for its writer");
      if (!segment.fromPrepare && !order->precedes(segment.lastWrite->by, clock))
        return fail(access, " without waiting for ", order->describe(segment.lastWrite->by), ", which writes \"",
                    buffer(*segment.lastWrite).name, "\" in the same bytes");
      if (root(*segment.lastWrite) != root(access))
        return fail(access, ", but its bytes hold buffer \"", buffer(*segment.lastWrite).name,
                    "\" by then; keep their bytes apart, or make one a view of the other");
      if (segment.fromPrepare)
        segment.readAsPrepared = access;
      segment.readsSince.push_back(access);
    }
    return Error::success();
  }

  Error write(const Access &access, const Clock &clock) {
    for (Segment &segment : arenas[access.by.program].under(buffer(access))) {
      if (current == Phase::Body && segment.readAsPrepared && !isState(access))
        return fail(access, " over buffer \"", buffer(*segment.readAsPrepared).name, "\", which ",
                    order->describe(segment.readAsPrepared->by), " needs in every step as prepare left it");
      if (segment.lastWrite && !segment.fromPrepare && !order->precedes(segment.lastWrite->by, clock))
        return fail(access, " without waiting for ", order->describe(segment.lastWrite->by), ", which writes \"",
                    buffer(*segment.lastWrite).name, "\" in the same bytes");
      for (const Access &reader : segment.readsSince)
        if (!isSameEvent(reader, access) && !order->precedes(reader.by, clock))
          return fail(access, " without waiting for ", order->describe(reader.by), ", which reads \"",
                      buffer(reader).name, "\" in the same bytes");
      segment.lastWrite = access;
      segment.fromPrepare = false;
      segment.readsSince.clear();
    }
    return Error::success();
  }

  /// Whether the instruction writes a parameter's next value: what steps then read is meant to change.
  bool isState(const Access &access) const {
    const std::vector<State> &state = entry.programs[access.by.program].state;
    return std::any_of(state.begin(), state.end(),
                       [&](const State &lasting) { return lasting.buffer == root(access); });
  }

  static bool isSameEvent(const Access &left, const Access &right) {
    return left.by.program == right.by.program && left.by.instruction == right.by.instruction;
  }

  const PlanContents &plan;
  const Entry &entry;
  std::vector<Arena> arenas;
  std::vector<Access> accesses;
  const HappensBefore *order = nullptr;
  Phase current = Phase::Prepare;
};

} // namespace

Error verifyOrder(const PlanContents &plan, const Entry &entry) {
  LastingOfPrograms lasting;
  return verifyOrder(plan, entry, lasting);
}

Error verifyOrder(const PlanContents &plan, const Entry &entry, LastingOfPrograms &lasting) {
  OrderChecker checker(plan, entry);
  for (Phase phase : {Phase::Prepare, Phase::Body})
    if (Error error = checker.check(phase))
      return Error(error.status(), "entry \"" + entry.name + "\": " + error.message(), error.node());
  lasting = checker.lasting();
  return Error::success();
}

} // namespace cleave::runtime
