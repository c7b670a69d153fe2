// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What processors multiply is known by their names: whether this machine is one of them does not matter.
// RUN: cleave-opt %s --pass-pipeline='builtin.module(codegen-choose-processor{limits-libraries=false},dist.program(codegen-form-integer-products))' | FileCheck %s
// AVX2 multiplies them as well; AVX-512 without VNNI, and what is older than AVX2, do not.
// RUN: sed s/cascadelake/x86-64-v3/ %s | cleave-opt - --pass-pipeline='builtin.module(codegen-choose-processor{limits-libraries=false},dist.program(codegen-form-integer-products))' | FileCheck %s
// RUN: sed s/cascadelake/x86-64-v2/ %s | cleave-opt - --pass-pipeline='builtin.module(codegen-choose-processor{limits-libraries=false},dist.program(codegen-form-integer-products))' | FileCheck %s --check-prefix=REALS
// RUN: sed s/cascadelake/skylake-avx512/ %s | cleave-opt - --pass-pipeline='builtin.module(codegen-choose-processor{limits-libraries=false},dist.program(codegen-form-integer-products))' | FileCheck %s --check-prefix=REALS

module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64,
                                    chip = "cascadelake"}]} {
dist.mesh @d0 <[], devices = [0]>
dfg.parameter @w : tensor<8x6xi8> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @u : tensor<8x6xui8> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @filter : tensor<4x3x3x3xi8> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @sx : tensor<f32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @sy : tensor<f32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @sw : tensor<6xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @b : tensor<6xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @bias : tensor<4x1x1xi32> = #dfg.fill<value = 1.0 : f64>

// Numbers are multiplied. The zero point's part and the bias are added to the sums, and one factor makes them numbers of
// the result's scale; without a zero point there is no such part.
// CHECK-LABEL: dist.program @dense
// CHECK: %[[SUM:.*]] = dfg.dot_general %arg0, %{{.*}} {{.*}}, wide} : (tensor<4x8xui8>, tensor<8x6xi8>) -> tensor<4x6xi32>
// CHECK: %[[SUMS:.*]] = dfg.reduce {{.*}} : (tensor<8x6xi32>) -> tensor<6xi32>
// CHECK: dfg.mul %[[SUMS]]
// CHECK: %[[FLOATS:.*]] = dfg.cast %[[SUM]] {to = f32}
// CHECK: %[[ADDED:.*]] = dfg.add %[[FLOATS]], %{{.*}} : (tensor<4x6xf32>, tensor<6xf32>)
// CHECK: %[[SCALED:.*]] = dfg.mul %[[ADDED]], %{{.*}} : (tensor<4x6xf32>, tensor<6xf32>)
// CHECK-NOT: dfg.div {{.*}} -> tensor<4x6xf32>
// CHECK: dfg.round %[[SCALED]]
// A processor that multiplies no integers keeps the model's arithmetic.
// REALS-LABEL: dist.program @dense
// REALS-NOT: wide
// REALS: dfg.dot_general {{.*}} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
dist.program @dense(%x: tensor<4x8xui8>) -> tensor<4x6xui8> attributes {mesh = @d0} {
  %zx = dfg.constant dense<7> : tensor<i32>
  %zy = dfg.constant dense<3.0> : tensor<f32>
  %sx = dfg.read @sx : tensor<f32>
  %sy = dfg.read @sy : tensor<f32>
  %sw = dfg.read @sw : tensor<6xf32>
  %b = dfg.read @b : tensor<6xf32>
  %w = dfg.read @w : tensor<8x6xi8>
  %0 = dfg.cast %x {to = i32} : (tensor<4x8xui8>) -> tensor<4x8xi32>
  %1 = dfg.sub %0, %zx : (tensor<4x8xi32>, tensor<i32>) -> tensor<4x8xi32>
  %2 = dfg.cast %1 {to = f32} : (tensor<4x8xi32>) -> tensor<4x8xf32>
  %3 = dfg.mul %2, %sx : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %4 = dfg.cast %w {to = i32} : (tensor<8x6xi8>) -> tensor<8x6xi32>
  %5 = dfg.cast %4 {to = f32} : (tensor<8x6xi32>) -> tensor<8x6xf32>
  %6 = dfg.mul %5, %sw : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
  %7 = dfg.dot_general %3, %6 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %8 = dfg.add %7, %b : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %9 = dfg.div %8, %sy : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %10 = dfg.round %9 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %11 = dfg.add %10, %zy : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %12 = dfg.cast %11 {to = ui8} : (tensor<4x6xf32>) -> tensor<4x6xui8>
  dist.return %12 : tensor<4x6xui8>
}

// What is kept within limits before it is quantized is kept within those of the numbers. What is added behind a limit stays
// there.
// CHECK-LABEL: dist.program @limited
// CHECK: dfg.dot_general {{.*}}wide
// CHECK: %[[SCALED:.*]] = dfg.mul {{.*}} : (tensor<4x6xf32>, tensor<6xf32>)
// CHECK: %[[LOW:.*]] = dfg.max %[[SCALED]], %{{.*}} : (tensor<4x6xf32>, tensor<f32>)
// CHECK: %[[HIGH:.*]] = dfg.min %[[LOW]], %{{.*}} : (tensor<4x6xf32>, tensor<f32>)
// CHECK: dfg.round %[[HIGH]]
dist.program @limited(%x: tensor<4x8xui8>) -> tensor<4x6xui8> attributes {mesh = @d0} {
  %sx = dfg.read @sx : tensor<f32>
  %sy = dfg.read @sy : tensor<f32>
  %sw = dfg.read @sw : tensor<6xf32>
  %w = dfg.read @w : tensor<8x6xi8>
  %0 = dfg.cast %x {to = i32} : (tensor<4x8xui8>) -> tensor<4x8xi32>
  %2 = dfg.cast %0 {to = f32} : (tensor<4x8xi32>) -> tensor<4x8xf32>
  %3 = dfg.mul %2, %sx : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %4 = dfg.cast %w {to = i32} : (tensor<8x6xi8>) -> tensor<8x6xi32>
  %5 = dfg.cast %4 {to = f32} : (tensor<8x6xi32>) -> tensor<8x6xf32>
  %6 = dfg.mul %5, %sw : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
  %7 = dfg.dot_general %3, %6 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %8 = dfg.clamp %7 {low = 0.0 : f64, high = 6.0 : f64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %9 = dfg.div %8, %sy : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %10 = dfg.round %9 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %11 = dfg.cast %10 {to = ui8} : (tensor<4x6xf32>) -> tensor<4x6xui8>
  dist.return %11 : tensor<4x6xui8>
}

// Around an image lie zero points, so that padding adds nothing; and the sums of the weights join the bias. Signed numbers
// are unsigned ones with a zero point of 128.
// CHECK-LABEL: dist.program @image
// CHECK-DAG: %[[AROUND:.*]] = dfg.constant dense<133> : tensor<ui8>
// CHECK: %[[PADDED:.*]] = dfg.pad %{{.*}}, %[[AROUND]] {high = array<i64: 0, 0, 1, 1>, low = array<i64: 0, 0, 1, 1>} : (tensor<1x3x8x8xui8>, tensor<ui8>) -> tensor<1x3x10x10xui8>
// CHECK: %[[SUM:.*]] = dfg.conv %[[PADDED]], %{{.*}} {{.*}}pads = array<i64: 0, 0, 0, 0>{{.*}}, wide} : (tensor<1x3x10x10xui8>, tensor<4x3x3x3xi8>) -> tensor<1x4x8x8xi32>
// CHECK-COUNT-1: dfg.add {{.*}} -> tensor<1x4x8x8xi32>
// CHECK-NOT: -> tensor<1x4x8x8xi32>
// CHECK: dist.return
// Sums that are integers stay so where they are not exact as reals: none of 27 products is too large here.
// REALS-LABEL: dist.program @image
// REALS: %[[SUM:.*]] = dfg.conv {{.*}} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
// REALS: dfg.cast %[[SUM]] {to = i32}
dist.program @image(%x: tensor<1x3x8x8xi8>) -> tensor<1x4x8x8xi32> attributes {mesh = @d0} {
  %zx = dfg.constant dense<5> : tensor<i32>
  %w = dfg.read @filter : tensor<4x3x3x3xi8>
  %b = dfg.read @bias : tensor<4x1x1xi32>
  %0 = dfg.cast %x {to = i32} : (tensor<1x3x8x8xi8>) -> tensor<1x3x8x8xi32>
  %1 = dfg.sub %0, %zx : (tensor<1x3x8x8xi32>, tensor<i32>) -> tensor<1x3x8x8xi32>
  %2 = dfg.cast %w {to = i32} : (tensor<4x3x3x3xi8>) -> tensor<4x3x3x3xi32>
  %3 = dfg.conv %1, %2 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xi32>, tensor<4x3x3x3xi32>) -> tensor<1x4x8x8xi32>
  %4 = dfg.add %3, %b : (tensor<1x4x8x8xi32>, tensor<4x1x1xi32>) -> tensor<1x4x8x8xi32>
  dist.return %4 : tensor<1x4x8x8xi32>
}

// Weights about 128 are signed ones about 0; about another zero point they are not multiplied so.
// CHECK-LABEL: dist.program @unsigned
// CHECK: dfg.dot_general {{.*}}wide} : (tensor<4x8xui8>, tensor<8x6xi8>) -> tensor<4x6xi32>
// CHECK: dfg.dot_general {{.*}} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
dist.program @unsigned(%x: tensor<4x8xui8>) -> (tensor<4x6xi32>, tensor<4x6xi32>) attributes {mesh = @d0} {
  %middle = dfg.constant dense<128> : tensor<i32>
  %other = dfg.constant dense<127> : tensor<i32>
  %w = dfg.read @u : tensor<8x6xui8>
  %0 = dfg.cast %x {to = i32} : (tensor<4x8xui8>) -> tensor<4x8xi32>
  %1 = dfg.cast %w {to = i32} : (tensor<8x6xui8>) -> tensor<8x6xi32>
  %2 = dfg.sub %1, %middle : (tensor<8x6xi32>, tensor<i32>) -> tensor<8x6xi32>
  %3 = dfg.sub %1, %other : (tensor<8x6xi32>, tensor<i32>) -> tensor<8x6xi32>
  %4 = dfg.dot_general %0, %2 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xi32>, tensor<8x6xi32>) -> tensor<4x6xi32>
  %5 = dfg.dot_general %0, %3 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xi32>, tensor<8x6xi32>) -> tensor<4x6xi32>
  dist.return %4, %5 : tensor<4x6xi32>, tensor<4x6xi32>
}

// 300 products of 255 by 255 exceed what float32 counts exactly: as integers they stay what they are, and as reals they
// are rounded in any case.
// REALS-LABEL: dist.program @deep
// REALS: dfg.dot_general {{.*}} : (tensor<4x300xi32>, tensor<6x300xi32>) -> tensor<4x6xi32>
// REALS: dfg.dot_general {{.*}} : (tensor<4x300xf32>, tensor<6x300xf32>) -> tensor<4x6xf32>
dist.program @deep(%x: tensor<4x300xui8>, %y: tensor<6x300xui8>) -> (tensor<4x6xi32>, tensor<4x6xf32>) attributes {mesh = @d0} {
  %0 = dfg.cast %x {to = i32} : (tensor<4x300xui8>) -> tensor<4x300xi32>
  %1 = dfg.cast %y {to = i32} : (tensor<6x300xui8>) -> tensor<6x300xi32>
  %2 = dfg.dot_general %0, %1 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x300xi32>, tensor<6x300xi32>) -> tensor<4x6xi32>
  %3 = dfg.dot_general %0, %1 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x300xi32>, tensor<6x300xi32>) -> tensor<4x6xi32>
  %4 = dfg.cast %3 {to = f32} : (tensor<4x6xi32>) -> tensor<4x6xf32>
  dist.return %2, %4 : tensor<4x6xi32>, tensor<4x6xf32>
}

// The largest of what is dequantized, and quantized as it was, is that of the numbers; with another scale it is not.
// CHECK-LABEL: dist.program @moved
// CHECK-DAG: dfg.pool %arg0 {{.*}} : (tensor<1x3x8x8xui8>) -> tensor<1x3x4x4xui8>
// CHECK-DAG: dfg.pool {{.*}} : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
dist.program @moved(%x: tensor<1x3x8x8xui8>) -> (tensor<1x3x4x4xui8>, tensor<1x3x4x4xui8>) attributes {mesh = @d0} {
  %zero = dfg.constant dense<9> : tensor<i32>
  %real = dfg.constant dense<9.0> : tensor<f32>
  %sx = dfg.read @sx : tensor<f32>
  %sy = dfg.read @sy : tensor<f32>
  %0 = dfg.cast %x {to = i32} : (tensor<1x3x8x8xui8>) -> tensor<1x3x8x8xi32>
  %1 = dfg.sub %0, %zero : (tensor<1x3x8x8xi32>, tensor<i32>) -> tensor<1x3x8x8xi32>
  %2 = dfg.cast %1 {to = f32} : (tensor<1x3x8x8xi32>) -> tensor<1x3x8x8xf32>
  %3 = dfg.mul %2, %sx : (tensor<1x3x8x8xf32>, tensor<f32>) -> tensor<1x3x8x8xf32>
  %4 = dfg.pool %3 {kind = #dfg.pool_kind<max>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  %5 = dfg.div %4, %sx : (tensor<1x3x4x4xf32>, tensor<f32>) -> tensor<1x3x4x4xf32>
  %6 = dfg.round %5 : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %7 = dfg.add %6, %real : (tensor<1x3x4x4xf32>, tensor<f32>) -> tensor<1x3x4x4xf32>
  %8 = dfg.cast %7 {to = ui8} : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xui8>
  %9 = dfg.div %4, %sy : (tensor<1x3x4x4xf32>, tensor<f32>) -> tensor<1x3x4x4xf32>
  %10 = dfg.round %9 : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %11 = dfg.add %10, %real : (tensor<1x3x4x4xf32>, tensor<f32>) -> tensor<1x3x4x4xf32>
  %12 = dfg.cast %11 {to = ui8} : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xui8>
  dist.return %8, %12 : tensor<1x3x4x4xui8>, tensor<1x3x4x4xui8>
}

// Numbers that are read as such alone become unsigned where they are made.
// CHECK-LABEL: dist.program @signed
// CHECK: %[[ROUNDED:.*]] = dfg.round
// CHECK: %[[MOVED:.*]] = dfg.add %[[ROUNDED]], %{{.*}} : (tensor<4x8xf32>, tensor<f32>)
// CHECK: %[[NUMBERS:.*]] = dfg.cast %[[MOVED]] {to = ui8}
// CHECK-NOT: to = i8
// CHECK: dfg.dot_general %[[NUMBERS]], %{{.*}} {{.*}}wide}
dist.program @signed(%x: tensor<4x8xf32>) -> tensor<4x6xi32> attributes {mesh = @d0} {
  %real = dfg.constant dense<-5.0> : tensor<f32>
  %zero = dfg.constant dense<-5> : tensor<i32>
  %sx = dfg.read @sx : tensor<f32>
  %w = dfg.read @w : tensor<8x6xi8>
  %0 = dfg.div %x, %sx : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = dfg.round %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = dfg.add %1, %real : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %3 = dfg.cast %2 {to = i8} : (tensor<4x8xf32>) -> tensor<4x8xi8>
  %4 = dfg.cast %3 {to = i32} : (tensor<4x8xi8>) -> tensor<4x8xi32>
  %5 = dfg.sub %4, %zero : (tensor<4x8xi32>, tensor<i32>) -> tensor<4x8xi32>
  %6 = dfg.cast %w {to = i32} : (tensor<8x6xi8>) -> tensor<8x6xi32>
  %7 = dfg.dot_general %5, %6 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xi32>, tensor<8x6xi32>) -> tensor<4x6xi32>
  dist.return %7 : tensor<4x6xi32>
}

// Scales along an axis are others behind a transpose.
// CHECK-LABEL: dist.program @turned
// CHECK: dfg.transpose {{.*}} : (tensor<6x6xf32>) -> tensor<6x6xf32>
dist.program @turned(%x: tensor<6x6xui8>) -> tensor<6x6xui8> attributes {mesh = @d0} {
  %s = dfg.read @sw : tensor<6xf32>
  %0 = dfg.cast %x {to = i32} : (tensor<6x6xui8>) -> tensor<6x6xi32>
  %1 = dfg.cast %0 {to = f32} : (tensor<6x6xi32>) -> tensor<6x6xf32>
  %2 = dfg.mul %1, %s : (tensor<6x6xf32>, tensor<6xf32>) -> tensor<6x6xf32>
  %3 = dfg.transpose %2 {permutation = array<i64: 1, 0>} : (tensor<6x6xf32>) -> tensor<6x6xf32>
  %4 = dfg.div %3, %s : (tensor<6x6xf32>, tensor<6xf32>) -> tensor<6x6xf32>
  %5 = dfg.round %4 : (tensor<6x6xf32>) -> tensor<6x6xf32>
  %6 = dfg.cast %5 {to = ui8} : (tensor<6x6xf32>) -> tensor<6x6xui8>
  dist.return %6 : tensor<6x6xui8>
}

// A product over nothing is no product.
// CHECK-LABEL: dist.program @empty
// CHECK-NOT: wide
// CHECK: dist.return
dist.program @empty(%x: tensor<4x0xui8>) -> tensor<4x6xi32> attributes {mesh = @d0} {
  %w = dfg.constant dense<> : tensor<0x6xi8>
  %0 = dfg.cast %x {to = i32} : (tensor<4x0xui8>) -> tensor<4x0xi32>
  %1 = dfg.cast %w {to = i32} : (tensor<0x6xi8>) -> tensor<0x6xi32>
  %2 = dfg.dot_general %0, %1 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x0xi32>, tensor<0x6xi32>) -> tensor<4x6xi32>
  dist.return %2 : tensor<4x6xi32>
}
}
