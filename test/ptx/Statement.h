// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An instruction as it is written, and the function that it becomes a part of: what the decoders of the families of
// instructions work on. A decoder takes the modifiers and operands that it knows; what nobody took is an error.

#ifndef CLEAVE_TEST_PTX_STATEMENT_H
#define CLEAVE_TEST_PTX_STATEMENT_H

#include "Program.h"

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace cleave::ptx {

/// What a name means.
struct Symbol {
  enum Kind : uint8_t { Register, Param, Shared, DynamicShared, Local, Variable };
  Kind kind;
  Type type = Type::None;
  /// The slot, the offset in the area for parameters, or the address in the variable's space.
  uint64_t value = 0;
  uint32_t bytes = 0;
};

/// The name's type, as in ".f32" without its dot; None for a name that is no type.
Type typeNamed(std::string_view name);

/// An operand as it is written.
struct Operand {
  enum Kind : uint8_t { Name, Integer, Float32, Float64, Address, Vector, List };
  Kind kind = Name;
  std::string_view name;
  /// The bits of a number; of an address without a name the address.
  uint64_t bits = 0;
  /// Of an address, behind its name.
  int64_t offset = 0;
  /// Written with a "!".
  bool inverted = false;
  /// Of a vector or list; of a name those behind a "|".
  std::vector<Operand> elements;
};

/// A function while its body is read: names in nested scopes, slots, labels.
class FunctionBuilder {
public:
  FunctionBuilder(Program &program, Function &function) : program(program), function(function) {}

  void openScope() { scopes.emplace_back(); }
  void closeScope() { scopes.pop_back(); }
  /// Throws when the scope has the name already.
  void declare(std::string name, Symbol symbol, uint32_t line);
  /// What the name means; null for one that is not known. The function counts as one that uses it.
  const Symbol *find(std::string_view name) const;

  Slot newSlot(uint64_t initial = 0);
  /// The slot that holds `bits` in every frame.
  Slot constant(uint64_t bits);
  /// The slot of a special register such as "%tid.x"; noSlot for a name that is none.
  Slot specialRegister(std::string_view name);
  Slot special(Special special);
  Slot localAddress(uint32_t offset);
  /// The slot that carries the bit between add.cc and addc.
  Slot carry();

  void label(std::string_view name, uint32_t line);
  void jumpTable(std::string_view name, std::vector<std::string_view> labels, uint32_t line);
  /// The instruction that is emitted next jumps to `label`, known or not yet.
  void targetNext(std::string_view label, uint32_t line);
  /// The index of the table `name`, which stands before its use.
  uint32_t tableIndex(std::string_view name, uint32_t line) const;
  void emit(const Instruction &instruction) { function.code.push_back(instruction); }
  /// An instruction reads the slot of a register.
  void noteRead(Slot slot) { readSlots.insert(slot); }
  /// Resolves labels. Throws for those that are missing.
  void finish(uint32_t line);

  Program &program;
  Function &function;

private:
  struct Reference {
    uint32_t instruction, table, entry, line;
    std::string label;
  };
  uint32_t addressOf(const Reference &reference) const;

  std::vector<std::unordered_map<std::string, Symbol>> scopes;
  std::unordered_map<uint64_t, Slot> constants;
  std::map<Special, Slot> specials;
  std::map<uint32_t, Slot> locals;
  std::unordered_set<Slot> readSlots;
  std::unordered_map<std::string, uint32_t> labels, tables;
  std::vector<Reference> jumps, tableEntries;
  Slot carrySlot = noSlot;
};

class Statement {
public:
  Statement(FunctionBuilder &builder, const Program &program, std::string_view opcode, uint32_t line);

  [[noreturn]] void fail(const std::string &message) const;

  /// Whether the modifier is there; takes it.
  bool take(std::string_view modifier);
  /// Takes those that have no effect here, such as cache hints.
  void ignore(std::initializer_list<std::string_view> modifiers);
  /// Takes the first modifier that is among `names`: its index, or `otherwise`; fails without one if that is negative.
  int takeOneOf(std::initializer_list<std::string_view> names, int otherwise = -1);
  /// Takes the next modifier that is a type; fails when there is none.
  Type takeType();
  /// Takes .rn, .rz, .rm or .rp.
  Rounding takeRounding();

  /// Fails unless there are `least` to `most` operands (or exactly `least`).
  void expectOperands(size_t least, size_t most = 0) const;
  /// The slot that an operand of `type` is read from.
  Slot source(size_t index, Type type) { return source(operands.at(index), type); }
  Slot source(const Operand &operand, Type type);
  /// The slot of a register that is written; a slot that nobody reads for "_".
  Slot result(size_t index) { return result(operands.at(index)); }
  Slot result(const Operand &operand);
  /// Results first, then sources, all of one type.
  void allOperands(Type type);

  /// Ends the decoding: fails if a modifier was not taken, else emits `instruction`.
  void emit();
  /// Emits an instruction that stands before this one, under the same guard.
  void emitBefore(Instruction before);

  FunctionBuilder &builder;
  const Program &program;
  const uint32_t line;
  std::string_view name;
  std::vector<Operand> operands;
  Instruction instruction;

private:
  uint64_t bitsOf(const Operand &operand, Type type) const;

  std::vector<std::string_view> modifiers;
};

using Decoder = void (*)(Statement &);
using DecoderTable = std::unordered_map<std::string_view, Decoder>;

/// Each family of instructions adds its decoders, by opcode without modifiers.
void addIntegerDecoders(DecoderTable &table);
void addBitDecoders(DecoderTable &table);
void addFloatDecoders(DecoderTable &table);
void addComparisonDecoders(DecoderTable &table);
void addConversionDecoders(DecoderTable &table);
void addMoveDecoders(DecoderTable &table);
void addMemoryDecoders(DecoderTable &table);
void addControlDecoders(DecoderTable &table);
void addWarpDecoders(DecoderTable &table);

/// For the families that share an opcode: add.f32 and add.s32 are decoded in files of their own.
void decodeIntegerArithmetic(Statement &statement, Type type);
void decodeFloatArithmetic(Statement &statement, Type type);
bool isFloat(Type type);

} // namespace cleave::ptx

#endif
