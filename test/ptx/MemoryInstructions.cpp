// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decodes loads, stores and atomic operations. The slot of the address is the last operand.

#include "Statement.h"

namespace cleave::ptx {
namespace {

constexpr size_t addressOperand = 7;

Space takeSpace(Statement &s) {
  constexpr Space spaces[] = {Space::Global, Space::Const, Space::Shared, Space::Local,  Space::Param,
                              Space::Shared, Space::Param, Space::Param,  Space::Generic};
  return spaces[s.takeOneOf(
      {"global", "const", "shared", "local", "param", "shared::cta", "param::entry", "param::func", ""}, 8)];
}

void ignoreHints(Statement &s) {
  s.ignore({"weak",
            "ca",
            "cg",
            "cs",
            "lu",
            "cv",
            "wb",
            "wt",
            "L1::evict_normal",
            "L1::evict_unchanged",
            "L1::evict_first",
            "L1::evict_last",
            "L1::no_allocate",
            "L2::64B",
            "L2::128B",
            "L2::256B",
            "L2::evict_last",
            "L2::evict_normal",
            "L2::evict_first",
            "volatile"});
}

void ignoreScope(Statement &s) { s.ignore({"cta", "cluster", "gpu", "sys"}); }

void placeAddress(Statement &s, const Operand &operand, size_t bytes) {
  if (operand.kind != Operand::Address)
    s.fail("'" + std::string(s.name) + "' expects an address in brackets");
  Instruction &instruction = s.instruction;
  instruction.immediate = operand.offset;
  if (operand.name.empty()) {
    instruction.operands[addressOperand] = s.builder.constant(operand.bits);
    return;
  }
  const Symbol *symbol = s.builder.find(operand.name);
  if ((instruction.space == Space::Param) != (symbol && symbol->kind == Symbol::Param))
    s.fail("'" + std::string(operand.name) + "' does not fit the instruction's space");
  if (instruction.space != Space::Param) {
    Operand base;
    base.name = operand.name;
    instruction.operands[addressOperand] = s.source(base, Type::U64);
    // The name of a variable stands for its address in its own space, and generic accesses want a generic one.
    if (instruction.space == Space::Generic && symbol && symbol->kind == Symbol::Local)
      instruction.space = Space::Local;
    if (instruction.space == Space::Generic && symbol &&
        (symbol->kind == Symbol::Shared || symbol->kind == Symbol::DynamicShared))
      instruction.space = Space::Shared;
    return;
  }
  if (operand.offset < 0 || static_cast<uint64_t>(operand.offset) + bytes > symbol->bytes)
    s.fail("'" + std::string(operand.name) + "' has " + std::to_string(symbol->bytes) + " bytes, the access ends at " +
           std::to_string(static_cast<uint64_t>(operand.offset) + bytes));
  instruction.immediate = static_cast<int64_t>(symbol->value) + operand.offset;
}

/// Loads and stores: `values` is the operand with the registers, `address` the other one.
void decodeAccess(Statement &s, size_t values, size_t address) {
  Instruction &instruction = s.instruction;
  bool loads = values == 0;
  instruction.action = loads ? Action::Load : Action::Store;
  instruction.atomic = s.take("relaxed") || s.take("acquire") || s.take("release");
  instruction.space = takeSpace(s);
  ignoreHints(s);
  instruction.constant = loads && instruction.space == Space::Global && s.take("nc");
  ignoreHints(s);
  ignoreScope(s);
  constexpr uint8_t counts[] = {2, 4, 1};
  instruction.count = counts[s.takeOneOf({"v2", "v4", ""}, 2)];
  instruction.type = s.takeType();
  s.expectOperands(2);
  const Operand &operand = s.operands[values];
  bool isVector = operand.kind == Operand::Vector;
  if ((isVector ? operand.elements.size() : 1) != instruction.count)
    s.fail("'" + std::string(s.name) + "' expects " + std::to_string(instruction.count) + " registers");
  for (size_t i = 0; i != instruction.count; ++i) {
    const Operand &element = isVector ? operand.elements[i] : operand;
    instruction.operands[i] = loads ? s.result(element) : s.source(element, instruction.type);
  }
  instruction.kind = static_cast<uint8_t>(bytesOf(instruction.type));
  placeAddress(s, s.operands[address], instruction.kind * instruction.count);
  s.emit();
}

void decodeLoad(Statement &s) { decodeAccess(s, 0, 1); }
void decodeStore(Statement &s) { decodeAccess(s, 1, 0); }

/// atom has a result, red has none. Operands: result, a, b, address.
void decodeAtomic(Statement &s) {
  Instruction &instruction = s.instruction;
  instruction.action = Action::Atomic;
  instruction.atomic = true;
  s.ignore({"relaxed", "acquire", "release", "acq_rel", "noftz"});
  ignoreScope(s);
  instruction.space = takeSpace(s);
  instruction.kind =
      static_cast<uint8_t>(s.takeOneOf({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"}));
  instruction.type = s.takeType();
  bool hasResult = s.name == "atom", swaps = static_cast<AtomicKind>(instruction.kind) == AtomicKind::CompareAndSwap;
  size_t first = hasResult ? 1 : 0;
  s.expectOperands(first + (swaps ? 3 : 2));
  instruction.operands[0] = hasResult ? s.result(0) : s.builder.newSlot();
  instruction.operands[1] = s.source(first + 1, instruction.type);
  instruction.operands[2] = swaps ? s.source(first + 2, instruction.type) : instruction.operands[1];
  if (instruction.space == Space::Param || instruction.space == Space::Const || instruction.space == Space::Local)
    s.fail("'" + std::string(s.name) + "' is known of global and shared memory only");
  placeAddress(s, s.operands[first], bytesOf(instruction.type));
  s.emit();
}

} // namespace

void addMemoryDecoders(DecoderTable &table) {
  table["ld"] = table["ldu"] = decodeLoad;
  table["st"] = decodeStore;
  table["atom"] = table["red"] = decodeAtomic;
}

} // namespace cleave::ptx
