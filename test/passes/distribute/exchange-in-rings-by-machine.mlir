// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --dist-insert-transfers --dist-exchange-in-rings 2> %t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks

// Whether keys go around is for the machine to say. A device has 1,024 queries and 4,096 keys of 64 numbers. Its products
// take a millisecond or a little more; 3/4 of keys and values are 1.5 MiB.

// At 1 GB/s a device waits for them for 1.6 ms. In a ring all of it but little is behind the products.
dist.machine @machine {device_kinds = {gpu = {bandwidth = "1 TB/s", peak = {f32 = "1 TFLOP/s"}}},
  hosts = [{devices = [{kind = "gpu", count = "4"}], links = [{between = "devices", bandwidth = "1 GB/s", latency = "1 us"}]}]}
dist.mesh @ring <["x" = 4], devices = [0, 1, 2, 3]>
dfg.graph @slow(%q: tensor<4096x64xf32>, %k: tensor<4096x64xf32>) -> tensor<4096x64xf32> {
  %0 = dfg.neg %k {dist.place = #dist.place<@ring, by = "t", split = <{d0 = ["x"]}>>} : (tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %1 = dfg.abs %k {dist.place = #dist.place<@ring, by = "t", split = <{d0 = ["x"]}>>} : (tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %2 = dfg.dot_general %q, %0 {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 1>, dist.place = #dist.place<@ring, by = "t", split = <{m = ["x"]}>>} : (tensor<4096x64xf32>, tensor<4096x64xf32>) -> tensor<4096x4096xf32>
  %3 = dfg.softmax %2 {dim = 1 : i64, dist.place = #dist.place<@ring, by = "t", split = <{d0 = ["x"]}>>} : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %4 = dfg.dot_general %3, %1 {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0>, dist.place = #dist.place<@ring, by = "t", split = <{m = ["x"]}>>} : (tensor<4096x4096xf32>, tensor<4096x64xf32>) -> tensor<4096x64xf32>
  dfg.return %4 : tensor<4096x64xf32>
}
// CHECK-LABEL: dist.program @slow.ring(
// CHECK-NOT: dist.all_gather
// CHECK-COUNT-6: dist.permute
// REMARK: program "slow.ring": keys and values of attention go around among 4 devices: {{.*}} ms with them, gathered {{.*}} ms

// -----

// At 1 TB/s they are there in less than it takes to join what four chunks give, in memory of 100 GB/s.
dist.machine @machine {device_kinds = {gpu = {bandwidth = "100 GB/s", peak = {f32 = "1 TFLOP/s"}}},
  hosts = [{devices = [{kind = "gpu", count = "4"}], links = [{between = "devices", bandwidth = "1 TB/s", latency = "1 us"}]}]}
dist.mesh @ring <["x" = 4], devices = [0, 1, 2, 3]>
dfg.graph @fast(%q: tensor<4096x64xf32>, %k: tensor<4096x64xf32>) -> tensor<4096x64xf32> {
  %0 = dfg.neg %k {dist.place = #dist.place<@ring, by = "t", split = <{d0 = ["x"]}>>} : (tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %1 = dfg.abs %k {dist.place = #dist.place<@ring, by = "t", split = <{d0 = ["x"]}>>} : (tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %2 = dfg.dot_general %q, %0 {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 1>, dist.place = #dist.place<@ring, by = "t", split = <{m = ["x"]}>>} : (tensor<4096x64xf32>, tensor<4096x64xf32>) -> tensor<4096x4096xf32>
  %3 = dfg.softmax %2 {dim = 1 : i64, dist.place = #dist.place<@ring, by = "t", split = <{d0 = ["x"]}>>} : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %4 = dfg.dot_general %3, %1 {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0>, dist.place = #dist.place<@ring, by = "t", split = <{m = ["x"]}>>} : (tensor<4096x4096xf32>, tensor<4096x64xf32>) -> tensor<4096x64xf32>
  dfg.return %4 : tensor<4096x64xf32>
}
// CHECK-LABEL: dist.program @fast.ring(
// CHECK-COUNT-2: dist.all_gather
// CHECK-NOT: dist.permute
// REMARK: program "fast.ring": keys and values of attention are gathered: {{.*}} ms with them, in a ring {{.*}} ms
