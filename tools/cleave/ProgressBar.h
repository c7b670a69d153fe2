// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A progress bar on standard error, where that is a terminal; nothing otherwise.

#ifndef CLEAVE_TOOLS_CLEAVE_PROGRESSBAR_H
#define CLEAVE_TOOLS_CLEAVE_PROGRESSBAR_H

#include "llvm/ADT/Twine.h"

namespace cleave::tool {

/// Of a known number of parts. Removes itself from the terminal when it is destroyed.
class ProgressBar {
public:
  explicit ProgressBar(unsigned parts);
  ~ProgressBar();

  /// Begins the next part.
  void next(const llvm::Twine &part);

private:
  void clear();

  unsigned parts, begun = 0;
  bool isShown;
};

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_PROGRESSBAR_H
