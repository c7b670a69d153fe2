// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-lower-to-linalg --split-input-file --verify-diagnostics

// An operator that Cleave does not know has no meaning to lower to.
dfg.graph @opaque(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'dfg.opaque' op expects a reference meaning on these operands, found none}}
  %0 = dfg.opaque "Sparkle"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// -----

// A sum of truth values has no meaning.
dfg.graph @truth(%x: tensor<4x8xi1>) -> tensor<4xi1> {
  // expected-error @below {{'dfg.reduce' op expects a reference meaning on these operands, found none}}
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<4x8xi1>) -> tensor<4xi1>
  dfg.return %0 : tensor<4xi1>
}
