// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave vocabulary`: the tokens of a text, for training on it.

#include "runtime/training/Vocabulary.h"

#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/Diagnostics.h"
#include "tools/cleave/OutputFile.h"

#include "llvm/Support/MemoryBuffer.h"

#include <CLI/CLI.hpp>

namespace cleave::tool {
namespace {

struct VocabularyOptions {
  std::string text, tokens = "words", output = "-", json;
  uint64_t size = 0;
};

/// `made`: a token a line.
void writeTokens(JsonStream &json, const VocabularyOptions &options, llvm::StringRef made) {
  llvm::SmallVector<llvm::StringRef> tokens;
  made.split(tokens, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  json.attribute("kind", options.tokens);
  json.attribute("size", tokens.size());
  json.attributeArray("tokens", [&] {
    for (llvm::StringRef token : tokens)
      json.value(llvm::json::isUTF8(token) ? token.str() : llvm::json::fixUTF8(token));
  });
}

Error writeVocabulary(const VocabularyOptions &options) {
  if (options.size != 0 && options.size < 3)
    return makeError(Status::Usage, "--size expects 0 or at least 3, for <eos>, <unk> and a token of the text, got ",
                     options.size);
  auto text = llvm::MemoryBuffer::getFile(options.text);
  if (!text)
    return makeError(Status::Failure, "cannot read \"", options.text, "\": ", text.getError().message());
  llvm::StringRef bytes = (*text)->getBuffer();
  auto made =
      runtime::Vocabulary::make({bytes.data(), bytes.size()}, *runtime::findTokenKind(options.tokens), options.size);
  if (!made)
    return Error(made.error().status(), "\"" + options.text + "\": " + made.error().message());
  if (!options.json.empty()) {
    auto write = [&](JsonStream &json) { writeTokens(json, options, *made); };
    if (Error error = writeJson(options.json, write); error || (options.json == "-" && options.output == "-"))
      return error;
  }
  return writeBinary(options.output, [&](llvm::raw_ostream &out) { out << *made; });
}

} // namespace

void addVocabularyCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<VocabularyOptions>();
  CLI::App *command = app.add_subcommand("vocabulary", "Lists the tokens of a text, for cleave train --vocabulary.");
  command->add_option("TEXT", options->text, "a text in UTF-8, a sequence a line")->required();
  command->add_option("--tokens", options->tokens, "what a token is")
      ->check(CLI::IsMember({"words", "characters"}))
      ->capture_default_str();
  command
      ->add_option("--size", options->size,
                   "at most so many, the most frequent; all others are <unk>; 0: all that there are")
      ->type_name("N")
      ->capture_default_str();
  addOutputOption(*command, "-o,--output", options->output, "the vocabulary, a token a line")->capture_default_str();
  addOutputOption(*command, "--json", options->json, "also write the tokens as JSON");
  command->callback([options, &chosen] { chosen = [options] { return report(writeVocabulary(*options)); }; });
}

} // namespace cleave::tool
