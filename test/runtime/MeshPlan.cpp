// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// x in blocks of rows, doubled, gathered, summed over four devices, and scattered.

#include "MeshPlan.h"

#include "TileReference.h"

namespace cleave::runtime::test {

PlanBuilder meshPlan(const std::string &driver) {
  constexpr int64_t size = 10;
  PlanBuilder builder(driver);
  Mesh mesh = meshOf({4});
  Tile rows{{blocks(size, {0}, mesh)}};
  uint32_t program = builder.mesh("m", {4});
  uint32_t x = builder.input("x", size), y = builder.output("y", size), w = builder.constant("w", size, 1);
  int64_t length = rows.dims[0].length;
  uint32_t parameter = builder.buffer(program, "w", size), in = builder.buffer(program, "in", length);
  uint32_t index = builder.buffer(program, "index", ElementType::I64, {1}),
           out = builder.buffer(program, "out", length);
  uint32_t copied = builder.buffer(program, "copied", length), gathered = builder.buffer(program, "gathered", size);
  uint32_t sum = builder.buffer(program, "sum", size), part = builder.buffer(program, "part", length);
  int32_t tile = builder.tile(rows);
  Point last = builder.loadParameter(program, w, parameter);
  last = builder.loadInput(program, x, in, {last});
  builder.program(program).body.back()->action.AsLoadInput()->tile = tile;
  fb::LoadIndexT load;
  load.buffer = index;
  load.tile = static_cast<uint32_t>(tile);
  last = builder.act(program, "index", load, {last}, HostQueue);
  last = builder.call(program, "double", builder.kernel("twice", 1, length), {in, out}, {last});
  last = builder.copy(program, "copy", out, copied, {last});
  fb::ExchangeT gather;
  gather.source = copied;
  gather.target = gathered;
  gather.source_tile = tile;
  last = builder.act(program, "gather", gather, {last});
  fb::AllReduceT reduce;
  reduce.source = gathered;
  reduce.target = sum;
  reduce.axes = {0};
  reduce.channel = 1;
  last = builder.act(program, "reduce", reduce, {last});
  fb::ReduceScatterT scatter;
  scatter.source = sum;
  scatter.target = part;
  scatter.axes = {0};
  scatter.channel = 2;
  scatter.tile = tile;
  last = builder.act(program, "scatter", scatter, {last});
  builder.storeOutput(program, y, part, {last});
  builder.program(program).body.back()->action.AsStoreOutput()->tile = tile;
  return builder;
}

} // namespace cleave::runtime::test
