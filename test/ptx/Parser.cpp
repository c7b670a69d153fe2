// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Parser.h"

#include "PtxInterpreter.h"

#include <bit>
#include <cstring>

namespace cleave::ptx {

namespace {
/// As the PTX manual limits those of entries; before the version that raised the limit.
constexpr uint32_t mostParameterBytes = 32764, fewerParameterBytes = 4352;
constexpr double versionOfMore = 8.1;
/// Of an entry and the functions that it calls, as ptxas limits them for all architectures.
constexpr uint64_t mostStaticShared = 48 << 10;
} // namespace

Parser::Parser(std::string_view text) : tokens(cutIntoTokens(text)) {}

bool Parser::accept(std::string_view text) {
  if (!peek().is(text) || peek().kind == Token::End)
    return false;
  ++position;
  return true;
}

void Parser::expect(std::string_view text) {
  if (!accept(text))
    fail("expected '" + std::string(text) + "', got '" + std::string(peek().text) + "'");
}

std::string_view Parser::expectWord() {
  if (peek().kind != Token::Word)
    fail("expected a name, got '" + std::string(peek().text) + "'");
  return next().text;
}

uint64_t Parser::expectInteger() {
  if (peek().kind != Token::Integer)
    fail("expected an integer, got '" + std::string(peek().text) + "'");
  return next().bits;
}

void Parser::fail(const std::string &message) const { throw ParseFailure(peek().line, message); }

void Parser::skipLine() {
  for (uint32_t line = peek().line; peek().kind != Token::End && peek().line == line;)
    ++position;
}

void Parser::skipBraces() {
  expect("{");
  for (size_t depth = 1; depth != 0;) {
    if (peek().kind == Token::End)
      fail("a '{' is not closed");
    Token token = next();
    depth += token.is("{");
    depth -= token.is("}");
  }
}

std::shared_ptr<const Program> Parser::parseModule() {
  while (peek().kind != Token::End)
    parseDirective();
  for (uint32_t i = 0; i != program->functions.size(); ++i)
    if (program->functions[i].entry)
      checkShared(i);
  return program;
}

void Parser::checkShared(uint32_t entry) const {
  std::map<uint64_t, uint32_t> shared;
  std::vector<bool> isSeen(program->functions.size(), false);
  for (std::vector<uint32_t> rest = {entry}; !rest.empty();) {
    uint32_t index = rest.back();
    rest.pop_back();
    if (isSeen[index])
      continue;
    isSeen[index] = true;
    const Function &function = program->functions[index];
    shared.insert(function.shared.begin(), function.shared.end());
    for (const CallSite &call : function.calls)
      rest.push_back(call.function);
  }
  uint64_t bytes = 0;
  for (auto [address, size] : shared)
    bytes += size;
  if (bytes > mostStaticShared)
    fail("entry '" + program->functions[entry].name + "' expects at most " + std::to_string(mostStaticShared) +
         " bytes of static shared variables, got " + std::to_string(bytes));
}

void Parser::parseVersion() {
  next();
  if (peek().kind != Token::Float64)
    fail("'.version' expects a version such as 8.1, got '" + std::string(peek().text) + "'");
  version = std::bit_cast<double>(peek().bits);
}

void Parser::parseDirective() {
  bool external = false;
  while (peek().is(".visible") || peek().is(".extern") || peek().is(".weak") || peek().is(".common"))
    external |= next().is(".extern");
  std::string_view word = peek().text;
  if (word == ".version")
    parseVersion();
  if (word == ".version" || word == ".target" || word == ".address_size" || word == ".file")
    return skipLine();
  if (word == ".section") {
    next();
    expectWord();
    return skipBraces();
  }
  if (accept(".pragma")) {
    next();
    return expect(";");
  }
  if (accept(".entry"))
    return parseFunction(true);
  if (accept(".func"))
    return parseFunction(false);
  if (accept(".global"))
    return parseModuleVariables(Space::Global, external);
  if (accept(".const"))
    return parseModuleVariables(Space::Const, external);
  if (accept(".shared"))
    return parseModuleVariables(Space::Shared, external);
  fail("directive '" + std::string(word) + "' is not known here");
}

std::vector<Parser::Declaration> Parser::parseParameterList() {
  std::vector<Declaration> parameters;
  expect("(");
  while (!accept(")")) {
    if (!parameters.empty())
      expect(",");
    if (!accept(".param"))
      fail("parameters are supported in '.param' only, got '" + std::string(peek().text) + "'");
    parameters.push_back(parseDeclaration());
    if (parameters.back().bytes() > mostParameterBytes || parameters.size() > mostParameterBytes)
      fail("parameters of more than " + std::to_string(mostParameterBytes) + " bytes are not supported");
  }
  return parameters;
}

void Parser::parseFunctionAttributes(Function &function) {
  auto dimensions = [&] {
    uint64_t product = expectInteger();
    while (accept(","))
      product *= expectInteger();
    return static_cast<uint32_t>(product);
  };
  while (!peek().is("{") && !peek().is(";")) {
    if (accept(".reqntid"))
      function.requiredThreads = dimensions();
    else if (accept(".maxntid"))
      function.maxThreads = dimensions();
    else if (accept(".minnctapersm") || accept(".maxnreg"))
      expectInteger();
    else if (accept(".pragma")) {
      next();
      expect(";");
    } else if (!accept(".noreturn"))
      fail("'" + std::string(peek().text) + "' is not known at a function");
  }
}

Function &Parser::declareFunction(const std::string &name) {
  auto [found, isNew] = program->functionIndex.try_emplace(name, static_cast<uint32_t>(program->functions.size()));
  if (isNew)
    program->functions.emplace_back().name = name;
  return program->functions[found->second];
}

void Parser::parseFunction(bool entry) {
  std::vector<Declaration> results, parameters;
  if (!entry && peek().is("("))
    results = parseParameterList();
  std::string name(expectWord());
  if (peek().is("("))
    parameters = parseParameterList();
  Function &function = declareFunction(name);
  if (function.defined)
    fail("function '" + name + "' is defined twice");
  parseFunctionAttributes(function);
  uint32_t bytes = 0;
  for (const Declaration &parameter : parameters)
    bytes += parameter.bytes();
  uint32_t most = version < versionOfMore ? fewerParameterBytes : mostParameterBytes;
  if (entry && bytes > most)
    fail("entry '" + name + "' expects parameters of at most " + std::to_string(most) + " bytes, got " +
         std::to_string(bytes));
  function.entry = entry;
  function.parameterBytes = 0;
  auto place = [&](const std::vector<Declaration> &declarations, std::vector<Parameter> &into) {
    into.clear();
    for (const Declaration &declaration : declarations) {
      into.push_back({function.parameterBytes, declaration.bytes()});
      function.parameterBytes += (declaration.bytes() + 15) / 16 * 16;
    }
  };
  place(parameters, function.parameters);
  place(results, function.results);
  if (accept(";"))
    return;
  function.defined = true;
  parseBody(function, parameters, results);
}

void Parser::parseBody(Function &function, const std::vector<Declaration> &parameters,
                       const std::vector<Declaration> &results) {
  FunctionBuilder body(*program, function);
  builder = &body;
  body.openScope();
  for (const auto &[name, symbol] : moduleSymbols)
    body.declare(name, symbol, peek().line);
  body.openScope();
  for (size_t i = 0; i != parameters.size(); ++i)
    body.declare(parameters[i].name,
                 {Symbol::Param, parameters[i].type, function.parameters[i].offset, function.parameters[i].bytes},
                 peek().line);
  for (size_t i = 0; i != results.size(); ++i)
    body.declare(results[i].name,
                 {Symbol::Param, results[i].type, function.results[i].offset, function.results[i].bytes}, peek().line);
  expect("{");
  parseStatements();
  body.finish(peek().line);
  builder = nullptr;
}

std::variant<Module, std::string> Module::parse(std::string_view ptx) {
  try {
    return Module(Parser(ptx).parseModule());
  } catch (const ParseFailure &failure) {
    return "line " + std::to_string(failure.line) + ": " + failure.what();
  }
}

std::vector<std::string> Module::entries() const {
  std::vector<std::string> names;
  for (const Function &function : shared->functions)
    if (function.entry && function.defined)
      names.push_back(function.name);
  return names;
}

std::vector<size_t> Module::parameterSizes(std::string_view entry) const {
  std::vector<size_t> sizes;
  for (const Function &function : shared->functions)
    if (function.entry && function.defined && function.name == entry)
      for (const Parameter &parameter : function.parameters)
        sizes.push_back(parameter.bytes);
  return sizes;
}

void Launch::setArguments(const std::vector<size_t> &sizes, void *const *values) {
  arguments.assign(sizes.size(), 0);
  for (size_t i = 0; i != sizes.size(); ++i)
    std::memcpy(&arguments[i], values[i], std::min(sizes[i], sizeof(uint64_t)));
}

} // namespace cleave::ptx
