// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dist dialect: who does what. Meshes, placements, one program a mesh, and the transfers between them.

#ifndef CLEAVE_DIALECTS_DIST_OPS
#define CLEAVE_DIALECTS_DIST_OPS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::cleave::dist";
  let summary = "Distribution: which devices compute an operator, and what they tell each other";
  let description = [{
    `#dist.place` on a `dfg` operator says on which mesh it runs, which mesh axes divide which of its factors, and who
    decided it. From it the distribute stage makes one `dist.program` a mesh, on local shapes, with explicit transfers.
    Operators on single devices are the case of meshes of one device each.

    The module lists the machine's devices in the attribute `dist.devices`; meshes name them by their indices. `memory`
    is the number of bytes that a plan may use, 0 for no limit. `dist.machine` says how fast they and their links are.

    ```mlir
    module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64},
                                       {name = "cpu1", driver = "cpu", cores = 1 : i64, memory = 0 : i64} ]} {
    }
    ```
    On an operator of a graph, `dist.place` holds a `#dist.place`, and `dist.group` the group to which the model itself
    assigns it. The operators of a graph or program with `dist.ordered` are to run in the order in which they stand. A read of a
    parameter with `dist.changes` gives something else in every step, because steps write the parameter. What a
    collective with `dist.again` and a number brings is for a part of the step; others bring the same for other parts.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

class Dist_Attr<string name, string attrMnemonic> : AttrDef<Dist_Dialect, name> { let mnemonic = attrMnemonic; }
class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, traits>;

def Dist_SplitAttr : Dist_Attr<"Split", "split"> {
  let summary = "which mesh axes divide which factors of an operator";
  let description = [{
    The keys are factor names of the operator's split rule, the values lists of axis names, the slowest varying first.
    It determines the layout of every operand and result.

    ```mlir
    #dist.split<{batch = ["data"], k = ["model"]}>
    ```
  }];
  let parameters = (ins "::mlir::DictionaryAttr":$factors);
  let assemblyFormat = "`<` $factors `>`";
  let genVerifyDecl = 1;
}

def Dist_PlaceAttr : Dist_Attr<"Place", "place"> {
  let summary = "where an operator runs, how it is divided, and who decided it";
  let description = [{
    ```mlir
    #dist.place<@d0, by = "pin conv* -> front">
    #dist.place<@pair, by = "planner", split = <{k = ["model"]}>>
    ```
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$mesh, "::mlir::StringAttr":$by,
                        OptionalParameter<"::cleave::dist::SplitAttr">:$split);
  let assemblyFormat = "`<` $mesh `,` `by` `=` $by (`,` `split` `=` $split^)? `>`";
}

def Dist_RecomputeAttr : Dist_Attr<"Recompute", "recompute"> {
  let summary = "what of an operator the backward pass of a training step computes again, and together with what";
  let description = [{
    `full`: everything; `selective`: what is no result of a contraction; `none`: nothing; `offload`: nothing either, but
    it is kept in the host's memory. Operators of one stage with one `segment` are computed again just before their
    gradients; what enters a segment is kept.

    ```mlir
    #dist.recompute<3, "full">
    ```
  }];
  let parameters = (ins "unsigned":$segment, "::mlir::StringAttr":$what);
  let assemblyFormat = "`<` $segment `,` $what `>`";
  let genVerifyDecl = 1;
}

def Dist_PartAttr : Dist_Attr<"Part", "part"> {
  let summary = "a factor of a tensor dimension, and the mesh axes that cut it";
  let description = [{
    Written only inside of `#dist.layout`. An axis of size p cuts into blocks of ceil(size / p), the next axis cuts each
    block in the same way. With `shifts`, one for each axis, a device has the block of another coordinate: its own and the
    shift together, modulo p. Where `has_reach` is set, the axes cut the `count` results of a window operator, and a device
    holds what they read: result i reads elements `step * i - before` to `step * i - before + extent - 1`.
  }];
  let parameters = (ins "int64_t":$size, OptionalArrayRefParameter<"::mlir::StringAttr">:$axes, "bool":$has_reach,
                        "int64_t":$count, "int64_t":$step, "int64_t":$before, "int64_t":$extent,
                        OptionalArrayRefParameter<"int64_t">:$shifts);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Dist_LayoutAttr : Dist_Attr<"Layout", "layout"> {
  let summary = "which part of a tensor each device of a mesh holds";
  let description = [{
    A list with an entry a dimension: its size, and the axes by which it is cut. A dimension may be a product of factors,
    the slowest varying first, of which any is cut. Devices that differ only in axes that are not named hold the same.
    With `partial` they hold values that the combiner joins to the tensor's. `reach` is what a window operator reads:
    the axes cut its `count` results, and blocks overlap. `shift` has for each axis how many coordinates further on the
    block of a device lies; behind the last one follows the first.

    ```mlir
    #dist.layout<[64, 2048 by ["model"]]>
    #dist.layout<[64 by ["data"], 3 * 12 by ["model"] * 64]>
    #dist.layout<[64, 512], partial sum ["model"]>
    #dist.layout<[1, 3, 224 by ["space"] reach (112 step 2 before 3 extent 7), 224]>
    #dist.layout<[64 by ["x"] shift [1], 512]>
    ```
  }];
  let parameters = (ins "::mlir::ArrayAttr":$dims, OptionalArrayRefParameter<"::mlir::StringAttr">:$partial,
                        "::cleave::Combiner":$combiner);
  let hasCustomAssemblyFormat = 1;
}

def Dist_WithinAttr : Dist_Attr<"Within", "within"> {
  let summary = "where a part of an input or output lies in it";
  let description = [{
    From element `begin` on of the `size` that the whole has in dimension `dim`; the other dimensions are whole.

    ```mlir
    #dist.within<dim = 0, begin = 4, size = 6>
    ```
  }];
  let parameters = (ins "int64_t":$dim, "int64_t":$begin, "int64_t":$size);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Dist_MeshOp : Dist_Op<"mesh", [Symbol]> {
  let summary = "a grid of devices with named axes";
  let description = [{
    The last axis varies fastest. A single device is a mesh without axes.

    One axis may have shares, a positive number for each of its coordinates (at most 2^30 together), instead of a size: what it cuts is cut in
    that proportion, as by the speeds of unlike devices. `dist-expand-shares` takes such a mesh apart, into one for each
    run of equal shares; no later pass sees it.

    ```mlir
    dist.mesh @d0 <[], devices = [0]>
    dist.mesh @grid <["data" = 2, "model" = 4], devices = [0, 1, 2, 3, 4, 5, 6, 7]>
    dist.mesh @mixed <["data" = [4, 4, 1], "model" = 2], devices = [0, 1, 2, 3, 4, 5]>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axis_names, DenseI64ArrayAttr:$axis_sizes,
                       DenseI64ArrayAttr:$devices, OptionalAttr<DictionaryAttr>:$axis_shares);
  let assemblyFormat = [{
    $sym_name `<` custom<Axes>($axis_names, $axis_sizes, $axis_shares) `,` `devices` `=` custom<Devices>($devices) `>`
        attr-dict
  }];
  let extraClassDeclaration = [{
    /// The axis with shares, and they; a null name where there is none.
    std::pair<::mlir::StringAttr, ::llvm::ArrayRef<int64_t>> getShares();
  }];
  let hasVerifier = 1;
}

def Dist_MachineOp : Dist_Op<"machine", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "the machine that the module is compiled for";
  let description = [{
    What a machine file says (docs/formats.md), as dictionaries and lists whose leaves are the file's texts, quantities
    with their units: kinds of devices with their rates and curves, hosts, links, cores, the executor, and what measured
    steps have said. Device i of the machine, host by host, is device i of `dist.devices`, which says by which names and
    drivers the runtime opens them, and of meshes.

    The analysis `CostAnalysis` reads it for every stage that asks how long something takes. A module has at most one;
    without one, stages assume the default machine (passes/cost/defaults/default.yaml).

    ```mlir
    dist.machine @machine {
      device_kinds = {v100 = {bandwidth = "900 GB/s", memory = "16 GiB", peak = {f32 = "15.7 TFLOP/s"}}},
      hosts = [{devices = [{count = "8", kind = "v100"} ],
                links = [{bandwidth = "130 GB/s", between = "devices", latency = "3 us"} ]} ],
      name = "one-host"
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, DictionaryAttr:$description);
  let assemblyFormat = "$sym_name custom<MachineDescription>($description) attr-dict-with-keyword";
  let hasVerifier = 1;
}

def Dist_ProgramOp : Dist_Op<"program", [AffineScope, IsolatedFromAbove, FunctionOpInterface, SingleBlock,
                                         DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "what each device of a mesh runs";
  let description = [{
    The attribute `dist.input` of an argument is the index of the graph's input that it holds, `dist.output` of a
    result the index of the graph's output. `dist.layout` on both says which part of it a device has; without it a device
    has the whole. Types are the local ones.

    Transfers stand in the order of their channels in every program. Channels therefore give one global order with
    which all programs agree, and programs that execute their operators one by one, with sends that wait for their
    receives, do not block each other for ever.

    ```mlir
    dist.program @main.d0(%x: tensor<4xf32> {dist.input = 0 : i64}) -> (tensor<4xf32> {dist.output = 0 : i64})
        attributes {mesh = @d0} {
      %0 = dfg.relu %x : (tensor<4xf32>) -> tensor<4xf32>
      dist.return %0 : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type, FlatSymbolRefAttr:$mesh,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type,
                                 "::mlir::FlatSymbolRefAttr":$mesh)>];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }

    /// The index of the graph's input or output that an argument or result stands for.
    int64_t getInputIndex(unsigned argument);
    int64_t getOutputIndex(unsigned result);
  }];
}

def Dist_ReturnOp : Dist_Op<"return", [Terminator, ReturnLike, Pure, HasParent<"ProgramOp">]> {
  let summary = "ends a program with the graph's outputs that it computes";
  let description = [{
    ```mlir
    dist.return %0 : tensor<4xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
  let hasVerifier = 1;
}

def Dist_TransferInterface : OpInterface<"Transfer"> {
  let cppNamespace = "::cleave::dist";
  let description = [{
    One end of a transfer between two meshes; the other end has the same channel.
  }];
  let methods = [
    InterfaceMethod<"The mesh of the other end.", "::mlir::FlatSymbolRefAttr", "getPeer">,
    InterfaceMethod<"The transfer's number, distinct in a module and not negative.", "int64_t", "getChannelIndex", (ins),
                    [{}], [{ return static_cast<int64_t>($_op.getChannel()); }]>];
}

def Dist_SendOp : Dist_Op<"send", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                                  DeclareOpInterfaceMethods<Dist_TransferInterface, ["getPeer"]>]> {
  let summary = "gives a tensor to another mesh";
  let description = [{
    Pairs up with the one `dist.receive` of the same channel in the program of `target`. Both say how the tensor lies on
    the sender's mesh (`from`) and on the receiver's (`to`); only the pieces that a device needs move, straight from one
    that has them. Without layouts both are whole.

    ```mlir
    dist.send %0 to @d1 channel 3 : tensor<4xf32>
    dist.send %0 to @pair channel 4 from <[4 by ["x"]]> to <[4 by ["y"]]> : tensor<1xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$value, FlatSymbolRefAttr:$target, I64Attr:$channel,
                       OptionalAttr<Dist_LayoutAttr>:$from, OptionalAttr<Dist_LayoutAttr>:$to);
  let assemblyFormat = [{
    $value `to` $target `channel` custom<Channel>($channel) (`from` $from^ `to` $to)? attr-dict `:` type($value)
  }];
  let extraClassDefinition = [{
    ::mlir::FlatSymbolRefAttr $cppClass::getPeer() { return getTargetAttr(); }
  }];
}

def Dist_ReceiveOp : Dist_Op<"receive", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                                  DeclareOpInterfaceMethods<Dist_TransferInterface, ["getPeer"]>]> {
  let summary = "takes a tensor from another mesh";
  let description = [{
    What lies outside of the tensor in a device's part, its padding, is `fill` (zero where that is absent).

    ```mlir
    %0 = dist.receive from @d0 channel 3 : tensor<4xf32>
    %1 = dist.receive from @grid channel 4 from <[4 by ["x"]]> to <[4 by ["y"]]> : tensor<2xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$source, I64Attr:$channel, OptionalAttr<Dist_LayoutAttr>:$from,
                       OptionalAttr<Dist_LayoutAttr>:$to, OptionalAttr<F64Attr>:$fill);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    `from` $source `channel` custom<Channel>($channel) (`from` $from^ `to` $to)? (`fill` $fill^)? attr-dict
        `:` type($result)
  }];
  let extraClassDefinition = [{
    ::mlir::FlatSymbolRefAttr $cppClass::getPeer() { return getSourceAttr(); }
  }];
}

//===-- parts of inputs and outputs ----------------------------------------------------------------------------===//

def Dist_InputPartOp : Dist_Op<"input_part", [Pure]> {
  let summary = "a part of a graph's input, which is loaded wherever it is read";
  let description = [{
    It has no place: no device holds more of the input than it reads.

    ```mlir
    %0 = dist.input_part %x {dim = 0 : i64, begin = 4 : i64} : tensor<6x3xf32> -> tensor<2x3xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$dim, I64Attr:$begin);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    WithinAttr getWithin();
  }];
}

def Dist_OutputPartsOp : Dist_Op<"output_parts", [Pure]> {
  let summary = "an output of a graph whose parts are given out where they are made";
  let description = [{
    It has no place: no device puts the parts together.

    ```mlir
    %2 = dist.output_parts %0, %1 {dim = 0 : i64} : (tensor<4x5xf32>, tensor<2x5xf32>) -> tensor<6x5xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$parts, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$parts attr-dict `:` functional-type($parts, $result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    WithinAttr getWithin(unsigned part);
  }];
}

//===-- parts of tensors --------------------------------------------------------------------------------------===//

def Dist_ShardOfOp : Dist_Op<"shard_of", [Pure, HasParent<"ProgramOp">,
                                          DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a device's part of a parameter";
  let description = [{
    Padding is zero.

    ```mlir
    %w = dist.shard_of @fc1.weight <[512, 2048 by ["model"]]> : tensor<512x1024xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter, Dist_LayoutAttr:$layout);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$parameter $layout attr-dict `:` type($result)";
}

def Dist_WriteOp : Dist_Op<"write", [HasParent<"ProgramOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                                     MemoryEffects<[MemWrite]>]> {
  let summary = "gives a device's part of a parameter its value for the next step";
  let description = [{
    The program reads the parameter in the same layout, or not at all.

    ```mlir
    dist.write @fc1.weight <[512, 2048 by ["model"]]>, %new : tensor<512x1024xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter, Dist_LayoutAttr:$layout, AnyRankedTensor:$value);
  let assemblyFormat = "$parameter $layout `,` $value attr-dict `:` type($value)";
}

class Dist_IndexOp<string mnemonic> : Dist_Op<mnemonic, [Pure, HasParent<"ProgramOp">]> {
  let arguments = (ins Dist_LayoutAttr:$layout, I64Attr:$dim, I64Attr:$part);
  let results = (outs 0DTensorOf<[I64]>:$result);
  let assemblyFormat = "$layout `dim` custom<Channel>($dim) `part` custom<Channel>($part) attr-dict `:` type($result)";
}

def Dist_StartOp : Dist_IndexOp<"start"> {
  let summary = "where a device's block of a part begins";
  let description = [{
    ```mlir
    %0 = dist.start <[7 by ["x"]]> dim 0 part 0 : tensor<i64>
    ```
  }];
}

def Dist_ExtentOp : Dist_IndexOp<"extent"> {
  let summary = "how many elements of a device's block of a part are not padding";
  let description = [{
    ```mlir
    %0 = dist.extent <[7 by ["x"]]> dim 0 part 0 : tensor<i64>
    ```
  }];
}

//===-- communication inside a mesh ---------------------------------------------------------------------------===//

def Dist_CollectiveInterface : OpInterface<"Collective"> {
  let cppNamespace = "::cleave::dist";
  let description = [{
    Operators in which all devices of the mesh take part together: each gives its part of a tensor in one layout and gets
    its part in another. Of several tensors each result is that of the operand with its number.
  }];
  let methods = [
    InterfaceMethod<"The layout of an operand.", "::cleave::dist::LayoutAttr", "getFromLayout",
                    (ins "unsigned":$operand)>,
    InterfaceMethod<"The layout of a result.", "::cleave::dist::LayoutAttr", "getToLayout", (ins "unsigned":$result)>,
    InterfaceMethod<"What positions outside of the tensor get.", "double", "getFillValue", (ins), [{}],
                    [{ return 0.0; }]>,
    InterfaceMethod<"Whether it may have several tensors.", "bool", "carriesSeveral", (ins), [{}],
                    [{ return false; }]>];
}

class Dist_CollectiveOp<string mnemonic> : Dist_Op<mnemonic, [
    Pure, HasParent<"ProgramOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<Dist_CollectiveInterface, ["getFromLayout", "getToLayout"]>]> {
  let arguments = (ins AnyRankedTensor:$input, Dist_LayoutAttr:$from, Dist_LayoutAttr:$to);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `from` $from `to` $to attr-dict `:` type($input) `->` type($result)";
  let extraClassDefinition = [{
    ::cleave::dist::LayoutAttr $cppClass::getFromLayout(unsigned) { return getFrom(); }
    ::cleave::dist::LayoutAttr $cppClass::getToLayout(unsigned) { return getTo(); }
    ::llvm::LogicalResult $cppClass::verifySymbolUses(::mlir::SymbolTableCollection &symbols) {
      return verifyCollective(*this, symbols);
    }
  }];
}

def Dist_LayoutsAttr : TypedArrayAttrBase<Dist_LayoutAttr, "layouts of several tensors">;

/// Collectives that may carry several tensors of one element type in one message, among the same devices.
class Dist_CombinableOp<string mnemonic> : Dist_Op<mnemonic, [
    Pure, HasParent<"ProgramOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<Dist_CollectiveInterface, ["getFromLayout", "getToLayout", "carriesSeveral"]>]> {
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, Dist_LayoutsAttr:$from, Dist_LayoutsAttr:$to);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $inputs `from` custom<Layouts>($from) `to` custom<Layouts>($to) attr-dict `:` type($inputs) `->` type($results)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$input, "::cleave::dist::LayoutAttr":$from,
                                 "::cleave::dist::LayoutAttr":$to),
    [{ build($_builder, $_state, ::mlir::TypeRange(result), ::mlir::ValueRange(input), $_builder.getArrayAttr({from}),
             $_builder.getArrayAttr({to})); }]>];
  let extraClassDefinition = [{
    bool $cppClass::carriesSeveral() { return true; }
    ::cleave::dist::LayoutAttr $cppClass::getFromLayout(unsigned operand) {
      return ::llvm::cast<::cleave::dist::LayoutAttr>(getFrom()[operand]);
    }
    ::cleave::dist::LayoutAttr $cppClass::getToLayout(unsigned result) {
      return ::llvm::cast<::cleave::dist::LayoutAttr>(getTo()[result]);
    }
    ::llvm::LogicalResult $cppClass::verifySymbolUses(::mlir::SymbolTableCollection &symbols) {
      size_t count = getInputs().size();
      if (count == 0 || getResults().size() != count || getFrom().size() != count || getTo().size() != count)
        return emitOpError("expects a result and two layouts for each of its tensors, got ")
               << getResults().size() << ", " << getFrom().size() << " and " << getTo().size() << " for " << count;
      return verifyCollective(*this, symbols);
    }
  }];
}

def Dist_AllReduceOp : Dist_CombinableOp<"all_reduce"> {
  let summary = "joins partial values; every device gets the result";
  let description = [{
    The result's layout has fewer partial axes than the operand's and is the same otherwise.

    ```mlir
    %1 = dist.all_reduce %0 from <[64, 512], partial sum ["model"]> to <[64, 512]>
        : tensor<64x512xf32> -> tensor<64x512xf32>
    %3:2 = dist.all_reduce %1, %2 from <[64], partial sum ["data"]>, <[8, 8], partial sum ["data"]> to <[64]>, <[8, 8]>
        : tensor<64xf32>, tensor<8x8xf32> -> tensor<64xf32>, tensor<8x8xf32>
    ```
  }];
}

def Dist_ReduceScatterOp : Dist_CombinableOp<"reduce_scatter"> {
  let summary = "joins partial values; every device gets a part of the result";
  let description = [{
    Partial axes of the operand's layout cut a dimension of the result's.

    ```mlir
    %1 = dist.reduce_scatter %0 from <[64, 512], partial sum ["model"]> to <[64 by ["model"], 512]>
        : tensor<64x512xf32> -> tensor<32x512xf32>
    ```
  }];
}

def Dist_AllGatherOp : Dist_CombinableOp<"all_gather"> {
  let summary = "every device gets the parts of all along an axis";
  let description = [{
    ```mlir
    %1 = dist.all_gather %0 from <[64 by ["model"], 512]> to <[64, 512]> : tensor<32x512xf32> -> tensor<64x512xf32>
    ```
  }];
}

def Dist_AllToAllOp : Dist_CollectiveOp<"all_to_all"> {
  let summary = "an axis cuts another dimension than before";
  let description = [{
    ```mlir
    %1 = dist.all_to_all %0 from <[64 by ["model"], 512]> to <[64, 512 by ["model"]]>
        : tensor<32x512xf32> -> tensor<64x256xf32>
    ```
  }];
}

def Dist_SliceOp : Dist_CollectiveOp<"slice"> {
  let summary = "every device keeps a part of what it has";
  let description = [{
    Nothing is communicated.

    ```mlir
    %1 = dist.slice %0 from <[64, 512]> to <[64 by ["model"], 512]> : tensor<64x512xf32> -> tensor<32x512xf32>
    ```
  }];
}

def Dist_PermuteOp : Dist_CollectiveOp<"permute"> {
  let summary = "every device gets its part of another layout straight from those that have it";
  let description = [{
    The general case: any layout to any other, neither of them partial.

    ```mlir
    %1 = dist.permute %0 from <[64 by ["x", "y"]]> to <[64 by ["y", "x"]]> : tensor<16xf32> -> tensor<16xf32>
    %2 = dist.permute %0 from <[64 by ["x"]]> to <[64 by ["x"] shift [1]]> : tensor<16xf32> -> tensor<16xf32>
    ```
  }];
}

def Dist_HaloExchangeOp : Dist_CollectiveOp<"halo_exchange"> {
  let summary = "every device gets what a window operator reads for its block of results";
  let description = [{
    Positions outside of the tensor are `fill`, as an operator's padding.

    ```mlir
    %1 = dist.halo_exchange %0 from <[8 by ["x"]]> to <[8 by ["x"] reach (8 step 1 before 1 extent 3)]> fill 0.0
        : tensor<4xf32> -> tensor<6xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, Dist_LayoutAttr:$from, Dist_LayoutAttr:$to, F64Attr:$fill);
  let assemblyFormat = "$input `from` $from `to` $to `fill` $fill attr-dict `:` type($input) `->` type($result)";
  let extraClassDeclaration = [{
    double getFillValue() { return getFill().convertToDouble(); }
  }];
}

#endif // CLEAVE_DIALECTS_DIST_OPS
