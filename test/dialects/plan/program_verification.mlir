// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// A program runs on a mesh that exists.
// expected-error @+1 {{'plan.program' op expects a 'dist.mesh' named 'd0', found none}}
plan.program @p on @d0 queues ["compute"] arena 64 live 0 {
}

// -----

// A buffer ends within its arena.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute"] arena 64 live 0 {
  // expected-error @+1 {{expects to end within the arena of 64 bytes, got offset 48 and 32 bytes}}
  %x = plan.buffer "x" offset 48 bytes 32 : !plan.buffer<tensor<8xf32>>
}

// -----

// A buffer holds its tensor: 8 elements of 4 bytes.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute"] arena 64 live 0 {
  // expected-error @+1 {{expects an offset that is not negative and at least 32 bytes, got 0 and 16}}
  %x = plan.buffer "x" offset 0 bytes 16 : !plan.buffer<tensor<8xf32>>
}

// -----

// Offsets count from the beginning.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute"] arena 64 live 0 {
  // expected-error @+1 {{expects an offset that is not negative and at least 32 bytes, got 18446744073709551615 and 32}}
  %x = plan.buffer "x" offset -1 bytes 32 : !plan.buffer<tensor<8xf32>>
}

// -----

// A view shows a buffer, not a view.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute"] arena 64 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %v = plan.buffer "v" offset 0 bytes 32 of %x : !plan.buffer<tensor<8xf32>> : !plan.buffer<tensor<8xf32>>
  // expected-error @+1 {{expects to be a view of a buffer that is not a view itself}}
  %u = plan.buffer "u" offset 0 bytes 32 of %v : !plan.buffer<tensor<8xf32>> : !plan.buffer<tensor<8xf32>>
}

// -----

// A view lies inside what it shows.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute"] arena 64 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  // expected-error @+1 {{expects to lie inside "x" of offset 0 and 32 bytes, got offset 16 and 32 bytes}}
  %v = plan.buffer "v" offset 16 bytes 32 of %x : !plan.buffer<tensor<8xf32>> : !plan.buffer<tensor<8xf32>>
}

// -----

// Sections hold instructions only.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute"] arena 64 live 0 {
  plan.body {
    // expected-error @+1 {{'dfg.iota' op expects only instructions in a section of a program}}
    %0 = dfg.iota {dim = 0 : i64} : () -> tensor<3xi64>
  }
}

// -----

// Instructions belong to a queue of the program.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute"] arena 64 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  plan.body {
    // expected-error @+1 {{expects one of the program's 1 queues, got 1}}
    plan.load_input 0 -> %x {order = 0 : i64, queue = 1 : i64} : !plan.buffer<tensor<8xf32>>
  }
}

// -----

// Queues count from zero.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute"] arena 64 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  plan.body {
    // expected-error @+1 {{expects one of the program's 1 queues, got -1}}
    plan.load_input 0 -> %x {order = 0 : i64, queue = -1 : i64} : !plan.buffer<tensor<8xf32>>
  }
}

// -----

// A call calls a kernel that exists.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute"] arena 64 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  plan.body {
    // expected-error @+1 {{'plan.call' op expects a kernel named 'relu.0', found none}}
    plan.call @relu.0(%x) -> (%x) {order = 0 : i64, queue = 0 : i64} : (!plan.buffer<tensor<8xf32>>) -> !plan.buffer<tensor<8xf32>>
  }
}

// -----

// With buffers of its types.
dist.mesh @d0 <[], devices = [0]>
plan.native_kernel @relu.0 {
^bb0(%x: tensor<8xf32>):
  %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
}
plan.program @p on @d0 queues ["compute"] arena 64 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  plan.body {
    // expected-error @+1 {{expects buffers of the kernel's types ('tensor<8xf32>') -> ('tensor<8xf32>'), got ('!plan.buffer<tensor<8xf32>>', '!plan.buffer<tensor<8xf32>>') -> ('!plan.buffer<tensor<8xf32>>')}}
    plan.call @relu.0(%x, %x) -> (%x) {order = 0 : i64, queue = 0 : i64} : (!plan.buffer<tensor<8xf32>>, !plan.buffer<tensor<8xf32>>) -> !plan.buffer<tensor<8xf32>>
  }
}

// -----

// A send goes to a mesh that exists.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute"] arena 64 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  plan.body {
    // expected-error @+1 {{'plan.send' op expects a 'dist.mesh' named 'd1', found none}}
    plan.send %x to @d1 {channel = 0 : i64, order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
  }
}

// -----

// A receive comes from a mesh that exists.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute"] arena 64 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  plan.body {
    // expected-error @+1 {{'plan.receive' op expects a 'dist.mesh' named 'd1', found none}}
    plan.receive %x from @d1 {channel = 0 : i64, order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
  }
}

// -----

// Every instruction has its place in the global order.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute"] arena 64 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  plan.body {
    // expected-error @+1 {{'plan.load_input' op requires attribute 'order'}}
    plan.load_input 0 -> %x {queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
  }
}

// -----

// The host's memory ends, too.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute"] arena 64 live 0 host 32 {
  // expected-error @+1 {{'plan.buffer' op expects to end within the program's memory of the host of 32 bytes, got offset 32 and 32 bytes}}
  %x = plan.buffer "x" host offset 32 bytes 32 : !plan.buffer<tensor<8xf32>>
}

// -----

// An offload leads there, and not from there.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute", "send"] arena 64 live 0 host 32 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %k = plan.buffer "x" host offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  plan.body {
    plan.offload %x -> %k {order = 0 : i64, queue = 1 : i64} : !plan.buffer<tensor<8xf32>>
    // expected-error @+1 {{'plan.fetch' op expects a buffer of the arena and one of the host's memory}}
    plan.fetch %x -> %k {order = 1 : i64, queue = 1 : i64} : !plan.buffer<tensor<8xf32>>
  }
}

// -----

// A view is where its buffer is.
dist.mesh @d0 <[], devices = [0]>
plan.program @p on @d0 queues ["compute"] arena 64 live 0 host 64 {
  %k = plan.buffer "x" host offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  // expected-error @+1 {{'plan.buffer' op expects to lie inside "x"}}
  %v = plan.buffer "x" offset 0 bytes 32 of %k : !plan.buffer<tensor<8xf32>> : !plan.buffer<tensor<2x4xf32>>
}
