// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes that turn a placed graph into one program a mesh.

#ifndef CLEAVE_PASSES_DISTRIBUTE_PASSES
#define CLEAVE_PASSES_DISTRIBUTE_PASSES

include "mlir/Pass/PassBase.td"

def ExpandSharesPass : Pass<"dist-expand-shares", "::mlir::ModuleOp"> {
  let summary = "Take meshes with shares apart into meshes of equal parts";
  let description = [{
    All devices of a mesh run one program on blocks of one size. A mesh with shares becomes a mesh for each run of equal
    shares, and an operator on it one on each of these, on a part of the factor that the axis cuts. What lies between
    them becomes slices, concatenations and sums (see SharesExpander.h).

    Before:
    ```mlir
    dist.mesh @both <["data" = [2, 1]], devices = [0, 1]>
    dfg.graph @main(%x: tensor<6xf32>) -> tensor<6xf32> {
      %0 = dfg.relu %x {dist.place = #dist.place<@both, by = "test", split = <{d0 = ["data"]}>>} …
      dfg.return %0 : tensor<6xf32>
    }
    ```
    After:
    ```mlir
    dist.mesh @d0 <[], devices = [0]>
    dist.mesh @d1 <[], devices = [1]>
    dfg.graph @main(%x: tensor<6xf32>) -> tensor<6xf32> {
      %0 = dist.input_part %x {begin = 0 : i64, dim = 0 : i64} : tensor<6xf32> -> tensor<4xf32>
      %1 = dfg.relu %0 {dist.place = #dist.place<@d0, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
      %2 = dist.input_part %x {begin = 4 : i64, dim = 0 : i64} : tensor<6xf32> -> tensor<2xf32>
      %3 = dfg.relu %2 {dist.place = #dist.place<@d1, by = "test">} : (tensor<2xf32>) -> tensor<2xf32>
      %4 = dist.output_parts %1, %3 {dim = 0 : i64} : (tensor<4xf32>, tensor<2xf32>) -> tensor<6xf32>
      dfg.return %4 : tensor<6xf32>
    }
    ```
    Each device loads its part of an input, and gives its part of an output out. With `whole-ports` a slice and a
    concatenation, operators with a place, stand for both.
    A factor of so few elements that an island would get none is not cut by the axis. Requires: `dist.place` on the
    operators, as of `dist-insert-transfers`; nothing that the axis cuts is a window. Guarantees: no mesh has shares;
    every result is computed from the same elements as before.
  }];
  let options = [Option<"wholePorts", "whole-ports", "bool", "false", "cut inputs and join outputs by operators">];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

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
    Requires: `dist.place` on the operators, as of `dist-insert-transfers`.
    Guarantees: no operator is left whose split names a factor that it cannot be cut along but its parts can; every new
    operator is placed as the one that it comes from.
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
    bring values from the layout in which they are to that in which they are needed, on the way that is the cheapest by
    the links of the module's `dist.machine` (see ProgramWriter.h).

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

def ExchangeInRingsPass : Pass<"dist-exchange-in-rings", "::mlir::ModuleOp"> {
  let summary = "Let keys and values of attention go around instead of gathering them";
  let description = [{
    Where queries are cut along positions, each device needs the keys and values of all. `dist-insert-transfers` gathers
    them. In a ring a device has those of one other device at a time: while it computes with this chunk, it gets the next
    one from its neighbour and gives it on (KeyRing.h has the formulas). The backward pass of a training step brings the
    chunks once more, instead of keeping what was gathered, and the gradients of keys and values go around with them.

    `keys` decides: `ring` makes a ring of all attention that can be one, `gather` of none. `auto` does as the planner
    decided (`dist.keys` on the softmax), and where it did not, what takes less (KeyExchangeCost.h). A remark says for
    each program how its keys come, and why; `dist.keys` of the placed graph says it, too.

    Before, on a mesh with an axis "x" of two devices:
    ```mlir
    %k = dist.all_gather %0 from <[8 by ["x"], 4]> to <[8, 4]> : tensor<4x4xf32> -> tensor<8x4xf32>
    %v = dist.all_gather %1 from <[8 by ["x"], 4]> to <[8, 4]> : tensor<4x4xf32> -> tensor<8x4xf32>
    %s = dfg.dot_general %q, %k …
    %w = dfg.softmax %s {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %o = dfg.dot_general %w, %v …
    ```
    After:
    ```mlir
    %k1 = dist.permute %0 from <[8 by ["x"], 4]> to <[8 by ["x"] shift [1], 4]> : tensor<4x4xf32> -> tensor<4x4xf32>
    %v1 = dist.permute %1 from <[8 by ["x"], 4]> to <[8 by ["x"] shift [1], 4]> : tensor<4x4xf32> -> tensor<4x4xf32>
    %s0 = dfg.dot_general %q, %0 …
    … largest score, sum of powers and sum of values with the device's own keys
    %s1 = dfg.dot_general %q, %k1 …
    … the same with the neighbour's, and both joined
    %o = dfg.div …
    ```
    Requires: programs as `dist-insert-transfers` makes them. Attention stays as it is where devices have unequal numbers of
    keys, others read what is gathered, or its gradients are joined in another way.
    Guarantees: no device has more than its own and two more chunks of keys and values; results are those of before but for
    the order of sums.
  }];
  let options = [Option<"keys", "keys", "std::string", "\"auto\"", "auto, ring or gather">];
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
    latency and bandwidth of their links on the module's machine; G is the bytes of all of a program's
    collectives of this kind. Every bucket costs L, and the last one can begin only when the last gradient is there, when there is nothing left that would hide its S bytes:
    G/S L + S b is least then. So latencies take sqrt(L / (G b)) of the time of the transfers, little where there is
    much to reduce, and where a transfer of everything takes less than L there is one bucket.

    What is there from the beginning and changes from step to step is a part of a parameter that devices share to save
    memory: a bucket that gathers such parts is full, too, at the bytes of the largest of them.

    A bucket is closed early before a collective that becomes ready only after an operator that depends on one in the
    bucket: nothing waits for what depends on itself, and no operator waits that could have gone on; and before the same
    gradient of the next microbatch, which is added to one in the bucket, or the same part of a parameter once more, which
    is gathered again. Writes of parameters, and elementwise operators and collectives of another kind that lead to
    nothing else, stand behind the bucket that they wait for. All others keep their order, so that transfers
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
    Requires: programs as `dist-insert-transfers` makes them.
    Guarantees: every element is combined from the same values in the same order as before.
  }];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

def AdvanceUpdatesPass : Pass<"dist-advance-updates", "::mlir::ModuleOp"> {
  let summary = "Write parameters as soon as a step has all that this needs";
  let description = [{
    A step writes its parameters and their state at its end. Until then all gradients would be there at once, or what
    devices got of them. So what leads to writes alone moves to where it can be: elementwise operators (be they operators,
    or native kernels that hold nothing else), gathers of what they make, and the writes.

    Such an operator stands behind what it needs. What a collective brings is on its way for a while: what needs it
    stands behind the beginning of the next collective that the rest of the step needs, so that devices have computed
    what that one carries before they may have to wait. Collectives follow each other on one queue: where the next one is
    waited for at once, so is the one before it. Behind the last one there is nothing left, and updates stand at the end.

    Nor do other meshes wait for updates: these stand behind the next value that the program sends, unless it waits for
    another mesh itself before that.

    The operator that makes a parameter's next value also stands behind all who read the present one: it replaces that
    where it lies. For its sake it moves to a later place, too, also where it does more than elementwise arithmetic, as
    a kernel does that goes on from a gradient to the update. What leads to several updates (the rate of an optimizer)
    comes with the first of them.

    Nothing else moves: a limit on all gradients together is a reduction that needs all of them, so it and what follows
    stay behind the last one; sums over microbatches are behind the last microbatch. Gradients themselves, and what joins
    them over devices, stand where the schedule of the step and the buckets of its collectives have them, and transfers
    keep their order.

    Before:
    ```mlir
    %0 = dist.all_reduce %g2 …
    %g1 = …
    %1 = dist.all_reduce %g1 …
    %h = …
    %u1 = dfg.sub %w1, %1 …
    dist.write @w1 <[8]>, %u1 : tensor<8xf32>
    %u2 = dfg.sub %w2, %0 …
    dist.write @w2 <[8]>, %u2 : tensor<8xf32>
    ```
    After:
    ```mlir
    %0 = dist.all_reduce %g2 …
    %g1 = …
    %1 = dist.all_reduce %g1 …
    %u2 = dfg.sub %w2, %0 …
    dist.write @w2 <[8]>, %u2 : tensor<8xf32>
    %h = …
    %u1 = dfg.sub %w1, %1 …
    dist.write @w1 <[8]>, %u1 : tensor<8xf32>
    ```
    Runs on operators, so that what is fused stands where it is to run, and again on kernels, when it is known who reads
    parameters.

    Requires: programs whose collectives and transfers are in their final order.
    Guarantees: values are what they were; reads see what was there before the step wherever they stand.
  }];
}

#endif // CLEAVE_PASSES_DISTRIBUTE_PASSES
