// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan dialect: kernels, and what each device executes: queues, instructions in order, waits, buffers with fixed
// offsets.

#ifndef CLEAVE_DIALECTS_PLAN_OPS
#define CLEAVE_DIALECTS_PLAN_OPS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::cleave::plan";
  let summary = "The plan: what each device executes";
  let description = [{
    Two levels. On tensors: `plan.native_kernel` and `plan.library_kernel` describe kernels, `plan.launch` calls one
    with value semantics inside a `dist.program`. On buffers: `plan.program` holds an arena, buffers at fixed offsets
    in it, and the instructions of a mesh in order, which call the same kernels. A tensor type with the encoding
    `#plan.layout` is laid out as the library wants it; without one it is dense and row-major.

    A module's `plan.processor = {name = "x86-64-v3", features = ["avx", "avx2", "fma"]}` is the processor that devices
    of the driver `cpu` get their kernels for, in LLVM's names.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

class Plan_Attr<string name, string attrMnemonic> : AttrDef<Plan_Dialect, name> { let mnemonic = attrMnemonic; }
class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<Plan_Dialect, mnemonic, traits>;

def Plan_LayoutAttr : Plan_Attr<"Layout", "layout"> {
  let summary = "a blocked memory layout";
  let description = [{
    Dimension `d` is padded to `padded[d]`; its outer positions are `strides[d]` elements apart; inner block `i` holds
    `blocks[i]` values of dimension `dims[i]`, the last block varying fastest. `name` is for people.

    ```mlir
    tensor<1x64x56x56xf32, #plan.layout<"aBcd16b", padded = [1, 64, 56, 56], strides = [200704, 50176, 896, 16],
                                        blocks = [16], dims = [1]>>
    ```
  }];
  let parameters = (ins StringRefParameter<"name">:$name, ArrayRefParameter<"int64_t">:$padded,
                        ArrayRefParameter<"int64_t">:$strides, OptionalArrayRefParameter<"int64_t">:$blocks,
                        OptionalArrayRefParameter<"int64_t">:$dims);
  let assemblyFormat = [{
    `<` $name `,` `padded` `=` `[` $padded `]` `,` `strides` `=` `[` $strides `]`
        (`,` `blocks` `=` `[` $blocks^ `]` `,` `dims` `=` `[` $dims `]`)? `>`
  }];
}

def Plan_WaitAttr : Plan_Attr<"Wait", "wait"> {
  let summary = "until a queue has finished its first instructions";
  let description = [{
    ```mlir
    #plan.wait<queue = 1, value = 3>
    ```
  }];
  let parameters = (ins "int64_t":$queue, "int64_t":$value);
  let assemblyFormat = "`<` `queue` `=` $queue `,` `value` `=` $value `>`";
}

def Plan_PostOpAttr : Plan_Attr<"PostOp", "post_op"> {
  let summary = "an operation fused behind a library kernel";
  let description = [{
    `argument` is the index of an extra kernel input, or -1.

    ```mlir
    #plan.post_op<"leaky_relu", alpha = 1.0e-01 : f64, beta = 0.0 : f64, argument = -1>
    ```
  }];
  let parameters = (ins StringRefParameter<"kind">:$kind, "::mlir::FloatAttr":$alpha, "::mlir::FloatAttr":$beta,
                        "int64_t":$argument);
  let assemblyFormat = "`<` $kind `,` `alpha` `=` $alpha `,` `beta` `=` $beta `,` `argument` `=` $argument `>`";
}

def Plan_GpuLaunchAttr : Plan_Attr<"GpuLaunch", "gpu_launch"> {
  let summary = "a launch of a GPU's function";
  let description = [{
    On a grid of one dimension. `shared_bytes` is what each block needs of shared memory besides what the function
    declares.

    ```mlir
    #plan.gpu_launch<"softmax_0", blocks = 128, threads = 256, shared_bytes = 0>
    ```
  }];
  let parameters = (ins StringRefParameter<"symbol">:$symbol, "int64_t":$blocks, "int64_t":$threads,
                        "int64_t":$shared_bytes);
  let assemblyFormat = [{
    `<` $symbol `,` `blocks` `=` $blocks `,` `threads` `=` $threads `,` `shared_bytes` `=` $shared_bytes `>`
  }];
}

include "dialects/plan/NestAttributes.td"
include "dialects/plan/GpuLaunchAttributes.td"

def Plan_TileDimAttr : Plan_Attr<"TileDim", "tile_dim"> {
  let summary = "one dimension of a tile";
  let description = [{
    Written only inside of `#plan.tile`.
  }];
  let parameters = (ins "int64_t":$size, OptionalArrayRefParameter<"int64_t">:$axes,
                        OptionalArrayRefParameter<"int64_t">:$blocks, "int64_t":$length, "int64_t":$step,
                        "int64_t":$before, OptionalArrayRefParameter<"int64_t">:$shifts,
                        OptionalArrayRefParameter<"int64_t">:$ways);
  let builders = [AttrBuilder<(ins "int64_t":$size, "::llvm::ArrayRef<int64_t>":$axes,
                                   "::llvm::ArrayRef<int64_t>":$blocks, "int64_t":$length, "int64_t":$step,
                                   "int64_t":$before),
    [{ return $_get($_ctxt, size, axes, blocks, length, step, before, ::llvm::ArrayRef<int64_t>(),
                    ::llvm::ArrayRef<int64_t>()); }]>];
  let assemblyFormat = "`<` struct(params) `>`";
  let extraClassDeclaration = [{
    /// The innermost block, or the whole dimension.
    int64_t getLastBlock() const { return getBlocks().empty() ? getSize() : getBlocks().back(); }
    /// Whether positions of the buffer stand for other elements than those of the block.
    bool isWindow() const { return getStep() != 1 || getBefore() != 0 || getLength() != getLastBlock(); }
  }];
}

def Plan_TileAttr : Plan_Attr<"Tile", "tile"> {
  let summary = "which part of a tensor a device's dense buffer holds, by its coordinates in the mesh";
  let description = [{
    A list of dimensions; a dimension of the tensor may be several here. Each has its size, and the mesh axes (by index,
    the outermost first) that cut it with the block that a coordinate advances. A device holds the elements from
    `start`, the sum of coordinate times block, to the end of its blocks, and padding behind them. In a window, position
    i of `length` stands for element `step * start - before + i`. Axes that cut nothing hold the same. With `shift s of n`
    a device has what belongs to the coordinate (c + s) mod n of an axis of n devices. It is the table `Tile` of the plan
    file.

    ```mlir
    #plan.tile<[64, 2048 by [0 of 1024]]>
    #plan.tile<[64 by [0 of 32, 1 of 8], 512]>
    #plan.tile<[64 by [0 of 16 shift 1 of 4], 512]>
    #plan.tile<[1, 3, 224 by [0 of 56] window (117 step 2 before 3), 224]>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::cleave::plan::TileDimAttr">:$dims);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// The elements of the whole tensor, and of one device's buffer.
    int64_t getTensorElements() const;
    int64_t getBufferElements() const;
  }];
}

def Plan_BufferType : TypeDef<Plan_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a place in an arena that holds a tensor";
  let parameters = (ins "::mlir::RankedTensorType":$tensor);
  let assemblyFormat = "`<` $tensor `>`";
}

//===-- kernels -----------------------------------------------------------------------------------------------===//

def Plan_NativeKernelOp : Plan_Op<"native_kernel", [Symbol, IsolatedFromAbove, SingleBlock]> {
  let summary = "a kernel that Cleave compiles";
  let description = [{
    The region computes the results from its arguments with `dfg` operators, on devices of `driver`. After compilation
    `object` names the `plan.object` that holds its code, and `scratch_bytes` is the memory that it needs besides operands
    and results. On processors `symbol` is the entry there and `parallel_extent` the size of its outermost parallel loop; on
    GPUs `launches` run one after the other, each on all of the kernel's arguments.

    Between the decision about a kernel's loops and their writing, `loops` computes the same with linalg operations on
    signless integers. On processors each has a `#plan.nest`, and `common` says what they share; on GPUs each has a list of
    `#plan.gpu_step`, and `mappings` are those of the launches.

    ```mlir
    plan.native_kernel @relu.0 {
    ^bb0(%x: tensor<8xf32>):
      %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
      plan.yield %0 : tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, DefaultValuedAttr<StrAttr, "\"cpu\"">:$driver,
                       OptionalAttr<FlatSymbolRefAttr>:$object, OptionalAttr<StrAttr>:$symbol,
                       OptionalAttr<TypedArrayAttrBase<Plan_GpuLaunchAttr, "launches on a GPU">>:$launches,
                       OptionalAttr<Plan_CommonLoopsAttr>:$common,
                       OptionalAttr<TypedArrayAttrBase<Plan_GpuMappingAttr, "mappings of launches on a GPU">>:$mappings,
                       DefaultValuedAttr<I64Attr, "1">:$parallel_extent, DefaultValuedAttr<I64Attr, "0">:$scratch_bytes);
  let regions = (region SizedRegion<1>:$body, AnyRegion:$loops);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name), [{
    $_state.addAttribute(::mlir::SymbolTable::getSymbolAttrName(), $_builder.getStringAttr(name));
    $_state.addRegion();
    $_state.addRegion();
  }]>];
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body (`loops` $loops^)?";
  let hasRegionVerifier = 1;
}

def Plan_YieldOp : Plan_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"NativeKernelOp">]> {
  let summary = "ends a native kernel with its results";
  let description = [{
    ```mlir
    plan.yield %0 : tensor<8xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
}

def Plan_LibraryKernelOp : Plan_Op<"library_kernel", [Symbol]> {
  let summary = "a kernel of a library";
  let description = [{
    `attributes` holds integer lists (`array<i64: …>`) and real numbers by name, as the library's driver documents them.
    `implementation` is what the library chose, for people.

    ```mlir
    plan.library_kernel @lrn.0 "onednn" "lrn" {size = array<i64: 5>, alpha = 1.0e-4 : f64}
        : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$library, StrAttr:$routine, DictionaryAttr:$parameters,
                       TypeAttrOf<FunctionType>:$type,
                       DefaultValuedAttr<TypedArrayAttrBase<Plan_PostOpAttr, "post ops">, "{}">:$post_ops,
                       DefaultValuedAttr<StrAttr, "\"\"">:$implementation,
                       DefaultValuedAttr<I64Attr, "0">:$scratch_bytes);
  let assemblyFormat = "$sym_name $library $routine $parameters attr-dict `:` $type";
}

def Plan_ObjectOp : Plan_Op<"object", [Symbol]> {
  let summary = "native code";
  let description = [{
    The native kernels' code: an ELF shared object for one kind of processor, or the text of PTX for one architecture of
    GPUs.

    ```mlir
    plan.object @native triple = "x86_64-pc-linux-gnu" cpu = "skylake-avx512" features = ["avx2"] image = "\7FELF"
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$triple, StrAttr:$cpu, StrArrayAttr:$features, StrAttr:$image);
  let assemblyFormat = [{
    $sym_name `triple` `=` $triple `cpu` `=` $cpu `features` `=` $features `image` `=` $image attr-dict
  }];
}

def Plan_LaunchOp : Plan_Op<"launch", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "calls a kernel on tensors";
  let description = [{
    ```mlir
    %0 = plan.launch @relu.0(%x) : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyRankedTensor>:$operands);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = "$kernel `(` $operands `)` attr-dict `:` functional-type($operands, $outputs)";
}

def Plan_ViewOp : Plan_Op<"view", [Pure]> {
  let summary = "the same bytes under another type";
  let description = [{
    ```mlir
    %0 = plan.view %x : tensor<2x3xf32> -> tensor<6xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

//===-- programs on buffers -----------------------------------------------------------------------------------===//

def Plan_ProgramOp : Plan_Op<"program", [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator, NoRegionArguments,
                                         DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "what each device of a mesh executes";
  let description = [{
    First the buffers, then `plan.prepare` (once, when the plan is loaded) and `plan.body` (once a step). `arena_bytes`
    is the memory of one device, `live_bytes` the largest sum of bytes that are live at once, `host_bytes` what the device
    has of the host's memory for what does not stay in the arena. `queues` names the kind
    of each queue: `compute`, `send`, `receive`, `collective` or `host`.

    ```mlir
    plan.program @main.d0 on @d0 queues ["compute"] arena 96 live 64 {
      %b0 = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
      %b1 = plan.buffer "y" offset 64 bytes 32 : !plan.buffer<tensor<8xf32>>
      plan.prepare {
      }
      plan.body {
        plan.load_input 0 -> %b0 {order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
        plan.call @relu.0(%b0) -> (%b1) {order = 1 : i64, queue = 0 : i64}
            : (!plan.buffer<tensor<8xf32>>) -> !plan.buffer<tensor<8xf32>>
        plan.store_output %b1 -> 0 {order = 2 : i64, queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
      }
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$mesh, StrArrayAttr:$queues, I64Attr:$arena_bytes,
                       I64Attr:$live_bytes, DefaultValuedAttr<I64Attr, "0">:$host_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `on` $mesh `queues` $queues `arena` $arena_bytes `live` $live_bytes (`host` $host_bytes^)?
        attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

class Plan_Section<string mnemonic> : Plan_Op<mnemonic, [NoTerminator, SingleBlock, NoRegionArguments,
                                                         HasParent<"ProgramOp">]> {
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
}

def Plan_PrepareOp : Plan_Section<"prepare"> {
  let summary = "instructions that run once, when the plan is loaded";
  let description = [{
    They fill the buffers that last: parameters, and what is computed from parameters alone.

    ```mlir
    plan.prepare {
      plan.load_parameter @w -> %b0 {order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
    }
    ```
  }];
}

def Plan_BodyOp : Plan_Section<"body"> {
  let summary = "instructions that run once a step";
  let description = [{
    ```mlir
    plan.body {
      plan.load_input 0 -> %b0 {order = 1 : i64, queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
    }
    ```
  }];
}

def Plan_BufferOp : Plan_Op<"buffer", [Pure, HasParent<"ProgramOp">]> {
  let summary = "a place in the arena";
  let description = [{
    A buffer `of` another is a view: it shows the same bytes, or a part of them, under another type. Buffers that are
    not views of the same buffer may take the same bytes only at different times. With `host` the place is in the
    program's part of the host's memory, which only plan.offload and plan.fetch reach.

    ```mlir
    %b0 = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
    %b2 = plan.buffer "x" host offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
    %b1 = plan.buffer "x" offset 0 bytes 32 of %b0 : !plan.buffer<tensor<8xf32>> : !plan.buffer<tensor<2x4xf32>>
    ```
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$offset, I64Attr:$bytes, Optional<Plan_BufferType>:$whole,
                       UnitAttr:$host);
  let results = (outs Plan_BufferType:$buffer);
  let assemblyFormat = [{
    $name (`host` $host^)? `offset` $offset `bytes` $bytes (`of` $whole^ `:` type($whole))? attr-dict `:` type($buffer)
  }];
  let hasVerifier = 1;
}

def Plan_StateOp : Plan_Op<"state", [HasParent<"ProgramOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the buffer that holds a parameter from step to step";
  let description = [{
    Said of the parameters that the body writes. No other value takes the buffer's bytes.

    ```mlir
    plan.state @w in %b0 : !plan.buffer<tensor<8xf32>>
    plan.state @v in %b1 {tile = #plan.tile<[16 by [0 of 8]]>} : !plan.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter, Plan_BufferType:$buffer, OptionalAttr<Plan_TileAttr>:$tile);
  let assemblyFormat = "$parameter `in` $buffer attr-dict `:` type($buffer)";
}

def Plan_InstructionInterface : OpInterface<"Instruction"> {
  let cppNamespace = "::cleave::plan";
  let description = [{
    An instruction of a queue: it starts when the one before it on its queue has ended and its waits are met.
  }];
  let methods = [
    InterfaceMethod<"The index of its queue.", "int64_t", "getQueueIndex", (ins), [{}], [{
      return $_op->template getAttrOfType<::mlir::IntegerAttr>("queue").getInt();
    }]>,
    InterfaceMethod<"What it waits for on other queues.", "::llvm::SmallVector<::cleave::plan::WaitAttr>",
                    "getWaitList", (ins), [{}], [{
      ::llvm::SmallVector<::cleave::plan::WaitAttr> list;
      if (auto waits = $_op->template getAttrOfType<::mlir::ArrayAttr>("waits"))
        for (::mlir::Attribute wait : waits)
          list.push_back(::llvm::cast<::cleave::plan::WaitAttr>(wait));
      return list;
    }]>,
    InterfaceMethod<"Its position in the global order.", "int64_t", "getOrderIndex", (ins), [{}], [{
      return $_op->template getAttrOfType<::mlir::IntegerAttr>("order").getInt();
    }]>];
}

class Plan_Instruction<string mnemonic, list<Trait> traits = []>
    : Plan_Op<mnemonic, !listconcat([DeclareOpInterfaceMethods<Plan_InstructionInterface>], traits)> {
  dag scheduling = (ins I64Attr:$queue, I64Attr:$order,
                        OptionalAttr<TypedArrayAttrBase<Plan_WaitAttr, "waits">>:$waits);
}

def Plan_CallOp : Plan_Instruction<"call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                                            AttrSizedOperandSegments]> {
  let summary = "runs a kernel";
  let description = [{
    ```mlir
    plan.call @conv.0(%x, %w) -> (%y) scratch(%s : !plan.buffer<tensor<64xi8>>) {order = 3 : i64, queue = 0 : i64}
        : (!plan.buffer<tensor<8xf32>>, !plan.buffer<tensor<8xf32>>) -> !plan.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$kernel, Variadic<Plan_BufferType>:$inputs,
                            Variadic<Plan_BufferType>:$outputs, Optional<Plan_BufferType>:$scratch), scheduling);
  let assemblyFormat = [{
    $kernel `(` $inputs `)` `->` `(` $outputs `)` (`scratch` `(` $scratch^ `:` type($scratch) `)`)? attr-dict
        `:` functional-type($inputs, $outputs)
  }];
}

def Plan_CommunicationInterface : OpInterface<"Communication"> {
  let cppNamespace = "::cleave::plan";
  let description = [{
    An instruction by which devices get what others have.
  }];
  let methods = [
    InterfaceMethod<"The buffers that it fills, each with another tensor.", "::mlir::ValueRange", "getFilledBuffers">,
    InterfaceMethod<"The node that the tensor of a number is a part of; of a single one, that of the instruction.",
                    "::mlir::Location", "getTensorLocation", (ins "unsigned":$tensor)>,
    InterfaceMethod<"Whether it joins the values of several devices: the last part of the operator that made them.",
                    "bool", "joinsValues">,
    InterfaceMethod<"The bytes of a tensor that a device receives from others, on average over a mesh of these sizes.",
                    "double", "getReceivedBytes", (ins "unsigned":$tensor, "::llvm::ArrayRef<int64_t>":$axisSizes)>];
}

/// What the instructions that refer to tiles share: the verification of the tiles on their meshes.
class Plan_TiledInstruction<string mnemonic, list<Trait> traits = []>
    : Plan_Instruction<mnemonic, !listconcat([DeclareOpInterfaceMethods<SymbolUserOpInterface>], traits)>;

//===-- transfers between meshes ------------------------------------------------------------------------------===//

def Plan_SendOp : Plan_TiledInstruction<"send"> {
  let summary = "gives a buffer's contents to another mesh";
  let description = [{
    `source_tile` says what the sender's devices hold of the tensor, `target_tile` what the receiver's will; without one
    they hold the whole.

    ```mlir
    plan.send %b0 to @d1 {channel = 3 : i64, order = 4 : i64, queue = 1 : i64} : !plan.buffer<tensor<8xf32>>
    plan.send %b0 to @pair {channel = 4 : i64, order = 4 : i64, queue = 1 : i64, target_tile = #plan.tile<[8 by [0 of 4]]>}
        : !plan.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = !con((ins Plan_BufferType:$buffer, FlatSymbolRefAttr:$target, I64Attr:$channel,
                            OptionalAttr<Plan_TileAttr>:$source_tile, OptionalAttr<Plan_TileAttr>:$target_tile),
                       scheduling);
  let assemblyFormat = "$buffer `to` $target attr-dict `:` type($buffer)";
}

def Plan_ReceiveOp : Plan_TiledInstruction<"receive", [DeclareOpInterfaceMethods<Plan_CommunicationInterface>]> {
  let summary = "fills a buffer with what another mesh sends";
  let description = [{
    Both ends name both tiles. What the buffer has beyond the tensor becomes `fill`.

    ```mlir
    plan.receive %b0 from @d0 {channel = 3 : i64, order = 4 : i64, queue = 2 : i64} : !plan.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = !con((ins Plan_BufferType:$buffer, FlatSymbolRefAttr:$source, I64Attr:$channel,
                            OptionalAttr<Plan_TileAttr>:$source_tile, OptionalAttr<Plan_TileAttr>:$target_tile,
                            DefaultValuedAttr<F64Attr, "0.0">:$fill), scheduling);
  let assemblyFormat = "$buffer `from` $source attr-dict `:` type($buffer)";
}

//===-- communication inside a mesh ---------------------------------------------------------------------------===//

def Plan_TilesAttr : TypedArrayAttrBase<Plan_TileAttr, "tiles of several tensors">;

/// Collectives may carry several tensors, each with a source and a target.
class Plan_CollectiveInstruction<string mnemonic>
    : Plan_TiledInstruction<mnemonic, [DeclareOpInterfaceMethods<Plan_CommunicationInterface>,
                                       SameVariadicOperandSize]>;

def Plan_ExchangeOp : Plan_CollectiveInstruction<"exchange"> {
  let summary = "brings a tensor from one tile to another";
  let description = [{
    All devices of the mesh take part; each gets what its target tile needs from devices that hold it. Several tensors of
    one element type travel together. There is a tile for each, or none where all are whole. What lies outside of a
    tensor becomes `fill`. `kind` names the case for people and libraries: `all_gather`, `all_to_all`, `permute`,
    `halo_exchange`, `slice` (nothing is communicated), `broadcast` or `general`.

    ```mlir
    plan.exchange "all_gather" %b0 -> %b1 {channel = 2 : i64, order = 4 : i64, queue = 1 : i64,
        source_tiles = [#plan.tile<[8 by [0 of 4]]>]} : !plan.buffer<tensor<4xf32>> -> !plan.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = !con((ins StrAttr:$kind, Variadic<Plan_BufferType>:$sources, Variadic<Plan_BufferType>:$targets,
                            I64Attr:$channel, OptionalAttr<Plan_TilesAttr>:$source_tiles,
                            OptionalAttr<Plan_TilesAttr>:$target_tiles, DefaultValuedAttr<F64Attr, "0.0">:$fill),
                       scheduling);
  let assemblyFormat = "$kind $sources `->` $targets attr-dict `:` type($sources) `->` type($targets)";
  let extraClassDeclaration = [{
    /// The tile of a tensor; null where it is whole.
    TileAttr getSourceTile(unsigned tensor);
    TileAttr getTargetTile(unsigned tensor);
  }];
}

def Plan_AllReduceOp : Plan_CollectiveInstruction<"all_reduce"> {
  let summary = "joins the buffers of devices that differ in some mesh axes; each gets the result";
  let description = [{
    `combiner` is `sum`, `product`, `max` or `min`. A tensor's source and target may be one buffer. Several tensors of one
    element type travel together.

    ```mlir
    plan.all_reduce "sum" over [0] %b0 -> %b1 {channel = 2 : i64, order = 4 : i64, queue = 1 : i64}
        : !plan.buffer<tensor<8xf32>> -> !plan.buffer<tensor<8xf32>>
    plan.all_reduce "sum" over [0] %b0, %b2 -> %b1, %b3 {channel = 2 : i64, order = 4 : i64, queue = 1 : i64}
        : !plan.buffer<tensor<8xf32>>, !plan.buffer<tensor<4xf32>>
       -> !plan.buffer<tensor<8xf32>>, !plan.buffer<tensor<4xf32>>
    ```
  }];
  let arguments = !con((ins StrAttr:$combiner, DenseI64ArrayAttr:$axes, Variadic<Plan_BufferType>:$sources,
                            Variadic<Plan_BufferType>:$targets, I64Attr:$channel), scheduling);
  let assemblyFormat = [{
    $combiner `over` $axes $sources `->` $targets attr-dict `:` type($sources) `->` type($targets)
  }];
}

def Plan_ReduceScatterOp : Plan_CollectiveInstruction<"reduce_scatter"> {
  let summary = "joins the buffers of devices that differ in some mesh axes; each gets a part of the result";
  let description = [{
    A tensor's tile cuts the source's buffer along these axes. Several tensors of one element type travel together.

    ```mlir
    plan.reduce_scatter "sum" over [0] %b0 -> %b1 {channel = 2 : i64, order = 4 : i64, queue = 1 : i64,
        tiles = [#plan.tile<[8 by [0 of 4]]>]} : !plan.buffer<tensor<8xf32>> -> !plan.buffer<tensor<4xf32>>
    ```
  }];
  let arguments = !con((ins StrAttr:$combiner, DenseI64ArrayAttr:$axes, Variadic<Plan_BufferType>:$sources,
                            Variadic<Plan_BufferType>:$targets, I64Attr:$channel, Plan_TilesAttr:$tiles), scheduling);
  let assemblyFormat = [{
    $combiner `over` $axes $sources `->` $targets attr-dict `:` type($sources) `->` type($targets)
  }];
  let extraClassDeclaration = [{
    TileAttr getTile(unsigned tensor) { return ::llvm::cast<TileAttr>(getTiles()[tensor]); }
  }];
}

//===-- loads and stores --------------------------------------------------------------------------------------===//

def Plan_LoadParameterOp : Plan_TiledInstruction<"load_parameter"> {
  let summary = "fills a buffer with a parameter, or the device's tile of it";
  let description = [{
    ```mlir
    plan.load_parameter @w -> %b0 {order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
    plan.load_parameter @w -> %b0 {order = 0 : i64, queue = 0 : i64, tile = #plan.tile<[8 by [0 of 4]]>}
        : !plan.buffer<tensor<4xf32>>
    ```
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$parameter, Plan_BufferType:$buffer, OptionalAttr<Plan_TileAttr>:$tile),
                       scheduling);
  let assemblyFormat = "$parameter `->` $buffer attr-dict `:` type($buffer)";
}

def Plan_LoadConstantOp : Plan_Instruction<"load_constant"> {
  let summary = "fills a buffer with a constant";
  let description = [{
    ```mlir
    plan.load_constant dense<[1, 2]> : tensor<2xi64> -> %b0 {order = 0 : i64, queue = 0 : i64}
        : !plan.buffer<tensor<2xi64>>
    ```
  }];
  let arguments = !con((ins ElementsAttr:$value, Plan_BufferType:$buffer), scheduling);
  let assemblyFormat = "$value `->` $buffer attr-dict `:` type($buffer)";
}

def Plan_CopyOp : Plan_Instruction<"copy", [AllTypesMatch<["source", "target"]>]> {
  let summary = "copies a buffer into another one of the same type";
  let description = [{
    ```mlir
    plan.copy %b0 -> %b1 {order = 7 : i64, queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = !con((ins Plan_BufferType:$source, Plan_BufferType:$target), scheduling);
  let assemblyFormat = "$source `->` $target attr-dict `:` type($source)";
}

def Plan_OffloadOp : Plan_Instruction<"offload", [AllTypesMatch<["source", "target"]>]> {
  let summary = "copies a buffer to one in the host's memory";
  let description = [{
    On a send queue.

    ```mlir
    plan.offload %b0 -> %b1 {order = 7 : i64, queue = 1 : i64} : !plan.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = !con((ins Plan_BufferType:$source, Plan_BufferType:$target), scheduling);
  let assemblyFormat = "$source `->` $target attr-dict `:` type($source)";
  let hasVerifier = 1;
}

def Plan_FetchOp : Plan_Instruction<"fetch", [AllTypesMatch<["source", "target"]>]> {
  let summary = "copies a buffer of the host's memory to one of the arena";
  let description = [{
    On a receive queue.

    ```mlir
    plan.fetch %b1 -> %b2 {order = 9 : i64, queue = 2 : i64} : !plan.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = !con((ins Plan_BufferType:$source, Plan_BufferType:$target), scheduling);
  let assemblyFormat = "$source `->` $target attr-dict `:` type($source)";
  let hasVerifier = 1;
}

def Plan_LoadIndexOp : Plan_TiledInstruction<"load_index"> {
  let summary = "fills a buffer with a number that depends on the device's coordinates";
  let description = [{
    `what` is `start`, where the device's block of that dimension of the tile begins, or `extent`, how many elements its
    buffer holds there besides padding.

    ```mlir
    plan.load_index "start" 0 of <[7 by [0 of 4]]> -> %b0 {order = 0 : i64, queue = 0 : i64}
        : !plan.buffer<tensor<i64>>
    ```
  }];
  let arguments = !con((ins StrAttr:$what, I64Attr:$dim, Plan_TileAttr:$tile, Plan_BufferType:$buffer), scheduling);
  let assemblyFormat = "$what custom<Index>($dim) `of` $tile `->` $buffer attr-dict `:` type($buffer)";
}

def Plan_LoadInputOp : Plan_TiledInstruction<"load_input"> {
  let summary = "fills a buffer with an input of the graph, or the device's tile of it";
  let description = [{
    With `within`, of a part of the input: that is where the part lies in it.

    ```mlir
    plan.load_input 0 -> %b0 {order = 1 : i64, queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = !con((ins I64Attr:$input, Plan_BufferType:$buffer, OptionalAttr<Plan_TileAttr>:$tile,
                            OptionalAttr<Plan_TileAttr>:$within), scheduling);
  let assemblyFormat = "$input `->` $buffer attr-dict `:` type($buffer)";
}

def Plan_StoreOutputOp : Plan_TiledInstruction<"store_output"> {
  let summary = "gives a buffer's contents out as an output of the graph, or the device's tile of it";
  let description = [{
    Of devices that hold the same, the one with coordinates 0 stores. With `within` they hold a part of the output,
    which lies there in it.

    ```mlir
    plan.store_output %b0 -> 0 {order = 9 : i64, queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = !con((ins Plan_BufferType:$buffer, I64Attr:$output, OptionalAttr<Plan_TileAttr>:$tile,
                            OptionalAttr<Plan_TileAttr>:$within), scheduling);
  let assemblyFormat = "$buffer `->` $output attr-dict `:` type($buffer)";
}

#endif // CLEAVE_DIALECTS_PLAN_OPS
