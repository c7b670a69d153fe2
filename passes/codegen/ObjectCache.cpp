// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file an object: a checksum, then the object.

#include "passes/codegen/ObjectCache.h"

#include "passes/cost/HostCache.h"
#include "runtime/FileWriter.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <unistd.h>

using namespace llvm;

namespace cleave {

namespace {

using Checksum = BLAKE3Result<>;

Checksum checksumOf(StringRef bytes) { return BLAKE3::hash(arrayRefFromStringRef(bytes)); }

std::string nameOf(StringRef bytes) { return toHex(ArrayRef(checksumOf(bytes)).take_front(16), /*LowerCase=*/true); }

/// This program, whose optimizer and code generator make the objects: another build has objects of its own.
const std::string &thisProgram() {
  static const std::string text = [] {
    std::string made = LLVM_VERSION_STRING;
    sys::fs::file_status status;
    if (!sys::fs::status("/proc/self/exe", status)) {
      sys::fs::UniqueID id = status.getUniqueID();
      for (uint64_t number : {id.getDevice(), id.getFile(), status.getSize(),
                              static_cast<uint64_t>(status.getLastModificationTime().time_since_epoch().count())})
        made += "," + std::to_string(number);
    }
    return made;
  }();
  return text;
}

} // namespace

std::string contentName(const Module &module) {
  SmallVector<char, 0> bitcode;
  raw_svector_ostream stream(bitcode);
  WriteBitcodeToFile(module, stream);
  return nameOf(toStringRef(bitcode));
}

ObjectCache ObjectCache::ofUser() {
  if (const char *named = std::getenv("CLEAVE_KERNEL_CACHE"))
    return ObjectCache(StringRef(named) == "off" ? "" : named);
  std::string user = cacheFolder();
  return ObjectCache(user.empty() ? "" : user + "/kernels");
}

ObjectCache::ObjectCache(StringRef folder) {
  if (folder.empty() || sys::fs::create_directories(folder, /*IgnoreExisting=*/true, sys::fs::owner_all))
    return;
  sys::fs::file_status status;
  if (sys::fs::status(folder, status) || status.getUser() != geteuid() ||
      (status.permissions() & (sys::fs::group_write | sys::fs::others_write)))
    return;
  this->folder = folder.str();
}

// As pruneCache expects its files' names.
std::string ObjectCache::pathOf(StringRef content) const {
  return folder + "/llvmcache-" + nameOf(thisProgram() + content.str());
}

std::optional<SmallVector<char, 0>> ObjectCache::find(StringRef content) const {
  if (folder.empty())
    return std::nullopt;
  Expected<sys::fs::file_t> file = sys::fs::openNativeFileForRead(pathOf(content), sys::fs::OF_UpdateAtime);
  if (!file) {
    consumeError(file.takeError());
    return std::nullopt;
  }
  auto buffer = MemoryBuffer::getOpenFile(*file, content, /*FileSize=*/-1, /*RequiresNullTerminator=*/false);
  sys::fs::closeFile(*file);
  constexpr size_t front = std::tuple_size_v<Checksum>;
  if (!buffer || (*buffer)->getBufferSize() < front)
    return std::nullopt;
  StringRef bytes = (*buffer)->getBuffer();
  if (toStringRef(checksumOf(bytes.drop_front(front))) != bytes.take_front(front))
    return std::nullopt;
  return SmallVector<char, 0>(bytes.begin() + front, bytes.end());
}

// Others may keep the same at once: the last one's file stays, with the same bytes.
void ObjectCache::keep(StringRef content, ArrayRef<char> object) const {
  if (folder.empty())
    return;
  auto writer = runtime::FileWriter::create(pathOf(content));
  if (!writer)
    return;
  StringRef bytes(object.data(), object.size());
  writer->write(toStringRef(checksumOf(bytes)));
  writer->write(bytes);
  (void)writer->commit();
}

void ObjectCache::prune() const {
  if (folder.empty())
    return;
  CachePruningPolicy policy;
  policy.Interval = std::chrono::hours(1);
  policy.Expiration = std::chrono::hours(30 * 24);
  policy.MaxSizeBytes = uint64_t(1) << 30;
  pruneCache(folder, policy);
}

} // namespace cleave
