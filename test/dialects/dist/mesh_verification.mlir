// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// Every axis has a size; only the generic form can leave one out.
// expected-error @+1 {{expects a size for each axis}}
"dist.mesh"() <{sym_name = "m", axis_names = ["x"], axis_sizes = array<i64>, devices = array<i64: 0>}> : () -> ()

// -----

// An axis of no device.
// expected-error @+1 {{expects axis "x" to have a positive size, got 0}}
dist.mesh @m <["x" = 0], devices = []>

// -----

// Two axes of one name cannot be told apart.
// expected-error @+1 {{expects distinct axis names, got "x" twice}}
dist.mesh @m <["x" = 1, "x" = 1], devices = [0]>

// -----

// Every position of the grid is a device.
// expected-error @+1 {{expects as many devices as the product of its axes, got 3}}
dist.mesh @m <["x" = 2, "y" = 2], devices = [0, 1, 2]>

// -----

// A product beyond 64 bits is not mistaken for zero.
// expected-error @+1 {{expects as many devices as the product of its axes, got 0}}
dist.mesh @m <["x" = 4294967296, "y" = 4294967296], devices = []>

// -----

// A device stands in a grid once.
// expected-error @+1 {{expects distinct devices, none negative}}
dist.mesh @m <["x" = 2], devices = [1, 1]>

// -----

// Indices are not negative.
// expected-error @+1 {{expects distinct devices, none negative}}
dist.mesh @m <[], devices = [-1]>

// -----

// Devices exist.
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
  // expected-error @+1 {{expects indices of the module's 1 devices, got 1}}
  dist.mesh @m <[], devices = [1]>
}

// -----

// Devices are a list.
// expected-error @+1 {{expects 'dist.devices' to be a list on a module, got 3 : i64}}
module attributes {dist.devices = 3} {}

// -----

// Only a module has devices.
// expected-error @+1 {{expects 'dist.devices' to be a list on a module, got []}}
dfg.graph @main() attributes {dist.devices = []} {
  dfg.return
}

// -----

// A device has all four facts.
// expected-error @+1 {{expects a device to have a name, a driver, i64 cores of at least 1, i64 memory, not negative, and perhaps a chip; got {cores = 1 : i64, driver = "cpu", name = "cpu0"}}}
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64}]} {}

// -----

// A device has a core.
// expected-error @+1 {{expects a device to have a name, a driver, i64 cores of at least 1, i64 memory, not negative, and perhaps a chip}}
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 0 : i64, memory = 0 : i64}]} {}

// -----

// Names tell devices apart.
// expected-error @+1 {{expects distinct names of devices, got "a" twice}}
module attributes {dist.devices = [{name = "a", driver = "cpu", cores = 1 : i64, memory = 0 : i64},
                                   {name = "a", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {}
