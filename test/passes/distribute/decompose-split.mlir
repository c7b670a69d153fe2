// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --dist-decompose-split | FileCheck %s

dist.mesh @pair <["x" = 2], devices = [0, 1]>

// Cut along its own dimension a softmax becomes reductions and elementwise operators, cut in the same way; they keep who
// decided. Reduced values have nothing left to cut.
// CHECK-LABEL: dfg.graph @along
// CHECK-NOT: dfg.softmax
// CHECK: dfg.reduce {{.*}}by = "splits p"{{.*}}split = <{d1 = ["x"]}>{{.*}}kind = #dfg.reduce_kind<max>
// CHECK: dfg.sub {{.*}}by = "splits p"{{.*}}split = <{d1 = ["x"]}>
// CHECK: dfg.exp {{.*}}split = <{d1 = ["x"]}>
// CHECK: dfg.reduce {{.*}}split = <{d1 = ["x"]}>{{.*}}kind = #dfg.reduce_kind<sum>
// CHECK: dfg.div {{.*}}split = <{d1 = ["x"]}>
dfg.graph @along(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = dfg.softmax %x {dim = 1 : i64, dist.place = #dist.place<@pair, by = "splits p", split = <{d1 = ["x"]}>>}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
  dfg.return %0 : tensor<4x8xf32>
}

// Cut along another dimension, or not at all, it stays one operator.
// CHECK-LABEL: dfg.graph @across
// CHECK-COUNT-2: dfg.softmax
// CHECK-NOT: dfg.reduce
dfg.graph @across(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = dfg.softmax %x {dim = 1 : i64, dist.place = #dist.place<@pair, by = "splits p", split = <{d0 = ["x"]}>>}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = dfg.softmax %0 {dim = 1 : i64, dist.place = #dist.place<@pair, by = "splits p">}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
  dfg.return %1 : tensor<4x8xf32>
}

// Narrow elements are computed in f32.
// CHECK-LABEL: dfg.graph @narrow
// CHECK: dfg.cast {{.*}}to = f32
// CHECK: dfg.reduce {{.*}}tensor<4x8xf32>
// CHECK: dfg.cast {{.*}}to = f16
dfg.graph @narrow(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %0 = dfg.layer_norm %x {dims = array<i64: 1>, epsilon = 1.0e-5 : f64,
                          dist.place = #dist.place<@pair, by = "splits n", split = <{d1 = ["x"]}>>}
      : (tensor<4x8xf16>) -> tensor<4x8xf16>
  dfg.return %0 : tensor<4x8xf16>
}
