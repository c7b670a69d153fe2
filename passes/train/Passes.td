// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes of the train stage.

#ifndef CLEAVE_PASSES_TRAIN_PASSES
#define CLEAVE_PASSES_TRAIN_PASSES

include "mlir/Pass/PassBase.td"

def AddLossPass : Pass<"train-add-loss", "::mlir::ModuleOp"> {
  let summary = "Append a loss to a forward graph";
  let description = [{
    Before:
    ```mlir
    dfg.graph @main(%x: tensor<8x4xf32> {dfg.name = "x"}) -> (tensor<8x4xf32> {dfg.name = "y"}) {
      %0 = dfg.relu %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
      dfg.return %0 : tensor<8x4xf32>
    }
    ```
    After `--train-add-loss=loss=mse`:
    ```mlir
    dfg.graph @main(%x: tensor<8x4xf32> {dfg.name = "x"}, %target: tensor<8x4xf32> {dfg.name = "target"})
        -> (tensor<f32> {dfg.name = "loss"}) {
      %0 = dfg.relu %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
      %1 = dfg.sub %0, %target : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %2 = dfg.mul %1, %1 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %3 = dfg.reduce %2 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0, 1>} : (tensor<8x4xf32>) -> tensor<f32>
      %4 = dfg.constant dense<3.125000e-02> : tensor<f32>
      %5 = dfg.mul %3, %4 : (tensor<f32>, tensor<f32>) -> tensor<f32>
      dfg.return %5 : tensor<f32>
    }
    ```
    Requires: one `dfg.graph`, not placed yet. Cross-entropy expects real scores of samples (dimension 0) by classes.
    Guarantees: the first result is the loss, a scalar; for cross-entropy the number of right answers follows. Inputs keep
    their positions, the loss's own input is the last one. Operators that only other results needed are removed.
  }];
  let options = [Option<"loss", "loss", "std::string", [{"cross-entropy"}],
                        "cross-entropy, mse or an output's name, then ,output=NAME ,labels=NAME ,classes=DIM">];
}

def ExpandDropoutPass : Pass<"train-expand-dropout", "::mlir::ModuleOp"> {
  let summary = "Replace dropout by what it is in training";
  let description = [{
    Before:
    ```mlir
    dfg.graph @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = dfg.dropout %x {ratio = 0.5 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>   // of the node "drop"
      dfg.return %0 : tensor<2x3xf32>
    }
    ```
    After:
    ```mlir
    dfg.parameter state @"drop/dropout" : tensor<i64> = #dfg.fill<value = 0.0 : f64>
    dfg.graph @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %seen = dfg.read @"drop/dropout" : tensor<i64>
      %start = dfg.mul %seen, %three …                   // elements of the samples seen before
      %counters = dfg.add %positions, %start …           // each element's number in the run: tensor<2x3xi64>
      %random = dfg.random %counters, %key …
      %kept = dfg.compare %random, %half {comparison = #dfg.comparison<greater_or_equal>} …
      %next = dfg.add %seen, %two …
      dfg.write @"drop/dropout", %next : tensor<i64>
      %scaled = dfg.mul %x, %two …
      %0 = dfg.select %kept, %scaled, %zero …
      dfg.return %0 : tensor<2x3xf32>
    }
    ```
    Requires: a graph that is not placed yet, with its whole batch in the dimensions of its tensors.
    Guarantees: no `dfg.dropout` is left. The random numbers follow from the seed, the node and the position of an element in
    the run, so they do not depend on how the step is split.
  }];
  let options = [Option<"seed", "seed", "uint64_t", "0", "what the random numbers follow from">];
}

def NormalizeByBatchPass : Pass<"train-normalize-by-batch", "::mlir::ModuleOp"> {
  let summary = "Replace batch normalization by what it is in training";
  let description = [{
    Before:
    ```mlir
    dfg.graph @main(%x: tensor<8x4x6xf32>) -> tensor<8x4x6xf32> {
      …
      %0 = dfg.batch_norm %x, %scale, %bias, %mean, %variance {epsilon = 1.0e-5 : f64} …
      dfg.return %0 : tensor<8x4x6xf32>
    }
    ```
    After, in one group:
    ```mlir
    dfg.graph @main(%x: tensor<8x4x6xf32>) -> tensor<8x4x6xf32> {
      …
      %sum = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0, 2>, keep_dims} …
      %m = dfg.mul %sum, %one_48th …
      %centred = dfg.sub %x, %m …
      %squares = dfg.mul %centred, %centred …
      %v = …                                             // their mean
      %factor = dfg.div %scale, %deviation …             // sqrt(%v + epsilon)
      %0 = …                                             // %centred * %factor + %bias
      dfg.write @mean, %next_mean : tensor<4xf32>        // 0.9 * %mean + 0.1 * %m
      dfg.write @variance, %next_variance : tensor<4xf32>
      dfg.return %0 : tensor<8x4x6xf32>
    }
    ```
    With several groups the samples are seen as groups by samples, and only the samples are reduced.
    Requires: a graph that is not placed yet, whose running statistics are read from parameters.
    Guarantees: no `dfg.batch_norm` is left; the graph writes each running statistic once.
  }];
  let options = [Option<"groups", "groups", "int64_t", "1", "the groups of samples with statistics of their own">];
}

def TrainingStepPass : Pass<"train-build-step", "::mlir::ModuleOp"> {
  let summary = "Turn a placed forward graph into a training step";
  let description = [{
    The graph's first result is the loss. The step computes it for every microbatch, the gradients of the parameters on
    which it depends, and their next values. Gradient operators stand on the mesh of the operator that they belong to,
    cut as that is (see GradientPlaces.h); a gradient is partial over the axes over which its parameter is replicated, and
    the distribute stage joins it.

    Before:
    ```mlir
    dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 1.0 : f64>
    dfg.graph @main(%x: tensor<2x4xf32>) -> tensor<f32> {
      %0 = dfg.read @w : tensor<4xf32>
      %1 = dfg.mul %x, %0 {dist.place = #dist.place<@pair, by = "planner", split = <{d0 = ["data"]}>>} …
      %2 = dfg.reduce %1 {kind = sum, dims = [0, 1], dist.place = … split = <{d0 = ["data"]}>} …
      dfg.return %2 : tensor<f32>
    }
    ```
    After, with one microbatch and plain gradient descent:
    ```mlir
    dfg.graph @train(%x: tensor<2x4xf32>) -> tensor<f32> attributes {dist.ordered} {
      %0 = dfg.read @w {dist.place = #dist.place<@pair, by = "home">} : tensor<4xf32>
      %1 = dfg.mul %x, %0 …
      %2 = dfg.reduce %1 …
      %3 = dfg.constant dense<1.0> : tensor<f32>
      %4 = dfg.broadcast %3 {… split = <{d0 = ["data"]}>} : (tensor<f32>) -> tensor<2x4xf32>
      %5 = dfg.mul %4, %x {… split = <{d0 = ["data"]}>} …
      %6 = dfg.reduce %5 {kind = sum, dims = [0], … split = <{d0 = ["data"]}>} : (tensor<2x4xf32>) -> tensor<4xf32>
      %7 = dfg.mul %6, %rate …
      %8 = dfg.sub %0, %7 …
      dfg.write @w, %8 {…}
      dfg.return %2 : tensor<f32>
    }
    ```
    Requires: `dist.place` on the operators of the module's one graph.
    Guarantees: `dist.place` on the operators of the step; their order is that of the schedule.
  }];
  let options = [
    Option<"microbatches", "microbatches", "unsigned", "1", "into how many parts the step divides its batch">,
    Option<"schedule", "schedule", "std::string", [{"1f1b"}],
           "a name of the table of schedules (passes/pipeline/Schedule.cpp)">,
    Option<"recompute", "recompute", "std::string", [{"none"}], "none, selective, full, offload">,
    Option<"zero", "zero", "unsigned", "0", "what replicas share: 1 optimizer state, 2 gradients, 3 parameters, too">,
    Option<"optimizer", "optimizer", "std::string", [{"sgd"}], "as --optimizer of the command line has it">,
    Option<"optimizerInHost", "optimizer-in-host", "bool", "false", "keep the optimizer's state in the host's memory">,
    Option<"learningRate", "learning-rate", "double", "0.1", "of plain gradient descent">
  ];
  let dependentDialects = ["::cleave::dfg::DfgDialect", "::cleave::dist::DistDialect"];
}

def PlaceHomesPass : Pass<"train-place-homes", "::mlir::ModuleOp"> {
  let summary = "Say where a step would keep what it trains";
  let description = [{
    For plans that hold decisions about a training step and not the step: parameters, and the state that the optimizer
    keeps of them, lie where `train-build-step` would keep them.

    Before:
    ```mlir
    dist.mesh @pair <["data" = 2], devices = [0, 1]>
    dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 1.0 : f64>
    dfg.graph @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
      %0 = dfg.read @w : tensor<4xf32>
      %1 = dfg.mul %x, %0 {dist.place = #dist.place<@pair, by = "planner", split = <{d0 = ["data"]}>>} …
      dfg.return %1 : tensor<2x4xf32>
    }
    ```
    After, with momentum whose state replicas share (`optimizer=momentum zero=1`):
    ```mlir
    dist.mesh @pair <["data" = 2], devices = [0, 1]>
    dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 1.0 : f64>
    dfg.parameter state @"w/momentum" : tensor<4xf32> = #dfg.fill<value = 0.0 : f64>
    dfg.graph @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
      %0 = dfg.read @w {dist.place = #dist.place<@pair, by = "home">} : tensor<4xf32>
      %2 = dfg.read @"w/momentum" {dist.place = #dist.place<@pair, by = "optimizer", split = <{d0 = ["data"]}>>} …
      %1 = dfg.mul %x, %0 {dist.place = #dist.place<@pair, by = "planner", split = <{d0 = ["data"]}>>} …
      dfg.return %1 : tensor<2x4xf32>
    }
    ```
    Requires: `dist.place` on the operators of graphs, which are forward graphs.
    Guarantees: of each parameter that an operator uses the first read has a place, and so has one of each state of the
    optimizer, except where an axis with shares cuts it. Nothing uses the state.
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", [{"sgd"}], "whose state there is">,
    Option<"zero", "zero", "unsigned", "0", "what replicas share: 1 optimizer state, 2 gradients, 3 parameters, too">
  ];
  let dependentDialects = ["::cleave::dfg::DfgDialect", "::cleave::dist::DistDialect"];
}

def NarrowArithmeticPass : Pass<"train-narrow-arithmetic", "::mlir::ModuleOp"> {
  let summary = "Compute in bfloat16 what gains from it";
  let description = [{
    Before:
    ```mlir
    dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0 : f64>
    dfg.graph @main(%x: tensor<8x4xf32>) -> tensor<f32> {
      %w = dfg.read @w : tensor<4x4xf32>
      %0 = dfg.dot_general %x, %w …
      %1 = dfg.relu %0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
      %2 = dfg.reduce %1 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0, 1>} : (tensor<8x4xf32>) -> tensor<f32>
      dfg.return %2 : tensor<f32>
    }
    ```
    After:
    ```mlir
    dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0 : f64>
    dfg.graph @main(%x: tensor<8x4xf32>) -> tensor<f32> {
      %w = dfg.read @w : tensor<4x4xf32>
      %0 = dfg.cast %x {to = bf16} : (tensor<8x4xf32>) -> tensor<8x4xbf16>
      %1 = dfg.cast %w {to = bf16} : (tensor<4x4xf32>) -> tensor<4x4xbf16>
      %2 = dfg.dot_general %0, %1 … -> tensor<8x4xbf16>
      %3 = dfg.relu %2 : (tensor<8x4xbf16>) -> tensor<8x4xbf16>
      %4 = dfg.cast %3 {to = f32} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
      %5 = dfg.reduce %4 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0, 1>} : (tensor<8x4xf32>) -> tensor<f32>
      dfg.return %5 : tensor<f32>
    }
    ```
    Requires: a forward graph, not differentiated yet; placed or not.
    Guarantees: inputs, outputs and parameters keep their types; new operators of a placed
    graph are placed (see MixedPrecision.h).
  }];
  let dependentDialects = ["::cleave::dfg::DfgDialect", "::cleave::dist::DistDialect"];
}

def WidenSumsPass : Pass<"train-widen-sums", "::mlir::ModuleOp"> {
  let summary = "Give sums in f32 that would be rounded to bfloat16 and made f32 again";
  let description = [{
    Before:
    ```mlir
    %0 = dfg.dot_general %x, %dy … : (tensor<8x4xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
    %1 = dfg.cast %0 {to = f32} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
    %2 = dfg.reduce %dy {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<8x4xbf16>) -> tensor<4xbf16>
    %3 = dfg.cast %2 {to = f32} : (tensor<4xbf16>) -> tensor<4xf32>
    ```
    After:
    ```mlir
    %1 = dfg.dot_general %x, %dy {wide, …} : (tensor<8x4xbf16>, tensor<8x4xbf16>) -> tensor<4x4xf32>
    %2 = dfg.cast %dy {to = f32} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %3 = dfg.reduce %2 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<8x4xf32>) -> tensor<4xf32>
    ```
    Requires: nothing. It is worthwhile after differentiation, where gradients of rounded parameters are such sums.
    Guarantees: no result is rounded more often than before; operators of a placed graph stay placed.
  }];
  let dependentDialects = ["::cleave::dfg::DfgDialect", "::cleave::dist::DistDialect"];
}

#endif // CLEAVE_PASSES_TRAIN_PASSES
