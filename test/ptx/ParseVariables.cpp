// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declarations of variables and parameters, and what a module's variables hold at first.

#include "Parser.h"

#include <cstring>
#include <new>

namespace cleave::ptx {

namespace {
constexpr uint64_t largestVariable = uint64_t(1) << 30;
/// Of all functions together, each of which may use what a GPU has.
constexpr uint32_t mostShared = 1 << 26;

uint32_t alignUp(uint32_t value, uint32_t alignment) { return (value + alignment - 1) / alignment * alignment; }
} // namespace

Parser::Declaration Parser::parseDeclaration() {
  Declaration result{};
  result.alignment = 0;
  uint32_t vector = 1;
  for (;;) {
    if (accept(".align"))
      result.alignment = static_cast<uint32_t>(expectInteger());
    else if (accept(".v2"))
      vector = 2;
    else if (accept(".v4"))
      vector = 4;
    else if (!accept(".ptr") && !accept(".global") && !accept(".const") && !accept(".shared") && !accept(".local")) {
      if (peek().text.empty() || peek().text[0] != '.')
        break;
      result.type = typeNamed(next().text.substr(1));
      if (result.type == Type::None)
        fail("'" + std::string(tokens[position - 1].text) + "' is not known in a declaration");
    }
  }
  if (result.type == Type::None)
    fail("a declaration lacks its type");
  if (result.alignment & (result.alignment - 1) || result.alignment > 256)
    fail("expected an alignment of a power of two up to 256, got " + std::to_string(result.alignment));
  result.name = expectWord();
  uint64_t elements = vector;
  while (accept("[")) {
    if (accept("]")) {
      result.unsized = true;
      result.dimensions.push_back(0);
      continue;
    }
    result.dimensions.push_back(static_cast<uint32_t>(expectInteger()));
    elements *= result.dimensions.back();
    if (elements * bytesOf(result.type) > largestVariable)
      fail("'" + result.name + "' is too large");
    expect("]");
  }
  if (vector > 1)
    result.dimensions.push_back(vector);
  result.elements = static_cast<uint32_t>(elements);
  result.alignment = std::max(result.alignment, static_cast<uint32_t>(bytesOf(result.type)) * vector);
  return result;
}

void Parser::parseModuleVariables(Space space, bool external) {
  do
    defineModuleVariable(parseDeclaration(), space, external);
  while (accept(","));
  expect(";");
}

Symbol Parser::declareShared(const Declaration &declaration) {
  if (declaration.unsized)
    return {Symbol::DynamicShared, declaration.type, 0, 0};
  uint32_t offset = alignUp(program->sharedBytes, declaration.alignment);
  if (declaration.bytes() > mostShared || offset + declaration.bytes() > mostShared)
    fail("the module's shared variables take more than " + std::to_string(mostShared) + " bytes");
  program->sharedBytes = offset + declaration.bytes();
  return {Symbol::Shared, declaration.type, firstAddress + offset, declaration.bytes()};
}

void Parser::defineModuleVariable(const Declaration &declaration, Space space, bool external) {
  Symbol symbol;
  if (space == Space::Shared) {
    symbol = declareShared(declaration);
  } else {
    if (external)
      fail("'" + declaration.name + "' is defined in another module, which is not supported");
    std::vector<std::byte> initial(declaration.unsized ? 0 : declaration.bytes());
    if (accept("="))
      parseInitializer(declaration, initial);
    // A variable without elements has an address, too.
    auto *bytes = static_cast<std::byte *>(::operator new[](initial.size() + 1, std::align_val_t(256)));
    if (!initial.empty())
      std::memcpy(bytes, initial.data(), initial.size());
    program->variables.push_back(
        {std::unique_ptr<std::byte[], Variable::Release>(bytes), initial.size(), space == Space::Global});
    symbol = {Symbol::Variable, declaration.type, reinterpret_cast<uint64_t>(bytes),
              static_cast<uint32_t>(initial.size())};
  }
  if (!moduleSymbols.emplace(declaration.name, symbol).second)
    fail("'" + declaration.name + "' is declared twice");
}

void Parser::parseInitializer(const Declaration &declaration, std::vector<std::byte> &bytes) {
  if (peek().is("{"))
    parseInitialList(declaration, 0, bytes, 0);
  else
    parseInitialValue(declaration.type, bytes, 0);
}

/// A list at `depth` of the array's dimensions; elements that are not listed stay zero.
void Parser::parseInitialList(const Declaration &declaration, size_t depth, std::vector<std::byte> &bytes,
                              size_t offset) {
  size_t stride = bytesOf(declaration.type);
  for (size_t i = depth + 1; i < declaration.dimensions.size(); ++i)
    stride *= declaration.dimensions[i];
  expect("{");
  for (bool first = true; !accept("}"); first = false) {
    if (!first)
      expect(",");
    if (declaration.unsized && bytes.size() < offset + stride)
      bytes.resize(offset + stride);
    if (peek().is("{"))
      parseInitialList(declaration, depth + 1, bytes, offset);
    else
      parseInitialValue(declaration.type, bytes, offset);
    offset += stride;
  }
}

void Parser::parseInitialValue(Type type, std::vector<std::byte> &bytes, size_t offset) {
  uint64_t bits = 0;
  if (peek().kind == Token::Word) {
    bits = parseInitialAddress();
  } else {
    Operand number = parseNumber(accept("-"));
    bits = number.bits;
    if (number.kind == Operand::Float64 && type == Type::F32)
      bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
  }
  if (offset + bytesOf(type) > bytes.size())
    fail("the initial value has more elements than the variable");
  std::memcpy(bytes.data() + offset, &bits, bytesOf(type));
}

uint64_t Parser::parseInitialAddress() {
  bool generic = accept("generic");
  if (generic)
    expect("(");
  std::string name(expectWord());
  if (generic)
    expect(")");
  auto found = moduleSymbols.find(name);
  if (found == moduleSymbols.end() || found->second.kind != Symbol::Variable)
    fail("'" + name + "' is no variable whose address is known here");
  return found->second.value + static_cast<uint64_t>(parseOffset());
}

} // namespace cleave::ptx
