// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// A view names the buffer that owns the bytes, so that who shares bytes is seen at once.
dist.mesh @d0 <[], devices = [0]>
plan.program @main on @d0 queues ["compute"] arena 64 live 64 {
  %0 = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %1 = plan.buffer "x" offset 0 bytes 32 of %0 : !plan.buffer<tensor<8xf32>> : !plan.buffer<tensor<2x4xf32>>
  // expected-error @+1 {{'plan.buffer' op expects to be a view of a buffer that is not a view itself}}
  %2 = plan.buffer "x" offset 0 bytes 32 of %1 : !plan.buffer<tensor<2x4xf32>> : !plan.buffer<tensor<4x2xf32>>
}

// -----

// A view shows bytes of its buffer only.
dist.mesh @d0 <[], devices = [0]>
plan.program @main on @d0 queues ["compute"] arena 128 live 128 {
  %0 = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  // expected-error @+1 {{'plan.buffer' op expects to lie inside "x" of offset 0 and 32 bytes, got offset 64 and 32 bytes}}
  %1 = plan.buffer "x" offset 64 bytes 32 of %0 : !plan.buffer<tensor<8xf32>> : !plan.buffer<tensor<2x4xf32>>
}
