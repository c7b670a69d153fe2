// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-lower-to-linalg | FileCheck %s
//
// Elementwise operators become one linalg.generic each; the checks name what decides their meaning.

// Integers have no negation of their own: zero minus the number wraps.
// CHECK-LABEL: dfg.graph @neg
// CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK: arith.subi %[[ZERO]], %{{.*}} : i32
dfg.graph @neg(%x: tensor<4xi32>) -> tensor<4xi32> {
  %0 = dfg.neg %x : (tensor<4xi32>) -> tensor<4xi32>
  dfg.return %0 : tensor<4xi32>
}

// The absolute value of a float is one operation.
// CHECK-LABEL: dfg.graph @abs
// CHECK: math.absf
dfg.graph @abs(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.abs %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// NaN is neither above nor below zero and stays.
// CHECK-LABEL: dfg.graph @sign
// CHECK: arith.cmpf olt
// CHECK: arith.select
// CHECK: arith.cmpf olt
// CHECK: arith.select
dfg.graph @sign(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.sign %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// A function of f32 stays f32.
// CHECK-LABEL: dfg.graph @exp
// CHECK: math.exp %{{.*}} : f32
dfg.graph @exp(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The logarithm.
// CHECK-LABEL: dfg.graph @log
// CHECK: math.log %{{.*}} : f32
dfg.graph @log(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.log %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The square root.
// CHECK-LABEL: dfg.graph @sqrt
// CHECK: math.sqrt %{{.*}} : f32
dfg.graph @sqrt(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.sqrt %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// Rounding down.
// CHECK-LABEL: dfg.graph @floor
// CHECK: math.floor %{{.*}} : f32
dfg.graph @floor(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.floor %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// Rounding up.
// CHECK-LABEL: dfg.graph @ceil
// CHECK: math.ceil %{{.*}} : f32
dfg.graph @ceil(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.ceil %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// Halves go to the even neighbour.
// CHECK-LABEL: dfg.graph @round
// CHECK: math.roundeven %{{.*}} : f32
dfg.graph @round(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.round %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The sine.
// CHECK-LABEL: dfg.graph @sin
// CHECK: math.sin %{{.*}} : f32
dfg.graph @sin(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.sin %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The cosine.
// CHECK-LABEL: dfg.graph @cos
// CHECK: math.cos %{{.*}} : f32
dfg.graph @cos(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.cos %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The inverse sine.
// CHECK-LABEL: dfg.graph @asin
// CHECK: math.asin %{{.*}} : f32
dfg.graph @asin(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.asin %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The inverse cosine.
// CHECK-LABEL: dfg.graph @acos
// CHECK: math.acos %{{.*}} : f32
dfg.graph @acos(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.acos %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The inverse tangent.
// CHECK-LABEL: dfg.graph @atan
// CHECK: math.atan %{{.*}} : f32
dfg.graph @atan(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.atan %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The hyperbolic sine.
// CHECK-LABEL: dfg.graph @sinh
// CHECK: math.sinh %{{.*}} : f32
dfg.graph @sinh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.sinh %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The hyperbolic cosine.
// CHECK-LABEL: dfg.graph @cosh
// CHECK: math.cosh %{{.*}} : f32
dfg.graph @cosh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.cosh %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The inverse hyperbolic sine.
// CHECK-LABEL: dfg.graph @asinh
// CHECK: math.asinh %{{.*}} : f32
dfg.graph @asinh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.asinh %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The inverse hyperbolic cosine.
// CHECK-LABEL: dfg.graph @acosh
// CHECK: math.acosh %{{.*}} : f32
dfg.graph @acosh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.acosh %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The inverse hyperbolic tangent.
// CHECK-LABEL: dfg.graph @atanh
// CHECK: math.atanh %{{.*}} : f32
dfg.graph @atanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.atanh %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The hyperbolic tangent.
// CHECK-LABEL: dfg.graph @tanh
// CHECK: math.tanh %{{.*}} : f32
dfg.graph @tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The error function.
// CHECK-LABEL: dfg.graph @erf
// CHECK: math.erf %{{.*}} : f32
dfg.graph @erf(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.erf %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// One divided by the number, not an estimate.
// CHECK-LABEL: dfg.graph @reciprocal
// CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK: arith.divf %[[ONE]]
dfg.graph @reciprocal(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.reciprocal %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The maximum that hands NaN on.
// CHECK-LABEL: dfg.graph @relu
// CHECK: arith.maximumf
dfg.graph @relu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// One over one plus the exponential of the negative.
// CHECK-LABEL: dfg.graph @sigmoid
// CHECK: arith.negf
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: arith.divf
dfg.graph @sigmoid(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The exponential of a negative number only: it cannot overflow.
// CHECK-LABEL: dfg.graph @softplus
// CHECK: math.absf
// CHECK: arith.negf
// CHECK: %[[DECAY:.*]] = math.exp
// CHECK-DAG: arith.maximumf
// CHECK-DAG: math.log1p %[[DECAY]]
// CHECK: arith.addf
dfg.graph @softplus(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.softplus %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// Truth values flip.
// CHECK-LABEL: dfg.graph @not
// CHECK: arith.xori %{{.*}}, %{{.*}} : i1
dfg.graph @not(%x: tensor<4xi1>) -> tensor<4xi1> {
  %0 = dfg.not %x : (tensor<4xi1>) -> tensor<4xi1>
  dfg.return %0 : tensor<4xi1>
}

// The slope below zero.
// CHECK-LABEL: dfg.graph @leaky_relu
// CHECK: %[[SLOPE:.*]] = arith.constant 1.000000e-01 : f32
// CHECK: arith.mulf %{{.*}}, %[[SLOPE]]
// CHECK: arith.cmpf ole
// CHECK: arith.select
dfg.graph @leaky_relu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.leaky_relu %x {alpha = 0.1 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// e^x - 1 without cancellation.
// CHECK-LABEL: dfg.graph @elu
// CHECK: math.expm1
// CHECK: arith.select
dfg.graph @elu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.elu %x {alpha = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// The exact form by the error function.
// CHECK-LABEL: dfg.graph @gelu
// CHECK: math.erf
dfg.graph @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.gelu %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// Maximum first, then minimum; an integer's bound truncates and saturates.
// CHECK-LABEL: dfg.graph @clamp
// CHECK: %[[LOW:.*]] = arith.constant -2 : i8
// CHECK: %[[HIGH:.*]] = arith.constant 127 : i8
// CHECK: arith.maxsi %{{.*}}, %[[LOW]]
// CHECK: arith.minsi %{{.*}}, %[[HIGH]]
dfg.graph @clamp(%x: tensor<4xi8>) -> tensor<4xi8> {
  %0 = dfg.clamp %x {low = -2.5 : f64, high = 1.0e9 : f64} : (tensor<4xi8>) -> tensor<4xi8>
  dfg.return %0 : tensor<4xi8>
}

// Floats saturate in integers, and NaN becomes 0.
// CHECK-LABEL: dfg.graph @cast
// CHECK: arith.fptosi
// CHECK: arith.select
// CHECK: arith.select
// CHECK: arith.cmpf uno
// CHECK: arith.select
dfg.graph @cast(%x: tensor<4xf32>) -> tensor<4xi32> {
  %0 = dfg.cast %x {to = i32} : (tensor<4xf32>) -> tensor<4xi32>
  dfg.return %0 : tensor<4xi32>
}

// Sums.
// CHECK-LABEL: dfg.graph @add
// CHECK: arith.addf %{{.*}}, %{{.*}} : f32
dfg.graph @add(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.add %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// Differences.
// CHECK-LABEL: dfg.graph @sub
// CHECK: arith.subf %{{.*}}, %{{.*}} : f32
dfg.graph @sub(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.sub %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// Products.
// CHECK-LABEL: dfg.graph @mul
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
dfg.graph @mul(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.mul %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// NaN wins.
// CHECK-LABEL: dfg.graph @max
// CHECK: arith.maximumf %{{.*}}, %{{.*}} : f32
dfg.graph @max(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.max %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// NaN wins here too.
// CHECK-LABEL: dfg.graph @min
// CHECK: arith.minimumf %{{.*}}, %{{.*}} : f32
dfg.graph @min(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.min %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// Powers of floats.
// CHECK-LABEL: dfg.graph @pow
// CHECK: math.powf %{{.*}}, %{{.*}} : f32
dfg.graph @pow(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.pow %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// No division by zero, nor of the smallest number by -1, is executed.
// CHECK-LABEL: dfg.graph @div
// CHECK: %[[SPECIAL:.*]] = arith.ori
// CHECK: %[[SAFE:.*]] = arith.select %[[SPECIAL]]
// CHECK: arith.divsi %{{.*}}, %[[SAFE]]
dfg.graph @div(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %0 = dfg.div %x, %y : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  dfg.return %0 : tensor<4xi32>
}

// A float's remainder takes the divisor's sign.
// CHECK-LABEL: dfg.graph @mod
// CHECK: arith.remf
// CHECK: arith.xori
// CHECK: arith.addf
// CHECK: arith.select
dfg.graph @mod(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.mod %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// Conjunction.
// CHECK-LABEL: dfg.graph @and
// CHECK: arith.andi %{{.*}}, %{{.*}} : i1
dfg.graph @and(%x: tensor<4xi1>, %y: tensor<4xi1>) -> tensor<4xi1> {
  %0 = dfg.and %x, %y : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  dfg.return %0 : tensor<4xi1>
}

// Disjunction.
// CHECK-LABEL: dfg.graph @or
// CHECK: arith.ori %{{.*}}, %{{.*}} : i1
dfg.graph @or(%x: tensor<4xi1>, %y: tensor<4xi1>) -> tensor<4xi1> {
  %0 = dfg.or %x, %y : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  dfg.return %0 : tensor<4xi1>
}

// Exclusion.
// CHECK-LABEL: dfg.graph @xor
// CHECK: arith.xori %{{.*}}, %{{.*}} : i1
dfg.graph @xor(%x: tensor<4xi1>, %y: tensor<4xi1>) -> tensor<4xi1> {
  %0 = dfg.xor %x, %y : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  dfg.return %0 : tensor<4xi1>
}

// Greater is less the other way round; ordered, so false with NaN.
// CHECK-LABEL: dfg.graph @compare
// CHECK: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32, %{{.*}}: i1)
// CHECK: arith.cmpf olt, %[[Y]], %[[X]] : f32
dfg.graph @compare(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xi1> {
  %0 = dfg.compare %x, %y {comparison = #dfg.comparison<greater>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  dfg.return %0 : tensor<4xi1>
}

// Truth values compare as 0 and 1, without sign.
// CHECK-LABEL: dfg.graph @compare_truth
// CHECK: arith.cmpi ult, %{{.*}}, %{{.*}} : i1
dfg.graph @compare_truth(%x: tensor<4xi1>, %y: tensor<4xi1>) -> tensor<4xi1> {
  %0 = dfg.compare %x, %y {comparison = #dfg.comparison<less>} : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  dfg.return %0 : tensor<4xi1>
}

// The condition is broadcast by an indexing map, not copied.
// CHECK-LABEL: dfg.graph @select
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel"]
// CHECK-SAME: ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<4x1xi1>, tensor<4x5xf32>, tensor<f32>)
// CHECK: arith.select
dfg.graph @select(%p: tensor<4x1xi1>, %x: tensor<4x5xf32>, %y: tensor<f32>) -> tensor<4x5xf32> {
  %0 = dfg.select %p, %x, %y : (tensor<4x1xi1>, tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  dfg.return %0 : tensor<4x5xf32>
}

// 16-bit floats are computed in f32.
// CHECK-LABEL: dfg.graph @half
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK: arith.addf %{{.*}}, %{{.*}} : f32
// CHECK: arith.truncf %{{.*}} : f32 to bf16
dfg.graph @half(%x: tensor<4xbf16>, %y: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = dfg.add %x, %y : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
  dfg.return %0 : tensor<4xbf16>
}

// Nothing is computed where there are no elements.
// CHECK-LABEL: dfg.graph @nothing
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: dfg.return
dfg.graph @nothing(%x: tensor<0x3xf32>) -> tensor<0x3xf32> {
  %0 = dfg.exp %x : (tensor<0x3xf32>) -> tensor<0x3xf32>
  dfg.return %0 : tensor<0x3xf32>
}

// A fusion is opened, and a constant becomes one of arith.
// CHECK-LABEL: dfg.graph @fusion
// CHECK: %[[TWO:.*]] = arith.constant dense<2.000000e+00> : tensor<4xf32>
// CHECK-NOT: dfg.fusion
// CHECK: linalg.generic
// CHECK-SAME: %[[TWO]]
dfg.graph @fusion(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = dfg.constant dense<2.0> : tensor<4xf32>
  %0 = dfg.fusion %x, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %1 = dfg.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    dfg.yield %1 : tensor<4xf32>
  }
  dfg.return %0 : tensor<4xf32>
}
