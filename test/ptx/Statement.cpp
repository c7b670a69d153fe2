// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Statement.h"

#include <algorithm>
#include <bit>

namespace cleave::ptx {

size_t bytesOf(Type type) {
  switch (type) {
  case Type::None:
    return 0;
  case Type::Pred:
  case Type::B8:
  case Type::U8:
  case Type::S8:
    return 1;
  case Type::B16:
  case Type::U16:
  case Type::S16:
  case Type::F16:
  case Type::BF16:
    return 2;
  case Type::B64:
  case Type::U64:
  case Type::S64:
  case Type::F64:
    return 8;
  default:
    return 4;
  }
}

bool isFloat(Type type) { return type >= Type::F16; }

Type typeNamed(std::string_view name) {
  static const std::unordered_map<std::string_view, Type> types = {
      {"pred", Type::Pred}, {"b8", Type::B8},   {"b16", Type::B16},       {"b32", Type::B32}, {"b64", Type::B64},
      {"u8", Type::U8},     {"u16", Type::U16}, {"u32", Type::U32},       {"u64", Type::U64}, {"s8", Type::S8},
      {"s16", Type::S16},   {"s32", Type::S32}, {"s64", Type::S64},       {"f16", Type::F16}, {"f16x2", Type::F16x2},
      {"bf16", Type::BF16}, {"f32", Type::F32}, {"bf16x2", Type::BF16x2}, {"f64", Type::F64}};
  auto found = types.find(name);
  return found == types.end() ? Type::None : found->second;
}

Statement::Statement(FunctionBuilder &builder, const Program &program, std::string_view opcode, uint32_t line)
    : builder(builder), program(program), line(line) {
  size_t dot = opcode.find('.');
  name = opcode.substr(0, dot);
  while (dot != std::string_view::npos) {
    size_t next = opcode.find('.', dot + 1);
    modifiers.push_back(opcode.substr(dot + 1, next == std::string_view::npos ? next : next - dot - 1));
    dot = next;
  }
  instruction.line = line;
}

void Statement::fail(const std::string &message) const { throw ParseFailure(line, message); }

bool Statement::take(std::string_view modifier) {
  auto found = std::find(modifiers.begin(), modifiers.end(), modifier);
  if (found == modifiers.end())
    return false;
  modifiers.erase(found);
  return true;
}

void Statement::ignore(std::initializer_list<std::string_view> names) {
  for (std::string_view name : names)
    take(name);
}

int Statement::takeOneOf(std::initializer_list<std::string_view> names, int otherwise) {
  for (auto modifier = modifiers.begin(); modifier != modifiers.end(); ++modifier)
    if (auto found = std::find(names.begin(), names.end(), *modifier); found != names.end()) {
      modifiers.erase(modifier);
      return static_cast<int>(found - names.begin());
    }
  if (otherwise < 0)
    fail("'" + std::string(name) + "' lacks a modifier such as '." + std::string(*names.begin()) + "'");
  return otherwise;
}

Type Statement::takeType() {
  for (auto modifier = modifiers.begin(); modifier != modifiers.end(); ++modifier)
    if (Type type = typeNamed(*modifier); type != Type::None) {
      modifiers.erase(modifier);
      return type;
    }
  fail("'" + std::string(name) + "' lacks a type");
}

Rounding Statement::takeRounding() {
  return static_cast<Rounding>(takeOneOf({"rn", "rz", "rm", "rp"}, static_cast<int>(Rounding::Nearest)));
}

void Statement::expectOperands(size_t least, size_t most) const {
  if (operands.size() < least || operands.size() > std::max(least, most))
    fail("'" + std::string(name) + "' expects " + std::to_string(least) + " operands, got " +
         std::to_string(operands.size()));
}

uint64_t Statement::bitsOf(const Operand &operand, Type type) const {
  if (operand.kind == Operand::Float32 && type == Type::F64)
    return std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(operand.bits))));
  if (operand.kind == Operand::Float64 && type == Type::F32)
    return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits)));
  if (operand.kind == Operand::Integer && (type == Type::F32 || type == Type::F64))
    fail("'" + std::string(name) + "' expects a floating-point number, got an integer");
  return operand.bits;
}

Slot Statement::source(const Operand &operand, Type type) {
  if (operand.kind == Operand::Integer || operand.kind == Operand::Float32 || operand.kind == Operand::Float64)
    return builder.constant(bitsOf(operand, type));
  if (operand.kind != Operand::Name || !operand.elements.empty())
    fail("'" + std::string(name) + "' expects a register or number as operand");
  const Symbol *symbol = builder.find(operand.name);
  if (!symbol) {
    Slot slot = builder.specialRegister(operand.name);
    if (slot == noSlot)
      fail("'" + std::string(operand.name) + "' is not known here");
    return slot;
  }
  switch (symbol->kind) {
  case Symbol::Param:
    fail("the address of parameter '" + std::string(operand.name) + "' is not supported");
  case Symbol::Shared:
  case Symbol::Variable:
    return builder.constant(symbol->value + static_cast<uint64_t>(operand.offset));
  case Symbol::Local:
    return builder.localAddress(static_cast<uint32_t>(symbol->value + static_cast<uint64_t>(operand.offset)));
  case Symbol::DynamicShared:
  case Symbol::Register:
    break;
  }
  if (operand.offset != 0)
    fail("'" + std::string(operand.name) + "' with an offset is not supported as an operand");
  if (symbol->kind == Symbol::DynamicShared)
    return builder.special(Special::DynamicShared);
  Slot slot = static_cast<Slot>(symbol->value);
  builder.noteRead(slot);
  if (!operand.inverted)
    return slot;
  Instruction invert;
  invert.compute = [](const Instruction &i, uint64_t *slots) { slots[i.operands[0]] = ~slots[i.operands[1]] & 1; };
  invert.operands = {builder.newSlot(), slot};
  emitBefore(invert);
  return invert.operands[0];
}

Slot Statement::result(const Operand &operand) {
  if (operand.kind == Operand::Name && operand.name == "_")
    return builder.newSlot();
  const Symbol *symbol = operand.kind == Operand::Name ? builder.find(operand.name) : nullptr;
  if (!symbol || symbol->kind != Symbol::Register)
    fail("'" + std::string(name) + "' expects a register for its result, got '" + std::string(operand.name) + "'");
  return static_cast<Slot>(symbol->value);
}

void Statement::allOperands(Type type) {
  instruction.operands[0] = result(0);
  for (size_t i = 1; i != operands.size(); ++i)
    instruction.operands[i] = source(i, type);
}

void Statement::emitBefore(Instruction before) {
  before.line = line;
  before.guard = instruction.guard;
  before.guardInverted = instruction.guardInverted;
  builder.emit(before);
}

void Statement::emit() {
  if (!modifiers.empty())
    fail("'" + std::string(name) + "' with '." + std::string(modifiers.front()) + "' is not known");
  builder.emit(instruction);
}

} // namespace cleave::ptx
