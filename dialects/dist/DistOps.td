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
    is the number of bytes that a plan may use, 0 for no limit.

    ```mlir
    module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64},
                                       {name = "cpu1", driver = "cpu", cores = 1 : i64, memory = 0 : i64} ]} {
    }
    ```
    On an operator of a graph, `dist.place` holds a `#dist.place`, and `dist.group` the group to which the model itself
    assigns it.
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

def Dist_MeshOp : Dist_Op<"mesh", [Symbol]> {
  let summary = "a grid of devices with named axes";
  let description = [{
    The last axis varies fastest. A single device is a mesh without axes.

    ```mlir
    dist.mesh @d0 <[], devices = [0]>
    dist.mesh @grid <["data" = 2, "model" = 4], devices = [0, 1, 2, 3, 4, 5, 6, 7]>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axis_names, DenseI64ArrayAttr:$axis_sizes,
                       DenseI64ArrayAttr:$devices);
  let assemblyFormat = [{
    $sym_name `<` custom<Axes>($axis_names, $axis_sizes) `,` `devices` `=` custom<Devices>($devices) `>` attr-dict
  }];
  let hasVerifier = 1;
}

def Dist_ProgramOp : Dist_Op<"program", [AffineScope, IsolatedFromAbove, FunctionOpInterface, SingleBlock,
                                         DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "what each device of a mesh runs";
  let description = [{
    The attribute `dist.input` of an argument is the index of the graph's input that it holds, `dist.output` of a
    result the index of the graph's output.

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
    Pairs up with the one `dist.receive` of the same channel in the program of `target`.

    ```mlir
    dist.send %0 to @d1 channel 3 : tensor<4xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$value, FlatSymbolRefAttr:$target, I64Attr:$channel);
  let assemblyFormat = "$value `to` $target `channel` custom<Channel>($channel) attr-dict `:` type($value)";
  let extraClassDefinition = [{
    ::mlir::FlatSymbolRefAttr $cppClass::getPeer() { return getTargetAttr(); }
  }];
}

def Dist_ReceiveOp : Dist_Op<"receive", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                                  DeclareOpInterfaceMethods<Dist_TransferInterface, ["getPeer"]>]> {
  let summary = "takes a tensor from another mesh";
  let description = [{
    ```mlir
    %0 = dist.receive from @d0 channel 3 : tensor<4xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$source, I64Attr:$channel);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`from` $source `channel` custom<Channel>($channel) attr-dict `:` type($result)";
  let extraClassDefinition = [{
    ::mlir::FlatSymbolRefAttr $cppClass::getPeer() { return getSourceAttr(); }
  }];
}

#endif // CLEAVE_DIALECTS_DIST_OPS
