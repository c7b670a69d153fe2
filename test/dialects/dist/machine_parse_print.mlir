// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file | cleave-opt --split-input-file | FileCheck %s
// RUN: cleave-opt %s --split-input-file --mlir-print-op-generic | cleave-opt --split-input-file | FileCheck %s

// All that a machine file may say; long lists and dictionaries stand in lines.
// CHECK: dist.machine @all {
// CHECK-NEXT: calibration = {step = "1.07", steps = "3"},
// CHECK-NEXT: device_kinds = {
// CHECK-NEXT:   "a100-80g" = {
// CHECK-NEXT:     bandwidth = "2039 GB/s",
// CHECK-NEXT:     chip = "sm_80",
// CHECK-NEXT:     driver = "cuda",
// CHECK-NEXT:     efficiency = {
// CHECK-NEXT:       contraction = {
// CHECK-NEXT:         sustained = "0.869",
// CHECK-NEXT:         tiles = [{columns = "128", rows = "256"}, {columns = "64", rows = "64", share = "0.6"}],
// CHECK-NEXT:         units = "108"
// CHECK-NEXT:       },
// CHECK-NEXT:       contraction.f32 = [{at = "10 MFLOP", share = "0.2"}, {at = "17 GFLOP", share = "0.92"}],
// CHECK-NEXT:       elementwise = "0.77"
// CHECK-NEXT:     },
// CHECK-NEXT:     launch = "4 us",
// CHECK-NEXT:     memory = "79.2 GiB",
// CHECK-NEXT:     overlap_slowdown = "1.3",
// CHECK-NEXT:     peak = {bf16 = "312 TFLOP/s", f32 = "19.5 TFLOP/s"}
// CHECK-NEXT:   },
// CHECK-NEXT:   core = {cores = "2", driver = "cpu", neighbour_slowdown = "1.25"}
// CHECK-NEXT: },
// CHECK-NEXT: executor = "eager",
// CHECK-NEXT: hosts = [
// CHECK-NEXT:   {
// CHECK-NEXT:     cores = "8",
// CHECK-NEXT:     count = "2",
// CHECK: links = [{bandwidth = "1 Gb/s", from = "east", latency = "30 ms", shared = "true", to = "west"}],
// CHECK-NEXT: name = "all",
module {
  dist.machine @all {
    name = "all", executor = "eager", calibration = {step = "1.07", steps = "3"},
    device_kinds = {
      "a100-80g" = {memory = "79.2 GiB", bandwidth = "2039 GB/s", launch = "4 us", overlap_slowdown = "1.3", driver = "cuda",
                    chip = "sm_80", peak = {f32 = "19.5 TFLOP/s", bf16 = "312 TFLOP/s"},
                    efficiency = {contraction = {units = "108", sustained = "0.869",
                                                 tiles = [{rows = "256", columns = "128"}, {rows = "64", columns = "64", share = "0.6"}]},
                                  contraction.f32 = [{at = "10 MFLOP", share = "0.2"}, {at = "17 GFLOP", share = "0.92"}],
                                  elementwise = "0.77"}},
      core = {driver = "cpu", cores = "2", neighbour_slowdown = "1.25"}},
    hosts = [{count = "2", zone = "east", cores = "8", devices = [{kind = "a100-80g", count = "2"}, {kind = "core"}],
              links = [{between = "devices", bandwidth = "232 GB/s", latency = "4.5 us", start = "20 us"},
                       {between = ["0", "1"], bandwidth = "300 GB/s", latency = "2 us", combine = "1 TB/s"}],
              network = {bandwidth = "22 GB/s", latency = "5 us", ports = "2"}},
             {zone = "west", devices = [{kind = "core", count = "2"}],
              switches = [{count = "2", devices = "1", bandwidth = "6 GB/s", latency = "5 us",
                           up = {bandwidth = "12 GB/s", latency = "5 us"}}]}],
    network = {bandwidth = "25 Gb/s", latency = "20 us"},
    links = [{from = "east", to = "west", bandwidth = "1 Gb/s", latency = "30 ms", shared = "true"}]
  }
  dist.mesh @grid <["data" = 2], devices = [0, 7]>
}

// -----

// A small one stands in a line. Its devices are those of the module, with the names and drivers that the runtime opens.
// CHECK: dist.machine @machine {device_kinds = {core = {}}, hosts = [{devices = [{count = "2", kind = "core"}]}]}
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64},
                                   {name = "cpu1", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
  dist.machine @machine {device_kinds = {core = {}}, hosts = [{devices = [{kind = "core", count = "2"}]}]}
}
