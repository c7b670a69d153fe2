// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The machine in a module is the machine that was given, to the last bit, also after printing and parsing: else the
// stages after the planner would decide for another one.

#include "passes/cost/ModuleMachine.h"

#include "passes/cost/DefaultMachine.h"
#include "passes/cost/Presets.h"
#include "passes/cost/Topology.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

class ModuleMachine : public testing::Test {
protected:
  ModuleMachine() {
    mlir::DialectRegistry registry;
    registry.insert<dist::DistDialect>();
    registerMachineReader(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef text) {
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }

  /// As it is after a dump.
  Machine throughText(const Machine &machine) {
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
    setMachine(*module, machine);
    std::string text;
    llvm::raw_string_ostream stream(text);
    module->print(stream);
    auto again = parse(text);
    EXPECT_TRUE(again) << text;
    return again ? moduleMachine(*again) : Machine();
  }

  mlir::MLIRContext context;
};

bool isSame(const DeviceSpec &a, const DeviceSpec &b) {
  return std::tie(a.name, a.driver, a.cores, a.memoryLimit, a.kind, a.host, a.chip, a.zone) ==
         std::tie(b.name, b.driver, b.cores, b.memoryLimit, b.kind, b.host, b.chip, b.zone);
}

void expectSame(const Machine &a, const Machine &b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_TRUE(a.kinds == b.kinds) << a.name;
  EXPECT_TRUE(a.hosts == b.hosts) << a.name;
  EXPECT_TRUE(a.network == b.network) << a.name;
  EXPECT_TRUE(a.links == b.links) << a.name;
  EXPECT_TRUE(a.executor == b.executor) << a.name;
  EXPECT_TRUE(a.calibration == b.calibration) << a.name;
  ASSERT_EQ(a.devices.size(), b.devices.size());
  for (auto [one, other] : llvm::zip(a.devices, b.devices))
    EXPECT_TRUE(isSame(one, other)) << one.name;
}

TEST_F(ModuleMachine, IsTheOneThatWasGiven) {
  std::vector<std::string> names = {"host",        "host:3",         "host:2x5",     "null:4",
                                    "cuda:h100:2", "a100-80g:8x128", "t4:2+h100:4x2"};
  for (const Preset &preset : allPresets())
    names.push_back(preset.name.str());
  for (const std::string &name : names) {
    Machine machine = llvm::cantFail(parseMachine(name));
    expectSame(throughText(machine), machine);
  }
}

// What compile adds to a machine: an executor, what steps have said, the processor of --cpu.
TEST_F(ModuleMachine, KeepsWhatWasChosenForIt) {
  Machine machine = llvm::cantFail(parseMachine("host:2x1"));
  machine.executor = llvm::cantFail(findExecutor("fsdp", "test"));
  machine.name += " with fsdp";
  machine.calibration = {1.0 / 3, 7};
  for (DeviceSpec &device : machine.devices)
    device.chip = "x86-64-v3";
  expectSame(throughText(machine), machine);
}

// Kinds of numbers that have no short decimal form, as measurements are.
TEST_F(ModuleMachine, KeepsMeasuredNumbers) {
  Machine machine = llvm::cantFail(parseMachine("host:2x1"));
  DeviceKind &kind = machine.kinds.begin()->second;
  kind.bandwidth = 1e10 / 3;
  kind.launch = 1e-6 / 7;
  kind.peak["f32"] = 1.23456789012345e11;
  kind.efficiency["contraction"].points = {{1e5 / 3, 0.1}, {1e9 / 7, 2.0 / 3}};
  machine.hosts.front().link = LinkSpec{1e9 / 3, 1e-6 / 3, 1e8 / 3, 1e-5 / 3};
  expectSame(throughText(machine), machine);
}

TEST_F(ModuleMachine, TakesThePlaceOfTheOneBefore) {
  auto module = parse("module {}");
  setMachine(*module, llvm::cantFail(parseMachine("null:2")));
  setMachine(*module, llvm::cantFail(parseMachine("null:3")));
  EXPECT_TRUE(succeeded(mlir::verify(*module)));
  EXPECT_EQ(moduleMachine(*module).devices.size(), 3u);
}

// A parameter of the model may have any name.
TEST_F(ModuleMachine, IsNamedLikeNothingElse) {
  auto module = parse("dist.mesh @machine <[], devices = [0]>");
  setMachine(*module, llvm::cantFail(parseMachine("null:2")));
  EXPECT_TRUE(succeeded(mlir::verify(*module)));
  EXPECT_EQ(dist::getMachine(*module).getSymName(), "machine.0");
}

// Without a machine: cores as fast as docs/formats.md says, an A100 for each GPU, and a device for each that a mesh
// names.
TEST_F(ModuleMachine, IsTheDefaultWithoutOne) {
  auto module = parse(R"(module attributes {dist.devices = [
    {name = "c", driver = "cpu", cores = 3 : i64, memory = 0 : i64},
    {name = "g", driver = "cuda", cores = 1 : i64, memory = 0 : i64, chip = "sm_90"}]} {
      dist.mesh @m <["x" = 2], devices = [0, 1]>
  })");
  Machine machine = moduleMachine(*module);
  ASSERT_EQ(machine.devices.size(), 2u);
  const DeviceKind &core = machine.kinds.at(machine.devices[0].kind), &gpu = machine.kinds.at(machine.devices[1].kind);
  EXPECT_EQ(core.peak.at("f32"), 3 * 40e9);
  EXPECT_EQ(core.bandwidth, 3 * 10e9);
  EXPECT_EQ(core.launch, 2e-6);
  Machine a100 = llvm::cantFail(parsePreset("a100-80g"));
  EXPECT_EQ(gpu.bandwidth, a100.kinds.at("a100").bandwidth);
  EXPECT_EQ(gpu.launch, a100.kinds.at("a100").launch);
  EXPECT_EQ(gpu.processors(), 108u);
  LinkSpec link = Topology(machine).between(0, 1);
  EXPECT_EQ(link.bandwidth, 10e9);
  EXPECT_EQ(link.latency, 5e-6);
  EXPECT_EQ(moduleMachine(*parse(R"(dist.mesh @m <["x" = 3], devices = [0, 1, 6]>)")).devices.size(), 7u);
}

} // namespace
