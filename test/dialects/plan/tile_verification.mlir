// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// A cut is along an axis of the mesh.
dist.mesh @pair <["m" = 2], devices = [0, 1]>
plan.program @p on @pair queues ["compute"] arena 192 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  %i = plan.buffer "i" offset 128 bytes 8 : !plan.buffer<tensor<i64>>
  plan.body {
    // expected-error @+1 {{'plan.load_input' op expects axes of mesh 'pair', which has 1, each once, got 1 in #plan.tile<[8 by [1 of 4]]>}}
    plan.load_input 0 -> %y {order = 0 : i64, queue = 0 : i64, tile = #plan.tile<[8 by [1 of 4]]>} : !plan.buffer<tensor<4xf32>>
  }
}

// -----

// An axis cuts once.
dist.mesh @pair <["m" = 2], devices = [0, 1]>
plan.program @p on @pair queues ["compute"] arena 192 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  %i = plan.buffer "i" offset 128 bytes 8 : !plan.buffer<tensor<i64>>
  plan.body {
    // expected-error @+1 {{expects axes of mesh 'pair', which has 1, each once, got 0 in #plan.tile<[8 by [0 of 4, 0 of 4]]>}}
    plan.load_input 0 -> %y {order = 0 : i64, queue = 0 : i64, tile = #plan.tile<[8 by [0 of 4, 0 of 4]]>} : !plan.buffer<tensor<4xf32>>
  }
}

// -----

// A buffer holds its tile.
dist.mesh @pair <["m" = 2], devices = [0, 1]>
plan.program @p on @pair queues ["compute"] arena 192 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  %i = plan.buffer "i" offset 128 bytes 8 : !plan.buffer<tensor<i64>>
  plan.body {
    // expected-error @+1 {{expects a dense buffer of 4 elements for #plan.tile<[8 by [0 of 4]]>, got 'tensor<8xf32>'}}
    plan.load_input 0 -> %x {order = 0 : i64, queue = 0 : i64, tile = #plan.tile<[8 by [0 of 4]]>} : !plan.buffer<tensor<8xf32>>
  }
}

// -----

// A window is for what is filled: overlapping parts have no owner.
dist.mesh @pair <["m" = 2], devices = [0, 1]>
plan.program @p on @pair queues ["compute"] arena 192 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  %i = plan.buffer "i" offset 128 bytes 8 : !plan.buffer<tensor<i64>>
  plan.body {
    // expected-error @+1 {{'plan.store_output' op expects windows only in what it fills, got #plan.tile<[6 by [0 of 3] window (4 step 1 before 1)]>}}
    plan.store_output %y -> 0 {order = 0 : i64, queue = 0 : i64, tile = #plan.tile<[6 by [0 of 3] window (4 step 1 before 1)]>} : !plan.buffer<tensor<4xf32>>
  }
}

// -----

// Both tiles are of one tensor.
dist.mesh @pair <["m" = 2], devices = [0, 1]>
plan.program @p on @pair queues ["compute"] arena 192 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  %i = plan.buffer "i" offset 128 bytes 8 : !plan.buffer<tensor<i64>>
  plan.body {
    // expected-error @+1 {{'plan.exchange' op expects tiles of one tensor, got #plan.tile<[8 by [0 of 4]]> and #plan.tile<[7 by [0 of 4]]>}}
    plan.exchange "permute" %y -> %y {channel = 0 : i64, order = 0 : i64, queue = 0 : i64, source_tiles = [#plan.tile<[8 by [0 of 4]]>], target_tiles = [#plan.tile<[7 by [0 of 4]]>]} : !plan.buffer<tensor<4xf32>> -> !plan.buffer<tensor<4xf32>>
  }
}

// -----

// An exchange is of a known kind.
dist.mesh @pair <["m" = 2], devices = [0, 1]>
plan.program @p on @pair queues ["compute"] arena 192 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  %i = plan.buffer "i" offset 128 bytes 8 : !plan.buffer<tensor<i64>>
  plan.body {
    // expected-error @+1 {{expects a kind of exchange, such as "all_gather", got "shuffle"}}
    plan.exchange "shuffle" %y -> %y {channel = 0 : i64, order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<4xf32>> -> !plan.buffer<tensor<4xf32>>
  }
}

// -----

// A reduction has a combiner.
dist.mesh @pair <["m" = 2], devices = [0, 1]>
plan.program @p on @pair queues ["compute"] arena 192 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  %i = plan.buffer "i" offset 128 bytes 8 : !plan.buffer<tensor<i64>>
  plan.body {
    // expected-error @+1 {{'plan.all_reduce' op expects 'sum', 'product', 'max' or 'min', got 'mean'}}
    plan.all_reduce "mean" over [0] %y -> %y {channel = 0 : i64, order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<4xf32>> -> !plan.buffer<tensor<4xf32>>
  }
}

// -----

// However far apart.
dist.mesh @cube <["m" = 2, "n" = 2], devices = [0, 1, 2, 3]>
plan.program @p on @cube queues ["compute"] arena 128 live 0 {
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  plan.body {
    // expected-error @+1 {{expects different axes of mesh 'cube', which has 2, got [0, 1, 0]}}
    plan.all_reduce "sum" over [0, 1, 0] %y -> %y {channel = 0 : i64, order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<4xf32>> -> !plan.buffer<tensor<4xf32>>
  }
}

// -----

// And all of the mesh, in whatever order.
dist.mesh @cube <["m" = 2, "n" = 2], devices = [0, 1, 2, 3]>
plan.program @p on @cube queues ["compute"] arena 128 live 0 {
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  plan.body {
    // expected-error @+1 {{expects different axes of mesh 'cube', which has 2, got [0, 2, 1]}}
    plan.all_reduce "sum" over [0, 2, 1] %y -> %y {channel = 0 : i64, order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<4xf32>> -> !plan.buffer<tensor<4xf32>>
  }
}

// -----

// Over axes of the mesh.
dist.mesh @pair <["m" = 2], devices = [0, 1]>
plan.program @p on @pair queues ["compute"] arena 192 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  %i = plan.buffer "i" offset 128 bytes 8 : !plan.buffer<tensor<i64>>
  plan.body {
    // expected-error @+1 {{expects different axes of mesh 'pair', which has 1, got [0, 1]}}
    plan.all_reduce "sum" over [0, 1] %y -> %y {channel = 0 : i64, order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<4xf32>> -> !plan.buffer<tensor<4xf32>>
  }
}

// -----

// An all-reduce keeps the type.
dist.mesh @pair <["m" = 2], devices = [0, 1]>
plan.program @p on @pair queues ["compute"] arena 192 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  %i = plan.buffer "i" offset 128 bytes 8 : !plan.buffer<tensor<i64>>
  plan.body {
    // expected-error @+1 {{expects buffers of one type, got '!plan.buffer<tensor<4xf32>>' and '!plan.buffer<tensor<8xf32>>'}}
    plan.all_reduce "sum" over [0] %y -> %x {channel = 0 : i64, order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<4xf32>> -> !plan.buffer<tensor<8xf32>>
  }
}

// -----

// A scatter cuts its source.
dist.mesh @pair <["m" = 2], devices = [0, 1]>
plan.program @p on @pair queues ["compute"] arena 192 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  %i = plan.buffer "i" offset 128 bytes 8 : !plan.buffer<tensor<i64>>
  plan.body {
    // expected-error @+1 {{expects a tile of its source's 8 elements, got #plan.tile<[7 by [0 of 4]]>}}
    plan.reduce_scatter "sum" over [0] %x -> %y {channel = 0 : i64, order = 0 : i64, queue = 0 : i64, tiles = [#plan.tile<[7 by [0 of 4]]>]} : !plan.buffer<tensor<8xf32>> -> !plan.buffer<tensor<4xf32>>
  }
}

// -----

// An index is one number.
dist.mesh @pair <["m" = 2], devices = [0, 1]>
plan.program @p on @pair queues ["compute"] arena 192 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  %i = plan.buffer "i" offset 128 bytes 8 : !plan.buffer<tensor<i64>>
  plan.body {
    // expected-error @+1 {{'plan.load_index' op expects a buffer of one i64, got 'tensor<4xf32>'}}
    plan.load_index "start" 0 of <[8 by [0 of 4]]> -> %y {order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<4xf32>>
  }
}

// -----

// Of something that a tile has.
dist.mesh @pair <["m" = 2], devices = [0, 1]>
plan.program @p on @pair queues ["compute"] arena 192 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  %i = plan.buffer "i" offset 128 bytes 8 : !plan.buffer<tensor<i64>>
  plan.body {
    // expected-error @+1 {{expects 'start' or 'extent', got 'end'}}
    plan.load_index "end" 0 of <[8 by [0 of 4]]> -> %i {order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<i64>>
  }
}

// -----

// In one of its dimensions.
dist.mesh @pair <["m" = 2], devices = [0, 1]>
plan.program @p on @pair queues ["compute"] arena 192 live 0 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 64 bytes 16 : !plan.buffer<tensor<4xf32>>
  %i = plan.buffer "i" offset 128 bytes 8 : !plan.buffer<tensor<i64>>
  plan.body {
    // expected-error @+1 {{expects one of the tile's 1 dimensions, got 1}}
    plan.load_index "start" 1 of <[8 by [0 of 4]]> -> %i {order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<i64>>
  }
}

// -----

// Sizes are not negative.
// expected-error @+1 {{expects axes and sizes that are not negative, and a positive step}}
module attributes {test = #plan.tile<[8 by [0 of -4]]>} {}
