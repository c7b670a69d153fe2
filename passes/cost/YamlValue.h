// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A YAML file as a tree of values that know where they stand, so that every error names a line and a column.

#ifndef CLEAVE_PASSES_COST_YAMLVALUE_H
#define CLEAVE_PASSES_COST_YAMLVALUE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <utility>
#include <vector>

namespace cleave {

/// A place in a text file; lines and columns count from 1, and 0 means that there is none.
struct FilePosition {
  std::string file;
  unsigned line = 0, column = 0;
};

/// What is wrong with a file, and where. Prints as `file:line:column: message`.
class FileError : public llvm::ErrorInfo<FileError> {
public:
  static char ID;

  FileError(FilePosition position, std::string message) : position(std::move(position)), message(std::move(message)) {}

  const FilePosition &getPosition() const { return position; }
  llvm::StringRef getMessage() const { return message; }

  void log(llvm::raw_ostream &stream) const override;
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  FilePosition position;
  std::string message;
};

struct YamlEntry;

/// One value of a YAML file: a text, a list, or a map with its keys in the order of the file.
struct YamlValue {
  enum class Kind { Empty, Text, List, Map };

  Kind kind = Kind::Empty;
  std::string text;
  std::vector<YamlValue> items;
  /// Distinct keys; each is a text.
  std::vector<YamlEntry> entries;
  FilePosition position;

  /// The value of a key; null where the map lacks it, or where this is no map.
  const YamlValue *find(llvm::StringRef key) const;

  /// Fails, naming what was found, unless the value is of that kind. `subject` begins the message.
  llvm::Error expect(Kind expected, llvm::StringRef subject) const;

  /// Fails at the first key of this map that is not in `known`. `subject` begins the message.
  llvm::Error expectKeys(llvm::ArrayRef<llvm::StringRef> known, llvm::StringRef subject) const;

  /// An error at this value's place.
  llvm::Error error(const llvm::Twine &message) const;
};

/// A key of a map and what it leads to.
struct YamlEntry {
  YamlValue key, value;
};

/// Parses a file of one YAML document without anchors, aliases and tags, nested at most 64 deep. `file` is its name in
/// messages.
llvm::Expected<YamlValue> parseYaml(llvm::StringRef text, llvm::StringRef file);

/// Reads a text file of at most 64 MiB. The error names the path and why.
llvm::Expected<std::string> readTextFile(llvm::StringRef path);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_YAMLVALUE_H
