// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads YAML into values with positions.

#include "passes/cost/YamlValue.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace cleave {

char FileError::ID = 0;

void FileError::log(raw_ostream &stream) const {
  if (position.line)
    stream << position.file << ':' << position.line << ':' << position.column << ": ";
  else if (!position.file.empty())
    stream << position.file << ": ";
  stream << message;
}

//===-- values ------------------------------------------------------------------------------------------------===//

const YamlValue *YamlValue::find(StringRef key) const {
  for (auto &[name, value] : entries)
    if (name.text == key)
      return &value;
  return nullptr;
}

Error YamlValue::error(const Twine &message) const { return make_error<FileError>(position, message.str()); }

Error YamlValue::expect(Kind expected, StringRef subject) const {
  static constexpr StringRef names[] = {"nothing", "a text", "a list", "a map"};
  if (kind == expected)
    return Error::success();
  return error(subject + " expects " + names[static_cast<unsigned>(expected)] + ", got " +
               names[static_cast<unsigned>(kind)]);
}

Error YamlValue::expectKeys(ArrayRef<StringRef> known, StringRef subject) const {
  for (auto &[name, value] : entries)
    if (!is_contained(known, name.text))
      return name.error(subject + " expects the keys " + join(known, ", ") + "; got \"" + name.text + "\"");
  return Error::success();
}

//===-- reading -----------------------------------------------------------------------------------------------===//

namespace {

/// Walks the parser's nodes, which can be visited only once and in order.
class YamlReader {
public:
  YamlReader(StringRef text, StringRef file) : file(file), stream(text, sources, /*ShowColors=*/false) {
    sources.setDiagHandler(
        [](const SMDiagnostic &diagnostic, void *self) { static_cast<YamlReader *>(self)->note(diagnostic); }, this);
  }

  Expected<YamlValue> read() {
    YamlValue root;
    root.position = {file, 1, 1};
    auto document = stream.begin();
    if (document != stream.end()) {
      Error failure = convert(document->getRoot(), root, 0);
      if (Error syntax = syntaxError()) {
        consumeError(std::move(failure));
        return syntax;
      }
      if (failure)
        return failure;
      if (++document != stream.end() && document->getRoot() && !isa<yaml::NullNode>(document->getRoot())) {
        // Another one may be no YAML, and have no place then.
        if (Error syntax = syntaxError())
          return syntax;
        return make_error<FileError>(positionOf(*document->getRoot()), "expects one YAML document, got another");
      }
    }
    if (Error syntax = syntaxError())
      return syntax;
    return root;
  }

private:
  static constexpr unsigned deepestNesting = 64;

  std::string file;
  SourceMgr sources;
  yaml::Stream stream;
  std::string firstMessage;
  FilePosition firstPosition;

  /// The parser reports one mistake several times: the first counts.
  void note(const SMDiagnostic &diagnostic) {
    if (!firstMessage.empty())
      return;
    firstMessage = "is not valid YAML: " + diagnostic.getMessage().lower();
    firstPosition = {file, static_cast<unsigned>(std::max(diagnostic.getLineNo(), 0)),
                     static_cast<unsigned>(diagnostic.getColumnNo() + 1)};
  }

  Error syntaxError() {
    if (!stream.failed() && firstMessage.empty())
      return Error::success();
    if (firstMessage.empty())
      return make_error<FileError>(FilePosition{file}, "is not valid YAML");
    return make_error<FileError>(firstPosition, firstMessage);
  }

  FilePosition positionOf(const yaml::Node &node) {
    SMLoc start = node.getSourceRange().Start;
    if (!start.isValid() || !sources.FindBufferContainingLoc(start))
      return {file};
    // The parser lets a list or map in brackets begin behind its bracket.
    if (isa<yaml::SequenceNode, yaml::MappingNode>(node)) {
      const char *begin = sources.getMemoryBuffer(sources.FindBufferContainingLoc(start))->getBufferStart();
      const char *bracket = start.getPointer();
      while (bracket > begin && isSpace(bracket[-1]))
        --bracket;
      if (bracket > begin && (bracket[-1] == '[' || bracket[-1] == '{'))
        start = SMLoc::getFromPointer(bracket - 1);
    }
    auto [line, column] = sources.getLineAndColumn(start);
    return {file, line, column};
  }

  Error convert(yaml::Node *node, YamlValue &value, unsigned depth) {
    if (!node || stream.failed())
      return Error::success();
    if (!isa<yaml::NullNode>(node))
      value.position = positionOf(*node);
    if (depth > deepestNesting)
      return value.error("expects lists and maps nested at most " + Twine(deepestNesting) + " deep");
    if (!node->getAnchor().empty() || !node->getRawTag().empty() || isa<yaml::AliasNode>(node))
      return value.error("expects no YAML anchors, aliases or tags");
    SmallString<64> storage;
    if (auto *scalar = dyn_cast<yaml::ScalarNode>(node)) {
      value.kind = YamlValue::Kind::Text;
      value.text = scalar->getValue(storage).str();
    } else if (auto *block = dyn_cast<yaml::BlockScalarNode>(node)) {
      value.kind = YamlValue::Kind::Text;
      value.text = block->getValue().str();
    } else if (auto *list = dyn_cast<yaml::SequenceNode>(node)) {
      value.kind = YamlValue::Kind::List;
      for (yaml::Node &item : *list)
        if (Error failure = convert(&item, value.items.emplace_back(), depth + 1))
          return failure;
    } else if (auto *map = dyn_cast<yaml::MappingNode>(node)) {
      value.kind = YamlValue::Kind::Map;
      for (yaml::KeyValueNode &entry : *map)
        if (Error failure = convertEntry(entry, value, depth + 1))
          return failure;
    }
    return Error::success();
  }

  Error convertEntry(yaml::KeyValueNode &entry, YamlValue &map, unsigned depth) {
    YamlValue key, value;
    key.position = map.position;
    if (Error failure = convert(entry.getKey(), key, depth))
      return failure;
    if (stream.failed())
      return Error::success();
    if (Error failure = key.expect(YamlValue::Kind::Text, "a key"))
      return failure;
    if (map.find(key.text))
      return key.error("expects each key once, got \"" + key.text + "\" again");
    value.position = key.position;
    if (Error failure = convert(entry.getValue(), value, depth))
      return failure;
    map.entries.push_back({std::move(key), std::move(value)});
    return Error::success();
  }
};

} // namespace

Expected<YamlValue> parseYaml(StringRef text, StringRef file) { return YamlReader(text, file).read(); }

Expected<std::string> readTextFile(StringRef path) {
  constexpr uint64_t largest = uint64_t(64) << 20;
  auto fail = [&](const Twine &why) { return make_error<FileError>(FilePosition{path.str()}, why.str()); };
  sys::fs::file_status status;
  if (std::error_code code = sys::fs::status(path, status))
    return fail("cannot be read: " + code.message());
  if (status.type() == sys::fs::file_type::directory_file)
    return fail("expects a file, got a folder");
  if (status.getSize() > largest)
    return fail("expects a file of at most 64 MiB, got " + Twine(status.getSize()) + " bytes");
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return fail("cannot be read: " + buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

} // namespace cleave
