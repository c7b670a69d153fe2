// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Executors by name and in machine files.

#include "passes/cost/MachineFile.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

constexpr const char *machineText = "device_kinds: { gpu: { memory: 1 GiB } }\n"
                                    "hosts: [ { devices: [ { kind: gpu } ] } ]\nexecutor: ";

llvm::Expected<Machine> machineWith(const std::string &executor) {
  return parseMachineFile(machineText + executor + "\n", "m.yaml");
}

std::string messageOf(const std::string &executor) {
  auto machine = machineWith(executor);
  return machine ? "" : llvm::toString(machine.takeError());
}

/// A machine file that is written from the machine has the same executor.
void expectReadAgain(const Machine &machine) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  writeMachineFile(machine, stream);
  auto again = parseMachineFile(text, "again.yaml");
  ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError()) << text;
  EXPECT_TRUE(again->executor == machine.executor) << text;
}

TEST(ExecutorTest, ByName) {
  EXPECT_EQ(executorNames(), (std::vector<llvm::StringRef>{"cleave", "megatron-2021", "megatron-core",
                                                           "megatron-core-fp8", "fsdp", "eager", "eager-split"}));
  for (llvm::StringRef name : executorNames()) {
    auto executor = findExecutor(name, "--executor");
    ASSERT_TRUE(bool(executor)) << llvm::toString(executor.takeError());
    EXPECT_EQ(executor->name, name);
  }
  auto own = findExecutor("cleave", "--executor");
  ASSERT_TRUE(bool(own));
  EXPECT_TRUE(*own == Executor());
  auto none = findExecutor("horovod", "--executor");
  ASSERT_FALSE(bool(none));
  EXPECT_EQ(llvm::toString(none.takeError()), "--executor expects one of cleave, megatron-2021, megatron-core, "
                                              "megatron-core-fp8, fsdp, eager, eager-split, got \"horovod\"");
}

TEST(ExecutorTest, InMachineFiles) {
  auto machine = machineWith("{ base: megatron-2021, tf32: true, whole_layers: true, stops_recomputing: true, "
                             "dispatch: 5 us, bytes: { loss: 4 B } }");
  ASSERT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
  const Executor &executor = machine->executor;
  EXPECT_EQ(executor.name, "megatron-2021 (changed)");
  EXPECT_EQ(executor.fusion, Fusion::Chains);
  EXPECT_FALSE(executor.splitsSequence);
  EXPECT_TRUE(executor.roundsProducts);
  EXPECT_TRUE(executor.wholeLayers);
  EXPECT_TRUE(executor.stopsRecomputing);
  EXPECT_EQ(executor.dispatch, 5e-6);
  EXPECT_EQ(executor.backwardDispatch, 5e-6);
  EXPECT_EQ(executor.lossBytes, 4);
  EXPECT_EQ(executor.updateBytes, 60);
  expectReadAgain(*machine);
}

TEST(ExecutorTest, LinearLayersInFewerBits) {
  auto machine = machineWith("{ base: megatron-core-fp8, attention: { tuned: false }, exchanges: { overlap: true }, "
                             "linear_layers: { cast: 4 B } }");
  ASSERT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
  const Executor &executor = machine->executor;
  EXPECT_EQ(executor.linearLayers.products, "f8");
  EXPECT_EQ(executor.linearLayers.castBytes, 4);
  EXPECT_EQ(executor.linearLayers.gradientCastBytes, 6);
  EXPECT_FALSE(executor.tunesAttention);
  EXPECT_TRUE(executor.overlapsExchanges);
  expectReadAgain(*machine);
  EXPECT_EQ(messageOf("{ base: megatron-core, linear_layers: { products: fp8 } }"),
            "m.yaml:3:61: executor linear_layers products expects one of f64, f32, tf32, bf16, f16, f8, i8, got "
            "\"fp8\"");
  EXPECT_EQ(messageOf("{ linear_layers: { products: f8 } }"),
            "m.yaml:3:28: executor linear_layers expects software other than Cleave's own, that is fusion chains or "
            "none");
  EXPECT_EQ(messageOf("{ base: megatron-core-fp8, fusion: products }"),
            "m.yaml:3:11: executor linear_layers expects software other than Cleave's own, that is fusion chains or "
            "none");
  EXPECT_EQ(messageOf("{ base: fsdp, linear_layers: { cast: 4 } }"),
            "m.yaml:3:48: executor linear_layers cast expects a number and a unit of B, kB, MB, GB, TB, KiB, MiB, GiB, "
            "TiB, got \"4\"");
}

TEST(ExecutorTest, Errors) {
  EXPECT_EQ(messageOf("horovod"),
            "m.yaml:3:11: \"executor\" expects one of cleave, megatron-2021, megatron-core, megatron-core-fp8, fsdp, "
            "eager, eager-split, got \"horovod\"");
  EXPECT_EQ(messageOf("{ fusion: some }"),
            "m.yaml:3:21: executor fusion expects products, chains or none, got \"some\"");
  EXPECT_EQ(messageOf("{ whole_layers: yes }"),
            "m.yaml:3:27: executor whole_layers expects true or false, got \"yes\"");
  EXPECT_EQ(messageOf("{ stops_recomputing: yes }"),
            "m.yaml:3:32: executor stops_recomputing expects true or false, got \"yes\"");
  EXPECT_EQ(messageOf("{ attention: { streamed: yes } }"),
            "m.yaml:3:36: executor attention streamed expects true or false, got \"yes\"");
  EXPECT_EQ(messageOf("{ attention: { forward: 2 } }"),
            "m.yaml:3:35: executor attention forward expects more than 0 and at most 1, got \"2\"");
  EXPECT_NE(messageOf("{ speed: 2 }").find("\"executor\" expects the keys"), std::string::npos);
}

} // namespace
