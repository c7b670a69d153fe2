// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes that turn a placed graph into one program a mesh.

#ifndef CLEAVE_PASSES_DISTRIBUTE_PASSES
#define CLEAVE_PASSES_DISTRIBUTE_PASSES

include "mlir/Pass/PassBase.td"

def DecomposeSplitPass : Pass<"dist-decompose-split", "::mlir::ModuleOp"> {
  let summary = "Take operators apart where their parts can be cut and they cannot";
  let description = [{
    A softmax whose split names its own dimension becomes two reductions and elementwise operators, cut in the same way;
    their partial results are small. The simpler operators keep the location and who decided.

    Before:
    ```mlir
    %0 = dfg.softmax %x {dim = 1 : i64, dist.place = #dist.place<@pair, by = "splits", split = <{d1 = ["x"]}>>}
        : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    After:
    ```mlir
    %0 = dfg.reduce %x {kind = max, dims = [1], keep_dims, dist.place = … split = <{d1 = ["x"]}>} …
    %1 = dfg.sub %x, %0 {dist.place = … split = <{d1 = ["x"]}>} …
    %2 = dfg.exp %1 …
    %3 = dfg.reduce %2 {kind = sum, …} …
    %4 = dfg.div %2, %3 …
    ```
  }];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

def InsertTransfersPass : Pass<"dist-insert-transfers", "::mlir::ModuleOp"> {
  let summary = "Make one program a mesh, and transfers between them";
  let description = [{
    Copies the operators of every placed `dfg.graph` into one `dist.program @GRAPH.MESH` a mesh and inserts a send and a
    receive where a value is used on another mesh than its producer's: once a value and mesh, straight from the producer.
    Reads of parameters, constants and the graph's inputs are copied to every program that uses them. The placed graph
    stays: it is the record that explanations are made from.

    On a mesh of several devices the program computes on parts of tensors, as the operators' splits say, and collectives
    bring values from the layout in which they are to that in which they are needed (see ProgramWriter.h).

    Before:
    ```mlir
    dfg.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = dfg.relu %x {dist.place = #dist.place<@d0, by = "strategy alternate">} : (tensor<4xf32>) -> tensor<4xf32>
      %1 = dfg.exp %0 {dist.place = #dist.place<@d1, by = "strategy alternate">} : (tensor<4xf32>) -> tensor<4xf32>
      dfg.return %1 : tensor<4xf32>
    }
    ```
    After, besides the graph:
    ```mlir
    dist.program @main.d0(%x: tensor<4xf32> {dist.input = 0 : i64}) attributes {mesh = @d0} {
      %0 = dfg.relu %x : (tensor<4xf32>) -> tensor<4xf32>
      dist.send %0 to @d1 channel 0 : tensor<4xf32>
      dist.return
    }
    dist.program @main.d1() -> (tensor<4xf32> {dist.output = 0 : i64}) attributes {mesh = @d1} {
      %0 = dist.receive from @d0 channel 0 : tensor<4xf32>
      %1 = dfg.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
      dist.return %1 : tensor<4xf32>
    }
    ```
    Requires: a `dist.place` on every operator but reads and constants, with splits along factors that can be cut.
    Guarantees: every output of the graph is the result of one program; operators keep their locations and their order;
    channels are distinct in the module, and in the order of the channels in every program (see `dist.program`).
    Transfers carry the location of the value's producer.
  }];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

def CombineCollectivesPass : Pass<"dist-combine-collectives", "::mlir::ModuleOp"> {
  let summary = "Let collectives that become ready near each other share a message";
  let description = [{
    All-reduces, reduce-scatters and all-gathers of a program that join the same devices, of one element type and one
    combiner, all of values that change from step to step or all of values that do not, are put into buckets in the order
    in which they become ready; a bucket is one collective of several tensors, right behind the last operator that it
    depends on. Elementwise operators whose result only a collective reads move with it: an optimizer may scale gradients
    long after they are there. What depends on parameters alone is ready at any time: such a bucket stands where its
    first result is needed.

    A bucket is full at S = sqrt(G L / b) bytes. L is what a collective takes without any bytes and b what a byte adds,
    both by the formulas of `CollectiveCost` (Thakur, Rabenseifner, Gropp 2005) for the devices that it joins, with the
    latency and bandwidth of their links; G is the bytes of all of a program's
    collectives of this kind. Every bucket costs L, and the last one can begin only when the last gradient is there, when there is nothing left that would hide its S bytes:
    G/S L + S b is least then. So latencies take sqrt(L / (G b)) of the time of the transfers, little where there is
    much to reduce, and where a transfer of everything takes less than L there is one bucket.

    A bucket is closed early before a collective that becomes ready only after an operator that depends on one in the
    bucket: nothing waits for what depends on itself, and no operator waits that could have gone on; and before the same
    gradient of the next microbatch, which is added to one in the bucket. Writes of parameters, and elementwise operators
    that lead to nothing else, stand behind the bucket that they wait for. All others keep their order, so that transfers
    do, too, and programs cannot block each other (see `dist.program`).

    Before:
    ```mlir
    %g1 = …
    %g2 = …
    %0 = dist.all_reduce %g1 from <[8], partial sum ["data"]> to <[8]> : tensor<8xf32> -> tensor<8xf32>
    %1 = dfg.sub %w1, %0 …
    %2 = dist.all_reduce %g2 from <[4], partial sum ["data"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
    ```
    After:
    ```mlir
    %g1 = …
    %g2 = …
    %0:2 = dist.all_reduce %g1, %g2 from <[8], partial sum ["data"]>, <[4], partial sum ["data"]> to <[8]>, <[4]>
        : tensor<8xf32>, tensor<4xf32> -> tensor<8xf32>, tensor<4xf32>
    %1 = dfg.sub %w1, %0#0 …
    ```
    Guarantees: every element is combined from the same values in the same order as before.
  }];
  let options = [
    Option<"latency", "latency", "double", "5e-6", "seconds from device to device, where no machine is known">,
    Option<"bandwidth", "bandwidth", "double", "1e10", "bytes a second from device to device, likewise">];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

#endif // CLEAVE_PASSES_DISTRIBUTE_PASSES
