// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names, slots and labels of a function whose body is being read.

#include "Statement.h"

namespace cleave::ptx {

void FunctionBuilder::declare(std::string name, Symbol symbol, uint32_t line) {
  if (!scopes.back().emplace(name, symbol).second)
    throw ParseFailure(line, "'" + name + "' is declared twice");
}

const Symbol *FunctionBuilder::find(std::string_view name) const {
  std::string key(name);
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (auto found = scope->find(key); found != scope->end()) {
      if (found->second.kind == Symbol::Shared)
        function.shared.emplace(found->second.value, found->second.bytes);
      return &found->second;
    }
  return nullptr;
}

Slot FunctionBuilder::newSlot(uint64_t initial) {
  function.slots.push_back(initial);
  return static_cast<Slot>(function.slots.size() - 1);
}

Slot FunctionBuilder::constant(uint64_t bits) {
  auto [found, isNew] = constants.try_emplace(bits, noSlot);
  if (isNew)
    found->second = newSlot(bits);
  return found->second;
}

Slot FunctionBuilder::special(Special special) {
  auto [found, isNew] = specials.try_emplace(special, noSlot);
  if (isNew) {
    found->second = newSlot();
    function.specials.emplace_back(found->second, special);
  }
  return found->second;
}

Slot FunctionBuilder::localAddress(uint32_t offset) {
  auto [found, isNew] = locals.try_emplace(offset, noSlot);
  if (isNew) {
    found->second = newSlot();
    function.locals.emplace_back(found->second, offset);
  }
  return found->second;
}

Slot FunctionBuilder::carry() {
  if (carrySlot == noSlot)
    carrySlot = newSlot();
  return carrySlot;
}

Slot FunctionBuilder::specialRegister(std::string_view name) {
  static const std::unordered_map<std::string_view, Special> byName = {
      {"%tid.x", Special::ThreadX},
      {"%ntid.x", Special::ThreadsX},
      {"%ctaid.x", Special::BlockX},
      {"%nctaid.x", Special::BlocksX},
      {"%laneid", Special::Lane},
      {"%warpid", Special::Warp},
      {"%nwarpid", Special::Warps},
      {"%lanemask_eq", Special::LaneMaskEq},
      {"%lanemask_lt", Special::LaneMaskLt},
      {"%lanemask_le", Special::LaneMaskLe},
      {"%lanemask_gt", Special::LaneMaskGt},
      {"%lanemask_ge", Special::LaneMaskGe},
      {"%dynamic_smem_size", Special::DynamicSharedBytes},
      {"%total_smem_size", Special::TotalSharedBytes},
  };
  static const std::unordered_map<std::string_view, uint64_t> fixed = {
      {"%tid.y", 0},   {"%tid.z", 0},    {"%ntid.y", 1},   {"%ntid.z", 1}, {"%ctaid.y", 0},
      {"%ctaid.z", 0}, {"%nctaid.y", 1}, {"%nctaid.z", 1}, {"WARP_SZ", 32}};
  if (auto found = byName.find(name); found != byName.end())
    return special(found->second);
  if (auto found = fixed.find(name); found != fixed.end())
    return constant(found->second);
  return noSlot;
}

void FunctionBuilder::label(std::string_view name, uint32_t line) {
  if (!labels.emplace(name, static_cast<uint32_t>(function.code.size())).second)
    throw ParseFailure(line, "label '" + std::string(name) + "' is declared twice");
}

void FunctionBuilder::jumpTable(std::string_view name, std::vector<std::string_view> entries, uint32_t line) {
  auto table = static_cast<uint32_t>(function.jumpTables.size());
  if (!tables.emplace(name, table).second)
    throw ParseFailure(line, "'" + std::string(name) + "' is declared twice");
  function.jumpTables.emplace_back(entries.size());
  for (uint32_t i = 0; i != entries.size(); ++i)
    tableEntries.push_back({0, table, i, line, std::string(entries[i])});
}

void FunctionBuilder::targetNext(std::string_view label, uint32_t line) {
  jumps.push_back({static_cast<uint32_t>(function.code.size()), 0, 0, line, std::string(label)});
}

uint32_t FunctionBuilder::tableIndex(std::string_view name, uint32_t line) const {
  auto found = tables.find(std::string(name));
  if (found == tables.end())
    throw ParseFailure(line, "there is no list of branch targets '" + std::string(name) + "'");
  return found->second;
}

uint32_t FunctionBuilder::addressOf(const Reference &reference) const {
  auto found = labels.find(reference.label);
  if (found == labels.end())
    throw ParseFailure(reference.line, "there is no label '" + reference.label + "'");
  return found->second;
}

void FunctionBuilder::finish(uint32_t line) {
  // Whoever runs past the end returns.
  Instruction last;
  last.action = Action::Return;
  last.line = line;
  emit(last);
  for (Instruction &i : function.code) {
    i.used = i.count;
    while (i.action == Action::Load && i.used > 1 && !readSlots.count(i.operands[i.used - 1u]))
      --i.used;
  }
  // From numbers to places.
  for (Instruction &i : function.code) {
    for (Slot &slot : i.operands)
      slot = slot == noSlot ? noSlot : slot * lanesOfWarp;
    i.guard = i.guard == noSlot ? noSlot : i.guard * lanesOfWarp;
  }
  for (const Reference &jump : jumps)
    function.code[jump.instruction].immediate = addressOf(jump);
  for (const Reference &entry : tableEntries)
    function.jumpTables[entry.table][entry.entry] = addressOf(entry);
}

} // namespace cleave::ptx
