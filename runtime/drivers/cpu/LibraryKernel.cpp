// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of kernel libraries in this build.

#include "runtime/drivers/cpu/LibraryKernel.h"

#ifdef CLEAVE_ONEDNN
#include "runtime/drivers/cpu/OneDnn.h"
#endif

namespace cleave::runtime {

LibraryProvider *findLibraryProvider([[maybe_unused]] std::string_view library) {
#ifdef CLEAVE_ONEDNN
  if (library == "onednn") {
    static const std::unique_ptr<LibraryProvider> provider = createOneDnnProvider();
    return provider.get();
  }
#endif
  return nullptr;
}

Error limitLibraries([[maybe_unused]] const std::vector<std::string> &features) {
#ifdef CLEAVE_ONEDNN
  return limitOneDnn(features);
#else
  return Error::success();
#endif
}

} // namespace cleave::runtime
