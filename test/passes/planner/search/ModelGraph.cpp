// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes, imports, simplifies, reads.

#include "ModelGraph.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "passes/graph/Pipeline.h"
#include "passes/import/Import.h"
#include "passes/zoo/ModelBuilder.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"

#include <fstream>
#include <stdexcept>

using namespace mlir;

namespace cleave {

static onnx::ModelProto buildOrThrow(const std::string &name, const std::map<std::string, int64_t> &numbers) {
  ZooOptions options;
  options.numbers = numbers;
  auto model = buildZooModel(name, options);
  if (!model)
    throw std::runtime_error(llvm::toString(model.takeError()));
  return std::move(*model);
}

static Machine parseOrThrow(const std::string &name) {
  auto machine = parseMachine(name);
  if (!machine)
    throw std::runtime_error(llvm::toString(machine.takeError()));
  return std::move(*machine);
}

ModelGraph::ModelGraph(const std::string &name, const std::map<std::string, int64_t> &numbers, double expertCapacity)
    : ModelGraph(buildOrThrow(name, numbers), expertCapacity) {}

ModelGraph::ModelGraph(const onnx::ModelProto &model, double expertCapacity)
    : context(std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED)) {
  llvm::SmallString<128> path;
  if (llvm::sys::fs::createTemporaryFile("search-test", "onnx", path))
    throw std::runtime_error("no temporary file");
  {
    std::ofstream file(path.c_str(), std::ios::binary);
    model.SerializeToOstream(&file);
  }
  WeightsStore weights;
  ImportReport report;
  auto imported = importOnnx(*context, path, ImportOptions(), weights, report);
  llvm::sys::fs::remove(path);
  if (failed(imported))
    throw std::runtime_error("the model does not import");
  module = std::move(*imported);
  read(expertCapacity);
}

ModelGraph::ModelGraph(const std::string &text)
    : context(std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED)) {
  context->loadDialect<dfg::DfgDialect, dist::DistDialect>();
  module = parseSourceString<ModuleOp>(text, context.get());
  if (!module)
    throw std::runtime_error("the module of the test does not parse");
  read();
}

void ModelGraph::read(double expertCapacity) {
  context->loadDialect<dist::DistDialect>();
  PassManager manager(context.get());
  GraphOptions options;
  options.expertCapacity = expertCapacity;
  buildGraphPipeline(manager, options);
  if (failed(manager.run(*module)))
    throw std::runtime_error("the model cannot be simplified");
  graph = search::readGraph(*module->getOps<dfg::GraphOp>().begin());
}

void ModelGraph::pin(llvm::ArrayRef<unsigned> pins) {
  graph = search::readGraph(*module->getOps<dfg::GraphOp>().begin(), pins);
}

void ModelGraph::readFor(const Executor &executor) {
  graph = search::readGraph(*module->getOps<dfg::GraphOp>().begin(), {}, search::mostBoundaries, executor);
}

onnx::ModelProto buildDenseBlocks(int64_t batch, int64_t blocks, int64_t layers, int64_t growth) {
  ModelBuilder builder("dense-blocks", ZooOptions(), {});
  Layer layer = builder.input("input", {batch, 3, 64, 64});
  layer = builder.conv("stem", layer, 2 * growth, {3, 2, 1});
  for (int64_t block = 0; block != blocks; ++block) {
    std::string name = "block" + std::to_string(block);
    std::vector<Layer> features = {layer};
    for (int64_t index = 0; index != layers; ++index) {
      std::string part = name + "/layer" + std::to_string(index);
      Layer joined = index == 0 ? layer : builder.concat(part + "/concat", features);
      features.push_back(
          builder.conv(part + "/conv", builder.apply(part + "/relu", "Relu", joined), growth, {3, 1, 1}));
    }
    layer = builder.concat(name + "/concat", features);
    layer = builder.conv(name + "/transition", layer, layer.shape[1] / 2, {1});
    layer = builder.pool(name + "/pool", layer, "AveragePool", {2, 2});
  }
  layer = builder.flatten("flatten", builder.globalAverage("average", layer));
  return builder.finish("output", builder.dense("classifier", layer, 100));
}

Machine plainMachine(unsigned devices, double peak, double memoryBandwidth, LinkSpec link) {
  Machine machine;
  machine.name = "plain";
  DeviceKind &kind = machine.kinds["plain"];
  kind.memory = 16ull << 30;
  kind.bandwidth = memoryBandwidth;
  kind.peak["f32"] = peak;
  HostSpec &host = machine.hosts.emplace_back();
  host.devices = {{"plain", devices}};
  host.link = link;
  addDevices(machine);
  return machine;
}

MachineGrid::MachineGrid(const std::string &name, llvm::ArrayRef<int64_t> sizes)
    : MachineGrid(parseOrThrow(name), sizes) {}

MachineGrid::MachineGrid(Machine from, llvm::ArrayRef<int64_t> sizes)
    : machine(std::move(from)), topology(machine), cost(deviceKindOf(machine, 0), "f32"), grid([&] {
        std::vector<unsigned> devices(machine.devices.size());
        std::iota(devices.begin(), devices.end(), 0u);
        return search::Grid(topology, devices, sizes);
      }()) {}

} // namespace cleave
