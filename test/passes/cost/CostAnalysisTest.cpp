// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What stages are told of a module's machine, against closed formulas with the numbers of its description.

#include "passes/cost/CostAnalysis.h"

#include "passes/cost/ModuleMachine.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>
#include <optional>

using namespace cleave;

namespace {

constexpr llvm::StringLiteral twoHosts = R"(
dist.machine @machine {
  device_kinds = {gpu = {bandwidth = "1 TB/s", launch = "3 us", peak = {f32 = "10 TFLOP/s", bf16 = "100 TFLOP/s"}},
                  small = {bandwidth = "100 GB/s", launch = "5 us", peak = {f32 = "1 TFLOP/s"}}},
  hosts = [{devices = [{kind = "gpu", count = "2"}], links = [{between = "devices", bandwidth = "100 GB/s", latency = "2 us"}]},
           {devices = [{kind = "gpu", count = "2"}], links = [{between = "devices", bandwidth = "100 GB/s", latency = "2 us"}]},
           {devices = [{kind = "small"}]}],
  network = {bandwidth = "10 GB/s", latency = "20 us", ports = "2"}}
dist.mesh @grid <["out" = 2, "in" = 2], devices = [0, 1, 2, 3]>
dist.mesh @first <["in" = 2], devices = [0, 1]>
dist.mesh @second <["in" = 2], devices = [2, 3]>
dist.mesh @small <[], devices = [4]>
dist.program @p(%x: tensor<250000xf32>) -> tensor<250000xf32> attributes {mesh = @grid} {
  %0 = dist.all_reduce %x from <[250000], partial sum ["in"]> to <[250000]> : tensor<250000xf32> -> tensor<250000xf32>
  %1 = dist.all_reduce %x from <[250000], partial sum ["out"]> to <[250000]> : tensor<250000xf32> -> tensor<250000xf32>
  dist.return %0 : tensor<250000xf32>
}
)";

class CostAnalysisTest : public testing::Test {
protected:
  CostAnalysisTest() {
    context.loadDialect<dist::DistDialect>();
    module = parse(twoHosts);
    costs.emplace(module->getOperation());
  }

  mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef text) {
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }

  dist::MeshOp mesh(llvm::StringRef name) { return module->lookupSymbol<dist::MeshOp>(name); }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<CostAnalysis> costs;
};

// Axes of layouts are axes of the mesh, and these links of the machine: rings of two.
TEST_F(CostAnalysisTest, CollectivesTakeTheLinksOfTheirAxes) {
  std::vector<dist::Collective> collectives;
  module->walk([&](dist::Collective collective) { collectives.push_back(collective); });
  ASSERT_EQ(collectives.size(), 2u);
  EXPECT_NEAR(costs->collectiveSeconds(collectives[0], 1e6), 2 * (2e-6 + 1e6 / 2 / 100e9), 1e-12);
  EXPECT_NEAR(costs->collectiveSeconds(collectives[1], 1e6), 2 * (22e-6 + 1e6 / 2 / 10e9), 1e-12);
  mlir::Builder builder(&context);
  mlir::StringAttr in = builder.getStringAttr("in"), out = builder.getStringAttr("out");
  auto reshard = costs->reshardCost(mesh("grid"));
  EXPECT_NEAR(reshard->allReduce(in, 1e6), 2 * (2e-6 + 1e6 / 2 / 100e9), 1e-12);
  EXPECT_NEAR(reshard->allGather(out, 1e6), 22e-6 + 1e6 / 2 / 10e9, 1e-12);
  // Whatever their order.
  EXPECT_EQ(reshard->exchange({out, in}, 1e6, 3), reshard->exchange({in, out}, 1e6, 3));
  // What is kept is read and written, at the rate of the memory.
  EXPECT_NEAR(reshard->slice(1e6), 2e6 / 1e12, 1e-15);
}

TEST_F(CostAnalysisTest, TransfersTakeTheWayBetweenMeshes) {
  EXPECT_NEAR(costs->transferSeconds(mesh("first"), mesh("second"), 1e6), 22e-6 + 1e6 / 10e9, 1e-12);
}

// A roofline: 4 Gflop at the peak of the type, or 1 MB at the memory's rate, and the launch.
TEST_F(CostAnalysisTest, KernelsTakeTheRatesOfTheirDevices) {
  KernelWork product{CostClass::Contraction, 4e9, 1e6}, sum{CostClass::Elementwise, 0, 1e6};
  EXPECT_NEAR(costs->callSeconds(mesh("grid"), product, "f32"), 3e-6 + 4e9 / 10e12, 1e-12);
  EXPECT_NEAR(costs->callSeconds(mesh("grid"), product, "bf16"), 3e-6 + 4e9 / 100e12, 1e-12);
  EXPECT_NEAR(costs->callSeconds(mesh("grid"), sum, "f32"), 3e-6 + 1e6 / 1e12, 1e-12);
  EXPECT_NEAR(costs->callSeconds(mesh("small"), sum, "f32"), 5e-6 + 1e6 / 100e9, 1e-12);
  EXPECT_NEAR(costs->copySeconds(mesh("small"), 1e6), 5e-6 + 1e6 / 100e9, 1e-12);
}

// Steps took twice as long as predicted: everything does.
TEST_F(CostAnalysisTest, FollowsCalibration) {
  std::string text = twoHosts.str();
  text.insert(text.find("device_kinds"), "calibration = {step = \"2\"}, ");
  auto slower = parse(text);
  ASSERT_TRUE(slower);
  CostAnalysis other(slower->getOperation());
  auto grid = slower->lookupSymbol<dist::MeshOp>("grid");
  KernelWork sum{CostClass::Elementwise, 0, 1e6};
  EXPECT_NEAR(other.callSeconds(grid, sum, "f32"), 2 * costs->callSeconds(mesh("grid"), sum, "f32"), 1e-15);
  EXPECT_NEAR(other.meshCost(grid).allReduce(1e6, {0}), 2 * costs->meshCost(mesh("grid")).allReduce(1e6, {0}), 1e-12);
}

// A pass that changes programs leaves it valid; one that changes the machine does not.
TEST_F(CostAnalysisTest, IsValidAsLongAsTheMachineIs) {
  mlir::AnalysisManager::PreservedAnalyses none;
  module->walk([](dist::ProgramOp program) { program.erase(); });
  EXPECT_FALSE(costs->isInvalidated(none));
  setMachine(*module, llvm::cantFail(parseMachine("null:5")));
  EXPECT_TRUE(costs->isInvalidated(none));
}

// One mapping for all GPUs of a module: the most processors, the slowest memory.
TEST_F(CostAnalysisTest, GpusOfSeveralKinds) {
  auto mixed = parse("module {}");
  setMachine(*mixed, llvm::cantFail(parseMachine("cuda:h100:1+a100-80g:1")));
  CostAnalysis both(mixed->getOperation());
  unsigned h100 = 0, a100 = 1;
  GpuModel all = both.gpuModel(), fast = both.gpuModel(llvm::ArrayRef(h100)),
           slow = both.gpuModel(llvm::ArrayRef(a100));
  EXPECT_EQ(all.processors, 132);
  EXPECT_EQ(slow.processors, 108);
  EXPECT_EQ(all.cost.streamSeconds(1e9), slow.cost.streamSeconds(1e9));
  EXPECT_GT(slow.cost.streamSeconds(1e9), fast.cost.streamSeconds(1e9));
}

} // namespace
