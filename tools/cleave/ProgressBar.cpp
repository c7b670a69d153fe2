// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Draws the bar over itself.

#include "tools/cleave/ProgressBar.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>

namespace cleave::tool {

static constexpr unsigned width = 30;

ProgressBar::ProgressBar(unsigned parts) : parts(std::max(1u, parts)), isShown(llvm::errs().is_displayed()) {}

ProgressBar::~ProgressBar() { clear(); }

/// To the line's beginning, and erases it.
void ProgressBar::clear() {
  if (isShown)
    llvm::errs() << "\r\x1b[K";
}

void ProgressBar::next(const llvm::Twine &part) {
  unsigned done = std::min(begun++, parts);
  if (!isShown)
    return;
  clear();
  unsigned filled = done * width / parts;
  llvm::errs() << '[' << std::string(filled, '#') << std::string(width - filled, ' ') << "] " << done * 100 / parts
               << " % " << part;
  llvm::errs().flush();
}

} // namespace cleave::tool
