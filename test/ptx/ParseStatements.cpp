// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The statements of a function's body: declarations, labels, instructions and their operands.

#include "Parser.h"

namespace cleave::ptx {

namespace {
constexpr uint64_t mostRegisters = 1 << 20;
/// Of a function's local variables, and of its parameters: as many as a thread has.
constexpr uint32_t mostBytes = 1 << 19;

const DecoderTable &decoders() {
  static const DecoderTable table = [] {
    DecoderTable result;
    addIntegerDecoders(result);
    addBitDecoders(result);
    addFloatDecoders(result);
    addComparisonDecoders(result);
    addConversionDecoders(result);
    addMoveDecoders(result);
    addMemoryDecoders(result);
    addControlDecoders(result);
    addWarpDecoders(result);
    return result;
  }();
  return table;
}

uint32_t alignUp(uint32_t value, uint32_t alignment) { return (value + alignment - 1) / alignment * alignment; }
} // namespace

/// Up to the brace that closes the body.
void Parser::parseStatements() {
  for (size_t depth = 1; depth != 0;) {
    const Token &token = peek();
    if (token.kind == Token::End)
      fail("a function's body does not end");
    if (accept("{")) {
      builder->openScope();
      ++depth;
    } else if (accept("}")) {
      builder->closeScope();
      --depth;
    } else if (accept(";")) {
    } else if (token.kind == Token::Word && token.text[0] == '.') {
      parseBodyDirective();
    } else if (token.kind == Token::Word && peek(1).is(":")) {
      std::string_view name = next().text;
      next();
      if (!accept(".branchtargets")) {
        builder->label(name, token.line);
        continue;
      }
      std::vector<std::string_view> labels{expectWord()};
      while (accept(","))
        labels.push_back(expectWord());
      builder->jumpTable(name, std::move(labels), token.line);
      expect(";");
    } else {
      parseInstruction();
    }
  }
}

void Parser::parseBodyDirective() {
  if (peek().is(".loc") || peek().is(".file"))
    return skipLine();
  if (accept(".pragma")) {
    next();
    return expect(";");
  }
  if (accept(".reg"))
    return parseRegisters();
  if (accept(".local"))
    return parseBodyVariables(Space::Local);
  if (accept(".shared"))
    return parseBodyVariables(Space::Shared);
  if (accept(".param"))
    return parseBodyVariables(Space::Param);
  fail("directive '" + std::string(peek().text) + "' is not known in a function");
}

void Parser::parseRegisters() {
  std::string_view typeName = expectWord();
  Type type = typeNamed(typeName.substr(1));
  if (type == Type::None)
    fail("registers of type '" + std::string(typeName) + "' are not supported");
  do {
    std::string name(expectWord());
    if (!accept("<")) {
      builder->declare(name, {Symbol::Register, type, builder->newSlot(), 0}, peek().line);
      continue;
    }
    uint64_t count = expectInteger();
    if (count > mostRegisters)
      fail("expected at most " + std::to_string(mostRegisters) + " registers, got " + std::to_string(count));
    for (uint64_t i = 0; i != count; ++i)
      builder->declare(name + std::to_string(i), {Symbol::Register, type, builder->newSlot(), 0}, peek().line);
    expect(">");
  } while (accept(","));
  expect(";");
}

void Parser::parseBodyVariables(Space space) {
  do {
    Declaration declaration = parseDeclaration();
    Symbol symbol;
    if (space == Space::Shared) {
      symbol = declareShared(declaration);
    } else {
      uint32_t &bytes = space == Space::Local ? builder->function.localBytes : builder->function.parameterBytes;
      bytes = alignUp(bytes, std::max(declaration.alignment, 8u));
      if (declaration.bytes() > mostBytes || bytes + declaration.bytes() > mostBytes)
        fail("the function's variables take more than " + std::to_string(mostBytes) + " bytes");
      symbol = {space == Space::Local ? Symbol::Local : Symbol::Param, declaration.type, bytes, declaration.bytes()};
      bytes += declaration.bytes();
    }
    builder->declare(declaration.name, symbol, peek().line);
  } while (accept(","));
  expect(";");
}

int64_t Parser::parseOffset() {
  bool minus = peek().is("-");
  if (!minus && !peek().is("+"))
    return 0;
  next();
  if (accept("-"))
    minus = !minus;
  auto value = static_cast<int64_t>(expectInteger());
  return minus ? -value : value;
}

Operand Parser::parseNumber(bool negative) {
  Token token = next();
  Operand operand;
  operand.bits = token.bits;
  if (token.kind == Token::Integer) {
    operand.kind = Operand::Integer;
    operand.bits = negative ? -token.bits : token.bits;
  } else if (token.kind == Token::Float32) {
    operand.kind = Operand::Float32;
    operand.bits ^= negative ? uint64_t(1) << 31 : 0;
  } else if (token.kind == Token::Float64) {
    operand.kind = Operand::Float64;
    operand.bits ^= negative ? uint64_t(1) << 63 : 0;
  } else {
    --position;
    fail("expected an operand, got '" + std::string(token.text) + "'");
  }
  return operand;
}

Operand Parser::parseAddress() {
  Operand operand;
  operand.kind = Operand::Address;
  if (peek().kind == Token::Integer)
    operand.bits = expectInteger();
  else
    operand.name = expectWord();
  operand.offset = parseOffset();
  expect("]");
  return operand;
}

std::vector<Operand> Parser::parseOperands(std::string_view end) {
  std::vector<Operand> operands;
  while (!accept(end)) {
    if (!operands.empty())
      expect(",");
    operands.push_back(parseOperand());
  }
  return operands;
}

Operand Parser::parseOperand() {
  Operand operand;
  if (accept("[")) {
    return parseAddress();
  } else if (accept("{")) {
    operand.kind = Operand::Vector;
    operand.elements = parseOperands("}");
  } else if (accept("(")) {
    operand.kind = Operand::List;
    operand.elements = parseOperands(")");
  } else if (accept("-")) {
    return parseNumber(true);
  } else if (peek().kind == Token::Word || peek().is("!")) {
    operand.inverted = accept("!");
    operand.name = expectWord();
    operand.offset = parseOffset();
    if (accept("|"))
      operand.elements.push_back(parseOperand());
  } else {
    return parseNumber(false);
  }
  return operand;
}

void Parser::parseInstruction() {
  Operand guard;
  if (accept("@")) {
    guard.inverted = accept("!");
    guard.name = expectWord();
  }
  uint32_t line = peek().line;
  Statement statement(*builder, *program, expectWord(), line);
  if (!guard.name.empty()) {
    const Symbol *symbol = builder->find(guard.name);
    if (!symbol || symbol->kind != Symbol::Register || symbol->type != Type::Pred)
      fail("'" + std::string(guard.name) + "' is no predicate");
    statement.instruction.guard = static_cast<Slot>(symbol->value);
    statement.instruction.guardInverted = guard.inverted;
  }
  // First of all, since operands of unknown instructions may look like nothing else.
  auto decoder = decoders().find(statement.name);
  if (decoder == decoders().end())
    statement.fail("instruction '" + std::string(statement.name) + "' is not known");
  statement.operands = parseOperands(";");
  decoder->second(statement);
}

} // namespace cleave::ptx
