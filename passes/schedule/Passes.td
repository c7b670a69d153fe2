// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pass of the schedule stage.

#ifndef CLEAVE_PASSES_SCHEDULE_PASSES
#define CLEAVE_PASSES_SCHEDULE_PASSES

include "mlir/Pass/PassBase.td"

def ScheduleProgramsPass : Pass<"plan-schedule", "::mlir::ModuleOp"> {
  let summary = "Order the programs' work, and give every value its place in memory";
  let description = [{
    Turns each `dist.program` into a `plan.program` of the same name: which instructions run once and which in every
    step, on which queue, in which order, what they wait for, and where each value lies in the device's arena.

    - What depends on parameters and constants alone goes to `plan.prepare`, result by result, those that take the most
      temporary memory first; results keep their bytes for good.
    - All programs are ordered together by list scheduling on estimated times, so that devices work at the same time:
      what another device waits for goes first. One device by itself keeps the model's order.
    - Kernels and host actions run on the compute queue; sends, receives and collectives on a queue each. An instruction
      waits for instructions of other queues only, and for none that follows from another wait.
    - What goes to the host's memory (`dfg.offload`) and comes back (`dfg.fetch`) has a send and a receive queue. It comes
      back as late as nobody should have to wait for it, and lies in the program's part of the host's memory meanwhile.
    - A collective gets a channel of its own, behind those of the transfers. Layouts become tiles. What an all-reduce
      joins lies where its result does, unless somebody else reads it.
    - Values share bytes where they are not live at the same time; views share those of what they show. The arena is as
      small as a search over greedy placements makes it.

    Before:
    ```mlir
    dist.program @main.d0(%x: tensor<8xf32> {dist.input = 0 : i64}) attributes {mesh = @d0} {
      %0 = plan.launch @relu.0(%x) : (tensor<8xf32>) -> tensor<8xf32>
      dist.send %0 to @d1 channel 0 : tensor<8xf32>
      dist.return
    }
    ```
    After:
    ```mlir
    plan.program @main.d0 on @d0 queues ["compute", "send"] arena 128 live 128 {
      %0 = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
      %1 = plan.buffer "relu" offset 64 bytes 32 : !plan.buffer<tensor<8xf32>>
      plan.prepare {
      }
      plan.body {
        plan.load_input 0 -> %0 {order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
        plan.call @relu.0(%0) -> (%1) {order = 1 : i64, queue = 0 : i64}
            : (!plan.buffer<tensor<8xf32>>) -> !plan.buffer<tensor<8xf32>>
        plan.send %1 to @d1 {channel = 0 : i64, order = 2 : i64, queue = 1 : i64,
            waits = [#plan.wait<queue = 0, value = 2>]} : !plan.buffer<tensor<8xf32>>
      }
    }
    ```
    Requires programs that hold nothing but `dfg.read`, `dist.shard_of`, `dist.start`, `dist.extent`, `dfg.constant`,
    `plan.launch`, views (`plan.view`, `dfg.reshape`), `dist.send`, `dist.receive`, `dfg.offload`, `dfg.fetch`, collectives and `dist.return`;
    anything else is an error that names it.
    Guarantees that the queues cannot deadlock, also where a send waits for its receive. Leaves everything else in the
    module as it is. Times are those of the module's `dist.machine`; they decide what is urgent and nothing else.
  }];
  let dependentDialects = ["::cleave::plan::PlanDialect"];
}

#endif // CLEAVE_PASSES_SCHEDULE_PASSES
