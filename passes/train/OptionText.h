// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Options of training as text on the command line: KEY=VALUE items between commas.

#ifndef CLEAVE_PASSES_TRAIN_OPTIONTEXT_H
#define CLEAVE_PASSES_TRAIN_OPTIONTEXT_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace cleave {

struct TextOption {
  llvm::StringRef key, value;
};

/// The items of a list, each key once; none where the text is empty. `subject` begins the message.
llvm::Expected<llvm::SmallVector<TextOption>> splitOptions(llvm::StringRef text, llvm::StringRef subject);

/// A finite number of `low` at least, and less than `high`. The error begins with `subject` and names the key.
llvm::Expected<double> parseNumber(llvm::StringRef text, llvm::StringRef subject, llvm::StringRef key, double low,
                                   double high);

/// A whole number of `low` at least.
llvm::Expected<int64_t> parseWhole(llvm::StringRef text, llvm::StringRef subject, llvm::StringRef key, int64_t low);

/// "a, b or c".
std::string alternatives(llvm::ArrayRef<llvm::StringRef> words);

llvm::Error optionError(const llvm::Twine &message);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_OPTIONTEXT_H
