// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --plan-schedule --verify-diagnostics

// What is read as it is on the device is not written in the host's memory.
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
  dist.mesh @d0 <[], devices = [0]>
  dfg.parameter state @m : tensor<8xf32> = #dfg.fill<value = 0.0 : f64>
  plan.library_kernel @add "onednn" "binary" {} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  dist.program @step(%x: tensor<8xf32> {dist.input = 0 : i64} loc("x"("Input"))) attributes {mesh = @d0} {
    %m = dfg.read @m {dist.changes} : tensor<8xf32> loc("m"("Parameter"))
    %n = plan.launch @add(%m, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("n"("Add"))
    %kept = dfg.offload %n : (tensor<8xf32>) -> tensor<8xf32> loc("kept"("State"))
    // expected-error @+1 {{expects a parameter that only 'dfg.fetch' reads to be written with what 'dfg.offload' gives, and no other one to be}}
    dist.write @m <[8]>, %kept : tensor<8xf32>
    dist.return
  }
}

// -----

// What lies in the host's memory is not written from the device.
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
  dist.mesh @d0 <[], devices = [0]>
  dfg.parameter state @m : tensor<8xf32> = #dfg.fill<value = 0.0 : f64>
  plan.library_kernel @add "onednn" "binary" {} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  dist.program @step(%x: tensor<8xf32> {dist.input = 0 : i64} loc("x"("Input"))) attributes {mesh = @d0} {
    %m = dfg.read @m {dist.changes} : tensor<8xf32> loc("m"("Parameter"))
    %old = dfg.fetch %m : (tensor<8xf32>) -> tensor<8xf32> loc("old"("State"))
    %n = plan.launch @add(%old, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("n"("Add"))
    // expected-error @+1 {{expects a parameter that only 'dfg.fetch' reads to be written with what 'dfg.offload' gives}}
    dist.write @m <[8]>, %n : tensor<8xf32>
    dist.return
  }
}
