// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// lld holds a link-time optimizer that registers Polly, which LLVM's archives lack: a plugin that adds nothing. Cleave
// links compiled objects, so the optimizer never runs.

#include "llvm/Plugins/PassPlugin.h"

llvm::PassPluginLibraryInfo getPollyPluginInfo();

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "Polly", "", [](llvm::PassBuilder &) {}};
}
