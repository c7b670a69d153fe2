// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collects parameters' bytes, finds them again, and writes them to a weights file.

#include "passes/import/WeightsStore.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace mlir;

namespace cleave {

static constexpr uint64_t alignment = 64;

WeightsStore::Place WeightsStore::add(const HostTensor &tensor) {
  uint64_t offset = (size + alignment - 1) / alignment * alignment;
  tensors.push_back({offset, tensor});
  size = offset + static_cast<uint64_t>(tensor.getNumBytes());
  return {fileName, offset};
}

void WeightsStore::addFile(StringRef path, MappedBytes bytes) { files.insert_or_assign(path.str(), std::move(bytes)); }

const char *WeightsStore::find(StringRef path, uint64_t offset, uint64_t bytes) const {
  if (auto file = files.find(path.str()); file != files.end()) {
    const MappedBytes &mapped = file->second;
    return offset <= mapped.size && bytes <= mapped.size - offset ? mapped.data + offset : nullptr;
  }
  if (path != fileName)
    return nullptr;
  auto next = std::upper_bound(tensors.begin(), tensors.end(), offset,
                               [](uint64_t value, const Entry &entry) { return value < entry.offset; });
  if (next == tensors.begin())
    return nullptr;
  const Entry &entry = *std::prev(next);
  uint64_t within = offset - entry.offset, length = static_cast<uint64_t>(entry.tensor.getNumBytes());
  return within <= length && bytes <= length - within ? entry.tensor.data() + within : nullptr;
}

llvm::Error WeightsStore::write(StringRef path) const {
  auto temporary =
      llvm::sys::fs::TempFile::create(path + ".%%%%%%.tmp", llvm::sys::fs::all_read | llvm::sys::fs::owner_write);
  if (!temporary)
    return llvm::createStringError("cannot write the weights file \"%s\": %s", path.str().c_str(),
                                   toString(temporary.takeError()).c_str());
  llvm::raw_fd_ostream stream(temporary->FD, /*shouldClose=*/false);
  uint64_t position = 0;
  for (const Entry &entry : tensors) {
    stream.write_zeros(entry.offset - position);
    stream.write(entry.tensor.data(), entry.tensor.getNumBytes());
    position = entry.offset + static_cast<uint64_t>(entry.tensor.getNumBytes());
  }
  stream.flush();
  if (stream.has_error()) {
    auto error = llvm::createStringError(stream.error(), "cannot write the weights file \"%s\": %s", path.str().c_str(),
                                         stream.error().message().c_str());
    stream.clear_error();
    return llvm::joinErrors(std::move(error), temporary->discard());
  }
  if (llvm::Error error = temporary->keep(path))
    return llvm::createStringError("cannot write the weights file \"%s\": %s", path.str().c_str(),
                                   toString(std::move(error)).c_str());
  return llvm::Error::success();
}

} // namespace cleave
