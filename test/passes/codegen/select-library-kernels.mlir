// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What libraries choose depends on the processor, which the module names: AVX2 here, AVX-512 where this machine has it.
// RUN: cleave-opt %s --codegen-choose-processor --codegen-select-library-kernels --cse | FileCheck %s --check-prefixes=CHECK,AVX2
// RUN: %if x86-64-v4 %{ sed s/x86-64-v3/x86-64-v4/ %s | cleave-opt - --codegen-choose-processor --codegen-select-library-kernels --cse | FileCheck %s --check-prefixes=CHECK,AVX512 %}

module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64,
                                    chip = "x86-64-v3"},
                                   {name = "cpu1", driver = "cpu", cores = 1 : i64, memory = 0 : i64,
                                    chip = "x86-64-v3"}]} {
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dist.mesh @pair <["m" = 2], devices = [0, 1]>
dfg.parameter @wide : tensor<32x16x5x5xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @w : tensor<16x16x5x5xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @b : tensor<16x1x1xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @first.weight : tensor<20x1x3x3xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @few : tensor<18x2x3x3xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @m : tensor<10x64xf32> = #dfg.fill<value = 1.0 : f64>

// Bias and rectifier are fused: one launch of a convolution with three arguments, and its result is sent as it lies.
// CHECK-LABEL: dist.program @first
// CHECK-NOT: dfg.conv
// CHECK: %[[Y:.*]] = plan.launch @[[CONV:onednn.convolution.[0-9]+]](%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}})
// CHECK-NOT: dfg.add
// CHECK-NOT: dfg.relu
// CHECK: dist.send %[[Y]] to @d1 channel 0
dist.program @first(%x: tensor<1x16x8x8xf32>) attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<16x16x5x5xf32>
  %b = dfg.read @b : tensor<16x1x1xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<16x16x5x5xf32>) -> tensor<1x16x8x8xf32>
  %1 = dfg.add %0, %b : (tensor<1x16x8x8xf32>, tensor<16x1x1xf32>) -> tensor<1x16x8x8xf32>
  %2 = dfg.relu %1 : (tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  dist.send %2 to @d1 channel 0 : tensor<1x16x8x8xf32>
  dist.return
}

// A residual connection joins the second convolution; the program's result is row-major again.
// CHECK-LABEL: dist.program @second
// CHECK: dist.receive from @d0 channel 0
// CHECK: plan.launch @onednn.convolution.{{[0-9]+}}(%[[X:[^,]*]], %{{[^,]*}}, %[[X]])
// CHECK-NOT: dfg.add
// CHECK: dist.return %{{.*}} : tensor<1x16x8x8xf32>
dist.program @second() -> tensor<1x16x8x8xf32> attributes {mesh = @d1} {
  %w = dfg.read @w : tensor<16x16x5x5xf32>
  %0 = dist.receive from @d0 channel 0 : tensor<1x16x8x8xf32>
  %1 = dfg.conv %0, %w {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<16x16x5x5xf32>) -> tensor<1x16x8x8xf32>
  %2 = dfg.add %1, %0 : (tensor<1x16x8x8xf32>, tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  dist.return %2 : tensor<1x16x8x8xf32>
}

// What comes in does not depend on what the library chooses: parameters as inputs, as a replica gets their versions, are
// the same arguments.
// CHECK-LABEL: dist.program @version
// CHECK: plan.launch @[[CONV]](%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}})
// CHECK-NOT: dfg.add
// CHECK-NOT: dfg.relu
// CHECK: dist.send
dist.program @version(%x: tensor<1x16x8x8xf32>, %w: tensor<16x16x5x5xf32>, %b: tensor<16xf32>) attributes {mesh = @d0} {
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<16x16x5x5xf32>) -> tensor<1x16x8x8xf32>
  %c = dfg.reshape %b : (tensor<16xf32>) -> tensor<16x1x1xf32>
  %1 = dfg.add %0, %c : (tensor<1x16x8x8xf32>, tensor<16x1x1xf32>) -> tensor<1x16x8x8xf32>
  %2 = dfg.relu %1 : (tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  dist.send %2 to @d1 channel 2 : tensor<1x16x8x8xf32>
  dist.return
}

// A matrix that lies transposed is viewed, not moved, unless the library asks for another layout.
// CHECK-LABEL: dist.program @dense
// CHECK: plan.view %{{.*}} : tensor<10x64xf32> -> tensor<64x10xf32, #plan.layout<"ba"
// CHECK: plan.launch @onednn.matmul
dist.program @dense(%x: tensor<4x64xf32>) -> tensor<4x10xf32> attributes {mesh = @d0} {
  %m = dfg.read @m : tensor<10x64xf32>
  %0 = dfg.dot_general %x, %m {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<10x64xf32>) -> tensor<4x10xf32>
  dist.return %0 : tensor<4x10xf32>
}

// An image of one channel is the same bytes channels-last: seen, not moved.
// CHECK-LABEL: dist.program @gray
// CHECK-NOT: plan.launch @onednn.reorder.{{[0-9]+}}(%arg0)
// CHECK: plan.launch @onednn.convolution
dist.program @gray(%x: tensor<4x1x28x28xf32>) -> tensor<4x20x26x26xf32> attributes {mesh = @d0} {
  %w = dfg.read @first.weight : tensor<20x1x3x3xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<4x1x28x28xf32>, tensor<20x1x3x3xf32>) -> tensor<4x20x26x26xf32>
  dist.return %0 : tensor<4x20x26x26xf32>
}

// What the library has no routine for is computed as its operand lies: a view and a transpose on the way in, and again on
// the way out. An operator with a single elementwise reader hands its result on directly.
// CHECK-LABEL: dist.program @permuted
// AVX512: %[[C:.*]] = plan.launch @onednn.convolution.{{[0-9]+}}{{.*}} -> tensor<4x20x26x26xf32, #plan.layout<"acdb"
// AVX512: %[[SEEN:.*]] = plan.view %[[C]] : {{.*}} -> tensor<4x26x26x20xf32>
// AVX512: %[[IN:.*]] = dfg.transpose %[[SEEN]] {permutation = array<i64: 0, 3, 1, 2>}
// AVX512: %[[SIN:.*]] = dfg.sin %[[IN]]
// AVX512-NEXT: %[[COS:.*]] = dfg.cos %[[SIN]]
// AVX512: %[[OUT:.*]] = dfg.transpose %[[COS]] {permutation = array<i64: 0, 2, 3, 1>}
// AVX512: plan.view %[[OUT]] : tensor<4x26x26x20xf32> -> tensor<4x20x26x26xf32, #plan.layout<"acdb"
// AVX512: plan.launch @onednn.pooling
// With AVX2 its convolutions give blocks of channels, which our kernels get in rows, as pooling without blocks does.
// AVX2: %[[C:.*]] = plan.launch @onednn.convolution.{{[0-9]+}}{{.*}} -> tensor<4x20x26x26xf32, #plan.layout<"aBcd8b"
// AVX2: %[[ROWS:.*]] = plan.launch @onednn.reorder.{{[0-9]+}}(%[[C]]) {{.*}} -> tensor<4x20x26x26xf32>
// AVX2: dfg.sin %[[ROWS]]
dist.program @permuted(%x: tensor<4x1x28x28xf32>) -> tensor<4x20x13x13xf32> attributes {mesh = @d0} {
  %w = dfg.read @first.weight : tensor<20x1x3x3xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<4x1x28x28xf32>, tensor<20x1x3x3xf32>) -> tensor<4x20x26x26xf32>
  %1 = dfg.sin %0 : (tensor<4x20x26x26xf32>) -> tensor<4x20x26x26xf32>
  %2 = dfg.cos %1 : (tensor<4x20x26x26xf32>) -> tensor<4x20x26x26xf32>
  %3 = dfg.pool %2 {kind = #dfg.pool_kind<average>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<4x20x26x26xf32>) -> tensor<4x20x13x13xf32>
  dist.return %3 : tensor<4x20x13x13xf32>
}

// Values that lie channels-last, as with AVX-512 here, are put side by side as they lie, where what is contiguous is copied.
// CHECK-LABEL: dist.program @joined
// AVX512: %[[C:.*]] = plan.launch @onednn.convolution.{{[0-9]+}}{{.*}} -> tensor<4x20x26x26xf32, #plan.layout<"acdb"
// AVX512: %[[SEEN:.*]] = plan.view %[[C]] : {{.*}} -> tensor<4x26x26x20xf32>
// AVX512: %[[TWICE:.*]] = dfg.concat %[[SEEN]], %[[SEEN]] {dim = 3 : i64} : {{.*}} -> tensor<4x26x26x40xf32>
// AVX512: plan.view %[[TWICE]] : tensor<4x26x26x40xf32> -> tensor<4x40x26x26xf32, #plan.layout<"acdb"
// AVX512: plan.launch @onednn.pooling
dist.program @joined(%x: tensor<4x1x28x28xf32>) -> tensor<4x40x13x13xf32> attributes {mesh = @d0} {
  %w = dfg.read @first.weight : tensor<20x1x3x3xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<4x1x28x28xf32>, tensor<20x1x3x3xf32>) -> tensor<4x20x26x26xf32>
  %1 = dfg.concat %0, %0 {dim = 1 : i64} : (tensor<4x20x26x26xf32>, tensor<4x20x26x26xf32>) -> tensor<4x40x26x26xf32>
  %2 = dfg.pool %1 {kind = #dfg.pool_kind<average>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<4x40x26x26xf32>) -> tensor<4x40x13x13xf32>
  dist.return %2 : tensor<4x40x13x13xf32>
}

// Of 18 channels in vectors of 8 the library computes 24, and in vectors of 16 32: a kernel of our own computes the 32 samples side by side, and
// what follows it, a pooling even, finds them so.
// CHECK-LABEL: dist.program @samples
// CHECK: %[[X:.*]] = plan.launch @onednn.reorder.{{[0-9]+}}(%{{.*}} -> tensor<32x2x28x28xf32, #plan.layout<"bcda"
// CHECK: %[[LIES:.*]] = plan.view %[[X]] {{.*}} -> tensor<2x28x28x32xf32>
// CHECK: %[[SEEN:.*]] = dfg.transpose %[[LIES]] {permutation = array<i64: 3, 0, 1, 2>}
// CHECK: dfg.conv %[[SEEN]]
// CHECK: dfg.relu
// CHECK: dfg.transpose {{.*}} -> tensor<18x26x26x32xf32>
// CHECK: dfg.pool
// CHECK-NOT: plan.launch
// CHECK: dist.return
dist.program @samples(%x: tensor<32x2x28x28xf32>) -> tensor<32x18x13x13xf32> attributes {mesh = @d0} {
  %w = dfg.read @few : tensor<18x2x3x3xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<32x2x28x28xf32>, tensor<18x2x3x3xf32>) -> tensor<32x18x26x26xf32>
  %1 = dfg.relu %0 : (tensor<32x18x26x26xf32>) -> tensor<32x18x26x26xf32>
  %2 = dfg.pool %1 {kind = #dfg.pool_kind<average>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<32x18x26x26xf32>) -> tensor<32x18x13x13xf32>
  dist.return %2 : tensor<32x18x13x13xf32>
}

// What is returned is row-major. A sum of products goes through memory in the order of its result, samples innermost: it
// joins the addition, which lies so, and not the rectifier, which does not, but brings that into place.
// CHECK-LABEL: dist.program @returned
// CHECK: %[[SUM:.*]] = dfg.conv
// CHECK: %[[BIASED:.*]] = dfg.add %[[SUM]],
// CHECK: %[[LIES:.*]] = dfg.transpose %[[BIASED]] {permutation = array<i64: 1, 2, 3, 0>}
// CHECK: %[[LAID:.*]] = plan.view %[[LIES]] {{.*}} -> tensor<32x18x26x26xf32, #plan.layout<"bcda"
// CHECK: %[[FOUND:.*]] = plan.view %[[LAID]] {{.*}} -> tensor<18x26x26x32xf32>
// CHECK: %[[SEEN:.*]] = dfg.transpose %[[FOUND]] {permutation = array<i64: 3, 0, 1, 2>}
// CHECK: %[[Y:.*]] = dfg.relu %[[SEEN]]
// CHECK-NEXT: dist.return %[[Y]]
dist.program @returned(%x: tensor<32x2x28x28xf32>, %b: tensor<18x1x1xf32>) -> tensor<32x18x26x26xf32> attributes {mesh = @d0} {
  %w = dfg.read @few : tensor<18x2x3x3xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<32x2x28x28xf32>, tensor<18x2x3x3xf32>) -> tensor<32x18x26x26xf32>
  %1 = dfg.add %0, %b : (tensor<32x18x26x26xf32>, tensor<18x1x1xf32>) -> tensor<32x18x26x26xf32>
  %2 = dfg.relu %1 : (tensor<32x18x26x26xf32>) -> tensor<32x18x26x26xf32>
  dist.return %2 : tensor<32x18x26x26xf32>
}

// Nothing joins a deconvolution: oneDNN computes what does one element after the other.
// CHECK-LABEL: dist.program @deconvolution
// CHECK: %[[UP:.*]] = plan.launch @onednn.deconvolution.{{[0-9]+}}(%{{[^,]*}}, %{{[^,]*}})
// CHECK: dist.return
dist.program @deconvolution(%x: tensor<1x16x14x14xf32>, %y: tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32> attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<16x16x5x5xf32>
  %0 = dfg.conv_transpose %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>} : (tensor<1x16x14x14xf32>, tensor<16x16x5x5xf32>) -> tensor<1x16x16x16xf32>
  %1 = dfg.add %0, %y : (tensor<1x16x16x16xf32>, tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32>
  dist.return %1 : tensor<1x16x16x16xf32>
}

// On row-major data an elementwise operator is left to kernels of our own.
// CHECK-LABEL: dist.program @elementwise
// CHECK: dfg.relu
dist.program @elementwise(%x: tensor<4x64xf32>) -> tensor<4x64xf32> attributes {mesh = @d0} {
  %0 = dfg.relu %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  dist.return %0 : tensor<4x64xf32>
}

// A device's part of a weight is brought into the library's layout like a whole one; what devices join, and what is cut
// into pieces on its way to another mesh, is row-major.
// CHECK-LABEL: dist.program @sharded
// CHECK: %[[W:.*]] = dist.shard_of @wide
// CHECK: plan.launch @onednn.reorder.{{[0-9]+}}(%[[W]])
// CHECK: %[[C:.*]] = plan.launch @onednn.convolution.{{[0-9]+}}
// CHECK-NEXT: %[[D:.*]] = plan.launch @onednn.reorder.{{[0-9]+}}(%[[C]]) {{.*}} -> tensor<1x16x14x14xf32>
// CHECK: dist.all_reduce %[[D]]
// CHECK: dist.send %[[D]] to @d1 channel 1
dist.program @sharded(%x: tensor<1x16x14x14xf32>) -> tensor<1x16x14x14xf32> attributes {mesh = @pair} {
  %w = dist.shard_of @wide <[32 by ["m"], 16, 5, 5]> : tensor<16x16x5x5xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>} : (tensor<1x16x14x14xf32>, tensor<16x16x5x5xf32>) -> tensor<1x16x14x14xf32>
  %1 = dist.all_reduce %0 from <[1, 16, 14, 14], partial sum ["m"]> to <[1, 16, 14, 14]> : tensor<1x16x14x14xf32> -> tensor<1x16x14x14xf32>
  dist.send %0 to @d1 channel 1 from <[1, 32 by ["m"], 14, 14]> to <[1, 32, 14, 14]> : tensor<1x16x14x14xf32>
  dist.return %1 : tensor<1x16x14x14xf32>
}

// Such a transfer ends row-major too, whatever its first reader is.
// CHECK-LABEL: dist.program @parts
// CHECK: dist.receive from @pair channel 1 {{.*}} : tensor<1x32x14x14xf32>
dist.program @parts() -> tensor<1x32x14x14xf32> attributes {mesh = @d1} {
  %0 = dist.receive from @pair channel 1 from <[1, 32 by ["m"], 14, 14]> to <[1, 32, 14, 14]> : tensor<1x32x14x14xf32>
  dist.return %0 : tensor<1x32x14x14xf32>
}

// One elementwise operator joins the routine: oneDNN 2.6 gives a second one the constants of the first.
// CHECK-LABEL: dist.program @clamps
// CHECK: %[[FIRST:.*]] = plan.launch @onednn.convolution
// CHECK: plan.view %[[FIRST]]
// CHECK: dfg.clamp {{.*}}high = 2.000000e+00
dist.program @clamps(%x: tensor<1x16x14x14xf32>) -> tensor<1x16x14x14xf32> attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<16x16x5x5xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>} : (tensor<1x16x14x14xf32>, tensor<16x16x5x5xf32>) -> tensor<1x16x14x14xf32>
  %1 = dfg.clamp %0 {high = 2.000000e+01 : f64, low = -2.000000e+01 : f64} : (tensor<1x16x14x14xf32>) -> tensor<1x16x14x14xf32>
  %2 = dfg.clamp %1 {high = 2.000000e+00 : f64, low = -2.000000e+00 : f64} : (tensor<1x16x14x14xf32>) -> tensor<1x16x14x14xf32>
  dist.return %2 : tensor<1x16x14x14xf32>
}

// The library gives the gradient of a filter that is divided into groups in a shape of its own, with the groups in front,
// and in whatever order and with whatever padding it likes: it is row-major before it gets the filter's shape.
// CHECK-LABEL: dist.program @grouped
// CHECK: plan.launch @onednn.convolution_weights
// CHECK: dfg.reshape %{{[0-9]+}} : (tensor<24x1x1x3x3xf32>) -> tensor<24x1x3x3xf32>
dist.program @grouped(%x: tensor<2x24x8x8xf32>, %g: tensor<2x24x8x8xf32>) -> tensor<24x1x3x3xf32> attributes {mesh = @d0} {
  %0 = dfg.conv_filter_gradient %x, %g {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 24 : i64} : (tensor<2x24x8x8xf32>, tensor<2x24x8x8xf32>) -> tensor<24x1x3x3xf32>
  dist.return %0 : tensor<24x1x3x3xf32>
}

// CHECK: plan.library_kernel @[[CONV]] "onednn" "convolution"
// CHECK-SAME: post_ops = [#plan.post_op<"relu"
}
