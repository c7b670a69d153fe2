// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How commands write JSON.

#ifndef CLEAVE_TOOLS_CLEAVE_JSONSTREAM_H
#define CLEAVE_TOOLS_CLEAVE_JSONSTREAM_H

#include "llvm/Support/JSON.h"

namespace cleave::tool {

/// LLVM's writer, which prints "nan" and "inf" as they are; JSON has no such numbers, and here they are null
/// (runtime/Json.h does the same).
class JsonStream : public llvm::json::OStream {
public:
  using llvm::json::OStream::OStream;

  void value(const llvm::json::Value &contents);
  void attribute(llvm::StringRef key, const llvm::json::Value &contents);
};

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_JSONSTREAM_H
