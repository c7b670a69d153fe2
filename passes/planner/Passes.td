// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes that decide where operators run.

#ifndef CLEAVE_PASSES_PLANNER_PASSES
#define CLEAVE_PASSES_PLANNER_PASSES

include "mlir/Pass/PassBase.td"

def PlaceOperatorsPass : Pass<"dist-place-operators", "::mlir::ModuleOp"> {
  let summary = "Put every operator on a device or mesh, and split it there";
  let description = [{
    Decides the mesh of every operator of every `dfg.graph` and the factors that the mesh's axes cut, as the strategy
    says: `single` puts all on device 0, `place` follows a placement file, the model's own groups (`dist.group`) and
    propagation from both, `data` splits the batch over axis `data`, `tensor` splits layers by columns and rows over axis
    `model`, `alternate` puts model node i on device i mod N and `split` cuts every operator along its factors in turn,
    both for tests. `degrees` gives the sizes of the axes; with both
    axes, batch and layers are split. All operators of one model node are on one mesh. What nobody splits follows its
    neighbours along the factors of the split rules.

    `by` says who decided: `strategy single`, `pin conv* -> front`, `ctx_group front`, `propagation from conv1`,
    `splits fc*`, `strategy tensor: column`, or `default`.

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
      dist.machine @machine {device_kinds = {…}, hosts = […], name = "host:2x1"}
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
    With strategy `tensor` and the machine `host:2x1`, the columns of the first product and then the rows of the second:
    ```mlir
    dist.mesh @mesh <["model" = 2], devices = [0, 1]>
    %0 = dfg.dot_general %x, %w1 {dist.place = #dist.place<@mesh, by = "strategy tensor: column",
                                                           split = <{n = ["model"]}>>, …}
    %1 = dfg.relu %0 {dist.place = #dist.place<@mesh, by = "propagation from fc1", split = <{d1 = ["model"]}>>}
    %2 = dfg.dot_general %1, %w2 {dist.place = #dist.place<@mesh, by = "strategy tensor: row",
                                                           split = <{k = ["model"]}>>, …}
    ```
    Requires: graphs that are not placed yet, or that may be placed anew. Run it after graph simplification, which
    removes operators.
    Guarantees: every operator but `dfg.read`, `dfg.constant` and the terminator has a `dist.place`, whose split
    names factors of the operator's rule and axes of its mesh, each axis once; the module has the machine as
    `dist.machine`, its `dist.devices`, and a `dist.mesh` for device 0 and every other device or grid in use. A pattern that fits no operator is a warning.
  }];
  let options = [
    Option<"strategy", "strategy", "::cleave::PlaceStrategy", "::cleave::PlaceStrategy::Single",
           "how operators find their device", [{::llvm::cl::values(
             clEnumValN(::cleave::PlaceStrategy::Single, "single", "all on device 0"),
             clEnumValN(::cleave::PlaceStrategy::Place, "place", "by hand, from a placement file"),
             clEnumValN(::cleave::PlaceStrategy::Data, "data", "the batch in parts"),
             clEnumValN(::cleave::PlaceStrategy::Tensor, "tensor", "layers in parts, by columns and rows"),
             clEnumValN(::cleave::PlaceStrategy::Alternate, "alternate", "model node i on device i mod N"),
             clEnumValN(::cleave::PlaceStrategy::Split, "split", "every operator in parts, by its factors in turn"),
             clEnumValN(::cleave::PlaceStrategy::Auto, "auto", "as the search finds best"))}]>,
    Option<"placement", "placement", "std::string", [{""}], "the placement file of strategy place">,
    Option<"degrees", "degrees", "std::string", [{""}], "data=N,model=N: the parts of strategies data and tensor">,
    Option<"machine", "machine", "std::string", [{"host"}], "host, host:N, host:NxC, null:N, or a machine file">
  ];
  let dependentDialects = ["::cleave::dfg::DfgDialect", "::cleave::dist::DistDialect"];
}

#endif // CLEAVE_PASSES_PLANNER_PASSES
