// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Links relocatable objects into one shared object.

#ifndef CLEAVE_PASSES_CODEGEN_LINKOBJECT_H
#define CLEAVE_PASSES_CODEGEN_LINKOBJECT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace cleave {

/// The objects as one ELF shared object. Symbols that none of them defines (libm, memcpy) stay open and bind to the
/// process that loads it. The bytes depend on the objects and their order alone.
llvm::Expected<std::vector<char>> linkSharedObject(llvm::ArrayRef<llvm::SmallVector<char, 0>> objects);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_LINKOBJECT_H
