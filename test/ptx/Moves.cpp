// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves between registers, packing and unpacking, and addresses between spaces.

#include "Statement.h"
#include "Values.h"

namespace cleave::ptx {
namespace {

void move(const Instruction &i, uint64_t *slots) { slots[i.operands[0]] = slots[i.operands[1]]; }

/// Operands: result, then the elements from the lowest bits on, each of `kind` bits.
void pack(const Instruction &i, uint64_t *slots) {
  uint64_t result = 0, mask = (uint64_t(1) << i.kind) - 1;
  for (int element = 0; element != i.count; ++element)
    result |= (slots[i.operands[element + 1]] & mask) << (i.kind * element);
  slots[i.operands[0]] = result;
}

/// Operands: the elements, then the source.
void unpack(const Instruction &i, uint64_t *slots) {
  uint64_t value = slots[i.operands[i.count]], mask = (uint64_t(1) << i.kind) - 1;
  for (int element = 0; element != i.count; ++element)
    slots[i.operands[element]] = value >> (i.kind * element) & mask;
}

void describeElements(Statement &s, const Operand &vector, Type type) {
  size_t count = vector.elements.size();
  if (count != 2 && count != 4)
    s.fail("'mov' expects two or four elements, got " + std::to_string(count));
  s.instruction.count = static_cast<uint8_t>(count);
  s.instruction.kind = static_cast<uint8_t>(8 * bytesOf(type) / count);
}

void decodeMove(Statement &s) {
  Type type = s.takeType();
  s.expectOperands(2);
  const Operand &to = s.operands[0], &from = s.operands[1];
  if (from.kind == Operand::Vector) {
    describeElements(s, from, type);
    s.instruction.operands[0] = s.result(to);
    for (size_t i = 0; i != from.elements.size(); ++i)
      s.instruction.operands[i + 1] = s.source(from.elements[i], Type::B32);
    s.instruction.compute = together<pack>();
  } else if (to.kind == Operand::Vector) {
    describeElements(s, to, type);
    for (size_t i = 0; i != to.elements.size(); ++i)
      s.instruction.operands[i] = s.result(to.elements[i]);
    s.instruction.operands[to.elements.size()] = s.source(from, type);
    s.instruction.compute = together<unpack>();
  } else {
    s.allOperands(type);
    s.instruction.compute = together<move>();
  }
  s.emit();
}

uint64_t windowOf(Statement &s) {
  int space = s.takeOneOf({"global", "const", "shared", "local", "shared::cta"});
  return space == 2 || space == 4 ? sharedWindow : space == 3 ? localWindow : 0;
}

/// Between an address of a space and a generic one: by the difference.
void decodeAddressConversion(Statement &s) {
  bool fromGeneric = s.take("to");
  uint64_t window = windowOf(s);
  Type type = s.takeType();
  if (bytesOf(type) != 8)
    s.fail("addresses of 64 bits are supported only");
  s.expectOperands(2);
  s.instruction.operands = {s.result(0), s.source(1, type), s.builder.constant(fromGeneric ? -window : window)};
  s.instruction.compute = [](const Instruction &i, uint64_t *slots) {
    slots[i.operands[0]] = slots[i.operands[1]] + slots[i.operands[2]];
  };
  s.emit();
}

void decodeSpaceTest(Statement &s) {
  uint64_t window = windowOf(s);
  s.expectOperands(2);
  s.instruction.operands = {s.result(0), s.source(1, Type::U64), s.builder.constant(window >> 56)};
  s.instruction.compute = [](const Instruction &i, uint64_t *slots) {
    slots[i.operands[0]] = slots[i.operands[1]] >> 56 == slots[i.operands[2]];
  };
  s.emit();
}

} // namespace

void addMoveDecoders(DecoderTable &table) {
  table["mov"] = decodeMove;
  table["cvta"] = decodeAddressConversion;
  table["isspacep"] = decodeSpaceTest;
}

} // namespace cleave::ptx
