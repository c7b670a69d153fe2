// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a module: its directives, variables and functions, and the statements of their bodies.

#ifndef CLEAVE_TEST_PTX_PARSER_H
#define CLEAVE_TEST_PTX_PARSER_H

#include "Lexer.h"
#include "Statement.h"

namespace cleave::ptx {

class Parser {
public:
  explicit Parser(std::string_view text);

  /// Throws ParseFailure.
  std::shared_ptr<const Program> parseModule();

private:
  /// A variable's or parameter's declaration without its initial value.
  struct Declaration {
    std::string name;
    Type type;
    uint32_t elements, alignment;
    /// Of an array each dimension, the outermost first.
    std::vector<uint32_t> dimensions;
    /// Written as "name[]".
    bool unsized = false;
    uint32_t bytes() const { return static_cast<uint32_t>(bytesOf(type)) * elements; }
  };

  // Parser.cpp: tokens, directives, functions.
  const Token &peek(size_t ahead = 0) const { return tokens[std::min(position + ahead, tokens.size() - 1)]; }
  Token next() { return tokens[position == tokens.size() - 1 ? position : position++]; }
  bool accept(std::string_view text);
  void expect(std::string_view text);
  std::string_view expectWord();
  uint64_t expectInteger();
  [[noreturn]] void fail(const std::string &message) const;
  void skipLine();
  void skipBraces();
  void parseVersion();
  void checkShared(uint32_t function) const;
  void parseDirective();
  void parseFunction(bool entry);
  std::vector<Declaration> parseParameterList();
  void parseFunctionAttributes(Function &function);
  Function &declareFunction(const std::string &name);
  void parseBody(Function &function, const std::vector<Declaration> &parameters,
                 const std::vector<Declaration> &results);

  // ParseVariables.cpp
  Declaration parseDeclaration();
  void parseModuleVariables(Space space, bool external);
  void defineModuleVariable(const Declaration &declaration, Space space, bool external);
  Symbol declareShared(const Declaration &declaration);
  void parseInitializer(const Declaration &declaration, std::vector<std::byte> &bytes);
  void parseInitialList(const Declaration &declaration, size_t depth, std::vector<std::byte> &bytes, size_t offset);
  void parseInitialValue(Type type, std::vector<std::byte> &bytes, size_t offset);
  uint64_t parseInitialAddress();

  // ParseStatements.cpp
  void parseStatements();
  void parseBodyDirective();
  void parseRegisters();
  void parseBodyVariables(Space space);
  void parseInstruction();
  Operand parseOperand();
  Operand parseNumber(bool negative);
  Operand parseAddress();
  std::vector<Operand> parseOperands(std::string_view end);
  int64_t parseOffset();

  std::vector<Token> tokens;
  size_t position = 0;
  double version = 0;
  std::shared_ptr<Program> program = std::make_shared<Program>();
  std::unordered_map<std::string, Symbol> moduleSymbols;
  FunctionBuilder *builder = nullptr;
};

} // namespace cleave::ptx

#endif
