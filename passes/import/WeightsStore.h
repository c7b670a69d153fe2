// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the bytes of parameters are: collected in memory until a weights file is written, or in files beside the model
// that are mapped and stay where they are.

#ifndef CLEAVE_PASSES_IMPORT_WEIGHTSSTORE_H
#define CLEAVE_PASSES_IMPORT_WEIGHTSSTORE_H

#include "dialects/interfaces/HostTensor.h"

#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cleave {

/// A file in memory, mapped and not read.
struct MappedBytes {
  const char *data = nullptr;
  uint64_t size = 0;
  std::shared_ptr<const void> owner;
};

/// Maps a regular file. With `folder`, `path` must be a relative path inside it that does not leave it by `..` or by a
/// symbolic link, and whose file has no second name (hard link): what a model may refer to.
llvm::Expected<MappedBytes> mapFile(llvm::StringRef path);
llvm::Expected<MappedBytes> mapFileInside(llvm::StringRef folder, llvm::StringRef path);

/// The parameters' bytes, found by what `#dfg.file<"path", offset = n>` says.
class WeightsStore {
public:
  /// Tensors added from memory belong to the weights file `fileName`, a path relative to the module's folder.
  explicit WeightsStore(std::string fileName = "model.weights") : fileName(std::move(fileName)) {}

  struct Place {
    std::string path;
    uint64_t offset = 0;
  };

  /// Gives a tensor a place in the weights file, aligned to 64 bytes. The bytes are kept, not copied.
  Place add(const HostTensor &tensor);

  /// Makes a mapped file known under the path by which parameters refer to it.
  void addFile(llvm::StringRef path, MappedBytes bytes);

  /// The `bytes` bytes at an offset of a file; null where the store does not have them.
  const char *find(llvm::StringRef path, uint64_t offset, uint64_t bytes) const;

  /// Whether there is anything to write.
  bool isEmpty() const { return tensors.empty(); }
  const std::string &getFileName() const { return fileName; }
  /// Bytes of the weights file.
  uint64_t getNumBytes() const { return size; }

  /// Writes the weights file to `path`, through a temporary file that is renamed at the end.
  llvm::Error write(llvm::StringRef path) const;

private:
  struct Entry {
    uint64_t offset;
    HostTensor tensor;
  };

  std::string fileName;
  std::vector<Entry> tensors; // sorted by offset
  uint64_t size = 0;
  std::map<std::string, MappedBytes, std::less<>> files;
};

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_WEIGHTSSTORE_H
