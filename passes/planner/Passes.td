// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes that decide where operators run.

#ifndef CLEAVE_PASSES_PLANNER_PASSES
#define CLEAVE_PASSES_PLANNER_PASSES

include "mlir/Pass/PassBase.td"

def PlaceOperatorsPass : Pass<"dist-place-operators", "::mlir::ModuleOp"> {
  let summary = "Put every operator on a device";
  let description = [{
    Decides the device of every operator of every `dfg.graph`, as the strategy says: `single` puts all on device 0,
    `place` follows a placement file, the model's own groups (`dist.group`) and propagation from both, `alternate` puts
    model node i on device i mod N, for tests. All operators of one model node get one place. `by` says who decided:
    `strategy single`, `pin conv* -> front`, `ctx_group front`, `propagation from conv1`, or `default`.

    Before:
    ```mlir
    dfg.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = dfg.relu %x : (tensor<4xf32>) -> tensor<4xf32> loc("act"("Relu"))
      %1 = dfg.exp %0 : (tensor<4xf32>) -> tensor<4xf32> loc("grow"("Exp"))
      dfg.return %1 : tensor<4xf32>
    }
    ```
    After, with the machine `host:2x1` and a placement file that pins `act` to device 1:
    ```mlir
    module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64},
                                       {name = "cpu1", driver = "cpu", cores = 1 : i64, memory = 0 : i64} ]} {
      dist.mesh @d0 <[], devices = [0]>
      dist.mesh @d1 <[], devices = [1]>
      dfg.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = dfg.relu %x {dist.place = #dist.place<@d1, by = "pin act -> back">}
             : (tensor<4xf32>) -> tensor<4xf32> loc("act"("Relu"))
        %1 = dfg.exp %0 {dist.place = #dist.place<@d1, by = "propagation from act">}
             : (tensor<4xf32>) -> tensor<4xf32> loc("grow"("Exp"))
        dfg.return %1 : tensor<4xf32>
      }
    }
    ```
    Requires: graphs that are not placed yet, or that may be placed anew. Run it after graph simplification, which
    removes operators.
    Guarantees: every operator but `dfg.read`, `dfg.constant` and the terminator has a `dist.place` on a mesh of one
    device; the module has `dist.devices`, and a `dist.mesh` for device 0 and every other device in use. A pattern that
    fits no operator is a warning.
  }];
  let options = [
    Option<"strategy", "strategy", "::cleave::PlaceStrategy", "::cleave::PlaceStrategy::Single",
           "how operators find their device", [{::llvm::cl::values(
             clEnumValN(::cleave::PlaceStrategy::Single, "single", "all on device 0"),
             clEnumValN(::cleave::PlaceStrategy::Place, "place", "by hand, from a placement file"),
             clEnumValN(::cleave::PlaceStrategy::Alternate, "alternate", "model node i on device i mod N"))}]>,
    Option<"placement", "placement", "std::string", [{""}], "the placement file of strategy place">,
    Option<"machine", "machine", "std::string", [{"host"}], "host, host:N, host:NxC, null:N, or a machine file">
  ];
  let dependentDialects = ["::cleave::dfg::DfgDialect", "::cleave::dist::DistDialect"];
}

#endif // CLEAVE_PASSES_PLANNER_PASSES
