// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

// Operators of one operand.
// CHECK-LABEL: dfg.graph @unary
// CHECK: dfg.neg %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.abs %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.sign %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.exp %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.log %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.sqrt %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.reciprocal %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.floor %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.ceil %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.round %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.sin %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.cos %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.asin %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.acos %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.atan %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.sinh %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.cosh %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.asinh %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.acosh %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.atanh %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.tanh %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.erf %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.relu %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.sigmoid %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.softplus %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
dfg.graph @unary(%a: tensor<4xf32>) {
  %0 = dfg.neg %a : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dfg.abs %a : (tensor<4xf32>) -> tensor<4xf32>
  %2 = dfg.sign %a : (tensor<4xf32>) -> tensor<4xf32>
  %3 = dfg.exp %a : (tensor<4xf32>) -> tensor<4xf32>
  %4 = dfg.log %a : (tensor<4xf32>) -> tensor<4xf32>
  %5 = dfg.sqrt %a : (tensor<4xf32>) -> tensor<4xf32>
  %6 = dfg.reciprocal %a : (tensor<4xf32>) -> tensor<4xf32>
  %7 = dfg.floor %a : (tensor<4xf32>) -> tensor<4xf32>
  %8 = dfg.ceil %a : (tensor<4xf32>) -> tensor<4xf32>
  %9 = dfg.round %a : (tensor<4xf32>) -> tensor<4xf32>
  %10 = dfg.sin %a : (tensor<4xf32>) -> tensor<4xf32>
  %11 = dfg.cos %a : (tensor<4xf32>) -> tensor<4xf32>
  %asin = dfg.asin %a : (tensor<4xf32>) -> tensor<4xf32>
  %acos = dfg.acos %a : (tensor<4xf32>) -> tensor<4xf32>
  %atan = dfg.atan %a : (tensor<4xf32>) -> tensor<4xf32>
  %sinh = dfg.sinh %a : (tensor<4xf32>) -> tensor<4xf32>
  %cosh = dfg.cosh %a : (tensor<4xf32>) -> tensor<4xf32>
  %asinh = dfg.asinh %a : (tensor<4xf32>) -> tensor<4xf32>
  %acosh = dfg.acosh %a : (tensor<4xf32>) -> tensor<4xf32>
  %atanh = dfg.atanh %a : (tensor<4xf32>) -> tensor<4xf32>
  %12 = dfg.tanh %a : (tensor<4xf32>) -> tensor<4xf32>
  %13 = dfg.erf %a : (tensor<4xf32>) -> tensor<4xf32>
  %14 = dfg.relu %a : (tensor<4xf32>) -> tensor<4xf32>
  %15 = dfg.sigmoid %a : (tensor<4xf32>) -> tensor<4xf32>
  %16 = dfg.softplus %a : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return
}

// Operators of one operand with attributes, in every form.
// CHECK-LABEL: dfg.graph @parametrized
// CHECK: dfg.leaky_relu %{{.*}} {alpha = 1.000000e-02 : f64} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.elu %{{.*}} {alpha = 1.000000e+00 : f64} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.gelu %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.gelu %{{.*}} {approximate} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.clamp %{{.*}} {high = 6.000000e+00 : f64, low = 0.000000e+00 : f64} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.cast %{{.*}} {to = i64} : (tensor<4xf32>) -> tensor<4xi64>
// CHECK: dfg.not %{{.*}} : (tensor<4xi1>) -> tensor<4xi1>
dfg.graph @parametrized(%a: tensor<4xf32>, %p: tensor<4xi1>) {
  %0 = dfg.leaky_relu %a {alpha = 0.01 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dfg.elu %a {alpha = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = dfg.gelu %a : (tensor<4xf32>) -> tensor<4xf32>
  %3 = dfg.gelu %a {approximate} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = dfg.clamp %a {low = 0.0 : f64, high = 6.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = dfg.cast %a {to = i64} : (tensor<4xf32>) -> tensor<4xi64>
  %6 = dfg.not %p : (tensor<4xi1>) -> tensor<4xi1>
  dfg.return
}

// Operators of two and three operands.
// CHECK-LABEL: dfg.graph @binary
// CHECK: dfg.add %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.sub %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.mul %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.div %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.pow %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.max %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.min %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.and %{{.*}}, %{{.*}} : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
// CHECK: dfg.or %{{.*}}, %{{.*}} : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
// CHECK: dfg.xor %{{.*}}, %{{.*}} : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
// CHECK: dfg.mod %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.mod %{{.*}}, %{{.*}} {truncated} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
dfg.graph @binary(%a: tensor<4xf32>, %b: tensor<4xf32>, %p: tensor<4xi1>) {
  %0 = dfg.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dfg.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = dfg.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = dfg.div %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = dfg.pow %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = dfg.max %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = dfg.min %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %7 = dfg.and %p, %p : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  %8 = dfg.or %p, %p : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  %9 = dfg.xor %p, %p : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  %20 = dfg.mod %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %21 = dfg.mod %a, %b {truncated} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %22 = dfg.select %p, %a, %b : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return
}

// All comparisons.
// CHECK-LABEL: dfg.graph @compare
// CHECK: dfg.compare %{{.*}}, %{{.*}} {comparison = #dfg.comparison<equal>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
// CHECK: dfg.compare %{{.*}}, %{{.*}} {comparison = #dfg.comparison<less>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
// CHECK: dfg.compare %{{.*}}, %{{.*}} {comparison = #dfg.comparison<less_or_equal>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
// CHECK: dfg.compare %{{.*}}, %{{.*}} {comparison = #dfg.comparison<greater>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
// CHECK: dfg.compare %{{.*}}, %{{.*}} {comparison = #dfg.comparison<greater_or_equal>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
dfg.graph @compare(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  %0 = dfg.compare %a, %b {comparison = #dfg.comparison<equal>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %1 = dfg.compare %a, %b {comparison = #dfg.comparison<less>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %2 = dfg.compare %a, %b {comparison = #dfg.comparison<less_or_equal>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %3 = dfg.compare %a, %b {comparison = #dfg.comparison<greater>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %4 = dfg.compare %a, %b {comparison = #dfg.comparison<greater_or_equal>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  dfg.return
}

// NumPy's broadcasting: from the last dimension, sizes of one and missing dimensions repeat.
// CHECK-LABEL: dfg.graph @broadcasting
// CHECK: dfg.add %{{.*}}, %{{.*}} : (tensor<2x1x4xf32>, tensor<3x1xf32>) -> tensor<2x3x4xf32>
// CHECK: dfg.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<i1>, tensor<2x1x4xf32>, tensor<3x1xf32>) -> tensor<2x3x4xf32>
// CHECK: dfg.mul %{{.*}}, %{{.*}} : (tensor<0x4xi64>, tensor<1x4xi64>) -> tensor<0x4xi64>
dfg.graph @broadcasting(%a: tensor<2x1x4xf32>, %b: tensor<3x1xf32>, %p: tensor<i1>, %n: tensor<0x4xi64>,
                        %m: tensor<1x4xi64>) {
  %0 = dfg.add %a, %b : (tensor<2x1x4xf32>, tensor<3x1xf32>) -> tensor<2x3x4xf32>
  %1 = dfg.select %p, %a, %b : (tensor<i1>, tensor<2x1x4xf32>, tensor<3x1xf32>) -> tensor<2x3x4xf32>
  %2 = dfg.mul %n, %m : (tensor<0x4xi64>, tensor<1x4xi64>) -> tensor<0x4xi64>
  dfg.return
}

// Every element type.
// CHECK-LABEL: dfg.graph @types
// CHECK: dfg.neg %{{.*}} : (tensor<2xi8>) -> tensor<2xi8>
// CHECK: dfg.neg %{{.*}} : (tensor<2xi16>) -> tensor<2xi16>
// CHECK: dfg.neg %{{.*}} : (tensor<2xi32>) -> tensor<2xi32>
// CHECK: dfg.neg %{{.*}} : (tensor<2xi64>) -> tensor<2xi64>
// CHECK: dfg.neg %{{.*}} : (tensor<2xf16>) -> tensor<2xf16>
// CHECK: dfg.neg %{{.*}} : (tensor<2xbf16>) -> tensor<2xbf16>
// CHECK: dfg.neg %{{.*}} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK: dfg.neg %{{.*}} : (tensor<2xf64>) -> tensor<2xf64>
dfg.graph @types(%i8: tensor<2xi8>, %i16: tensor<2xi16>, %i32: tensor<2xi32>, %i64: tensor<2xi64>,
                 %f16: tensor<2xf16>, %bf16: tensor<2xbf16>, %f32: tensor<2xf32>, %f64: tensor<2xf64>) {
  %0 = dfg.neg %i8 : (tensor<2xi8>) -> tensor<2xi8>
  %1 = dfg.neg %i16 : (tensor<2xi16>) -> tensor<2xi16>
  %2 = dfg.neg %i32 : (tensor<2xi32>) -> tensor<2xi32>
  %3 = dfg.neg %i64 : (tensor<2xi64>) -> tensor<2xi64>
  %4 = dfg.neg %f16 : (tensor<2xf16>) -> tensor<2xf16>
  %5 = dfg.neg %bf16 : (tensor<2xbf16>) -> tensor<2xbf16>
  %6 = dfg.neg %f32 : (tensor<2xf32>) -> tensor<2xf32>
  %7 = dfg.neg %f64 : (tensor<2xf64>) -> tensor<2xf64>
  dfg.return
}

// Random numbers by counter and key, which broadcast; dropout.
// CHECK-LABEL: dfg.graph @random
// CHECK: dfg.random %{{.*}}, %{{.*}} : (tensor<4x8xi64>, tensor<i64>) -> tensor<4x8xf32>
// CHECK: dfg.dropout %{{.*}} {ratio = 5.000000e-01 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
dfg.graph @random(%counter: tensor<4x8xi64>, %key: tensor<i64>) {
  %0 = dfg.random %counter, %key : (tensor<4x8xi64>, tensor<i64>) -> tensor<4x8xf32>
  %1 = dfg.dropout %0 {ratio = 0.5 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  dfg.return
}
