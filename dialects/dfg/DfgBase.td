// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dfg dialect, its types, and the classes that its operators share.

#ifndef CLEAVE_DIALECTS_DFG_BASE
#define CLEAVE_DIALECTS_DFG_BASE

include "dialects/interfaces/Interfaces.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Dfg_Dialect : Dialect {
  let name = "dfg";
  let cppNamespace = "::cleave::dfg";
  let summary = "The dataflow graph: what the model computes";
  let description = [{
    Operators on tensors of static shape with value semantics: a small set with exact meaning, into which a model
    file's operators are decomposed. Every operator keeps the model's node name as its location: `loc("conv1"("Conv"))`
    is the node `conv1` of the type `Conv`.

    Integers are signed (`i8` to `i64`) or unsigned (`ui8` to `ui64`) and wrap; `i1` is a truth value.

    Elementwise operators broadcast their operands by NumPy's rule: shapes are aligned at the last dimension, and a
    dimension of size one, or a missing one, repeats.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

defvar Dfg_Integers = [I8, I16, I32, I64, UI8, UI16, UI32, UI64];
defvar Dfg_Floats = [F16, BF16, F32, F64];

def Dfg_Tensor : StaticShapeTensorOf<!listconcat([I1], Dfg_Integers, Dfg_Floats)>;
def Dfg_FloatTensor : StaticShapeTensorOf<Dfg_Floats>;
def Dfg_NumberTensor : StaticShapeTensorOf<!listconcat(Dfg_Integers, Dfg_Floats)>;
def Dfg_IntegerTensor : StaticShapeTensorOf<Dfg_Integers>;
def Dfg_BoolTensor : StaticShapeTensorOf<[I1]>;
def Dfg_BitsTensor : StaticShapeTensorOf<!listconcat([I1], Dfg_Integers)>;
def Dfg_IndexTensor : StaticShapeTensorOf<[I32, I64]>;

/// Declared by operators that answer SplitInterface::localize for themselves.
defvar Dfg_Localize = [{
  ::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>> localize(::mlir::OpBuilder &builder,
                                                                 const ::cleave::LocalInstance &instance);
}];

/// Of operators that say for themselves where they may be rounded.
defvar Dfg_OwnPrecision = DeclareOpInterfaceMethods<PrecisionInterface, ["getPrecision"]>;
/// Of operators that can give their sums unrounded.
defvar Dfg_WideResult = DeclareOpInterfaceMethods<PrecisionInterface, ["buildWide"]>;

class Dfg_Op<string mnemonic, list<Trait> traits = []> : Op<Dfg_Dialect, mnemonic, traits>;

/// A pure operator whose result type follows from operands and attributes, and that answers every question that the
/// compiler asks.
class Dfg_Operator<string mnemonic, list<Trait> traits = []> : Dfg_Op<mnemonic, !listconcat([
    Pure, InferTypeOpAdaptor, DeclareOpInterfaceMethods<SplitInterface>,
    DeclareOpInterfaceMethods<LowerInterface>, DeclareOpInterfaceMethods<DifferentiateInterface>, PrecisionInterface],
    traits)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

/// As Dfg_Operator, where the result's shape is part of the operator.
class Dfg_ShapedOperator<string mnemonic, list<Trait> traits = []> : Dfg_Op<mnemonic, !listconcat([
    Pure, DeclareOpInterfaceMethods<SplitInterface>, DeclareOpInterfaceMethods<LowerInterface>,
    DeclareOpInterfaceMethods<DifferentiateInterface>, PrecisionInterface], traits)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif // CLEAVE_DIALECTS_DFG_BASE
