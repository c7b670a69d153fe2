// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the models as text, and compiles them.

#include "test/passes/train/PlacedLayers.h"

#include "test/passes/train/TrainingFormula.h"
#include "test/property/split/RunGraph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

using namespace mlir;

namespace cleave::test {

unsigned PlacedLayers::numMeshes() const { return *std::max_element(meshes.begin(), meshes.end()) + 1; }

static std::string devicesOf(const PlacedLayers &layers) {
  std::ostringstream text;
  unsigned count = layers.numMeshes() * layers.devicesOfMesh;
  for (unsigned device = 0; device != count; ++device)
    text << (device ? ", " : "") << "{name = \"d" << device << "\", driver = \"" << layers.driver
         << "\", cores = 1 : i64, memory = 0 : i64}";
  return text.str();
}

static std::string meshOf(const PlacedLayers &layers, unsigned mesh) {
  std::ostringstream text;
  text << "dist.mesh @m" << mesh << " <[\"data\" = " << layers.devicesOfMesh << "], devices = [";
  for (unsigned i = 0; i != layers.devicesOfMesh; ++i)
    text << (i ? ", " : "") << mesh * layers.devicesOfMesh + i;
  return text.str() + "]>\n";
}

/// A product of 2 x 8 x 8 takes a quarter of a millisecond, a transfer less than a nanosecond.
static std::string slowMachine(unsigned devices) {
  return "dist.machine @machine {device_kinds = {slow = {driver = \"null\", bandwidth = \"1000000 TB/s\", launch = "
         "\"0 us\", peak = {f32 = \"1 MFLOP/s\"}}}, hosts = [{devices = [{count = \"" +
         std::to_string(devices) +
         "\", kind = \"slow\"} ], links = [{bandwidth = \"1000000 TB/s\", between = \"devices\", latency = \"0 us\"} "
         "]} ], name = \"slow\"}\n";
}

std::string PlacedLayers::text() const {
  std::ostringstream text;
  std::string size = std::to_string(width);
  std::string x = "tensor<" + std::to_string(samples) + "x" + size + "xf32>",
              w = "tensor<" + size + "x" + size + "xf32>";
  auto place = [&](unsigned mesh, const std::string &factor) {
    return "dist.place = #dist.place<@m" + std::to_string(mesh) + ", by = \"test\", split = <{" + factor +
           " = [\"data\"]}>>";
  };
  text << "module attributes {dist.devices = [" << devicesOf(*this) << "]} {\n";
  if (onlyProductsTakeTime)
    text << slowMachine(numMeshes() * devicesOfMesh);
  for (unsigned mesh = 0; mesh != numMeshes(); ++mesh)
    text << meshOf(*this, mesh);
  for (size_t i = 0; i != meshes.size(); ++i)
    text << "dfg.parameter @w" << i << " : " << w << " = #dfg.normal<mean = 0.0, stddev = 0.1, seed = " << i << ">\n";
  text << "dfg.graph @main(%x: " << x << " {dfg.name = \"x\"}) -> (tensor<f32> {dfg.name = \"loss\"}) {\n";
  std::string before = "%x";
  for (size_t i = 0; i != meshes.size(); ++i) {
    std::string n = std::to_string(i);
    text << "%w" << n << " = dfg.read @w" << n << " : " << w << "\n"
         << "%a" << n << " = dfg.dot_general " << before << ", %w" << n
         << " {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = "
            "array<i64: 0>, "
         << place(meshes[i], "m") << "} : (" << x << ", " << w << ") -> " << x << " loc(\"layer" << n << "\")\n"
         << "%b" << n << " = dfg.relu %a" << n << " {" << place(meshes[i], "d0") << "} : (" << x << ") -> " << x
         << " loc(\"relu" << n << "\")\n";
    before = "%b" + n;
  }
  text << "%loss = dfg.reduce " << before << " {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, "
       << place(meshes.back(), "d0") << "} : (" << x << ") -> tensor<f32> loc(\"loss\")\n"
       << "dfg.return %loss : tensor<f32>\n}\n}\n";
  return text.str();
}

PlacedModule::PlacedModule(const std::string &text)
    : context(createTestContext()), module(parseGraph(*context, text)) {}

dfg::GraphOp PlacedModule::graph() const { return graphOf(*module); }

std::optional<runtime::Plan> compileStep(const PlacedLayers &layers, const TrainingOptions &options) {
  PlacedModule placed(layers.text());
  if (!placed.module || failed(buildTrainingStep(placed.graph(), options))) {
    ADD_FAILURE() << "no step of\n" << layers.text();
    return std::nullopt;
  }
  auto bytes = compileGraph(*placed.module, true, {layers.combines});
  if (!bytes) {
    ADD_FAILURE() << llvm::toString(bytes.takeError());
    return std::nullopt;
  }
  auto plan = runtime::Plan::fromBytes(std::as_bytes(std::span(*bytes)));
  if (!plan) {
    ADD_FAILURE() << plan.error().text();
    return std::nullopt;
  }
  return *plan;
}

} // namespace cleave::test
