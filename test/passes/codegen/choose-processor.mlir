// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --codegen-choose-processor="limits-libraries=false" | FileCheck %s

// What LLVM says that such a processor has, sorted.
// CHECK: module attributes {{.*}}plan.processor = {features = ["avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"], name = "x86-64-v3"}
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64, chip = "x86-64-v3"}]} {}

// -----

// Devices of several processors: what all of them have.
// CHECK: module attributes {{.*}}plan.processor = {features = ["cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"], name = "x86-64-v4+x86-64-v2"}
module attributes {dist.devices = [
  {name = "new", driver = "cpu", cores = 1 : i64, memory = 0 : i64, chip = "x86-64-v4"},
  {name = "old", driver = "cpu", cores = 1 : i64, memory = 0 : i64, chip = "x86-64-v2"}]} {}

// -----

// What was chosen stays.
// CHECK: module attributes {{.*}}plan.processor = {features = ["avx"], name = "mine"}
module attributes {plan.processor = {features = ["avx"], name = "mine"}, dist.devices = [
  {name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64, chip = "x86-64-v4"}]} {}

// -----

// Without a processor among the devices there is none to choose.
// CHECK: module
// CHECK-NOT: plan.processor
module attributes {dist.devices = [{name = "gpu0", driver = "cuda", cores = 1 : i64, memory = 0 : i64, chip = "sm_90"}]} {}

// -----

// A device without a chip is the machine that compiles, which LLVM calls native; beside another one it needs that name.
// CHECK: module attributes {{.*}}plan.processor = {features = ["cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"], name = "x86-64-v2+native"}
module attributes {dist.devices = [
  {name = "old", driver = "cpu", cores = 1 : i64, memory = 0 : i64, chip = "x86-64-v2"},
  {name = "own", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {}
