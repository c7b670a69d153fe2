// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics --codegen-choose-processor

// expected-error @+1 {{native kernels expect native or an x86-64 processor as LLVM names it, as x86-64-v3, got 'pdp11'}}
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64, chip = "pdp11"}]} {}

// -----

// oneDNN needs SSE4.1, and has no way to be limited to less.
// expected-error @+1 {{processor "x86-64": oneDNN expects a processor with SSE4.1 or more to be limited to, got one without; compile for x86-64-v2 or newer, or with --no-libraries}}
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64, chip = "x86-64"}]} {}

// -----

// expected-error @+1 {{expects 'plan.processor' to be a name and a list of features on a module, got "x86-64-v3"}}
module attributes {plan.processor = "x86-64-v3"} {}
