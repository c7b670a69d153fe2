// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Balances parameters by bytes; operators follow the parameters that they are for.

#include "passes/train/KeeperShards.h"

#include "passes/train/Evaluation.h"

#include "dialects/dfg/PortAttributes.h"
#include "dialects/dist/Dist.h"

#include <numeric>

using namespace mlir;

namespace cleave {

std::vector<unsigned> balanceShards(ArrayRef<uint64_t> bytes, unsigned shards) {
  std::vector<size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), size_t(0));
  llvm::stable_sort(order, [&](size_t left, size_t right) { return bytes[left] > bytes[right]; });
  std::vector<uint64_t> loads(shards);
  std::vector<unsigned> shardOf(bytes.size());
  for (size_t index : order) {
    auto least = llvm::min_element(loads);
    *least += bytes[index];
    shardOf[index] = static_cast<unsigned>(least - loads.begin());
  }
  return shardOf;
}

static uint64_t elementsOf(Value value) {
  return static_cast<uint64_t>(cast<RankedTensorType>(value.getType()).getNumElements());
}

/// A mesh of one device, with a name that the module does not have yet.
static FlatSymbolRefAttr addMesh(ModuleOp module, unsigned shard, int64_t device) {
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  std::string name = "keeper" + std::to_string(shard);
  while (module.lookupSymbol(name))
    name += "_";
  dist::MeshOp::create(builder, module.getLoc(), name, builder.getArrayAttr({}), ArrayRef<int64_t>(),
                       ArrayRef<int64_t>(device), DictionaryAttr());
  return FlatSymbolRefAttr::get(module.getContext(), name);
}

namespace {

/// Which shard each operator of the graph is for.
class Shards {
public:
  Shards(ArrayRef<TrainedParameter> trained, unsigned count) {
    std::vector<uint64_t> bytes;
    for (const TrainedParameter &parameter : trained) {
      auto type = cast<RankedTensorType>(parameter.gradient.getType());
      bytes.push_back(elementsOf(parameter.gradient) * type.getElementTypeBitWidth() / 8);
    }
    for (auto [parameter, shard] : llvm::zip_equal(trained, balanceShards(bytes, count)))
      ofName[parameter.name.getValue()] = shard;
  }

  /// Of a parameter, or of the optimizer's state of it, "fc1.weight/momentum". Nothing for what is no parameter's.
  std::optional<unsigned> find(StringRef name) const {
    for (; !name.empty(); name = name.rsplit('/').first) {
      if (auto found = ofName.find(name); found != ofName.end())
        return found->second;
      if (!name.contains('/'))
        break;
    }
    return std::nullopt;
  }

  /// That of the parameter that it reads or writes, else that of the largest value that it takes.
  unsigned of(Operation &op) {
    std::optional<unsigned> shard;
    if (auto read = dyn_cast<dfg::ReadOp>(op))
      shard = find(read.getParameter());
    else if (auto write = dyn_cast<dfg::WriteOp>(op))
      shard = find(write.getParameter());
    else
      shard = ofLargest(op.getOperands());
    for (Value result : op.getResults())
      if (shard)
        ofValue[result] = *shard;
    return shard.value_or(0);
  }

  void set(Value value, unsigned shard) { ofValue[value] = shard; }

private:
  std::optional<unsigned> ofLargest(OperandRange operands) const {
    std::optional<unsigned> shard;
    uint64_t most = 0;
    for (Value operand : operands)
      if (auto known = ofValue.find(operand); known != ofValue.end() && elementsOf(operand) > most) {
        most = elementsOf(operand);
        shard = known->second;
      }
    return shard;
  }

  llvm::StringMap<unsigned> ofName;
  llvm::DenseMap<Value, unsigned> ofValue;
};

} // namespace

void shardKeeper(dfg::GraphOp apply, dfg::GraphOp evaluation, ArrayRef<TrainedParameter> trained,
                 ArrayRef<int64_t> devices) {
  auto module = apply->getParentOfType<ModuleOp>();
  Shards shards(trained, static_cast<unsigned>(devices.size()));
  SmallVector<FlatSymbolRefAttr> meshes;
  for (auto [shard, device] : llvm::enumerate(devices))
    meshes.push_back(addMesh(module, static_cast<unsigned>(shard), device));
  auto by = StringAttr::get(apply.getContext(), "keeper");
  Block &body = apply.getBody().front();
  for (BlockArgument argument : body.getArguments())
    if (auto name = apply.getArgAttrOfType<StringAttr>(argument.getArgNumber(), dfg::versionAttrName))
      if (auto shard = shards.find(name.getValue()))
        shards.set(argument, *shard);
  for (Operation &op : body.without_terminator()) {
    unsigned shard = shards.of(op);
    if (dist::getPlace(&op))
      op.setAttr(dist::placeAttrName, dist::PlaceAttr::get(apply.getContext(), meshes[shard], by, dist::SplitAttr()));
  }
  shareParameters(evaluation, apply);
}

} // namespace cleave
