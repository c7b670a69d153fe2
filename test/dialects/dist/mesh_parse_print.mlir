// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

// A module with devices.
// CHECK: module attributes {dist.devices = [{cores = 1 : i64, driver = "cpu", memory = 0 : i64, name = "cpu0"},
// CHECK-SAME: {cores = 4 : i64, driver = "null", memory = 1024 : i64, name = "sim"}]}
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64},
                                   {name = "sim", driver = "null", cores = 4 : i64, memory = 1024 : i64}]} {
  // A single device has no axes.
  // CHECK: dist.mesh @d0<[], devices = [0]>
  dist.mesh @d0 <[], devices = [0]>
  // Axes have names and sizes; devices stand in any order.
  // CHECK: dist.mesh @pair<["data" = 1, "model" = 2], devices = [1, 0]>
  dist.mesh @pair <["data" = 1, "model" = 2], devices = [1, 0]>
}
