// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The frame of a graph: graph, parameters, constants, fusions, and operators that Cleave does not know.

#ifndef CLEAVE_DIALECTS_DFG_GRAPHOPS
#define CLEAVE_DIALECTS_DFG_GRAPHOPS

include "dialects/dfg/DfgAttributes.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"

def Dfg_ParameterOp : Dfg_Op<"parameter", [Symbol]> {
  let summary = "a named tensor that lasts from step to step";
  let description = [{
    A weight, or with `state` what training does not learn: a running statistic, or a constant of the model that lasts,
    as zeros of a computed shape. Its first value comes from a weights file (`#dfg.file`) or from an
    initializer (`#dfg.normal`, `#dfg.uniform`, `#dfg.fill`), so that a model of any size can be planned without its
    data.

    ```mlir
    dfg.parameter @fc1.weight : tensor<512x2048xf32> = #dfg.file<"mlp.weights", offset = 0>
    dfg.parameter state @bn.mean : tensor<64xf32> = #dfg.fill<value = 0.0 : f64>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Dfg_Tensor>:$type, AnyAttr:$init, UnitAttr:$state);
  let assemblyFormat = "(`state` $state^)? $sym_name `:` $type `=` $init attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
  }];
}

def Dfg_GraphOp : Dfg_Op<"graph", [AffineScope, IsolatedFromAbove, FunctionOpInterface,
                                   SingleBlock]> {
  let summary = "a dataflow graph";
  let description = [{
    Arguments are the model's inputs, results its outputs; the attribute `dfg.name` of an argument or result holds the
    model's name for it.

    ```mlir
    dfg.graph @main(%x: tensor<64x512xf32> {dfg.name = "x"}) -> (tensor<64x512xf32> {dfg.name = "y"}) {
      %0 = dfg.relu %x : (tensor<64x512xf32>) -> tensor<64x512xf32>
      dfg.return %0 : tensor<64x512xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type)>];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }

    /// The model's name of an input or output; empty where it has none.
    ::llvm::StringRef getInputName(unsigned index);
    ::llvm::StringRef getOutputName(unsigned index);
  }];
}

def Dfg_ReturnOp : Dfg_Op<"return", [Pure, Terminator, ReturnLike, HasParent<"GraphOp">]> {
  let summary = "ends a graph with its outputs";
  let description = [{
    ```mlir
    dfg.return %0, %1 : tensor<4xf32>, tensor<2x2xf32>
    ```
  }];
  let arguments = (ins Variadic<Dfg_Tensor>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
  let hasVerifier = 1;
}

def Dfg_ReadOp : Dfg_Op<"read", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                                 DeclareOpInterfaceMethods<SplitInterface>]> {
  let summary = "the value of a parameter";
  let description = [{
    A read that is not placed is copied to whoever uses it. One that is placed says where the parameter is kept, in the
    parts of its split: what a graph writes is read in that way.

    ```mlir
    %w = dfg.read @fc1.weight : tensor<512x2048xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter);
  let results = (outs Dfg_Tensor:$result);
  let assemblyFormat = "$parameter attr-dict `:` type($result)";
}

def Dfg_ConstantOp : Dfg_Op<"constant", [Pure, ConstantLike, InferTypeOpAdaptor]> {
  let summary = "a constant";
  let description = [{
    ```mlir
    %0 = dfg.constant dense<[1, 3, -1]> : tensor<3xi64>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Dfg_Tensor:$result);
  let assemblyFormat = "$value attr-dict";
  let hasFolder = 1;
}

def Dfg_OpaqueOp : Dfg_Op<"opaque", [DeclareOpInterfaceMethods<SplitInterface>,
                                     DeclareOpInterfaceMethods<CostInterface, ["getCost"]>, Pure]> {
  let summary = "an operator that Cleave does not know";
  let description = [{
    It can be placed, costed and explained; running it is refused by name. `model_attributes` keeps what the model said.

    ```mlir
    %0 = dfg.opaque "com.example.Sparkle"(%x) {model_attributes = {depth = 3 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins StrAttr:$kind, Variadic<Dfg_Tensor>:$operands, OptionalAttr<DictionaryAttr>:$model_attributes);
  let results = (outs Variadic<AnyTensor>:$outputs);
  let assemblyFormat = "$kind `(` $operands `)` attr-dict `:` functional-type($operands, $outputs)";
}

def Dfg_FusionOp : Dfg_Op<"fusion", [Pure, IsolatedFromAbove, SingleBlock,
                                     DeclareOpInterfaceMethods<CostInterface, ["getCost"]>]> {
  let summary = "operators computed by one kernel";
  let description = [{
    The region's arguments are the operands, its yielded values the results.

    ```mlir
    %0 = dfg.fusion %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%x: tensor<8xf32>, %y: tensor<8xf32>):
      %1 = dfg.add %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %2 = dfg.relu %1 : (tensor<8xf32>) -> tensor<8xf32>
      dfg.yield %2 : tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Dfg_Tensor>:$operands);
  let results = (outs Variadic<Dfg_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results) $body";
  let hasVerifier = 1;
}

def Dfg_YieldOp : Dfg_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"FusionOp">]> {
  let summary = "ends a fusion with its results";
  let description = [{
    ```mlir
    dfg.yield %2 : tensor<8xf32>
    ```
  }];
  let arguments = (ins Variadic<Dfg_Tensor>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
}

#endif // CLEAVE_DIALECTS_DFG_GRAPHOPS
