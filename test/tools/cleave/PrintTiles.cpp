// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// print-tiles PLAN: which part of every parameter, input and output the runtime gives each device, for tests of what
// is exported. A line each: what, its name as JSON, mesh, device, and for each dimension of the tile its size, the
// first element, and how many; a dimension of the tensor may be several of the tile's.

#include "runtime/Json.h"
#include "runtime/Plan.h"
#include "runtime/Tile.h"

#include <iostream>

using namespace cleave::runtime;

namespace {

struct Printer {
  const PlanContents &plan;
  const Entry &entry;

  void print(const char *what, const std::string &name, const TensorType &type, const Program &program,
             int32_t tileIndex) const {
    const Mesh &mesh = plan.meshes[program.mesh];
    for (uint32_t member = 0; member != mesh.devices.size(); ++member) {
      std::cout << what << " " << JsonString{name} << " " << JsonString{mesh.name} << " " << mesh.devices[member];
      const Tile *tile = entry.tile(tileIndex);
      for (int64_t size : tile ? std::vector<int64_t>() : type.shape)
        std::cout << " " << size << ":0:" << size;
      for (const TileDim &dim : tile ? tile->dims : std::vector<TileDim>()) {
        Span span = spanOf(dim, coordinatesOf(mesh, member));
        std::cout << " " << dim.size << ":" << span.global << ":" << std::max<int64_t>(0, span.extent);
      }
      std::cout << "\n";
    }
  }
};

} // namespace

int main(int argc, char **argv) {
  auto plan = Plan::read(argc == 2 ? argv[1] : "");
  if (!plan) {
    std::cerr << "usage: print-tiles PLAN: " << plan.error().text() << "\n";
    return 2;
  }
  const Entry &entry = (*plan)->entries.front();
  Printer printer{**plan, entry};
  for (const Program &program : entry.programs)
    for (Phase phase : {Phase::Prepare, Phase::Body})
      for (const Instruction &instruction : program.instructions(phase)) {
        if (const auto *load = std::get_if<LoadParameter>(&instruction.action)) {
          const Parameter &parameter = (*plan)->parameters[load->parameter];
          printer.print("parameter", parameter.name, parameter.type, program, load->tile);
        }
        if (const auto *load = std::get_if<LoadInput>(&instruction.action))
          printer.print("input", entry.inputs[load->input].name, entry.inputs[load->input].type, program, load->tile);
        if (const auto *store = std::get_if<StoreOutput>(&instruction.action))
          printer.print("output", entry.outputs[store->output].name, entry.outputs[store->output].type, program,
                        store->tile);
      }
}
