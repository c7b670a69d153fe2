// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks fused locations. The name inside a node's location is its kind, not another node.

#include "passes/schedule/NodeNames.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace cleave {

SmallVector<StringRef> getNodeNames(Location location) {
  SmallVector<StringRef> names;
  SmallVector<Location> stack = {location};
  while (!stack.empty()) {
    Location next = stack.pop_back_val();
    if (auto fused = dyn_cast<FusedLoc>(next)) {
      llvm::append_range(stack, llvm::reverse(fused.getLocations()));
      continue;
    }
    auto name = next->findInstanceOf<NameLoc>();
    if (name && !llvm::is_contained(names, name.getName().getValue()))
      names.push_back(name.getName());
  }
  return names;
}

} // namespace cleave
