// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// Two machines would be two answers to one question.
module {
  dist.machine @first {device_kinds = {core = {}}, hosts = [{devices = [{kind = "core"}]}]}
  // expected-error @+1 {{'dist.machine' op expects to be the module's only machine, found 'first' before it}}
  dist.machine @second {device_kinds = {core = {}}, hosts = [{devices = [{kind = "core"}]}]}
}

// -----

// Quantities are texts with units, as in machine files: a bare number could be anything.
// expected-error @+1 {{'dist.machine' op expects texts in lists and dictionaries, as in bandwidth = "900 GB/s"; got 9.000000e+11 : f64}}
dist.machine @m {device_kinds = {core = {bandwidth = 9.0e11}}, hosts = [{devices = [{kind = "core"}]}]}

// -----

// What the description says is verified as a machine file is.
// expected-error @+1 {{'dist.machine' op a machine file expects the key "hosts", found none}}
dist.machine @m {device_kinds = {core = {}}}

// -----

// expected-error @+1 {{'dist.machine' op device kind "core" bandwidth expects a number and a unit of B/s, kB/s, MB/s, GB/s, TB/s, GiB/s, Kb/s, Mb/s, Gb/s, Tb/s, got "900"}}
dist.machine @m {device_kinds = {core = {bandwidth = "900"}}, hosts = [{devices = [{kind = "core"}]}]}

// -----

// A key that nobody reads would be silently without effect.
// expected-error @+1 {{'dist.machine' op a link expects the keys between, bandwidth, latency, combine, start; got "speed"}}
dist.machine @m {device_kinds = {core = {}}, hosts = [{devices = [{kind = "core"}], links = [{between = "devices", speed = "1 GB/s"}]}]}

// -----

// Device i of the machine is device i of the module.
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
  // expected-error @+1 {{'dist.machine' op expects the 1 devices of the module's 'dist.devices' on its hosts, got 2}}
  dist.machine @m {device_kinds = {core = {}}, hosts = [{devices = [{kind = "core", count = "2"}]}]}
}

// -----

// Meshes are of the machine's devices.
module {
  dist.machine @m {device_kinds = {core = {}}, hosts = [{devices = [{kind = "core", count = "2"}]}]}
  // expected-error @+1 {{'dist.mesh' op expects indices of the 2 devices of 'dist.machine', got 2}}
  dist.mesh @pair <["x" = 2], devices = [1, 2]>
}

// -----

// Only modules are compiled for a machine.
dfg.graph @main() {
  // expected-error @+1 {{'dist.machine' op expects parent op 'builtin.module'}}
  dist.machine @m {device_kinds = {core = {}}, hosts = [{devices = [{kind = "core"}]}]}
  dfg.return
}
