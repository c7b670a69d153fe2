// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Operators on meshes whose axis has shares, on each part by itself.

// RUN: cleave-opt %s --dist-expand-shares=whole-ports=true --split-input-file | FileCheck %s
// RUN: cleave-opt %s --dist-expand-shares --split-input-file | FileCheck %s --check-prefix=PARTS
// RUN: cleave-opt %s --dist-expand-shares --distribute --split-input-file | FileCheck %s --check-prefix=PROGRAMS

// A batch of 6 at 2 : 1 is 4 and 2 samples; the weights are whole on both.
dist.mesh @both <["data" = [2, 1]], devices = [0, 1]>
dfg.parameter @w : tensor<3x5xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.graph @batch(%x: tensor<6x3xf32>) -> tensor<6x5xf32> {
  %w = dfg.read @w : tensor<3x5xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@both, by = "test", split = <{m = ["data"]}>>}
      : (tensor<6x3xf32>, tensor<3x5xf32>) -> tensor<6x5xf32>
  %1 = dfg.relu %0 {dist.place = #dist.place<@both, by = "test", split = <{d0 = ["data"]}>>}
      : (tensor<6x5xf32>) -> tensor<6x5xf32>
  dfg.return %1 : tensor<6x5xf32>
}
// CHECK-NOT: dist.mesh @both
// CHECK-DAG: dist.mesh @d0<[], devices = [0]>
// CHECK-DAG: dist.mesh @d1<[], devices = [1]>
// CHECK-LABEL: dfg.graph @batch(
// CHECK: %[[W:.*]] = dfg.read @w
// CHECK: %[[X0:.*]] = dfg.slice %{{.*}} {dist.place = #dist.place<@d0, by = "test">, limits = array<i64: 4, 3>, starts = array<i64: 0, 0>
// CHECK: %[[A0:.*]] = dfg.dot_general %[[X0]], %[[W]] {{.*}}@d0{{.*}} -> tensor<4x5xf32>
// CHECK: %[[X1:.*]] = dfg.slice %{{.*}} {dist.place = #dist.place<@d1, by = "test">, limits = array<i64: 6, 3>, starts = array<i64: 4, 0>
// CHECK: %[[A1:.*]] = dfg.dot_general %[[X1]], %[[W]] {{.*}}@d1{{.*}} -> tensor<2x5xf32>
// CHECK: %[[B0:.*]] = dfg.relu %[[A0]] {{.*}}@d0
// CHECK: %[[B1:.*]] = dfg.relu %[[A1]] {{.*}}@d1
// CHECK: %[[ALL:.*]] = dfg.concat %[[B0]], %[[B1]] {dim = 0 : i64, dist.place = #dist.place<@d0
// CHECK: dfg.return %[[ALL]]
// Each loads its part of the input and gives its part of the output out; nothing is exchanged.
// PARTS-LABEL: dfg.graph @batch(
// PARTS: %[[X0:.*]] = dist.input_part %{{.*}} {begin = 0 : i64, dim = 0 : i64} : tensor<6x3xf32> -> tensor<4x3xf32>
// PARTS: dfg.dot_general %[[X0]], %{{.*}}@d0
// PARTS: %[[X1:.*]] = dist.input_part %{{.*}} {begin = 4 : i64, dim = 0 : i64} : tensor<6x3xf32> -> tensor<2x3xf32>
// PARTS: %[[B0:.*]] = dfg.relu {{.*}}@d0
// PARTS: %[[B1:.*]] = dfg.relu {{.*}}@d1
// PARTS: %[[ALL:.*]] = dist.output_parts %[[B0]], %[[B1]] {dim = 0 : i64}
// PARTS: dfg.return %[[ALL]]
// PROGRAMS: dist.program @batch.d0(%arg0: tensor<4x3xf32> {dist.input = 0 : i64, dist.within = #dist.within<dim = 0, begin = 0, size = 6>}) -> (tensor<4x5xf32> {dist.output = 0 : i64, dist.within = #dist.within<dim = 0, begin = 0, size = 6>})
// PROGRAMS-NEXT: dfg.read @w
// PROGRAMS-NEXT: dfg.dot_general %arg0
// PROGRAMS-NEXT: dfg.relu
// PROGRAMS-NEXT: dist.return
// PROGRAMS: dist.program @batch.d1(%arg0: tensor<2x3xf32> {dist.input = 0 : i64, dist.within = #dist.within<dim = 0, begin = 4, size = 6>}) -> (tensor<2x5xf32> {dist.output = 0 : i64, dist.within = #dist.within<dim = 0, begin = 4, size = 6>})
// PROGRAMS-NEXT: dfg.read @w
// PROGRAMS-NEXT: dfg.dot_general %arg0
// PROGRAMS-NEXT: dfg.relu
// PROGRAMS-NEXT: dist.return

// -----

// Equal shares next to each other are one mesh, whose devices cut their part once more.
dist.mesh @three <["data" = [2, 2, 1]], devices = [4, 2, 0]>
dfg.graph @runs(%x: tensor<10x3xf32>) -> tensor<3xf32> {
  %0 = dfg.relu %x {dist.place = #dist.place<@three, by = "test", split = <{d0 = ["data"]}>>}
      : (tensor<10x3xf32>) -> tensor<10x3xf32>
  %1 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>,
      dist.place = #dist.place<@three, by = "test", split = <{d0 = ["data"]}>>} : (tensor<10x3xf32>) -> tensor<3xf32>
  %2 = dfg.exp %1 {dist.place = #dist.place<@three, by = "test">} : (tensor<3xf32>) -> tensor<3xf32>
  dfg.return %2 : tensor<3xf32>
}
// Partial sums are joined in one order wherever they are needed; what is not needed is not computed.
// CHECK: dist.mesh @three.0<["data" = 2], devices = [4, 2]>
// CHECK-LABEL: dfg.graph @runs(
// CHECK: %[[A0:.*]] = dfg.relu %{{.*}} {dist.place = #dist.place<@three.0, by = "test", split = <{d0 = ["data"]}>>}{{.*}} -> tensor<8x3xf32>
// CHECK: %[[A1:.*]] = dfg.relu %{{.*}} {dist.place = #dist.place<@d0, by = "test">}{{.*}} -> tensor<2x3xf32>
// CHECK: %[[P0:.*]] = dfg.reduce %[[A0]] {{.*}}@three.0, by = "test", split = <{d0 = ["data"]}>
// CHECK: %[[P1:.*]] = dfg.reduce %[[A1]] {{.*}}@d0, by = "test">
// CHECK: %[[SUM:.*]] = dfg.add %[[P0]], %[[P1]] {{.*}}@three.0
// CHECK: %[[E:.*]] = dfg.exp %[[SUM]] {{.*}}@three.0
// CHECK-NOT: dfg.exp
// CHECK: dfg.return %[[E]]

// -----

// Columns, then rows: what the first leaves, the second takes, and only sums are exchanged. The other axis cuts as
// before.
dist.mesh @grid <["data" = 2, "model" = [3, 1]], devices = [0, 1, 2, 3]>
dfg.parameter @up : tensor<4x8xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @down : tensor<8x4xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 8>
dfg.graph @mlp(%x: tensor<6x4xf32>) -> tensor<6x4xf32> {
  %up = dfg.read @up : tensor<4x8xf32>
  %down = dfg.read @down : tensor<8x4xf32>
  %0 = dfg.dot_general %x, %up {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@grid, by = "test", split = <{m = ["data"], n = ["model"]}>>}
      : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %1 = dfg.dot_general %0, %down {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@grid, by = "test", split = <{m = ["data"], k = ["model"]}>>}
      : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  dfg.return %1 : tensor<6x4xf32>
}
// CHECK-DAG: dist.mesh @grid.0<["data" = 2], devices = [0, 2]>
// CHECK-DAG: dist.mesh @grid.1<["data" = 2], devices = [1, 3]>
// CHECK-LABEL: dfg.graph @mlp(
// CHECK: %[[U0:.*]] = dfg.slice %{{.*}}@grid.0{{.*}}limits = array<i64: 4, 6>, starts = array<i64: 0, 0>
// CHECK: %[[H0:.*]] = dfg.dot_general %{{.*}}, %[[U0]] {{.*}}@grid.0, by = "test", split = <{m = ["data"]}>{{.*}} -> tensor<6x6xf32>
// CHECK: %[[U1:.*]] = dfg.slice %{{.*}}@grid.1{{.*}}limits = array<i64: 4, 8>, starts = array<i64: 0, 6>
// CHECK: %[[H1:.*]] = dfg.dot_general %{{.*}}, %[[U1]] {{.*}}@grid.1{{.*}} -> tensor<6x2xf32>
// CHECK: %[[D0:.*]] = dfg.slice
// CHECK: %[[P0:.*]] = dfg.dot_general %[[H0]], %[[D0]] {{.*}}@grid.0
// CHECK: %[[D1:.*]] = dfg.slice
// CHECK: %[[P1:.*]] = dfg.dot_general %[[H1]], %[[D1]] {{.*}}@grid.1
// CHECK: %[[SUM:.*]] = dfg.add %[[P0]], %[[P1]] {{.*}}@grid.0, by = "test", split = <{d0 = ["data"]}>
// CHECK: dfg.return %[[SUM]]

// -----

// Heads inside of columns (3 * heads * width): parts are taken of each of the three.
dist.mesh @both <["model" = [2, 1]], devices = [0, 1]>
dfg.graph @heads(%x: tensor<5x36xf32>) -> tensor<5x3x6x2xf32> {
  %0 = dfg.relu %x {dist.place = #dist.place<@both, by = "test">} : (tensor<5x36xf32>) -> tensor<5x36xf32>
  %1 = dfg.reshape %0 {dist.place = #dist.place<@both, by = "test", split = <{d2 = ["model"]}>>}
      : (tensor<5x36xf32>) -> tensor<5x3x6x2xf32>
  dfg.return %1 : tensor<5x3x6x2xf32>
}
// CHECK-LABEL: dfg.graph @heads(
// CHECK: dfg.reshape %{{.*}}@d0{{.*}} -> tensor<5x3x12xf32>
// CHECK: dfg.slice {{.*}}limits = array<i64: 5, 3, 8>, starts = array<i64: 0, 0, 0>
// CHECK: dfg.reshape %{{.*}} -> tensor<5x24xf32>
// CHECK: dfg.reshape %{{.*}} -> tensor<5x3x4x2xf32>
// CHECK: dfg.slice {{.*}}@d1{{.*}}limits = array<i64: 5, 3, 12>, starts = array<i64: 0, 0, 8>
// CHECK: dfg.reshape %{{.*}} -> tensor<5x12xf32>
// CHECK: dfg.reshape %{{.*}} -> tensor<5x3x2x2xf32>
// CHECK: dfg.concat {{.*}}dim = 2

// -----

// From a cut of rows to one of columns: slices go, not rows. Operators elsewhere read what they need as a whole.
dist.mesh @both <["x" = [2, 1]], devices = [0, 1]>
dist.mesh @d7 <[], devices = [7]>
dfg.graph @turn(%x: tensor<6x9xf32>) -> tensor<6x9xf32> {
  %0 = dfg.relu %x {dist.place = #dist.place<@both, by = "test", split = <{d0 = ["x"]}>>} : (tensor<6x9xf32>) -> tensor<6x9xf32>
  %1 = dfg.exp %0 {dist.place = #dist.place<@both, by = "test", split = <{d1 = ["x"]}>>} : (tensor<6x9xf32>) -> tensor<6x9xf32>
  %2 = dfg.neg %1 {dist.place = #dist.place<@d7, by = "test">} : (tensor<6x9xf32>) -> tensor<6x9xf32>
  dfg.return %2 : tensor<6x9xf32>
}
// CHECK-LABEL: dfg.graph @turn(
// CHECK: %[[A0:.*]] = dfg.relu {{.*}}@d0
// CHECK: %[[A1:.*]] = dfg.relu {{.*}}@d1
// CHECK: %[[S00:.*]] = dfg.slice %[[A0]] {{.*}}@d0{{.*}}limits = array<i64: 4, 6>
// CHECK: %[[S10:.*]] = dfg.slice %[[A1]] {{.*}}@d1{{.*}}limits = array<i64: 2, 6>
// CHECK: %[[C0:.*]] = dfg.concat %[[S00]], %[[S10]] {{.*}}@d0
// CHECK: dfg.exp %[[C0]] {{.*}} -> tensor<6x6xf32>
// CHECK: %[[S01:.*]] = dfg.slice %[[A0]] {{.*}}@d0{{.*}}starts = array<i64: 0, 6>
// CHECK: %[[S11:.*]] = dfg.slice %[[A1]] {{.*}}@d1{{.*}}starts = array<i64: 0, 6>
// CHECK: dfg.concat %[[S01]], %[[S11]] {{.*}}@d1
// CHECK: %[[WHOLE:.*]] = dfg.concat {{.*}}dim = 1 : i64, dist.place = #dist.place<@d7
// CHECK: dfg.neg %[[WHOLE]]

// -----

// A batch of one sample cannot be shared: all have it, and the first gives it out.
dist.mesh @both <["data" = [2, 1]], devices = [0, 1]>
dfg.graph @one(%x: tensor<1x3xf32>) -> tensor<1x3xf32> {
  %0 = dfg.relu %x {dist.place = #dist.place<@both, by = "test", split = <{d0 = ["data"]}>>}
      : (tensor<1x3xf32>) -> tensor<1x3xf32>
  dfg.return %0 : tensor<1x3xf32>
}
// CHECK-LABEL: dfg.graph @one(
// CHECK-NEXT: %[[A:.*]] = dfg.relu %{{.*}}@d0
// CHECK-NEXT: dfg.return %[[A]]
