// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Objects of kernels that were compiled before, in the user's cache, so that a plan that changes in part is compiled in
// part. Only what LLVM makes of its intermediate code is kept: everything before is done anew.

#ifndef CLEAVE_PASSES_CODEGEN_OBJECTCACHE_H
#define CLEAVE_PASSES_CODEGEN_OBJECTCACHE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace llvm {
class Module;
}

namespace cleave {

/// A name for what a module says: 32 hexadecimal digits, which modules of other instructions, attributes or symbols do
/// not share, the same in every program.
std::string contentName(const llvm::Module &module);

/// Files of objects by content. Several threads and processes may use one at once. Whatever fails, a folder that cannot
/// be written, a full disk, a damaged file, only means that objects are compiled again.
class ObjectCache {
public:
  /// The folder that $CLEAVE_KERNEL_CACHE names, or nothing where it is "off"; without it the folder "kernels" of the
  /// user's cache.
  static ObjectCache ofUser();

  /// Keeps nothing where `folder` is empty, or is another user's, or others may write to it: what is found here runs.
  explicit ObjectCache(llvm::StringRef folder);

  std::optional<llvm::SmallVector<char, 0>> find(llvm::StringRef content) const;
  void keep(llvm::StringRef content, llvm::ArrayRef<char> object) const;
  /// Removes what was not used for a month, and the oldest objects beyond 1 GiB; looks once an hour at most.
  void prune() const;

private:
  std::string pathOf(llvm::StringRef content) const;

  std::string folder;
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_OBJECTCACHE_H
