// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One pass over the program, in which every value knows how many of the operators it depends on in sequence.

#include "passes/codegen/SequentialReads.h"

#include "dialects/interfaces/Interfaces.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace cleave {

bool SequentialReads::areMany(OpOperand &operand, unsigned many) {
  auto viewOf = [&](OpOperand &use) -> Type {
    auto library = dyn_cast<LibraryInterface>(use.getOwner());
    auto call = library ? library.getLibraryCall() : FailureOr<LibraryCall>(failure());
    if (failed(call))
      return nullptr;
    Type view = call->views[use.getOperandNumber()];
    return view ? view : use.get().getType();
  };
  Value matrix = operand.get();
  Type view = viewOf(operand);
  auto [entry, isNew] = known.try_emplace({matrix, view}, false);
  if (!isNew)
    return entry->second;
  llvm::SmallPtrSet<Operation *, 16> readers;
  for (OpOperand &use : matrix.getUses())
    if (viewOf(use) == view)
      readers.insert(use.getOwner());
  if (readers.size() < many)
    return false;
  llvm::DenseMap<Value, unsigned> lengths;
  for (Operation &op : *operand.getOwner()->getBlock()) {
    unsigned length = readers.contains(&op);
    unsigned before = 0;
    for (Value value : op.getOperands())
      before = std::max(before, lengths.lookup(value));
    if ((length += before) == 0)
      continue;
    if (length >= many)
      return entry->second = true;
    for (Value result : op.getResults())
      lengths[result] = length;
  }
  return false;
}

} // namespace cleave
