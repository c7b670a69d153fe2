// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: not cleave-opt %s --train-add-loss --split-input-file 2>&1 | FileCheck %s
// RUN: not cleave-opt %s --train-add-loss=loss=mse --split-input-file 2>&1 | FileCheck %s --check-prefix=MSE
// RUN: not cleave-opt %s --train-add-loss=loss=crossentropy --split-input-file 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not cleave-opt %s --train-add-loss=loss=cross-entropy,classes=0 --split-input-file 2>&1 | FileCheck %s --check-prefix=CLASSES
// RUN: not cleave-opt %s --train-add-loss=loss=mse,size=1 --split-input-file 2>&1 | FileCheck %s --check-prefix=OPTION

// OPTION: error: the loss "mse" knows no option "size"

// CHECK: error: cross-entropy expects real scores of samples (dimension 0) by classes (dimension 1), got 'tensor<8xi64>'
// MSE: error: the mean squared error expects an output of real numbers, got 'tensor<8xi64>'
// NAME: error: the loss expects cross-entropy, mse or an output of the model, got "crossentropy"; the outputs are "y", "z"
dfg.graph @main(%x: tensor<8xi64> {dfg.name = "x"}) -> (tensor<8xi64> {dfg.name = "y"}, tensor<8xi64> {dfg.name = "z"}) {
  dfg.return %x, %x : tensor<8xi64>, tensor<8xi64>
}

// -----

// CHECK: error: the loss expects a new name for its labels, got the model's input "labels"; choose one with labels=NAME
// CLASSES: error: cross-entropy expects the classes in the dimension of the model's softmax, which is 1, got 0
dfg.graph @main(%x: tensor<8x4xf32> {dfg.name = "labels"}) -> (tensor<8x4xf32> {dfg.name = "y"}) {
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  dfg.return %0 : tensor<8x4xf32>
}

// -----

// CHECK: error: the loss expects a model with an output
dfg.graph @main(%x: tensor<8x4xf32>) {
  dfg.return
}

// -----

// NAME: error: the loss expects an output of real numbers, got 'tensor<i64>'
dfg.graph @main(%x: tensor<i64>) -> (tensor<i64> {dfg.name = "crossentropy"}) {
  dfg.return %x : tensor<i64>
}
