// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the bytes of a plan's file parameters come from: the plan's folder, or whatever the caller has in memory.

#ifndef CLEAVE_RUNTIME_PARAMETERSOURCE_H
#define CLEAVE_RUNTIME_PARAMETERSOURCE_H

#include "runtime/Plan.h"

#include <map>
#include <mutex>
#include <optional>
#include <tuple>

namespace cleave::runtime {

/// Gives the bytes of file sources. Thread-safe: devices load their parameters at the same time.
class ParameterSource {
public:
  virtual ~ParameterSource() = default;
  /// Exactly `source.bytes` bytes, which stay valid as long as this object.
  virtual Expected<std::span<const std::byte>> bytes(const FileSource &source) = 0;
  /// The whole of a parameter, as its type says, where it begins with another value than the plan's source has; else
  /// nothing. Stays valid as long as this object.
  virtual std::optional<std::span<const std::byte>> value(const Parameter &) { return std::nullopt; }
};

/// Other first values for some parameters, whatever their source: those from which a run goes on. Fill it before use.
class ValueSource : public ParameterSource {
public:
  /// `others` gives everything else.
  explicit ValueSource(ParameterSource &others) : others(others) {}
  /// `bytes` must be as many as the parameter's type needs, and outlive this object.
  void add(std::string parameter, std::span<const std::byte> bytes) { values[std::move(parameter)] = bytes; }
  Expected<std::span<const std::byte>> bytes(const FileSource &source) override { return others.bytes(source); }
  std::optional<std::span<const std::byte>> value(const Parameter &parameter) override;

private:
  ParameterSource &others;
  std::map<std::string, std::span<const std::byte>> values;
};

/// Maps files below one folder. Refuses absolute paths, `..` and links that leave the folder, and bytes of which the
/// plan has another checksum (Status::Rejected).
class FolderSource : public ParameterSource {
public:
  explicit FolderSource(std::filesystem::path folder);
  ~FolderSource() override;
  Expected<std::span<const std::byte>> bytes(const FileSource &source) override;

private:
  struct File;
  struct Check;
  Expected<std::span<const std::byte>> mapped(const std::string &file);
  /// Compares the checksum, once for all who ask; those of other parameters do not wait.
  Error check(const FileSource &source, std::span<const std::byte> bytes);

  std::filesystem::path folder;
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<File>> files;
  std::map<std::tuple<std::string, uint64_t, uint64_t>, std::unique_ptr<Check>> checks;
};

/// Files that are in memory, by the name that the plan gives them. Fill it before use.
class MemorySource : public ParameterSource {
public:
  /// `bytes` must outlive this object.
  void add(std::string file, std::span<const std::byte> bytes);
  Expected<std::span<const std::byte>> bytes(const FileSource &source) override;

private:
  std::map<std::string, std::span<const std::byte>> files;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PARAMETERSOURCE_H
