// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares places. A value that `prepare` makes of a parameter would be out of date after the first step that writes
// the parameter, so only its load may touch it there. Of two entries on one arena each may write what it likes, but
// for what lasts in the other, unless both make the same there: the same load, or the same kernel of the same.

#include "runtime/VerifyState.h"

#include "runtime/Tile.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace cleave::runtime {
namespace {

bool isSame(const Tile *left, const Tile *right) {
  if (!left || !right)
    return left == right;
  return std::ranges::equal(left->dims, right->dims, [](const TileDim &one, const TileDim &other) {
    return one.size == other.size && one.length == other.length && one.step == other.step &&
           one.before == other.before && one.cuts == other.cuts;
  });
}

uint32_t ownerOf(const Program &program, uint32_t buffer) {
  int32_t viewOf = program.buffers[buffer].viewOf;
  return viewOf < 0 ? buffer : static_cast<uint32_t>(viewOf);
}

bool overlaps(const PlanBuffer &left, uint64_t begin, uint64_t end) {
  return left.bytes != 0 && begin != end && left.offset < end && begin < left.offset + left.bytes;
}

/// Whether a program keeps the buffer from step to step.
const State *stateIn(const Program &program, uint32_t buffer) {
  auto found = std::ranges::find(program.state, buffer, &State::buffer);
  return found == program.state.end() ? nullptr : &*found;
}

/// The one load of a kept parameter, in `prepare`; its own rules make sure that the buffer is the parameter's tile.
Error checkLoad(const Entry &entry, const Program &program, const State &state) {
  unsigned loads = 0;
  for (const Instruction &instruction : program.prepare) {
    const auto *load = std::get_if<LoadParameter>(&instruction.action);
    for (uint32_t buffer : buffersOf(instruction.action)) {
      if (ownerOf(program, buffer) != state.buffer)
        continue;
      if (!load || load->buffer != state.buffer || load->parameter != state.parameter ||
          !isSame(entry.tile(load->tile), entry.tile(state.tile)))
        return reject("expects prepare to load it and do nothing else with it, got ", kindName(instruction.action),
                      "; what is made of a parameter that steps write belongs into the body")
            .atNode(instruction.node);
      ++loads;
    }
  }
  return loads == 1 ? Error::success() : reject("expects prepare to load it once, got ", loads);
}

Error checkPlace(const PlanContents &plan, const Entry &entry, const Program &program, const State &state) {
  if (state.buffer >= program.buffers.size())
    return reject("is in buffer ", state.buffer, ", but the program has ", program.buffers.size());
  const PlanBuffer &buffer = program.buffers[state.buffer];
  const TensorType &type = plan.parameters[state.parameter].type;
  if (buffer.viewOf >= 0)
    return reject("expects bytes of its own, got a view");
  if (type.layout)
    return reject("expects a dense type, got ", type.text());
  if (state.tile < -1 || state.tile >= static_cast<int64_t>(entry.tiles.size()))
    return reject("has tile ", state.tile, ", but the entry has ", entry.tiles.size());
  const Tile *tile = entry.tile(state.tile);
  if (tile)
    if (Error error = checkTile(*tile, plan.meshes[program.mesh], /*windows=*/false))
      return reject("has tile ", state.tile, ", whose ", error.message());
  for (uint32_t other = 0; other != program.buffers.size(); ++other)
    if (ownerOf(program, other) != state.buffer &&
        overlaps(program.buffers[other], buffer.offset, buffer.offset + buffer.bytes))
      return reject("expects bytes of its own, got some that buffer \"", program.buffers[other].name, "\" takes");
  return checkLoad(entry, program, state);
}

/// Two programs of one mesh in entries that share arenas.
class ProgramPair {
public:
  ProgramPair(const PlanContents &plan, const Entry &entry, const Program &program, const Entry &otherEntry,
              const Program &other)
      : plan(plan), entry(entry), program(program), otherEntry(otherEntry), other(other), makers(makersOf(program)),
        otherMakers(makersOf(other)) {
    for (Phase phase : {Phase::Prepare, Phase::Body})
      for (const Instruction &instruction : other.instructions(phase))
        for (const BufferAccess &access : accessesOf(plan, instruction.action))
          if (access.writes)
            otherWrites.push_back({&instruction, access.buffer, phase});
  }

  /// Whether what lasts in the program stays as it is when the other one runs.
  Error check(const std::vector<LastingBytes> &lasting) const {
    for (const State &state : program.state) {
      auto same = std::ranges::find(other.state, state.parameter, &State::parameter);
      if (same != other.state.end() && !isSamePlace(state.buffer, state.tile, same->buffer, same->tile))
        return reject("parameter \"", plan.parameters[state.parameter].name,
                      "\" expects the same part at the same offset", " in all entries, got offset ",
                      program.buffers[state.buffer].offset, " in \"", entry.name, "\" and ",
                      other.buffers[same->buffer].offset, " in \"", otherEntry.name, "\"");
      const PlanBuffer &buffer = program.buffers[state.buffer];
      for (uint32_t index = 0; index != other.buffers.size(); ++index)
        if (same == other.state.end() || ownerOf(other, index) != same->buffer)
          if (overlaps(other.buffers[index], buffer.offset, buffer.offset + buffer.bytes))
            return reject("parameter \"", plan.parameters[state.parameter].name, "\" of entry \"", entry.name,
                          "\" lasts from step to step, but buffer \"", other.buffers[index].name, "\" of entry \"",
                          otherEntry.name, "\" takes some of its bytes");
    }
    for (const LastingBytes &bytes : lasting)
      if (!stateIn(program, bytes.buffer))
        if (Error error = checkKept(bytes))
          return error;
    return Error::success();
  }

private:
  bool isSamePlace(uint32_t buffer, int32_t tile, uint32_t otherBuffer, int32_t otherTile) const {
    const PlanBuffer &one = program.buffers[buffer], &two = other.buffers[otherBuffer];
    return one.offset == two.offset && one.bytes == two.bytes && isSame(entry.tile(tile), otherEntry.tile(otherTile));
  }

  /// Nothing of the other program writes these bytes, but for what makes the same as is there.
  Error checkKept(const LastingBytes &bytes) const {
    for (auto [instruction, buffer, phase] : otherWrites)
      if (overlaps(other.buffers[buffer], bytes.begin, bytes.end) &&
          !(phase == Phase::Prepare && isSamePlace(bytes.buffer, -1, buffer, -1) && isSameValue(bytes.buffer, buffer)))
        return reject("buffer \"", program.buffers[bytes.buffer].name, "\" of entry \"", entry.name,
                      "\" is made once, but ", kindName(instruction->action), " of entry \"", otherEntry.name,
                      "\" writes buffer \"", other.buffers[buffer].name, "\" over it")
            .atNode(instruction->node);
    return Error::success();
  }

  /// What makes a buffer in `prepare`: an instruction, and which of the buffers that it names.
  struct Maker {
    const Instruction *instruction;
    size_t access;
  };

  /// By owner of buffers, the maker of all its bytes; nothing where that is not one instruction.
  std::vector<std::optional<Maker>> makersOf(const Program &of) const {
    std::vector<std::optional<Maker>> makers(of.buffers.size());
    std::vector<bool> isTouched(of.buffers.size());
    for (const Instruction &instruction : of.prepare) {
      std::vector<BufferAccess> accesses = accessesOf(plan, instruction.action);
      for (size_t index = 0; index != accesses.size(); ++index) {
        uint32_t written = accesses[index].buffer, owner = ownerOf(of, written);
        if (!accesses[index].writes)
          continue;
        bool isWhole = of.buffers[written].bytes == of.buffers[owner].bytes;
        makers[owner] = isTouched[owner] || !isWhole ? std::nullopt : std::optional(Maker{&instruction, index});
        isTouched[owner] = true;
      }
    }
    return makers;
  }

  static uint64_t offsetInOwner(const Program &of, uint32_t buffer) {
    return of.buffers[buffer].offset - of.buffers[ownerOf(of, buffer)].offset;
  }

  /// Whether `prepare` makes the same of the same in a buffer of the program and one of the other.
  bool isSameValue(uint32_t buffer, uint32_t otherBuffer) const {
    auto [known, isNew] = sameValues.try_emplace({buffer, otherBuffer}, false);
    if (!isNew)
      return known->second;
    auto ours = makers[ownerOf(program, buffer)], theirs = otherMakers[ownerOf(other, otherBuffer)];
    bool isEqual = ours && theirs && ours->access == theirs->access &&
                   offsetInOwner(program, buffer) == offsetInOwner(other, otherBuffer) &&
                   isSameAction(*ours->instruction, *theirs->instruction);
    sameValues[{buffer, otherBuffer}] = isEqual;
    return isEqual;
  }

  bool isSameAction(const Instruction &ours, const Instruction &theirs) const {
    const auto *load = std::get_if<LoadParameter>(&ours.action),
               *otherLoad = std::get_if<LoadParameter>(&theirs.action);
    if (load && otherLoad)
      return load->parameter == otherLoad->parameter &&
             isSame(entry.tile(load->tile), otherEntry.tile(otherLoad->tile));
    const auto *index = std::get_if<LoadIndex>(&ours.action), *otherIndex = std::get_if<LoadIndex>(&theirs.action);
    if (index && otherIndex)
      return index->dim == otherIndex->dim && index->what == otherIndex->what &&
             isSame(&entry.tiles[index->tile], &otherEntry.tiles[otherIndex->tile]);
    const auto *call = std::get_if<Call>(&ours.action), *otherCall = std::get_if<Call>(&theirs.action);
    if (!call || !otherCall || call->kernel != otherCall->kernel)
      return false;
    std::vector<BufferAccess> accesses = accessesOf(plan, ours.action), others = accessesOf(plan, theirs.action);
    return std::ranges::equal(accesses, others, [&](const BufferAccess &one, const BufferAccess &two) {
      return one.writes == two.writes && (one.writes || isSameValue(one.buffer, two.buffer));
    });
  }

  const PlanContents &plan;
  const Entry &entry;
  const Program &program;
  const Entry &otherEntry;
  const Program &other;
  const std::vector<std::optional<Maker>> makers, otherMakers;
  struct Write {
    const Instruction *instruction;
    uint32_t buffer;
    Phase phase;
  };
  std::vector<Write> otherWrites;
  /// By buffer of the program and of the other one: isSameValue.
  mutable std::map<std::pair<uint32_t, uint32_t>, bool> sameValues;
};

/// A parameter that changes is loaded only where it is kept, and its name is its own.
Error checkLoadsOfKept(const PlanContents &plan, const std::vector<const Entry *> &entries) {
  std::set<uint32_t> kept;
  for (const Entry *entry : entries)
    for (const Program &program : entry->programs)
      for (const State &state : program.state)
        kept.insert(state.parameter);
  std::set<std::string> names;
  for (uint32_t parameter : kept)
    if (!names.insert(plan.parameters[parameter].name).second)
      return reject("two parameters that steps write are called \"", plan.parameters[parameter].name,
                    "\"; give each a name of its own");
  for (const Entry *entry : entries)
    for (const Program &program : entry->programs)
      for (Phase phase : {Phase::Prepare, Phase::Body})
        for (const Instruction &instruction : program.instructions(phase)) {
          const auto *load = std::get_if<LoadParameter>(&instruction.action);
          if (!load || !kept.contains(load->parameter))
            continue;
          const State *state = stateIn(program, load->buffer);
          if (!state || state->parameter != load->parameter || phase == Phase::Body)
            return reject("entry \"", entry->name, "\" loads parameter \"", plan.parameters[load->parameter].name,
                          "\", which steps write, into a buffer that does not keep it")
                .atNode(instruction.node);
        }
  return Error::success();
}

/// A device's arena for a mesh is as large as the largest of the mesh's programs; replicas and their keeper have arenas
/// of their own.
Error checkRoom(const PlanContents &plan, const std::vector<const Entry *> &entries) {
  std::map<std::pair<uint32_t, bool>, uint64_t> ofMesh;
  for (const Entry *entry : entries)
    for (const Program &program : entry->programs) {
      uint64_t &bytes = ofMesh[{program.mesh, isOfReplicas(plan, *entry)}];
      bytes = std::max(bytes, program.arenaBytes);
    }
  std::vector<uint64_t> needed(plan.devices.size());
  auto add = [&](uint32_t index, uint64_t bytes) -> Error {
    const PlanDevice &device = plan.devices[index];
    bool overflows = __builtin_add_overflow(needed[index], bytes, &needed[index]);
    if (device.memoryLimit != 0 && (overflows || needed[index] > device.memoryLimit))
      return makeError(Status::Infeasible, "device \"", device.name, "\" has a memory limit of ", device.memoryLimit,
                       " bytes, but the arenas of all entries that share it need ", needed[index]);
    return Error::success();
  };
  for (auto [mesh, bytes] : ofMesh)
    for (uint32_t index : plan.meshes[mesh.first].devices)
      for (uint32_t replica = 0; replica != (mesh.second ? plan.replicas->count : 1); ++replica)
        if (Error error = add(index + (mesh.second ? replica * plan.replicas->devices : 0), bytes))
          return error;
  return Error::success();
}

} // namespace

Error verifyState(const PlanContents &plan, const Entry &entry, const Program &program) {
  std::set<uint32_t> parameters, buffers;
  for (const State &state : program.state) {
    if (state.parameter >= plan.parameters.size())
      return reject("keeps parameter ", state.parameter, ", but the plan has ", plan.parameters.size());
    const std::string &name = plan.parameters[state.parameter].name;
    if (!parameters.insert(state.parameter).second || !buffers.insert(state.buffer).second)
      return reject("kept parameter \"", name, "\" expects one buffer, of its own");
    if (Error error = checkPlace(plan, entry, program, state))
      return Error(error.status(), "kept parameter \"" + name + "\" " + error.message(), error.node());
  }
  return Error::success();
}

Error verifySharing(const PlanContents &plan, const std::vector<LastingOfPrograms> &lasting) {
  std::vector<const Entry *> entries;
  std::vector<size_t> positions;
  for (size_t index = 0; index != plan.entries.size(); ++index)
    if (plan.entries[index].samples != 0 && !plan.entries[index].isDecision()) {
      entries.push_back(&plan.entries[index]);
      positions.push_back(index);
    }
  if (Error error = checkLoadsOfKept(plan, entries))
    return error;
  for (size_t one = 0; one != entries.size(); ++one)
    for (size_t two = 0; two != entries.size(); ++two)
      for (size_t index = 0; index != entries[one]->programs.size(); ++index) {
        const Program &program = entries[one]->programs[index];
        auto other = std::ranges::find(entries[two]->programs, program.mesh, &Program::mesh);
        // Replicas and their keeper have arenas of their own.
        bool isApart = isOfReplicas(plan, *entries[one]) != isOfReplicas(plan, *entries[two]);
        if (one == two || isApart || other == entries[two]->programs.end())
          continue;
        ProgramPair pair(plan, *entries[one], program, *entries[two], *other);
        if (Error error = pair.check(lasting[positions[one]][index]))
          return Error(error.status(), "mesh \"" + plan.meshes[program.mesh].name + "\": " + error.message(),
                       error.node());
      }
  return checkRoom(plan, entries);
}

} // namespace cleave::runtime
