// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs on meshes, from dist to what they compute: through kernels, schedule, plan and runtime, compared with what
// the whole tensors say.

#include "ModuleText.h"

#include "runtime/Executor.h"
#include "runtime/HostTensor.h"
#include "runtime/ParameterSource.h"

#include <functional>
#include <gtest/gtest.h>
#include <numeric>

using namespace cleave;

namespace {

using Values = std::vector<float>;

std::string moduleOf(unsigned numDevices, const std::string &body) {
  std::string devices;
  for (unsigned i = 0; i != numDevices; ++i)
    devices += std::string(i ? ", " : "") + "{name = \"cpu" + std::to_string(i) +
               "\", driver = \"cpu\", cores = 1 : i64, memory = 0 : i64}";
  return "module attributes {dist.devices = [" + devices + "]} {" + body + "}";
}

/// A graph of that signature, which says what the entry's inputs and outputs are; the programs do the work.
std::string graphOf(const std::vector<std::string> &inputs, const std::vector<std::string> &outputs) {
  std::string arguments, constants, returned, types;
  for (size_t i = 0; i != inputs.size(); ++i)
    arguments += (i ? ", %x" : "%x") + std::to_string(i) + ": " + inputs[i];
  for (size_t i = 0; i != outputs.size(); ++i) {
    std::string name = "%c" + std::to_string(i), comma = i ? ", " : "";
    bool isFloat = outputs[i].find("f32") != std::string::npos;
    constants += name + " = dfg.constant dense<" + (isFloat ? "0.0" : "0") + "> : " + outputs[i] + "\n";
    returned += comma + name;
    types += comma + outputs[i];
  }
  return "dfg.graph @main(" + arguments + ") -> (" + types + ") {\n" + constants + "dfg.return " + returned + " : " +
         types + "\n}\n";
}

/// Compiles and runs a module for some steps, and returns the outputs of the last.
std::vector<runtime::HostTensor> run(const std::string &text, const std::vector<Values> &inputs,
                                     ModuleText::Stage first = ModuleText::Codegen) {
  constexpr unsigned steps = 3;
  runtime::Plan plan = ModuleText(text, first).plan();
  runtime::MemorySource source;
  auto executor = runtime::Executor::create(plan, "main", source);
  if (!executor)
    throw std::runtime_error(executor.error().text());
  auto tensor = [&](const runtime::Port &port) { return *runtime::HostTensor::allocate(port.type); };
  std::vector<runtime::HostTensor> given, results;
  for (size_t i = 0; i != inputs.size(); ++i) {
    given.push_back(tensor(plan->entries[0].inputs[i]));
    std::copy(inputs[i].begin(), inputs[i].end(), given.back().as<float>().begin());
  }
  for (const runtime::Port &port : plan->entries[0].outputs)
    results.push_back(tensor(port));
  for (unsigned step = 0; step != steps; ++step) {
    auto ticket = (*executor)->submit(given, results);
    if (!ticket)
      throw std::runtime_error(ticket.error().text());
    if (auto done = (*executor)->wait(*ticket); !done)
      throw std::runtime_error(done.error().text());
  }
  return results;
}

Values someValues(size_t count, unsigned seed) {
  Values values(count);
  for (size_t i = 0; i != count; ++i)
    values[i] = static_cast<float>((i * 37 + seed * 11) % 23) - 9.0f;
  return values;
}

/// The product of row-major matrices.
Values product(const Values &lhs, const Values &rhs, size_t rows, size_t depth, size_t columns) {
  Values result(rows * columns);
  for (size_t r = 0; r != rows; ++r)
    for (size_t c = 0; c != columns; ++c)
      for (size_t k = 0; k != depth; ++k)
        result[r * columns + c] += lhs[r * depth + k] * rhs[k * columns + c];
  return result;
}

void expectEqual(const runtime::HostTensor &tensor, const Values &expected) {
  for (size_t i = 0; i != expected.size(); ++i)
    ASSERT_EQ(tensor.as<float>()[i], expected[i]) << "at " << i;
}

const char *const pair = R"(dist.mesh @pair <["m" = 2], devices = [0, 1]>)";
const char *const grid = R"(dist.mesh @grid <["a" = 2, "b" = 2], devices = [0, 1, 2, 3]>)";

// Two dense layers, by column and by row, of 9 hidden values on two devices: padding takes part as zeros.
TEST(MeshProgram, JoinsPartialProducts) {
  std::string text =
      moduleOf(2, pair + graphOf({"tensor<4x6xf32>", "tensor<6x9xf32>", "tensor<9x3xf32>"}, {"tensor<4x3xf32>"}) + R"(
  dist.program @main.pair(%x: tensor<4x6xf32> {dist.input = 0 : i64},
      %w1: tensor<6x5xf32> {dist.input = 1 : i64, dist.layout = #dist.layout<[6, 9 by ["m"]]>},
      %w2: tensor<5x3xf32> {dist.input = 2 : i64, dist.layout = #dist.layout<[9 by ["m"], 3]>})
      -> (tensor<4x3xf32> {dist.output = 0 : i64}) attributes {mesh = @pair} {
    %0 = dfg.dot_general %x, %w1 {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0>}
        : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
    %1 = dfg.relu %0 : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %2 = dfg.dot_general %1, %w2 {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0>}
        : (tensor<4x5xf32>, tensor<5x3xf32>) -> tensor<4x3xf32>
    %3 = dist.all_reduce %2 from <[4, 3], partial sum ["m"]> to <[4, 3]> : tensor<4x3xf32> -> tensor<4x3xf32>
    dist.return %3 : tensor<4x3xf32>
  })");
  Values x = someValues(24, 1), w1 = someValues(54, 2), w2 = someValues(27, 3);
  Values hidden = product(x, w1, 4, 6, 9);
  for (float &value : hidden)
    value = std::max(value, 0.0f);
  expectEqual(run(text, {x, w1, w2})[0], product(hidden, w2, 4, 9, 3));
}

// Exchanges of every kind on a 2x2 mesh move a tensor of uneven sizes around; it comes out as it went in.
TEST(MeshProgram, MovesTensorsAround) {
  std::string text = moduleOf(4, grid + graphOf({"tensor<7x6xf32>"}, {"tensor<7x6xf32>"}) + R"(
  dist.program @main.grid(%x: tensor<4x6xf32> {dist.input = 0 : i64, dist.layout = #dist.layout<[7 by ["a"], 6]>})
      -> (tensor<2x6xf32> {dist.output = 0 : i64, dist.layout = #dist.layout<[7 by ["a", "b"], 6]>})
      attributes {mesh = @grid} {
    %0 = dist.slice %x from <[7 by ["a"], 6]> to <[7 by ["a", "b"], 6]> : tensor<4x6xf32> -> tensor<2x6xf32>
    %1 = dist.all_to_all %0 from <[7 by ["a", "b"], 6]> to <[7 by ["a"], 6 by ["b"]]> : tensor<2x6xf32> -> tensor<4x3xf32>
    %2 = dist.all_gather %1 from <[7 by ["a"], 6 by ["b"]]> to <[7, 6 by ["b"]]> : tensor<4x3xf32> -> tensor<7x3xf32>
    %3 = dist.permute %2 from <[7, 6 by ["b"]]> to <[7, 2 by ["a"] * 3 by ["b"]]> : tensor<7x3xf32> -> tensor<7x2xf32>
    %4 = dist.permute %3 from <[7, 2 by ["a"] * 3 by ["b"]]> to <[7 by ["b", "a"], 6]> : tensor<7x2xf32> -> tensor<2x6xf32>
    %5 = dist.permute %4 from <[7 by ["b", "a"], 6]> to <[7 by ["a", "b"], 6]> : tensor<2x6xf32> -> tensor<2x6xf32>
    dist.return %5 : tensor<2x6xf32>
  })");
  Values x = someValues(42, 1);
  expectEqual(run(text, {x})[0], x);
}

// Partial values stay with their device while another dimension is gathered; scatters cut blocks of blocks; what two
// readers want is not joined in place.
TEST(MeshProgram, ScattersAndKeepsPartialValues) {
  std::string text = moduleOf(4, grid +
                                     graphOf({"tensor<6x4xf32>", "tensor<6x4xf32>"},
                                             {"tensor<6x4xf32>", "tensor<6x4xf32>", "tensor<6x4xf32>"}) +
                                     R"(
  dist.program @main.grid(%x: tensor<3x4xf32> {dist.input = 0 : i64, dist.layout = #dist.layout<[6 by ["a"], 4]>},
      %y: tensor<6x2xf32> {dist.input = 1 : i64, dist.layout = #dist.layout<[6, 4 by ["b"]]>})
      -> (tensor<2x4xf32> {dist.output = 0 : i64, dist.layout = #dist.layout<[6 by ["a", "b"], 4]>},
          tensor<6x4xf32> {dist.output = 1 : i64}, tensor<6x2xf32> {dist.output = 2 : i64, dist.layout = #dist.layout<[6, 4 by ["b"]]>})
      attributes {mesh = @grid} {
    %0 = dist.reduce_scatter %x from <[6 by ["a"], 4], partial sum ["b"]> to <[6 by ["a", "b"], 4]> : tensor<3x4xf32> -> tensor<2x4xf32>
    %1 = dist.all_gather %x from <[6 by ["a"], 4], partial max ["b"]> to <[6, 4], partial max ["b"]> : tensor<3x4xf32> -> tensor<6x4xf32>
    %2 = dist.all_reduce %1 from <[6, 4], partial max ["b"]> to <[6, 4]> : tensor<6x4xf32> -> tensor<6x4xf32>
    %3 = dist.all_reduce %y from <[6, 4 by ["b"]], partial sum ["a"]> to <[6, 4 by ["b"]]> : tensor<6x2xf32> -> tensor<6x2xf32>
    %4 = dfg.sub %3, %y : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x2xf32>
    dist.return %0, %2, %4 : tensor<2x4xf32>, tensor<6x4xf32>, tensor<6x2xf32>
  })");
  Values x = someValues(24, 1), y = someValues(24, 2), twice = x;
  for (float &value : twice)
    value *= 2;
  auto outputs = run(text, {x, y});
  expectEqual(outputs[0], twice);
  expectEqual(outputs[1], x);
  expectEqual(outputs[2], y);
}

// A convolution of stride 2 over an image that is cut: each device gets what its results read, the edge is padding.
TEST(MeshProgram, ExchangesHalos) {
  std::string text = moduleOf(2, pair + graphOf({"tensor<1x1x9xf32>", "tensor<1x1x3xf32>"}, {"tensor<1x1x5xf32>"}) + R"(
  dist.program @main.pair(%x: tensor<1x1x5xf32> {dist.input = 0 : i64, dist.layout = #dist.layout<[1, 1, 9 by ["m"]]>},
      %w: tensor<1x1x3xf32> {dist.input = 1 : i64})
      -> (tensor<1x1x3xf32> {dist.output = 0 : i64, dist.layout = #dist.layout<[1, 1, 5 by ["m"]]>})
      attributes {mesh = @pair} {
    %0 = dist.halo_exchange %x from <[1, 1, 9 by ["m"]]> to <[1, 1, 9 by ["m"] reach (5 step 2 before 1 extent 3)]> fill 0.0
        : tensor<1x1x5xf32> -> tensor<1x1x7xf32>
    %1 = dfg.conv %0, %w {dilations = array<i64: 1>, pads = array<i64: 0, 0>, strides = array<i64: 2>}
        : (tensor<1x1x7xf32>, tensor<1x1x3xf32>) -> tensor<1x1x3xf32>
    dist.return %1 : tensor<1x1x3xf32>
  })");
  Values x = someValues(9, 1), w = someValues(3, 2), expected(5);
  for (int i = 0; i != 5; ++i)
    for (int k = 0; k != 3; ++k)
      if (int at = 2 * i - 1 + k; at >= 0 && at < 9)
        expected[i] += x[at] * w[k];
  expectEqual(run(text, {x, w})[0], expected);
}

// From one device to a mesh that it is in, on to another mesh, and back: only pieces move between them.
TEST(MeshProgram, SendsBetweenMeshes) {
  std::string text = moduleOf(4, std::string(pair) + R"(
  dist.mesh @one <[], devices = [0]>
  dist.mesh @three <["x" = 3], devices = [1, 2, 3]>
)" + graphOf({"tensor<5x4xf32>"}, {"tensor<5x4xf32>"}) +
                                     R"(
  dist.program @main.one(%x: tensor<5x4xf32> {dist.input = 0 : i64}) -> (tensor<5x4xf32> {dist.output = 0 : i64}) attributes {mesh = @one} {
    dist.send %x to @pair channel 0 from <[5, 4]> to <[5 by ["m"], 4]> : tensor<5x4xf32>
    %0 = dist.receive from @three channel 2 from <[5, 4 by ["x"]]> to <[5, 4]> : tensor<5x4xf32>
    dist.return %0 : tensor<5x4xf32>
  }
  dist.program @main.pair() attributes {mesh = @pair} {
    %0 = dist.receive from @one channel 0 from <[5, 4]> to <[5 by ["m"], 4]> : tensor<3x4xf32>
    %1 = dfg.neg %0 : (tensor<3x4xf32>) -> tensor<3x4xf32>
    dist.send %1 to @three channel 1 from <[5 by ["m"], 4]> to <[5, 4 by ["x"]]> : tensor<3x4xf32>
    dist.return
  }
  dist.program @main.three() attributes {mesh = @three} {
    %0 = dist.receive from @pair channel 1 from <[5 by ["m"], 4]> to <[5, 4 by ["x"]]> : tensor<5x2xf32>
    %1 = dfg.neg %0 : (tensor<5x2xf32>) -> tensor<5x2xf32>
    dist.send %1 to @one channel 2 from <[5, 4 by ["x"]]> to <[5, 4]> : tensor<5x2xf32>
    dist.return
  })");
  Values x = someValues(20, 1);
  expectEqual(run(text, {x})[0], x);
}

// A device's part of a parameter is that part of the whole; what depends on parameters alone is gathered once, before
// the first step.
TEST(MeshProgram, LoadsPartsOfParameters) {
  std::string text = moduleOf(2, pair + graphOf({}, {"tensor<5x3xf32>", "tensor<5x3xf32>"}) + R"(
  dfg.parameter @w : tensor<5x3xf32> = #dfg.normal<mean = 0.0 : f64, stddev = 1.0 : f64, seed = 7>
  dist.program @main.pair() -> (tensor<5x3xf32> {dist.output = 0 : i64}, tensor<5x3xf32> {dist.output = 1 : i64})
      attributes {mesh = @pair} {
    %w = dfg.read @w : tensor<5x3xf32>
    %p = dist.shard_of @w <[5 by ["m"], 3]> : tensor<3x3xf32>
    %0 = dist.all_gather %p from <[5 by ["m"], 3]> to <[5, 3]> : tensor<3x3xf32> -> tensor<5x3xf32>
    dist.return %w, %0 : tensor<5x3xf32>, tensor<5x3xf32>
  })");
  auto outputs = run(text, {});
  auto whole = outputs[0].as<float>();
  expectEqual(outputs[1], Values(whole.begin(), whole.end()));
}

// Where blocks begin and how much of them is there: seven in blocks of four, those in blocks of two.
TEST(MeshProgram, LoadsIndices) {
  std::string text = moduleOf(4, grid + graphOf({}, {"tensor<2x2xi64>", "tensor<2x2xi64>"}) + R"(
  dist.program @main.grid() -> (tensor<1x1xi64> {dist.output = 0 : i64, dist.layout = #dist.layout<[2 by ["a"], 2 by ["b"]]>},
                                tensor<1x1xi64> {dist.output = 1 : i64, dist.layout = #dist.layout<[2 by ["a"], 2 by ["b"]]>})
      attributes {mesh = @grid} {
    %s = dist.start <[3, 2 * 7 by ["a", "b"]]> dim 1 part 1 : tensor<i64>
    %e = dist.extent <[3, 2 * 7 by ["a", "b"]]> dim 1 part 1 : tensor<i64>
    %0 = dfg.reshape %s : (tensor<i64>) -> tensor<1x1xi64>
    %1 = dfg.reshape %e : (tensor<i64>) -> tensor<1x1xi64>
    dist.return %0, %1 : tensor<1x1xi64>, tensor<1x1xi64>
  })");
  auto outputs = run(text, {});
  auto starts = outputs[0].as<int64_t>(), extents = outputs[1].as<int64_t>();
  EXPECT_EQ(std::vector<int64_t>(starts.begin(), starts.end()), (std::vector<int64_t>{0, 2, 4, 6}));
  EXPECT_EQ(std::vector<int64_t>(extents.begin(), extents.end()), (std::vector<int64_t>{2, 2, 2, 1}));
}

/// The place of an operator that is split in that way, on the mesh that the test has.
using Place = std::function<std::string(const std::string &split)>;

/// A placed graph on a mesh computes what it computes on one device.
void expectEqualToOneDevice(unsigned numDevices, const std::string &mesh, const std::vector<Values> &inputs,
                            const std::function<std::string(const Place &)> &graph) {
  auto placed = [](const std::string &split) {
    return "dist.place = #dist.place<@m, by = \"test\"" + (split.empty() ? "" : ", split = <{" + split + "}>") + ">";
  };
  auto plain = [&](const std::string &) { return placed(""); };
  auto split = run(moduleOf(numDevices, mesh + graph(placed)), inputs, ModuleText::Distribute);
  auto whole = run(moduleOf(1, "dist.mesh @m <[], devices = [0]>" + graph(plain)), inputs, ModuleText::Distribute);
  ASSERT_EQ(split.size(), whole.size());
  for (size_t output = 0; output != whole.size(); ++output)
    for (size_t i = 0; i != whole[output].as<float>().size(); ++i)
      ASSERT_NEAR(split[output].as<float>()[i], whole[output].as<float>()[i], 1e-4) << "at " << i;
}

// Columns, then rows, of 11 hidden values on four devices, on 2x2 with the batch; softmax of what is joined.
TEST(MeshProgram, PerceptronEqualsOneDevice) {
  auto graph = [](const Place &place) {
    std::string product = "{lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, "
                          "rhs_contracting = array<i64: 0>, ";
    return R"(
  dfg.parameter @w1 : tensor<6x11xf32> = #dfg.normal<mean = 0.0, stddev = 1.0, seed = 1>
  dfg.parameter @w2 : tensor<11x5xf32> = #dfg.normal<mean = 0.0, stddev = 1.0, seed = 2>
  dfg.parameter @b1 : tensor<11xf32> = #dfg.normal<mean = 0.0, stddev = 1.0, seed = 3>
  dfg.graph @main(%x: tensor<7x6xf32>) -> tensor<7x5xf32> {
    %w1 = dfg.read @w1 : tensor<6x11xf32>
    %b1 = dfg.read @b1 : tensor<11xf32>
    %w2 = dfg.read @w2 : tensor<11x5xf32>
    %0 = dfg.dot_general %x, %w1 )" +
           product + place("m = [\"a\"], n = [\"b\"]") +
           R"(} : (tensor<7x6xf32>, tensor<6x11xf32>) -> tensor<7x11xf32>
    %1 = dfg.add %0, %b1 {)" +
           place("d0 = [\"a\"], d1 = [\"b\"]") + R"(} : (tensor<7x11xf32>, tensor<11xf32>) -> tensor<7x11xf32>
    %2 = dfg.relu %1 {)" +
           place("d0 = [\"a\"], d1 = [\"b\"]") + R"(} : (tensor<7x11xf32>) -> tensor<7x11xf32>
    %3 = dfg.dot_general %2, %w2 )" +
           product + place("m = [\"a\"], k = [\"b\"]") +
           R"(} : (tensor<7x11xf32>, tensor<11x5xf32>) -> tensor<7x5xf32>
    %4 = dfg.softmax %3 {dim = 1 : i64, )" +
           place("d0 = [\"a\"]") + R"(} : (tensor<7x5xf32>) -> tensor<7x5xf32>
    dfg.return %4 : tensor<7x5xf32>
  })";
  };
  expectEqualToOneDevice(4, R"(dist.mesh @m <["a" = 2, "b" = 2], devices = [0, 1, 2, 3]>)", {someValues(42, 1)}, graph);
  expectEqualToOneDevice(4, R"(dist.mesh @m <["a" = 1, "b" = 4], devices = [0, 1, 2, 3]>)", {someValues(42, 1)}, graph);
}

// Images that are cut in height and width by uneven numbers, with strides, padding and channels that are summed.
TEST(MeshProgram, ConvolutionEqualsOneDevice) {
  auto graph = [](const Place &place) {
    return R"(
  dfg.parameter @w1 : tensor<6x3x3x3xf32> = #dfg.normal<mean = 0.0, stddev = 0.3, seed = 1>
  dfg.parameter @w2 : tensor<4x6x3x3xf32> = #dfg.normal<mean = 0.0, stddev = 0.3, seed = 2>
  dfg.graph @main(%x: tensor<2x3x13x11xf32>) -> tensor<2x4x7x6xf32> {
    %w1 = dfg.read @w1 : tensor<6x3x3x3xf32>
    %w2 = dfg.read @w2 : tensor<4x6x3x3xf32>
    %0 = dfg.conv %x, %w1 {dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>, )" +
           place("height = [\"a\"], width = [\"b\"]") +
           R"(} : (tensor<2x3x13x11xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x13x11xf32>
    %1 = dfg.relu %0 {)" +
           place("d2 = [\"a\"], d3 = [\"b\"]") + R"(} : (tensor<2x6x13x11xf32>) -> tensor<2x6x13x11xf32>
    %2 = dfg.conv %1, %w2 {dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>, )" +
           place("height = [\"a\"], in_channel = [\"b\"]") +
           R"(} : (tensor<2x6x13x11xf32>, tensor<4x6x3x3xf32>) -> tensor<2x4x7x6xf32>
    dfg.return %2 : tensor<2x4x7x6xf32>
  })";
  };
  expectEqualToOneDevice(4, R"(dist.mesh @m <["a" = 2, "b" = 2], devices = [0, 1, 2, 3]>)", {someValues(858, 1)},
                         graph);
  expectEqualToOneDevice(3, R"(dist.mesh @m <["a" = 3, "b" = 1], devices = [0, 1, 2]>)", {someValues(858, 1)}, graph);
}

// Rows that are padding are not zero behind an exponential, also not when products of them are joined and scattered;
// the sum over rows must not see them.
TEST(MeshProgram, PaddingStaysOutOfSums) {
  auto graph = [](const Place &place) {
    return R"(
  dfg.parameter @w : tensor<6x4xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 1>
  dfg.graph @main(%x: tensor<7x6xf32>) -> tensor<4xf32> {
    %w = dfg.read @w : tensor<6x4xf32>
    %0 = dfg.exp %x {)" +
           place("d0 = [\"a\"], d1 = [\"b\"]") + R"(} : (tensor<7x6xf32>) -> tensor<7x6xf32>
    %1 = dfg.dot_general %0, %w {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0>, )" +
           place("m = [\"a\"], k = [\"b\"]") +
           R"(} : (tensor<7x6xf32>, tensor<6x4xf32>) -> tensor<7x4xf32>
    %2 = dfg.reduce %1 {dims = array<i64: 0>, kind = #dfg.reduce_kind<sum>, )" +
           place("d0 = [\"a\", \"b\"]") + R"(} : (tensor<7x4xf32>) -> tensor<4xf32>
    dfg.return %2 : tensor<4xf32>
  })";
  };
  Values small(42);
  for (size_t i = 0; i != small.size(); ++i)
    small[i] = static_cast<float>(i % 7) / 4;
  expectEqualToOneDevice(4, R"(dist.mesh @m <["a" = 2, "b" = 2], devices = [0, 1, 2, 3]>)", {small}, graph);
}

/// A chain of products on a mesh of `data` x `model` devices, each joined over the latter.
std::string chainOf(unsigned data, unsigned model, unsigned length) {
  unsigned numDevices = data * model;
  std::string devices, rows = std::to_string(2 * data), depth = std::to_string(4 * model), parameters, body;
  for (unsigned i = 0; i != numDevices; ++i)
    devices += (i ? ", " : "") + std::to_string(i);
  std::string whole = rows + " by [\"a\"], 4]", value = "%x";
  for (unsigned i = 0; i != length; ++i) {
    std::string n = std::to_string(i);
    parameters += "dfg.parameter @w" + n + " : tensor<" + depth + "x4xf32> = #dfg.fill<value = 1.0 : f64>\n";
    body += "%w" + n + " = dist.shard_of @w" + n + " <[" + depth + " by [\"b\"], 4]> : tensor<4x4xf32>\n" + "%p" + n +
            " = plan.launch @k(" + value + ", %w" + n + ") : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>\n" +
            "%r" + n + " = dist.all_reduce %p" + n + " from <[" + whole + ", partial sum [\"b\"]> to <[" + whole +
            "> : tensor<2x4xf32> -> tensor<2x4xf32>\n";
    value = "%r" + n;
  }
  std::string type = "tensor<" + rows + "x4xf32>", layout = "dist.layout = #dist.layout<[" + whole + ">";
  return moduleOf(
      numDevices,
      "dist.mesh @m <[\"a\" = " + std::to_string(data) + ", \"b\" = " + std::to_string(model) + "], devices = [" +
          devices + "]>\n" + graphOf({type}, {type}) + parameters +
          R"(plan.library_kernel @k "onednn" "matmul" {} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      dist.program @main.m(%x: tensor<2x4xf32> {dist.input = 0 : i64, )" +
          layout + "}) -> (tensor<2x4xf32> {dist.output = 0 : i64, " + layout + "}) attributes {mesh = @m} {\n" + body +
          "dist.return " + value + " : tensor<2x4xf32>\n}");
}

// A program is there once, whatever the mesh: beyond the names of the devices and the mesh's list of them, a plan for
// 1,024 devices is as large as one for four, and equal tiles are one.
TEST(MeshProgram, DoesNotGrowWithTheMesh) {
  auto size = [](unsigned data, unsigned model, unsigned length) {
    return ModuleText(chainOf(data, model, length)).emit().size();
  };
  EXPECT_EQ(size(128, 8, 400) - size(128, 8, 200), size(2, 2, 400) - size(2, 2, 200));
  EXPECT_EQ(ModuleText(chainOf(2, 2, 20)).plan()->entries[0].tiles.size(), 2u);
}

} // namespace
