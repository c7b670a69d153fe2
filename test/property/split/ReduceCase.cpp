// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Changes that make a module simpler, tried in turn.

#include "test/property/split/ReduceCase.h"

#include "test/property/split/GraphBuilder.h"
#include "test/property/split/Placements.h"

using namespace mlir;

namespace cleave::test {
namespace {

dfg::GraphOp graphOf(ModuleOp module) { return *module.getOps<dfg::GraphOp>().begin(); }

void updateType(dfg::GraphOp graph) {
  Block &body = graph.getBody().front();
  graph.setFunctionType(
      FunctionType::get(graph.getContext(), body.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
}

/// Takes out what no output needs.
void removeUnused(ModuleOp module) {
  dfg::GraphOp graph = graphOf(module);
  Block &body = graph.getBody().front();
  SmallVector<Operation *> operators;
  for (Operation &op : body.without_terminator())
    operators.push_back(&op);
  for (Operation *op : llvm::reverse(operators))
    if (op->use_empty())
      op->erase();
  llvm::BitVector unused(body.getNumArguments());
  for (BlockArgument argument : body.getArguments())
    unused[argument.getArgNumber()] = argument.use_empty();
  if (unused.any())
    (void)graph.eraseArguments(unused);
  updateType(graph);
  for (auto parameter : llvm::make_early_inc_range(module.getOps<dfg::ParameterOp>()))
    if (SymbolTable::symbolKnownUseEmpty(parameter, module))
      parameter.erase();
  removeUnusedMeshes(module);
}

Operation *nthOperator(ModuleOp module, size_t index) {
  return &*std::next(graphOf(module).getBody().front().begin(), static_cast<ptrdiff_t>(index));
}

/// An input in the operator's place.
bool replaceByInput(ModuleOp module, size_t index) {
  Operation *op = nthOperator(module, index);
  dfg::GraphOp graph = graphOf(module);
  Builder builder(module.getContext());
  Bounds bounds = isa<FloatType>(elementOf(op->getResult(0))) ? Bounds() : Bounds{0, 3};
  Block &body = graph.getBody().front();
  unsigned position = body.getNumArguments();
  DictionaryAttr fill = builder.getDictionaryAttr(
      builder.getNamedAttr(fillAttrName, fillAttr(builder, bounds, static_cast<uint64_t>(index) + 1000)));
  if (failed(graph.insertArgument(position, op->getResult(0).getType(), fill, op->getLoc())))
    return false;
  op->replaceAllUsesWith(ValueRange(body.getArgument(position)));
  op->erase();
  return true;
}

/// The operand, where it has the result's type.
bool replaceByOperand(ModuleOp module, size_t index) {
  Operation *op = nthOperator(module, index);
  for (Value operand : op->getOperands())
    if (operand.getType() == op->getResult(0).getType()) {
      op->replaceAllUsesWith(ValueRange(operand));
      op->erase();
      return true;
    }
  return false;
}

bool removeSplit(ModuleOp module, size_t index) {
  Operation *op = nthOperator(module, index);
  dist::PlaceAttr place = dist::getPlace(op);
  if (!place || !place.getSplit())
    return false;
  op->setAttr(dist::placeAttrName, dist::PlaceAttr::get(op->getContext(), place.getMesh(), place.getBy(), {}));
  return true;
}

/// One factor, or one axis of it, less.
bool removeAxis(ModuleOp module, size_t index, size_t axis) {
  Operation *op = nthOperator(module, index);
  dist::PlaceAttr place = dist::getPlace(op);
  if (!place || !place.getSplit())
    return false;
  Builder builder(op->getContext());
  SmallVector<NamedAttribute> entries;
  bool found = false;
  for (NamedAttribute entry : place.getSplit().getFactors()) {
    SmallVector<Attribute> axes;
    for (Attribute name : cast<ArrayAttr>(entry.getValue())) {
      if (axis-- == 0)
        found = true;
      else
        axes.push_back(name);
    }
    if (!axes.empty())
      entries.push_back(builder.getNamedAttr(entry.getName(), builder.getArrayAttr(axes)));
  }
  if (!found || entries.empty())
    return false;
  auto split = dist::SplitAttr::get(op->getContext(), builder.getDictionaryAttr(entries));
  op->setAttr(dist::placeAttrName, dist::PlaceAttr::get(op->getContext(), place.getMesh(), place.getBy(), split));
  return true;
}

/// All operators of a mesh on another one, undivided.
bool moveMesh(ModuleOp module, size_t from, size_t to) {
  SmallVector<dist::MeshOp> meshes(module.getOps<dist::MeshOp>());
  if (from >= meshes.size() || to >= meshes.size() || from == to)
    return false;
  for (Operation &op : graphOf(module).getBody().front().without_terminator())
    if (dist::PlaceAttr known = dist::getPlace(&op);
        known && known.getMesh().getAttr() == meshes[from].getSymNameAttr())
      place(&op, meshes[to], {});
  return true;
}

class Reducer {
public:
  Reducer(ModuleOp module, llvm::function_ref<bool(ModuleOp)> fails) : current(module.clone()), fails(fails) {}

  OwningOpRef<ModuleOp> run() {
    while (oneOutput() || simplify()) {
    }
    return std::move(current);
  }

private:
  /// Whether the module still fails after the change, which stays then.
  bool attempt(llvm::function_ref<bool(ModuleOp)> change) {
    OwningOpRef<ModuleOp> next = current->clone();
    if (!change(*next))
      return false;
    removeUnused(*next);
    if (!fails(*next))
      return false;
    current = std::move(next);
    return true;
  }

  bool oneOutput() {
    unsigned count = graphOf(*current).getNumResults();
    for (unsigned kept = 0; count > 1 && kept < count; ++kept)
      if (attempt([&](ModuleOp module) {
            Operation *end = graphOf(module).getBody().front().getTerminator();
            end->setOperands(end->getOperand(kept));
            return true;
          }))
        return true;
    for (unsigned dropped = 0; count > 1 && dropped < count; ++dropped)
      if (attempt([&](ModuleOp module) {
            graphOf(module).getBody().front().getTerminator()->eraseOperand(dropped);
            return true;
          }))
        return true;
    return false;
  }

  /// Tries every change on every operator, the last first; whether any of them stays.
  bool simplify() {
    bool changed = false;
    for (size_t index = numOperators(); index-- > 0;) {
      auto change = [&](bool (*how)(ModuleOp, size_t)) {
        bool stays = index < numOperators() && attempt([&](ModuleOp module) { return how(module, index); });
        changed = changed || stays;
        return stays;
      };
      if (change(replaceByInput) || change(replaceByOperand))
        continue;
      change(removeSplit);
      for (size_t axis = 2; axis-- > 0;)
        changed |= index < numOperators() && attempt([&](ModuleOp module) { return removeAxis(module, index, axis); });
    }
    constexpr size_t mostMeshes = 9;
    for (size_t from = 0; from < mostMeshes; ++from)
      for (size_t to = 0; to < from; ++to)
        changed |= attempt([&](ModuleOp module) { return moveMesh(module, from, to); });
    return changed;
  }

  size_t numOperators() {
    Block &body = graphOf(*current).getBody().front();
    return static_cast<size_t>(std::distance(body.begin(), body.end())) - 1;
  }

  OwningOpRef<ModuleOp> current;
  llvm::function_ref<bool(ModuleOp)> fails;
};

} // namespace

OwningOpRef<ModuleOp> reduceCase(ModuleOp module, llvm::function_ref<bool(ModuleOp)> fails) {
  return Reducer(module, fails).run();
}

} // namespace cleave::test
