// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --pass-pipeline='builtin.module(dist.program(codegen-fuse-attention))' | FileCheck %s
// RUN: cleave-opt %s --pass-pipeline='builtin.module(dist.program(codegen-fuse-attention))' 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: cleave-opt %s --pass-pipeline='builtin.module(dist.program(codegen-fuse-attention),codegen-outline-native-kernels,codegen-choose-native-loops{cpu=x86-64-v3},codegen-compile-native-kernels{cpu=x86-64-v3})' | FileCheck %s --check-prefix=KERNEL
// RUN: cleave-opt %s --pass-pipeline='builtin.module(dist.program(codegen-fuse-attention),codegen-outline-native-kernels,codegen-choose-native-loops{cpu=x86-64-v3})' | FileCheck %s --check-prefix=LOOPS

module attributes {dist.devices = [{cores = 1 : i64, driver = "cpu", memory = 0 : i64, name = "cpu0"},
                                   {cores = 1 : i64, driver = "cuda", memory = 0 : i64, name = "gpu0"}]} {
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>

// Eight blocks of 512 keys, in groups of 64: those of keys beside each other, those of values one below the other. Each block
// has a largest score, a sum and a sum of values; what they weigh is known when all are.
// CHECK-LABEL: dist.program @plain
// CHECK-SAME: (%[[Q:[^ :]*]]: tensor<8x4096x64xf32>, %[[K:[^ :]*]]: tensor<8x4096x64xf32>, %[[V:[^ :]*]]: tensor<8x4096x32xf32>)
// CHECK: %[[KB:[^ :]*]] = dfg.reshape %[[K]] : (tensor<8x4096x64xf32>) -> tensor<8x8x8x64x64xf32>
// CHECK: %[[KT:[^ :]*]] = dfg.transpose %[[KB]] {permutation = array<i64: 0, 1, 2, 4, 3>}
// CHECK: %[[VB:[^ :]*]] = dfg.reshape %[[V]] : (tensor<8x4096x32xf32>) -> tensor<8x8x8x64x32xf32>
// CHECK: %[[R:[^ :]*]] = dfg.fusion %[[Q]], %[[KT]], {{.*}}, %[[VB]]
// CHECK: %[[S:[^ :]*]] = dfg.dot_general {{.*}} -> tensor<8x4096x8x8x64xf32>
// CHECK: %[[M:[^ :]*]] = dfg.reduce %[[S]] {dims = array<i64: 3, 4>, kind = #dfg.reduce_kind<max>} {{.*}} -> tensor<8x4096x8xf32>
// CHECK: %[[P:[^ :]*]] = dfg.exp
// CHECK: dfg.reduce %[[P]] {dims = array<i64: 3, 4>, kind = #dfg.reduce_kind<sum>}
// CHECK: %[[O:[^ :]*]] = dfg.dot_general %[[P]], {{.*}} -> tensor<8x8x4096x32xf32>
// CHECK: dfg.reduce %[[M]] {dims = array<i64: 2>, kind = #dfg.reduce_kind<max>} {{.*}} -> tensor<8x4096xf32>
// CHECK: dfg.dot_general {{.*}}, %[[O]] {{.*}} -> tensor<8x4096x32xf32>
// CHECK: dfg.div
// CHECK-NOT: dfg.softmax
// CHECK: dist.return %[[R]]
// 32 queries of a head with one block of keys at a time, 8 x 4096 / 32 of these: nothing but the stack is needed.
// KERNEL: plan.native_kernel @native.div.{{[0-9]+}} attributes {object = @native, parallel_extent = 1024 : i64, symbol =
// All operations run for 32 queries, and those up to the products with values for one of the 8 blocks inside of that. Scores
// of a block, 32 x 512, are 64 KiB of the stack's 256; with 64 queries they and their exponentials would be all of it. Rows of
// 4 by two vectors of 8 are a tile: rows of all of a kernel come in powers of two, and 8 by two vectors are too many registers.
// LOOPS: plan.native_kernel @native.div.{{[0-9]+}} attributes {common = #plan.common_loops<sizes = [8, 128], blocks = 8, operations_in_blocks = {{[0-9]+}}>}
// LOOPS: linalg.generic {{.*}}"reduction"]{{.*}}plan.nest = #plan.nest<splits = [<1 by 32>, <6 by 4>, <4 by 16>, <8 by 8>], outer = [<0>, <1>, <2>], {{.*}}tile = <lanes = 9, copies = [7, 8], vectors = 1>, stack = {{\[\[}}0, 32, 0, 8, 64]]>
dist.program @plain(%q: tensor<8x4096x64xf32>, %k: tensor<8x4096x64xf32>, %v: tensor<8x4096x32xf32>) -> tensor<8x4096x32xf32> attributes {mesh = @d0} {
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<8x4096x64xf32>, tensor<8x4096x64xf32>) -> tensor<8x4096x4096xf32>
  %1 = dfg.softmax %0 {dim = 2 : i64} : (tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %2 = dfg.dot_general %1, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x4096xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x32xf32>
  dist.return %2 : tensor<8x4096x32xf32>
}

// Heads that share keys, and a mask over all heads: scores have the dimensions of both. The mask is computed inside, and what
// was transposed for the product is read as it was. Where whole blocks are hidden, they have 256 keys here.
// CHECK-LABEL: dist.program @grouped
// CHECK-SAME: (%[[Q:[^ :]*]]: tensor<2x3x2048x64xf32>, %[[K:[^ :]*]]: tensor<2x2048x64xf32>
// CHECK: %[[KB:[^ :]*]] = dfg.reshape %[[K]] : (tensor<2x2048x64xf32>) -> tensor<2x8x4x64x64xf32>
// Outside of the band that the mask leaves there is nothing to do.
// CHECK: dfg.fusion %[[Q]], {{.*}} {dfg.band = #dfg.band<rows = 2, blocks = 8, columns = 256, lower = 0>}
// CHECK: dfg.dot_general {{.*}} -> tensor<2x3x2048x8x4x64xf32>
// CHECK: dfg.iota  {dim = 0 : i64} : () -> tensor<2048x8x4x64xi64>
// CHECK: dfg.compare {{.*}} -> tensor<2048x8x4x64xi1>
// CHECK: dfg.select {{.*}} -> tensor<2x3x2048x8x4x64xf32>
// KERNEL: plan.native_kernel @native.div.{{[0-9]+}} attributes {dfg.band = {{.*}}, object = @native, parallel_extent = 384 : i64, symbol =
// LOOPS: plan.native_kernel @native.div.{{[0-9]+}} attributes {common = #plan.common_loops<sizes = [2, 3, 64], blocks = 8, operations_in_blocks = {{[0-9]+}}, band = <level = 2, unit = 32, columns = 256, lower = 0>>
dist.program @grouped(%q: tensor<2x3x2048x64xf32>, %k: tensor<2x2048x64xf32>, %v: tensor<2x2048x64xf32>) -> tensor<2x3x2048x64xf32> attributes {mesh = @d0} {
  %lowest = dfg.constant dense<0xFF800000> : tensor<f32>
  %kt = dfg.transpose %k {permutation = array<i64: 0, 2, 1>} : (tensor<2x2048x64xf32>) -> tensor<2x64x2048xf32>
  %0 = dfg.dot_general %q, %kt {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 1>} : (tensor<2x3x2048x64xf32>, tensor<2x64x2048xf32>) -> tensor<2x3x2048x2048xf32>
  %1 = dfg.reshape %0 : (tensor<2x3x2048x2048xf32>) -> tensor<6x2048x2048xf32>
  %row = dfg.iota {dim = 0 : i64} : () -> tensor<2048x2048xi64>
  %column = dfg.iota {dim = 1 : i64} : () -> tensor<2048x2048xi64>
  %seen = dfg.compare %column, %row {comparison = #dfg.comparison<less_or_equal>} : (tensor<2048x2048xi64>, tensor<2048x2048xi64>) -> tensor<2048x2048xi1>
  %2 = dfg.select %seen, %1, %lowest : (tensor<2048x2048xi1>, tensor<6x2048x2048xf32>, tensor<f32>) -> tensor<6x2048x2048xf32>
  %3 = dfg.softmax %2 {dim = 2 : i64} : (tensor<6x2048x2048xf32>) -> tensor<6x2048x2048xf32>
  %4 = dfg.reshape %3 : (tensor<6x2048x2048xf32>) -> tensor<2x3x2048x2048xf32>
  %5 = dfg.dot_general %4, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 1>} : (tensor<2x3x2048x2048xf32>, tensor<2x2048x64xf32>) -> tensor<2x3x2048x64xf32>
  dist.return %5 : tensor<2x3x2048x64xf32>
}

// Of 4 MiB of scores a causal mask leaves 10 of 16 parts, by blocks of 128 keys: for those there is a kernel. Of 256 keys it
// leaves three of four, which libraries multiply faster.
// CHECK-LABEL: dist.program @small
// CHECK: dfg.fusion {{.*}} {dfg.band = #dfg.band<rows = 1, blocks = 4, columns = 128, lower = 0>}
// CHECK-NOT: dfg.softmax
dist.program @small(%q: tensor<4x512x64xf32>, %k: tensor<4x512x64xf32>, %v: tensor<4x512x64xf32>) -> tensor<4x512x64xf32> attributes {mesh = @d0} {
  %lowest = dfg.constant dense<0xFF800000> : tensor<f32>
  %row = dfg.iota {dim = 0 : i64} : () -> tensor<512x1xi64>
  %column = dfg.iota {dim = 1 : i64} : () -> tensor<1x512xi64>
  %seen = dfg.compare %column, %row {comparison = #dfg.comparison<less_or_equal>} : (tensor<1x512xi64>, tensor<512x1xi64>) -> tensor<512x512xi1>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<4x512x64xf32>, tensor<4x512x64xf32>) -> tensor<4x512x512xf32>
  %1 = dfg.select %seen, %0, %lowest : (tensor<512x512xi1>, tensor<4x512x512xf32>, tensor<f32>) -> tensor<4x512x512xf32>
  %2 = dfg.softmax %1 {dim = 2 : i64} : (tensor<4x512x512xf32>) -> tensor<4x512x512xf32>
  %3 = dfg.dot_general %2, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<4x512x512xf32>, tensor<4x512x64xf32>) -> tensor<4x512x64xf32>
  dist.return %3 : tensor<4x512x64xf32>
}

// CHECK-LABEL: dist.program @smaller
// CHECK-NOT: dfg.fusion
// CHECK: dfg.softmax
dist.program @smaller(%q: tensor<4x256x64xf32>, %k: tensor<4x256x64xf32>, %v: tensor<4x256x64xf32>) -> tensor<4x256x64xf32> attributes {mesh = @d0} {
  %lowest = dfg.constant dense<0xFF800000> : tensor<f32>
  %row = dfg.iota {dim = 0 : i64} : () -> tensor<256x1xi64>
  %column = dfg.iota {dim = 1 : i64} : () -> tensor<1x256xi64>
  %seen = dfg.compare %column, %row {comparison = #dfg.comparison<less_or_equal>} : (tensor<1x256xi64>, tensor<256x1xi64>) -> tensor<256x256xi1>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<4x256x64xf32>, tensor<4x256x64xf32>) -> tensor<4x256x256xf32>
  %1 = dfg.select %seen, %0, %lowest : (tensor<256x256xi1>, tensor<4x256x256xf32>, tensor<f32>) -> tensor<4x256x256xf32>
  %2 = dfg.softmax %1 {dim = 2 : i64} : (tensor<4x256x256xf32>) -> tensor<4x256x256xf32>
  %3 = dfg.dot_general %2, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<4x256x256xf32>, tensor<4x256x64xf32>) -> tensor<4x256x64xf32>
  dist.return %3 : tensor<4x256x64xf32>
}

// Sizes that do not divide: 3001 keys are 6 blocks of 512, of which the last lacks some; a bias is padded with them.
// CHECK-LABEL: dist.program @padded
// CHECK: dfg.pad %arg0, {{.*}} : (tensor<2x3001x60xf32>, tensor<f32>) -> tensor<2x3008x60xf32>
// CHECK: dfg.pad %arg1, {{.*}} -> tensor<2x3072x60xf32>
// CHECK: dfg.pad {{.*}} -> tensor<3008x3072xf32>
// CHECK: dfg.pad {{.*}} -> tensor<2x6x8x64x32xf32>
// CHECK: %[[R:[^ :]*]] = dfg.fusion {{.*}} -> tensor<2x3008x32xf32>
// CHECK: dfg.add {{.*}} : (tensor<2x3008x6x8x64xf32>, tensor<3008x6x8x64xf32>) -> tensor<2x3008x6x8x64xf32>
// CHECK: dfg.select
// CHECK: dfg.slice %[[R]] {limits = array<i64: 2, 3001, 24>
// KERNEL: plan.native_kernel @native.div.{{[0-9]+}} attributes {object = @native, parallel_extent = 188 : i64, symbol =
dist.program @padded(%q: tensor<2x3001x60xf32>, %k: tensor<2x3001x60xf32>, %v: tensor<2x3001x24xf32>, %bias: tensor<3001x3001xf32>) -> tensor<2x3001x24xf32> attributes {mesh = @d0} {
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<2x3001x60xf32>, tensor<2x3001x60xf32>) -> tensor<2x3001x3001xf32>
  %1 = dfg.add %0, %bias : (tensor<2x3001x3001xf32>, tensor<3001x3001xf32>) -> tensor<2x3001x3001xf32>
  %2 = dfg.softmax %1 {dim = 2 : i64} : (tensor<2x3001x3001xf32>) -> tensor<2x3001x3001xf32>
  %3 = dfg.dot_general %2, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<2x3001x3001xf32>, tensor<2x3001x24xf32>) -> tensor<2x3001x24xf32>
  dist.return %3 : tensor<2x3001x24xf32>
}

// A bias made of positions alone by functions: computed inside for every head, not kept for all of them.
// CHECK-LABEL: dist.program @functions
// CHECK: dfg.fusion
// CHECK: dfg.tanh {{.*}} -> tensor<2048x4x8x64xf32>
// KERNEL: plan.native_kernel @native.div.{{[0-9]+}} attributes {object = @native, parallel_extent = 384 : i64, symbol =
dist.program @functions(%q: tensor<6x2048x64xf32>, %k: tensor<6x2048x64xf32>, %v: tensor<6x2048x64xf32>) -> tensor<6x2048x64xf32> attributes {mesh = @d0} {
  %row = dfg.iota {dim = 0 : i64} : () -> tensor<2048x2048xf32>
  %column = dfg.iota {dim = 1 : i64} : () -> tensor<2048x2048xf32>
  %distance = dfg.sub %column, %row : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %bias = dfg.tanh %distance : (tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<6x2048x64xf32>, tensor<6x2048x64xf32>) -> tensor<6x2048x2048xf32>
  %1 = dfg.add %0, %bias : (tensor<6x2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<6x2048x2048xf32>
  %2 = dfg.softmax %1 {dim = 2 : i64} : (tensor<6x2048x2048xf32>) -> tensor<6x2048x2048xf32>
  %3 = dfg.dot_general %2, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<6x2048x2048xf32>, tensor<6x2048x64xf32>) -> tensor<6x2048x64xf32>
  dist.return %3 : tensor<6x2048x64xf32>
}

// With its gradient: the result's kernel gives the log of each query's sum of powers as well. One kernel by queries makes the
// scores, of them the weights, of the result's gradient and the values that of the weights, and sums up over blocks of keys;
// one by keys does the same with both transposed, and sums up over blocks of queries. What softmax's gradient sums up over
// keys is the product of the result and its gradient.
// CHECK-LABEL: dist.program @trained
// CHECK-SAME: (%[[Q:[^ :]*]]: tensor<8x4096x64xf32>, %[[K:[^ :]*]]: tensor<8x4096x64xf32>, %[[V:[^ :]*]]: tensor<8x4096x32xf32>, %[[DO:[^ :]*]]: tensor<8x4096x32xf32>)
// CHECK: %[[R:[^ :]*]]:2 = dfg.fusion {{.*}} -> (tensor<8x4096x32xf32>, tensor<8x4096xf32>)
// CHECK: %[[LARGEST:[^ :]*]] = dfg.reduce {{.*}} -> tensor<8x4096xf32>
// CHECK: %[[LOG:[^ :]*]] = dfg.log
// CHECK: %[[LOGSUMS:[^ :]*]] = dfg.add %[[LARGEST]], %[[LOG]]
// CHECK: dfg.yield %{{.*}}, %[[LOGSUMS]]
// CHECK: %[[BOTH:[^ :]*]] = dfg.mul %[[DO]], %[[R]]#0
// CHECK: dfg.reduce %[[BOTH]] {dims = array<i64: 2>, kind = #dfg.reduce_kind<sum>} {{.*}} -> tensor<8x4096xf32>
// CHECK: %[[BYKEYS:[^ :]*]]:2 = dfg.fusion {{.*}} -> (tensor<8x4096x32xf32>, tensor<8x4096x64xf32>)
// CHECK: %[[S:[^ :]*]] = dfg.dot_general {{.*}} (tensor<8x4096x64xf32>, tensor<8x8x8x64x64xf32>) -> tensor<8x4096x8x8x64xf32>
// CHECK: %[[P:[^ :]*]] = dfg.exp
// CHECK: dfg.dot_general %[[P]], {{.*}} -> tensor<8x8x4096x32xf32>
// CHECK: %[[DP:[^ :]*]] = dfg.dot_general {{.*}} (tensor<8x4096x32xf32>, tensor<8x8x8x32x64xf32>) -> tensor<8x4096x8x8x64xf32>
// CHECK: %[[LESS:[^ :]*]] = dfg.sub %[[DP]], %{{.*}} : (tensor<8x4096x8x8x64xf32>, tensor<8x1x8x8x64xf32>)
// CHECK: dfg.mul %[[P]], %[[LESS]]
// CHECK: dfg.reduce {{.*}} -> tensor<8x4096x32xf32>
// CHECK: dfg.reduce {{.*}} -> tensor<8x4096x64xf32>
// CHECK: dfg.transpose %[[BYKEYS]]#1 {permutation = array<i64: 0, 2, 1>}
// CHECK: dfg.fusion {{.*}} -> tensor<8x4096x64xf32>
// CHECK: dfg.sub %{{.*}} : (tensor<8x4096x8x8x64xf32>, tensor<8x4096x1x1x1xf32>)
// CHECK-NOT: dfg.softmax
// CHECK-NOT: tensor<8x4096x4096xf32>
// KERNEL: plan.native_kernel @native.reduce.{{[0-9]+}} attributes {object = @native, parallel_extent =
dist.program @trained(%q: tensor<8x4096x64xf32>, %k: tensor<8x4096x64xf32>, %v: tensor<8x4096x32xf32>, %do: tensor<8x4096x32xf32>) -> (tensor<8x4096x32xf32>, tensor<8x4096x64xf32>, tensor<8x64x4096xf32>, tensor<8x4096x32xf32>) attributes {mesh = @d0} {
  %scale = dfg.constant dense<0.125> : tensor<f32>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<8x4096x64xf32>, tensor<8x4096x64xf32>) -> tensor<8x4096x4096xf32>
  %1 = dfg.mul %0, %scale : (tensor<8x4096x4096xf32>, tensor<f32>) -> tensor<8x4096x4096xf32>
  %2 = dfg.softmax %1 {dim = 2 : i64} : (tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %3 = dfg.dot_general %2, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x4096xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x32xf32>
  %dv = dfg.dot_general %2, %do {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x4096xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x32xf32>
  %dp = dfg.dot_general %do, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<8x4096x32xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x4096xf32>
  %4 = dfg.mul %dp, %2 : (tensor<8x4096x4096xf32>, tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %5 = dfg.reduce %4 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 2>, keep_dims} : (tensor<8x4096x4096xf32>) -> tensor<8x4096x1xf32>
  %6 = dfg.sub %dp, %5 : (tensor<8x4096x4096xf32>, tensor<8x4096x1xf32>) -> tensor<8x4096x4096xf32>
  %7 = dfg.mul %2, %6 : (tensor<8x4096x4096xf32>, tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %ds = dfg.mul %7, %scale : (tensor<8x4096x4096xf32>, tensor<f32>) -> tensor<8x4096x4096xf32>
  %dq = dfg.dot_general %ds, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x4096xf32>, tensor<8x4096x64xf32>) -> tensor<8x4096x64xf32>
  %dk = dfg.dot_general %q, %ds {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x64xf32>, tensor<8x4096x4096xf32>) -> tensor<8x64x4096xf32>
  dist.return %3, %dq, %dk, %dv : tensor<8x4096x32xf32>, tensor<8x4096x64xf32>, tensor<8x64x4096xf32>, tensor<8x4096x32xf32>
}

// A product of the gradient that depends on another one over the same queries: no kernel can compute both.
// CHECK-LABEL: dist.program @trained_apart
// CHECK: dfg.softmax
// REMARK: remark: program "trained_apart": attention is not one kernel, its scores (512 MiB) stay in memory: products of its gradient depend on each other (softmax)
dist.program @trained_apart(%q: tensor<8x4096x64xf32>, %k: tensor<8x4096x64xf32>, %v: tensor<8x4096x32xf32>, %do: tensor<8x4096x32xf32>) -> (tensor<8x4096x32xf32>, tensor<8x4096x64xf32>, tensor<8x64x4096xf32>, tensor<8x4096x32xf32>) attributes {mesh = @d0} {
  %scale = dfg.constant dense<0.125> : tensor<f32>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<8x4096x64xf32>, tensor<8x4096x64xf32>) -> tensor<8x4096x4096xf32>
  %1 = dfg.mul %0, %scale : (tensor<8x4096x4096xf32>, tensor<f32>) -> tensor<8x4096x4096xf32>
  %2 = dfg.softmax %1 {dim = 2 : i64} : (tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %3 = dfg.dot_general %2, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x4096xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x32xf32>
  %dv = dfg.dot_general %2, %do {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x4096xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x32xf32>
  %dp = dfg.dot_general %do, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<8x4096x32xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x4096xf32>
  %4 = dfg.mul %dp, %2 : (tensor<8x4096x4096xf32>, tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %5 = dfg.reduce %4 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 2>, keep_dims} : (tensor<8x4096x4096xf32>) -> tensor<8x4096x1xf32>
  %6 = dfg.sub %dp, %5 : (tensor<8x4096x4096xf32>, tensor<8x4096x1xf32>) -> tensor<8x4096x4096xf32>
  %7 = dfg.mul %2, %6 : (tensor<8x4096x4096xf32>, tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %ds = dfg.mul %7, %scale : (tensor<8x4096x4096xf32>, tensor<f32>) -> tensor<8x4096x4096xf32>
  %dq = dfg.dot_general %ds, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x4096xf32>, tensor<8x4096x64xf32>) -> tensor<8x4096x64xf32>
  %later = dfg.concat %dv, %dv {dim = 2 : i64} : (tensor<8x4096x32xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x64xf32>
  %dk = dfg.dot_general %later, %ds {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x64xf32>, tensor<8x4096x4096xf32>) -> tensor<8x64x4096xf32>
  dist.return %3, %dq, %dk, %dv : tensor<8x4096x32xf32>, tensor<8x4096x64xf32>, tensor<8x64x4096xf32>, tensor<8x4096x32xf32>
}

// A bias that is trained wants the sum of the scores' gradient over heads, which these kernels do not make.
// CHECK-LABEL: dist.program @trained_bias
// CHECK: dfg.softmax
// REMARK: remark: program "{{.*}}": attention is not one kernel, its scores (512 MiB) stay in memory: it reads them, and is neither elementwise nor a product over keys or queries (reduce)
dist.program @trained_bias(%q: tensor<8x4096x64xf32>, %k: tensor<8x4096x64xf32>, %v: tensor<8x4096x32xf32>, %bias: tensor<4096x4096xf32>, %do: tensor<8x4096x32xf32>) -> (tensor<8x4096x32xf32>, tensor<8x4096x32xf32>, tensor<4096x4096xf32>) attributes {mesh = @d0} {
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<8x4096x64xf32>, tensor<8x4096x64xf32>) -> tensor<8x4096x4096xf32>
  %1 = dfg.add %0, %bias : (tensor<8x4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %2 = dfg.softmax %1 {dim = 2 : i64} : (tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %3 = dfg.dot_general %2, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x4096xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x32xf32>
  %dv = dfg.dot_general %2, %do {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x4096xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x32xf32>
  %dp = dfg.dot_general %do, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<8x4096x32xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x4096xf32>
  %4 = dfg.mul %dp, %2 : (tensor<8x4096x4096xf32>, tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %5 = dfg.reduce %4 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 2>, keep_dims} : (tensor<8x4096x4096xf32>) -> tensor<8x4096x1xf32>
  %6 = dfg.sub %dp, %5 : (tensor<8x4096x4096xf32>, tensor<8x4096x1xf32>) -> tensor<8x4096x4096xf32>
  %ds = dfg.mul %2, %6 : (tensor<8x4096x4096xf32>, tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %db = dfg.reduce %ds {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<8x4096x4096xf32>) -> tensor<4096x4096xf32>
  dist.return %3, %dv, %db : tensor<8x4096x32xf32>, tensor<8x4096x32xf32>, tensor<4096x4096xf32>
}

// Others read the scores.
// CHECK-LABEL: dist.program @read
// CHECK: dfg.softmax
// REMARK: remark: program "{{.*}}": attention is not one kernel, its scores (512 MiB) stay in memory: it reads them, and is neither elementwise nor a product over keys or queries (return)
dist.program @read(%q: tensor<8x4096x64xf32>, %k: tensor<8x4096x64xf32>, %v: tensor<8x4096x32xf32>) -> (tensor<8x4096x32xf32>, tensor<8x4096x4096xf32>) attributes {mesh = @d0} {
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<8x4096x64xf32>, tensor<8x4096x64xf32>) -> tensor<8x4096x4096xf32>
  %1 = dfg.softmax %0 {dim = 2 : i64} : (tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %2 = dfg.dot_general %1, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x4096xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x32xf32>
  dist.return %2, %1 : tensor<8x4096x32xf32>, tensor<8x4096x4096xf32>
}

// As dropout is, between softmax and the values.
// CHECK-LABEL: dist.program @thinned
// CHECK: dfg.softmax
// REMARK: remark: program "thinned": attention is not one kernel, its scores (512 MiB) stay in memory: it stands between softmax and the product with the values (mul)
// REMARK-NOT: remark
dist.program @thinned(%q: tensor<8x4096x64xf32>, %k: tensor<8x4096x64xf32>, %v: tensor<8x4096x32xf32>, %kept: tensor<8x4096x4096xi1>) -> tensor<8x4096x32xf32> attributes {mesh = @d0} {
  %scale = dfg.constant dense<1.25> : tensor<f32>
  %zero = dfg.constant dense<0.0> : tensor<f32>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<8x4096x64xf32>, tensor<8x4096x64xf32>) -> tensor<8x4096x4096xf32>
  %1 = dfg.softmax %0 {dim = 2 : i64} : (tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %2 = dfg.mul %1, %scale : (tensor<8x4096x4096xf32>, tensor<f32>) -> tensor<8x4096x4096xf32>
  %3 = dfg.select %kept, %2, %zero : (tensor<8x4096x4096xi1>, tensor<8x4096x4096xf32>, tensor<f32>) -> tensor<8x4096x4096xf32>
  %4 = dfg.dot_general %3, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x4096xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x32xf32>
  dist.return %4 : tensor<8x4096x32xf32>
}

// Of short sequences the scores stay in the cache.
// CHECK-LABEL: dist.program @short
// CHECK: dfg.softmax
dist.program @short(%q: tensor<8x512x64xf32>, %k: tensor<8x512x64xf32>, %v: tensor<8x512x32xf32>) -> tensor<8x512x32xf32> attributes {mesh = @d0} {
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<8x512x64xf32>, tensor<8x512x64xf32>) -> tensor<8x512x512xf32>
  %1 = dfg.softmax %0 {dim = 2 : i64} : (tensor<8x512x512xf32>) -> tensor<8x512x512xf32>
  %2 = dfg.dot_general %1, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<8x512x512xf32>, tensor<8x512x32xf32>) -> tensor<8x512x32xf32>
  dist.return %2 : tensor<8x512x32xf32>
}

// One query of many heads: keys are read once in any case.
// CHECK-LABEL: dist.program @one_query
// CHECK: dfg.softmax
dist.program @one_query(%q: tensor<4096x1x64xf32>, %k: tensor<4096x2048x64xf32>, %v: tensor<4096x2048x32xf32>) -> tensor<4096x1x32xf32> attributes {mesh = @d0} {
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<4096x1x64xf32>, tensor<4096x2048x64xf32>) -> tensor<4096x1x2048xf32>
  %1 = dfg.softmax %0 {dim = 2 : i64} : (tensor<4096x1x2048xf32>) -> tensor<4096x1x2048xf32>
  %2 = dfg.dot_general %1, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<4096x1x2048xf32>, tensor<4096x2048x32xf32>) -> tensor<4096x1x32xf32>
  dist.return %2 : tensor<4096x1x32xf32>
}

// Softmax over the queries is no attention.
// CHECK-LABEL: dist.program @over_queries
// CHECK: dfg.softmax
dist.program @over_queries(%q: tensor<8x4096x64xf32>, %k: tensor<8x4096x64xf32>, %v: tensor<8x4096x32xf32>) -> tensor<8x4096x32xf32> attributes {mesh = @d0} {
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<8x4096x64xf32>, tensor<8x4096x64xf32>) -> tensor<8x4096x4096xf32>
  %1 = dfg.softmax %0 {dim = 1 : i64} : (tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %2 = dfg.dot_general %1, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x4096xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x32xf32>
  dist.return %2 : tensor<8x4096x32xf32>
}

// GPUs have kernels of another generator.
// CHECK-LABEL: dist.program @on_gpu
// CHECK: dfg.softmax
dist.program @on_gpu(%q: tensor<8x4096x64xf32>, %k: tensor<8x4096x64xf32>, %v: tensor<8x4096x32xf32>) -> tensor<8x4096x32xf32> attributes {mesh = @d1} {
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 2>} : (tensor<8x4096x64xf32>, tensor<8x4096x64xf32>) -> tensor<8x4096x4096xf32>
  %1 = dfg.softmax %0 {dim = 2 : i64} : (tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
  %2 = dfg.dot_general %1, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>} : (tensor<8x4096x4096xf32>, tensor<8x4096x32xf32>) -> tensor<8x4096x32xf32>
  dist.return %2 : tensor<8x4096x32xf32>
}
}
