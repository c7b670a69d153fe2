// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans read back from their bytes say what the module said.

#include "ModuleText.h"

#include "runtime/Executor.h"
#include "runtime/HostTensor.h"
#include "runtime/ParameterSource.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace cleave;

namespace {

const char *const machine = R"(
  dist.mesh @d0 <[], devices = [0]>
  dist.mesh @d1 <[], devices = [1]>
)";

std::string moduleOf(const std::string &body, const std::string &memory = "0") {
  return R"(module attributes {dist.devices = [
    {name = "cpu0", driver = "cpu", cores = 2 : i64, memory = )" +
         memory + R"( : i64}, {name = "cpu1", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {)" + machine +
         body + "}";
}

/// A value that goes from device 0 to device 1 and out, with a parameter and constants beside it.
const char *const transferred = R"(
  dfg.parameter @unused : tensor<4xf32> = #dfg.fill<value = 1.0 : f64>
  dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 2.5 : f64>
  dfg.graph @main(%x: tensor<4xf32> {dfg.name = "x"})
      -> (tensor<4xf32> {dfg.name = "y"}, tensor<4xf32> {dfg.name = "w2"}, tensor<3xi1> {dfg.name = "mask"}) {
    %w = dfg.read @w : tensor<4xf32>
    %c = dfg.constant dense<true> : tensor<3xi1>
    dfg.return %x, %w, %c : tensor<4xf32>, tensor<4xf32>, tensor<3xi1>
  }
  dist.program @main.d0(%x: tensor<4xf32> {dist.input = 0 : i64})
      -> (tensor<4xf32> {dist.output = 1 : i64}) attributes {mesh = @d0} {
    %w = dfg.read @w : tensor<4xf32>
    dist.send %x to @d1 channel 0 : tensor<4xf32>
    dist.return %w : tensor<4xf32>
  }
  dist.program @main.d1() -> (tensor<4xf32> {dist.output = 0 : i64}, tensor<3xi1> {dist.output = 2 : i64})
      attributes {mesh = @d1} {
    %x = dist.receive from @d0 channel 0 : tensor<4xf32>
    %c = dfg.constant dense<true> : tensor<3xi1>
    dist.return %x, %c : tensor<4xf32>, tensor<3xi1>
  }
)";

// The tables around the programs: devices, meshes, ports by the model's names, only parameters that are used.
TEST(EmitPlan, WritesDevicesPortsAndParameters) {
  EmitOptions options;
  options.model = "m.onnx";
  options.strategy = "place";
  runtime::Plan plan = ModuleText(moduleOf(transferred)).plan(options);
  EXPECT_EQ(plan->model, "m.onnx");
  EXPECT_EQ(plan->strategy, "place");
  ASSERT_EQ(plan->devices.size(), 2u);
  EXPECT_EQ(plan->devices[0].name, "cpu0");
  EXPECT_EQ(plan->devices[0].cores, 2u);
  ASSERT_EQ(plan->meshes.size(), 2u);
  EXPECT_EQ(plan->meshes[1].devices, std::vector<uint32_t>{1});
  ASSERT_EQ(plan->entries.size(), 1u);
  const runtime::Entry &entry = plan->entries.front();
  EXPECT_EQ(entry.name, "main");
  EXPECT_EQ(entry.inputs.front().name, "x");
  ASSERT_EQ(entry.outputs.size(), 3u);
  EXPECT_EQ(entry.outputs[2].type.text(), "i1[3]");
  ASSERT_EQ(plan->parameters.size(), 2u);
  EXPECT_EQ(plan->parameters[0].name, "w");
  const auto &fill = std::get<runtime::GeneratedSource>(plan->parameters[0].source);
  EXPECT_EQ(fill.distribution, runtime::Distribution::Constant);
  EXPECT_EQ(fill.a, 2.5);
}

// The plan runs: values come out as the graph says, across devices; a mask of one value has a byte an element.
TEST(EmitPlan, RunsOnTwoDevices) {
  runtime::Plan plan = ModuleText(moduleOf(transferred)).plan();
  runtime::MemorySource source;
  auto executor = runtime::Executor::create(plan, "main", source);
  ASSERT_TRUE(executor) << executor.error().text();
  auto tensor = [&](const runtime::Port &port) { return *runtime::HostTensor::allocate(port.type); };
  std::vector<runtime::HostTensor> inputs = {tensor(plan->entries[0].inputs[0])}, outputs;
  for (const runtime::Port &port : plan->entries[0].outputs)
    outputs.push_back(tensor(port));
  for (int i = 0; i != 4; ++i)
    inputs[0].as<float>()[i] = 1.5f * i;
  auto ticket = (*executor)->submit(inputs, outputs);
  ASSERT_TRUE(ticket);
  ASSERT_TRUE((*executor)->wait(*ticket));
  EXPECT_EQ(outputs[0].as<float>()[3], 4.5f);
  EXPECT_EQ(outputs[1].as<float>()[0], 2.5f);
  EXPECT_EQ(outputs[2].as<uint8_t>()[2], 1);
}

// Plans are byte-identical from run to run.
TEST(EmitPlan, IsDeterministic) {
  EXPECT_EQ(ModuleText(moduleOf(transferred)).emit(), ModuleText(moduleOf(transferred)).emit());
}

/// A program on device 0 that reads parameters and constants and gives one input out.
std::string loading(const std::string &declarations, const std::string &loads) {
  return moduleOf(declarations + R"(
  dfg.graph @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    dfg.return %x : tensor<2xf32>
  }
  plan.program @main.d0 on @d0 queues ["compute"] arena 192 live 192 {
    %b0 = plan.buffer "a" offset 0 bytes 8 : !plan.buffer<tensor<2xf32>>
    %b1 = plan.buffer "b" offset 64 bytes 3 : !plan.buffer<tensor<3xi1>>
    %b2 = plan.buffer "c" offset 128 bytes 3 : !plan.buffer<tensor<3xi1>>
    plan.prepare {)" +
                  loads +
                  R"(}
    plan.body {
      plan.load_input 0 -> %b0 {order = 9 : i64, queue = 0 : i64} : !plan.buffer<tensor<2xf32>>
      plan.store_output %b0 -> 0 {order = 9 : i64, queue = 0 : i64} : !plan.buffer<tensor<2xf32>>
    }
  })");
}

// Every way to make a parameter, and the file's name as the driver of the compiler wants it.
TEST(EmitPlan, WritesParameterSources) {
  ModuleText module(loading(R"(
    dfg.parameter @file : tensor<2xf32> = #dfg.file<"w.bin", offset = 16>
    dfg.parameter @normal : tensor<2xf32> = #dfg.normal<mean = 1.0 : f64, stddev = 0.5 : f64, seed = 7>
    dfg.parameter @uniform : tensor<2xf32> = #dfg.uniform<low = -1.0 : f64, high = 3.0 : f64, seed = 8>
  )",
                            R"(
    plan.load_parameter @uniform -> %b0 {order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<2xf32>>
    plan.load_parameter @normal -> %b0 {order = 1 : i64, queue = 0 : i64} : !plan.buffer<tensor<2xf32>>
    plan.load_parameter @file -> %b0 {order = 2 : i64, queue = 0 : i64} : !plan.buffer<tensor<2xf32>>
  )"));
  EmitOptions options;
  options.fileOf = [](llvm::StringRef path) { return "model/" + path.str(); };
  options.checksums["file"] = {42, /*sampled=*/true};
  runtime::Plan plan = module.plan(options);
  ASSERT_EQ(plan->parameters.size(), 3u);
  const auto &file = std::get<runtime::FileSource>(plan->parameters[0].source);
  EXPECT_EQ(file.file, "model/w.bin");
  EXPECT_EQ(file.offset, 16u);
  EXPECT_EQ(file.bytes, 8u);
  EXPECT_EQ(file.checksum, (runtime::FileChecksum{42, true}));
  const auto &normal = std::get<runtime::GeneratedSource>(plan->parameters[1].source);
  EXPECT_EQ(std::tuple(normal.distribution, normal.a, normal.b, normal.seed),
            std::tuple(runtime::Distribution::Normal, 1.0, 0.5, uint64_t{7}));
  const auto &uniform = std::get<runtime::GeneratedSource>(plan->parameters[2].source);
  EXPECT_EQ(std::tuple(uniform.distribution, uniform.a, uniform.b, uniform.seed),
            std::tuple(runtime::Distribution::Uniform, -1.0, 3.0, uint64_t{8}));
  EXPECT_EQ(std::get<runtime::FileSource>(module.plan()->parameters[0].source).file, "w.bin");
}

// Equal constants are stored once; bits are bytes, also where one value stands for all.
TEST(EmitPlan, WritesConstantsOnce) {
  runtime::Plan plan = ModuleText(loading("", R"(
    plan.load_constant dense<[true, false, true]> : tensor<3xi1> -> %b1 {order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<3xi1>>
    plan.load_constant dense<[true, false, true]> : tensor<3xi1> -> %b2 {order = 1 : i64, queue = 0 : i64} : !plan.buffer<tensor<3xi1>>
    plan.load_constant dense<true> : tensor<3xi1> -> %b2 {order = 2 : i64, queue = 0 : i64} : !plan.buffer<tensor<3xi1>>
    plan.load_constant dense<0.5> : tensor<2xf32> -> %b0 {order = 3 : i64, queue = 0 : i64} : !plan.buffer<tensor<2xf32>>
  )"))
                           .plan();
  ASSERT_EQ(plan->parameters.size(), 3u);
  auto bytes = [&](unsigned index) {
    auto data = std::get<runtime::InlineSource>(plan->parameters[index].source).data;
    return std::string(reinterpret_cast<const char *>(data.data()), data.size());
  };
  EXPECT_EQ(bytes(0), std::string("\1\0\1", 3));
  EXPECT_EQ(bytes(1), std::string("\1\1\1", 3));
  // 0.5 is 0x3f000000, little-endian.
  EXPECT_EQ(bytes(2), std::string("\0\0\0\x3f\0\0\0\x3f", 8));
}

/// The smallest header that is an ELF shared object for 64 bits.
std::string elfImage() {
  std::string text = "\\7FELF\\02\\01\\01";
  for (int i = 0; i != 9; ++i)
    text += "\\00";
  text += "\\03";
  for (int i = 0; i != 60; ++i)
    text += "\\00";
  return text;
}

const char *const kernels = R"(
  plan.native_kernel @twice attributes {object = @native, symbol = "twice", parallel_extent = 4 : i64} {
  ^bb0(%x: tensor<4xf32>):
    %0 = dfg.add %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.library_kernel @pool "onednn" "pooling" {kernel = array<i64: 2, 3>, scale = array<f64: 0.5, 0.25>, kind = 1 : i64, alpha = 2.0 : f64}
      {post_ops = [#plan.post_op<"sum", alpha = 1.5 : f64, beta = 0.0 : f64, argument = 1>], scratch_bytes = 128 : i64,
       implementation = "jit"} : (tensor<4xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  plan.library_kernel @unused "onednn" "pooling" {} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.graph @main(%x: tensor<4xf32>) -> tensor<2x2xf32> {
    %0 = dfg.reshape %x : (tensor<4xf32>) -> tensor<2x2xf32>
    dfg.return %0 : tensor<2x2xf32>
  }
  dist.program @main.d0(%x: tensor<4xf32>) -> tensor<2x2xf32> attributes {mesh = @d0} {
    %0 = plan.launch @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = plan.view %0 : tensor<4xf32> -> tensor<2x2xf32>
    %2 = plan.launch @pool(%0, %1) : (tensor<4xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    dist.return %2 : tensor<2x2xf32>
  }
)";

std::string code() {
  return "plan.object @native triple = \"x\" cpu = \"y\" features = [\"avx2\"] image = \"" + elfImage() + "\"\n";
}

// Kernels of both sorts, with attributes as the library's driver reads them; a view names the buffer that it shows.
TEST(EmitPlan, WritesKernels) {
  runtime::Plan plan = ModuleText(moduleOf(code() + kernels)).plan();
  ASSERT_EQ(plan->objects.size(), 1u);
  EXPECT_EQ(plan->objects[0].features, std::vector<std::string>{"avx2"});
  EXPECT_EQ(plan->objects[0].image.size(), 77u);
  EXPECT_NE(plan->objects[0].checksum, 0u);
  ASSERT_EQ(plan->kernels.size(), 2u);
  const auto &native = std::get<runtime::NativeKernel>(plan->kernels[0].body);
  EXPECT_EQ(native.symbol, "twice");
  EXPECT_EQ(native.parallelExtent, 4);
  const auto &library = std::get<runtime::LibraryKernel>(plan->kernels[1].body);
  EXPECT_EQ(library.operation, "pooling");
  EXPECT_EQ(library.implementation, "jit");
  EXPECT_EQ(plan->kernels[1].scratchBytes, 128u);
  auto attribute = [&](const std::string &name) {
    return *std::find_if(library.attributes.begin(), library.attributes.end(),
                         [&](const runtime::Attribute &attribute) { return attribute.name == name; });
  };
  EXPECT_EQ(attribute("kernel").ints, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(attribute("kind").ints, std::vector<int64_t>{1});
  EXPECT_EQ(attribute("scale").reals, (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(attribute("alpha").reals, std::vector<double>{2.0});
  ASSERT_EQ(library.postOps.size(), 1u);
  EXPECT_EQ(library.postOps[0].kind, "sum");
  EXPECT_EQ(library.postOps[0].alpha, 1.5f);
  EXPECT_EQ(library.postOps[0].argument, 1);
  const runtime::Program &program = plan->entries[0].programs[0];
  EXPECT_EQ(std::count_if(program.buffers.begin(), program.buffers.end(),
                          [](const runtime::PlanBuffer &buffer) { return buffer.viewOf >= 0; }),
            1);
}

// A device that is too small is the user's problem, not the compiler's.
TEST(EmitPlan, SaysWhenMemoryDoesNotSuffice) {
  auto [status, message] = ModuleText(moduleOf(code() + kernels, "128")).failure();
  EXPECT_EQ(status, runtime::Status::Infeasible);
  EXPECT_NE(message.find("\"cpu0\" has a memory limit of 128"), std::string::npos) << message;
}

// A kernel that was never compiled cannot be written.
TEST(EmitPlan, RefusesKernelsWithoutCode) {
  EXPECT_EQ(ModuleText(moduleOf(kernels)).failure(),
            std::pair(runtime::Status::Internal, std::string("kernel 'twice' expects machine code, found none; run "
                                                             "--codegen-compile-native-kernels before")));
}

// A parameter that is not in the module has no source.
TEST(EmitPlan, RefusesUnknownParameters) {
  std::string load =
      "plan.load_parameter @ghost -> %b0 {order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<2xf32>>\n";
  EXPECT_EQ(ModuleText(loading("", load)).failure(),
            std::pair(runtime::Status::Internal, std::string("plan expects a parameter 'ghost', found none")));
}

// Constants must be in the module.
TEST(EmitPlan, RefusesConstantsElsewhere) {
  std::string load = "plan.load_constant dense_resource<ghost> : tensor<2xf32> -> %b0 {order = 0 : i64, queue = 0 : "
                     "i64} : !plan.buffer<tensor<2xf32>>\n";
  EXPECT_EQ(ModuleText(loading("", load)).failure(),
            std::pair(runtime::Status::Internal,
                      std::string("plan expects the elements of constants in the module, got a constant of 2 elements "
                                  "elsewhere")));
}

// The graph holds the ports' names.
TEST(EmitPlan, RefusesModulesWithoutAGraph) {
  EXPECT_EQ(ModuleText(moduleOf("")).failure(),
            std::pair(runtime::Status::Internal, std::string("plan expects a 'dfg.graph', found none")));
}

// Nothing is written that the runtime would refuse: here an output whose value nobody wrote.
TEST(EmitPlan, VerifiesWhatItWrites) {
  auto [status, message] = ModuleText(moduleOf(R"(
  dfg.graph @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    dfg.return %x : tensor<2xf32>
  }
  plan.program @main.d0 on @d0 queues ["compute"] arena 8 live 8 {
    %b0 = plan.buffer "a" offset 0 bytes 8 : !plan.buffer<tensor<2xf32>>
    plan.prepare {
    }
    plan.body {
      plan.store_output %b0 -> 0 {order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<2xf32>>
    }
  })"))
                               .failure();
  EXPECT_EQ(status, runtime::Status::Internal);
  EXPECT_EQ(message.find("plan does not verify: "), 0u) << message;
}

} // namespace
