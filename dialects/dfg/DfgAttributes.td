// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes of the dfg dialect: where parameters come from, and the kinds of pooling, reduction and comparison.

#ifndef CLEAVE_DIALECTS_DFG_ATTRIBUTES
#define CLEAVE_DIALECTS_DFG_ATTRIBUTES

include "dialects/dfg/DfgBase.td"

class Dfg_Attr<string name, string attrMnemonic> : AttrDef<Dfg_Dialect, name> { let mnemonic = attrMnemonic; }

def Dfg_FileAttr : Dfg_Attr<"File", "file"> {
  let summary = "a parameter's bytes in a weights file";
  let description = [{
    Row-major little-endian elements, `offset` bytes into the file. The path is relative to the folder of the module's
    file.

    ```mlir
    #dfg.file<"mlp.weights", offset = 64>
    ```
  }];
  let parameters = (ins StringRefParameter<"path">:$path, "uint64_t":$offset);
  let assemblyFormat = "`<` $path `,` `offset` `=` $offset `>`";
}

def Dfg_NormalAttr : Dfg_Attr<"Normal", "normal"> {
  let summary = "normally distributed initial values";
  let description = [{
    ```mlir
    #dfg.normal<mean = 0.0 : f64, stddev = 0.01 : f64, seed = 7>
    ```
  }];
  let parameters = (ins "::mlir::FloatAttr":$mean, "::mlir::FloatAttr":$stddev, "uint64_t":$seed);
  let assemblyFormat = "`<` `mean` `=` $mean `,` `stddev` `=` $stddev `,` `seed` `=` $seed `>`";
}

def Dfg_UniformAttr : Dfg_Attr<"Uniform", "uniform"> {
  let summary = "uniformly distributed initial values";
  let description = [{
    ```mlir
    #dfg.uniform<low = -0.1 : f64, high = 0.1 : f64, seed = 7>
    ```
  }];
  let parameters = (ins "::mlir::FloatAttr":$low, "::mlir::FloatAttr":$high, "uint64_t":$seed);
  let assemblyFormat = "`<` `low` `=` $low `,` `high` `=` $high `,` `seed` `=` $seed `>`";
}

def Dfg_FillAttr : Dfg_Attr<"Fill", "fill"> {
  let summary = "one value everywhere";
  let description = [{
    ```mlir
    #dfg.fill<value = 0.0 : f64>
    ```
  }];
  let parameters = (ins "::mlir::FloatAttr":$value);
  let assemblyFormat = "`<` `value` `=` $value `>`";
}

def Dfg_BandAttr : Dfg_Attr<"Band", "band"> {
  let summary = "a band of rows and columns outside of which a kernel has nothing to do";
  let description = [{
    As `dfg.band` on a `dfg.fusion`, and on the kernel that it becomes: rows lie along dimension `rows` of each result,
    and sums and largest elements over columns are made by blocks of `columns`, of which there are `blocks`. Elements whose
    row less its column is below `lower` or above `upper` add nothing to them. One of both may be missing.

    ```mlir
    #dfg.band<rows = 2, blocks = 4, columns = 512, lower = 0>
    ```
  }];
  let parameters = (ins "unsigned":$rows, "int64_t":$blocks, "int64_t":$columns,
                        OptionalParameter<"std::optional<int64_t>">:$lower,
                        OptionalParameter<"std::optional<int64_t>">:$upper);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Dfg_MaskKindEnum : I32EnumAttr<"MaskKind", "how a tensor hides scores", [
    I32EnumAttrCase<"Added", 0, "added">, I32EnumAttrCase<"Seen", 1, "seen">, I32EnumAttrCase<"Hidden", 2, "hidden">]> {
  let cppNamespace = "::cleave::dfg";
  let genSpecializedAttr = 0;
}
def Dfg_ScoreMaskAttr : Dfg_Attr<"ScoreMask", "score_mask"> {
  let summary = "which scores of attention a tensor leaves";
  let description = [{
    As `dfg.score_mask` on a parameter or a constant, whose last two dimensions are those of queries and keys. By `kind` its
    numbers are `added` to scores, or it is true for scores that are `seen`, or that are `hidden`. Nothing is left where a
    query's position less a key's is below `lower` or above `upper`; where that is `exact`, all else is left as it is.

    ```mlir
    #dfg.score_mask<kind = seen, lower = 0, upper = 299, exact = true>
    ```
  }];
  let parameters = (ins "MaskKind":$kind, OptionalParameter<"std::optional<int64_t>">:$lower,
                        OptionalParameter<"std::optional<int64_t>">:$upper,
                        DefaultValuedParameter<"bool", "false">:$exact);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Dfg_PoolKindEnum : I32EnumAttr<"PoolKind", "how a pooling window is reduced", [
    I32EnumAttrCase<"Max", 0, "max">, I32EnumAttrCase<"Average", 1, "average">]> {
  let cppNamespace = "::cleave::dfg";
  let genSpecializedAttr = 0;
}
def Dfg_PoolKind : EnumAttr<Dfg_Dialect, Dfg_PoolKindEnum, "pool_kind"> { let assemblyFormat = "`<` $value `>`"; }
def Dfg_ReduceKindEnum : I32EnumAttr<"ReduceKind", "how elements are joined", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Product", 1, "product">,
    I32EnumAttrCase<"Max", 2, "max">, I32EnumAttrCase<"Min", 3, "min">]> {
  let cppNamespace = "::cleave::dfg";
  let genSpecializedAttr = 0;
}
def Dfg_ReduceKind : EnumAttr<Dfg_Dialect, Dfg_ReduceKindEnum, "reduce_kind"> { let assemblyFormat = "`<` $value `>`"; }
def Dfg_ArgKindEnum : I32EnumAttr<"ArgKind", "which element is searched", [
    I32EnumAttrCase<"Max", 0, "max">, I32EnumAttrCase<"Min", 1, "min">]> {
  let cppNamespace = "::cleave::dfg";
  let genSpecializedAttr = 0;
}
def Dfg_ArgKind : EnumAttr<Dfg_Dialect, Dfg_ArgKindEnum, "arg_kind"> { let assemblyFormat = "`<` $value `>`"; }
def Dfg_ComparisonEnum : I32EnumAttr<"Comparison", "a comparison of numbers", [
    I32EnumAttrCase<"Equal", 0, "equal">, I32EnumAttrCase<"Less", 1, "less">,
    I32EnumAttrCase<"LessOrEqual", 2, "less_or_equal">, I32EnumAttrCase<"Greater", 3, "greater">,
    I32EnumAttrCase<"GreaterOrEqual", 4, "greater_or_equal">]> {
  let cppNamespace = "::cleave::dfg";
  let genSpecializedAttr = 0;
}
def Dfg_Comparison : EnumAttr<Dfg_Dialect, Dfg_ComparisonEnum, "comparison"> { let assemblyFormat = "`<` $value `>`"; }

#endif // CLEAVE_DIALECTS_DFG_ATTRIBUTES
