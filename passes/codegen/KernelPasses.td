// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes that turn a program's operators into launches of kernels, in the order in which they run.

#ifndef CLEAVE_PASSES_CODEGEN_KERNELPASSES
#define CLEAVE_PASSES_CODEGEN_KERNELPASSES

include "mlir/Pass/PassBase.td"

def ChooseProcessorPass : Pass<"codegen-choose-processor", "::mlir::ModuleOp"> {
  let summary = "Choose the processor that CPU devices get their kernels for";
  let description = [{
    What all devices of the driver `cpu` can do, by their `chip`, becomes the module's `plan.processor`. A device without
    a chip is this machine. The libraries of this process are limited to the processor's instructions, so that they
    choose the layouts and kernels that they would choose there.

    Before:
    ```mlir
    module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1, memory = 0, chip = "x86-64-v3"} ]} {}
    ```
    After:
    ```mlir
    module attributes {plan.processor = {name = "x86-64-v3", features = ["avx", "avx2", …]}, …} {}
    ```
    Requires `dist.devices` on the module. Guarantees that modules with a device of the driver `cpu` have a
    `plan.processor`; one that is there already stays. Fails for a processor that LLVM does not know, and where the
    libraries of this process are limited to another one already.
  }];
  let options = [Option<"limitsLibraries", "limits-libraries", "bool", "true",
                        "have libraries keep to the processor's instructions">];
  let dependentDialects = ["::cleave::plan::PlanDialect"];
}

def FormIntegerProductsPass : Pass<"codegen-form-integer-products", "::cleave::dist::ProgramOp"> {
  let summary = "Multiply the integers of quantized models as such";
  let description = [{
    Convolutions and matrix products of quantized tensors with constant weights become `wide` ones of unsigned by signed
    integers of 8 bits, where the processor multiplies these (VNNI, or AVX2 without AVX-512). What zero points and scales contribute is one value a
    channel, computed from parameters, and joins what is behind the product. A tensor that is dequantized, moved, and
    quantized as it was stays in integers.

    Before:
    ```mlir
    %0 = dfg.cast %x {to = i32} : (tensor<4x8xui8>) -> tensor<4x8xi32>
    %1 = dfg.sub %0, %zero : (tensor<4x8xi32>, tensor<i32>) -> tensor<4x8xi32>
    %2 = dfg.cast %1 {to = f32} : (tensor<4x8xi32>) -> tensor<4x8xf32>
    %3 = dfg.mul %2, %sx : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    …                                                         %w, of int8, with the scale %sw, likewise
    %7 = dfg.dot_general %3, %6 {…} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    ```
    After:
    ```mlir
    %0 = dfg.dot_general %x, %w {…, wide} : (tensor<4x8xui8>, tensor<8x6xi8>) -> tensor<4x6xi32>
    %1 = dfg.add %0, %a : (tensor<4x6xi32>, tensor<6xi32>) -> tensor<4x6xi32>        less zero times the sums of weights
    %2 = dfg.cast %1 {to = f32} : (tensor<4x6xi32>) -> tensor<4x6xf32>
    %7 = dfg.mul %2, %s : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>        times both scales
    ```
    A quantization behind the product gives its scale to that of the product, and what is added before to its own. Other
    products of integers that a model writes become products of float32, with `reals`, where these are exact, or where
    their sums become float32 next.

    Requires: programs on local shapes; `plan.processor` where CPU devices compute. Guarantees: products of integers keep their values; those of reals are rounded
    elsewhere than before, once, as sums of integers are exact.
  }];
  let options = [Option<"reals", "reals", "bool", "true", "multiply in float32 what no library multiplies as integers">];
  let dependentDialects = ["::cleave::dfg::DfgDialect"];
}

def FoldBatchNormPass : Pass<"codegen-fold-batch-norm", "::cleave::dist::ProgramOp"> {
  let summary = "Fold batch normalization into the convolution before it";
  let description = [{
    A `dfg.batch_norm` with constant statistics behind a convolution whose result it alone uses becomes a scaled filter
    and a bias. Both are computed from parameters alone, so they run once, when the plan is loaded.

    Before:
    ```mlir
    %0 = dfg.conv %x, %w {…} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
    %1 = dfg.batch_norm %0, %scale, %bias, %mean, %variance {epsilon = 1.0e-5 : f64} : …
    ```
    After:
    ```mlir
    %f = … scale / sqrt(variance + epsilon) …
    %v = dfg.mul %w, %f : (tensor<4x3x3x3xf32>, tensor<4x1x1x1xf32>) -> tensor<4x3x3x3xf32>
    %0 = dfg.conv %x, %v {…} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
    %1 = dfg.add %0, %b : (tensor<1x4x6x6xf32>, tensor<4x1x1xf32>) -> tensor<1x4x6x6xf32>
    ```
    Any other `dfg.batch_norm` with constant statistics becomes a multiplication and an addition. A `dfg.mul` by a
    constant, of one value a channel or one for all, goes into filter and bias likewise, in float32 and float64.
    Requires: programs on local shapes; statistics that depend on parameters alone are what counts as constant.
    Guarantees: the program's inputs, results and messages keep their types; what is folded depends on parameters alone and
    is computed once.
  }];
  let dependentDialects = ["::cleave::dfg::DfgDialect"];
}

def SelectAttentionPass : Pass<"codegen-select-attention", "::mlir::ModuleOp"> {
  let summary = "Compute attention by a library's kernel";
  let description = [{
    In programs of devices whose library computes attention: a product of queries and keys, a scale and a causal mask, a
    softmax over the keys and a product with values become one `plan.launch`, where the library has a kernel for these
    heads and there are 64 queries and keys or more. In training so do the products of the gradient, which makes the
    weights again from the scores and, by query, what is kept of their softmax. Tensors are taken with positions before
    heads where queries lie so before they are transposed.

    Before:
    ```mlir
    %0 = dfg.dot_general %q, %k {…} : (tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>) -> tensor<8x12x1024x1024xbf16>
    %1 = dfg.mul %0, %scale : …
    %2 = dfg.softmax %1 {dim = 3 : i64} : …
    %3 = dfg.dot_general %2, %v {…} : … -> tensor<8x12x1024x64xbf16>
    ```
    After:
    ```mlir
    %3 = plan.launch @cudnn.attention.0(%q, %k, %v) : … -> tensor<8x12x1024x64xbf16>
    ```
    Requires: nothing but its gradient reads the scores.
    Guarantees: the same result and gradients but for rounding; what a library does not compute is as it was, with a remark.
  }];
  let dependentDialects = ["::cleave::dfg::DfgDialect", "::cleave::plan::PlanDialect"];
}

def FuseAttentionPass : Pass<"codegen-fuse-attention", "::cleave::dist::ProgramOp"> {
  let summary = "Compute attention of long sequences by blocks of keys";
  let description = [{
    In programs of processors: a product of queries and keys, elementwise operators, a softmax over the keys and a product
    with values become one `dfg.fusion` where the scores between them would take 32 MiB or more. It computes them by blocks
    of keys, each with its own softmax, of which the kernel needs a few queries' at a time: its memory does not grow with
    the sequence. Keys, queries and the size of values are padded where blocks and vectors do not divide them. What the
    scores meet that needs no input, as a causal mask, is computed in the kernel.

    Before:
    ```mlir
    %0 = dfg.dot_general %q, %k {…} : (tensor<8x4096x64xf32>, tensor<8x4096x64xf32>) -> tensor<8x4096x4096xf32>
    %1 = dfg.softmax %0 {dim = 2 : i64} : (tensor<8x4096x4096xf32>) -> tensor<8x4096x4096xf32>
    %2 = dfg.dot_general %1, %v {…} : (tensor<8x4096x4096xf32>, tensor<8x4096x64xf32>) -> tensor<8x4096x64xf32>
    ```
    After:
    ```mlir
    %3 = dfg.reshape %k : (tensor<8x4096x64xf32>) -> tensor<8x8x8x64x64xf32>
    %4 = dfg.transpose %3 {permutation = array<i64: 0, 1, 2, 4, 3>} : … -> tensor<8x8x8x64x64xf32>
    %5 = dfg.reshape %v : (tensor<8x4096x64xf32>) -> tensor<8x8x8x64x64xf32>
    %2 = dfg.fusion %q, %4, %5, … : … -> tensor<8x4096x64xf32> { … by blocks of 512 keys … }
    ```
    Requires: nothing else reads the scores, whose last two dimensions are queries and keys.
    Guarantees: the same result but for rounding, infinities in masks and NaN included.
  }];
  let dependentDialects = ["::cleave::dfg::DfgDialect"];
}

def NormalizeContractionsPass : Pass<"codegen-normalize-contractions", "::cleave::dist::ProgramOp"> {
  let summary = "Bring matrix products into the form that libraries compute";
  let description = [{
    A `dfg.dot_general` becomes one of at most one batch dimension, one free dimension a side and one contracting
    dimension, between reshapes and, where the dimensions are not in order, transposes.

    Before:
    ```mlir
    %0 = dfg.dot_general %x, %w {lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>, …}
         : (tensor<1x197x768xf32>, tensor<768x3072xf32>) -> tensor<1x197x3072xf32>
    ```
    After:
    ```mlir
    %1 = dfg.reshape %x : (tensor<1x197x768xf32>) -> tensor<197x768xf32>
    %2 = dfg.dot_general %1, %w {lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>, …}
         : (tensor<197x768xf32>, tensor<768x3072xf32>) -> tensor<197x3072xf32>
    %0 = dfg.reshape %2 : (tensor<197x3072xf32>) -> tensor<1x197x3072xf32>
    ```
    Requires: programs on local shapes.
    Guarantees: every `dfg.dot_general` has at most one batch dimension, one free dimension a side and one contracting
    dimension; values that other operators read keep their types.
  }];
  let dependentDialects = ["::cleave::dfg::DfgDialect"];
}

def SelectLibraryKernelsPass : Pass<"codegen-select-library-kernels", "::mlir::ModuleOp"> {
  let summary = "Choose library routines, layouts and fused epilogues";
  let description = [{
    Walks all programs in the order of their data. An operator that a library computes (LibraryInterface) becomes a
    `plan.launch` of a `plan.library_kernel`, with the elementwise operators behind it fused as epilogues as far as the
    library takes them. The library says in which layouts it wants its arguments; a value in another layout gets an
    explicit reorder, once per value and layout; values that go to operators of ours are reordered to row-major. Values
    cross between devices in the layout that they have. Equal kernels are made once.

    Before:
    ```mlir
    %0 = dfg.conv %x, %w {…} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x6x6xf32>
    %1 = dfg.relu %0 : (tensor<1x16x6x6xf32>) -> tensor<1x16x6x6xf32>
    ```
    After:
    ```mlir
    %a = plan.launch @onednn.reorder.0(%x) : (tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32, #nChw16c>
    %b = plan.launch @onednn.reorder.1(%w) : (tensor<16x16x3x3xf32>) -> tensor<16x16x3x3xf32, #OIhw16i16o>
    %1 = plan.launch @onednn.convolution.2(%a, %b) : … -> tensor<1x16x6x6xf32, #nChw16c>
    ```
    Requires: `dist.devices` on the module: a device's cores are the library's team; `plan.processor` where CPU devices
    compute; normalized contractions, since others are left to kernels of our own.
    Guarantees: results of programs are row-major; a launch's operands have the types of its kernel's arguments.

    With `tf32`, kernels of contractions of float32 on GPUs get the attribute `tf32 = array<i64: 1>`: the library may round what it multiplies to the 10 bits
    of mantissa that TF32 has. With `winograd`, libraries of processors may compute windows of 3 x 3 by Winograd's
    algorithm, and take constant filters as another kernel of theirs packs them:
    ```mlir
    %p = plan.launch @onednn.winograd_weights.0(%w) : (tensor<128x128x3x3xf32>) -> tensor<589824xf32>
    %1 = plan.launch @onednn.convolution.winograd.1(%a, %p) : … -> tensor<1x128x28x28xf32, #nChw16c>
    ```
    On GPUs, epilogues also join behind reshapes, and the operators that multiply with the
    derivative of GELU's form with tanh join as one.
  }];
  let options = [Option<"tf32", "tf32", "bool", "false", "let libraries of GPUs round products of float32 to TF32">,
                 Option<"winograd", "winograd", "bool", "true",
                        "let libraries of processors compute windows of 3 x 3 by Winograd's algorithm">];
  let dependentDialects = ["::cleave::plan::PlanDialect", "::cleave::dfg::DfgDialect"];
}

def FuseElementwisePass : Pass<"codegen-fuse-elementwise", "::cleave::dist::ProgramOp"> {
  let summary = "Join chains of elementwise operators, and reductions with what feeds them";
  let description = [{
    An elementwise operator joins its consumer's `dfg.fusion` when nobody else uses its result and the consumer reads
    it element by element in the same shape; a reduction takes in what feeds it. Constants of one value go inside.

    Before:
    ```mlir
    %0 = dfg.exp %x : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %1 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<8x16xf32>) -> tensor<8xf32>
    ```
    After:
    ```mlir
    %1 = dfg.fusion %x : (tensor<8x16xf32>) -> tensor<8xf32> {
    ^bb0(%a: tensor<8x16xf32>):
      %0 = dfg.exp %a : (tensor<8x16xf32>) -> tensor<8x16xf32>
      %r = dfg.reduce %0 {…} : (tensor<8x16xf32>) -> tensor<8xf32>
      dfg.yield %r : tensor<8xf32>
    }
    ```
    Requires: runs after `codegen-select-library-kernels`: what libraries fuse is theirs.
    Guarantees: every value that several operators read is computed once; a fusion computes what its operators did, in the
    same order of operands.
  }];
  let dependentDialects = ["::cleave::dfg::DfgDialect"];
}

def FuseGpuKernelsPass : Pass<"codegen-fuse-gpu-kernels", "::mlir::ModuleOp"> {
  let summary = "Join kernels for GPUs with those that read their results";
  let description = [{
    In programs of GPUs: an operator or fusion and one that reads its results become one `dfg.fusion`, with all results
    that others read, where that takes less: fewer launches, and values that stay in registers. What both take is
    estimated from the launches that they would become. What is known when the plan is loaded stays apart from what is
    not.

    Before:
    ```mlir
    %0 = dfg.fusion %x, %m : … { … the mean along rows … }
    %1 = dfg.fusion %x, %0 : … { … the distance to it, of which others read the squares … }
    ```
    After:
    ```mlir
    %0:2 = dfg.fusion %x, %m : … { … both; one launch in which a row is read once … }
    ```
    Requires: `dist.devices` on the module. Programs of other drivers stay as they are.
    Guarantees: values that are known when a plan is loaded are not computed in every step.
  }];
  let dependentDialects = ["::cleave::plan::PlanDialect"];
}

def OutlineNativeKernelsPass : Pass<"codegen-outline-native-kernels", "::mlir::ModuleOp"> {
  let summary = "Give every remaining operator a kernel of our own";
  let description = [{
    Every operator and `dfg.fusion` that is left in a program becomes a `plan.native_kernel` and a launch of it; equal
    ones on devices of one driver share a kernel. Reshapes become `plan.view`. Operators without a reference meaning are refused by name.

    Before:
    ```mlir
    %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
    ```
    After:
    ```mlir
    plan.native_kernel @native.relu.0 { … }
    %0 = plan.launch @native.relu.0(%x) : (tensor<8xf32>) -> tensor<8xf32>
    ```
    Requires: operators with a LowerInterface, or library launches.
    Guarantees: programs hold launches, views, communication, and reads and writes of parameters alone.
  }];
  let dependentDialects = ["::cleave::plan::PlanDialect"];
}

def ChooseNativeLoopsPass : Pass<"codegen-choose-native-loops", "::mlir::ModuleOp"> {
  let summary = "Decide the loops of kernels for processors";
  let description = [{
    Every `plan.native_kernel` of a processor gets `loops`: the linalg operations that its operators mean, elementwise
    ones joined with what reads them, copies where a tensor cannot lie where it is wanted, and on each operation a
    `#plan.nest`: the order of its loops, which of them run as one, tiles of sums in registers, and results that stay on
    the stack. `common` is what threads divide. Nothing is decided after this: whoever changes an attribute changes the
    code.

    Before:
    ```mlir
    plan.native_kernel @native.relu.0 {
    ^bb0(%x: tensor<8x64xf32>):
      %0 = dfg.relu %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
      plan.yield %0 : tensor<8x64xf32>
    }
    ```
    After:
    ```mlir
    plan.native_kernel @native.relu.0 attributes {common = #plan.common_loops<divided = 512>} { … } loops {
    ^bb0(%x: tensor<8x64xf32>):
      %e = tensor.empty() : tensor<8x64xf32>
      %0 = linalg.generic {…, plan.nest = #plan.nest<inner = [<0, 1 : divided>]>} ins(%x) outs(%e) { … }
      plan.yield %0 : tensor<8x64xf32>
    }
    ```
    Requires: `plan.native_kernel`s as `codegen-outline-native-kernels` makes them.
    Guarantees: `loops` computes what the body does, and its attributes describe loops that do (or
    `codegen-compile-native-kernels` fails).
  }];
  let options = [
    Option<"reference", "reference", "bool", "false", "loops in the order of the operators, each by itself">,
    Option<"threads", "threads", "unsigned", "2", "threads that decide">,
    Option<"cpu", "cpu", "std::string", "\"\"", "the processor whose registers count, as LLVM names it, instead of the module's `plan.processor`; with neither, "
           "this machine's">];
  let dependentDialects = ["::cleave::plan::PlanDialect", "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
                           "::mlir::tensor::TensorDialect"];
}

def WriteNativeLoopsPass : Pass<"codegen-write-native-loops", "::mlir::ModuleOp"> {
  let summary = "Show the functions that the loops of kernels are written as";
  let description = [{
    For people and tests, in the place of `codegen-compile-native-kernels`, which compiles the same functions: the loops of
    each kernel become functions of the module.

    Before:
    ```mlir
    plan.native_kernel @native.relu.0 attributes {common = #plan.common_loops<divided = 512>} { … } loops { … }
    ```
    After:
    ```mlir
    plan.native_kernel @native.relu.0 { … }
    llvm.func internal @native.relu.0.entry.loops(%x: !llvm.ptr, %y: !llvm.ptr, %begin: i64, %end: i64) {
      scf.for %i = … { … }
    }
    ```
    Requires: `loops` as `codegen-choose-native-loops` makes them.
    Guarantees: no kernel has `loops`.
  }];
  let options = [Option<"reference", "reference", "bool", "false", "sums in the order of the operators">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect"];
}

def CompileNativeKernelsPass : Pass<"codegen-compile-native-kernels", "::mlir::ModuleOp"> {
  let summary = "Compile native kernels to machine code";
  let description = [{
    All `plan.native_kernel`s of processors become one `plan.object`, as their `loops` say; each learns its parallel
    extent and scratch memory. Loops that compute something else than the operations mean are refused.

    Before:
    ```mlir
    plan.native_kernel @native.relu.0 attributes {common = #plan.common_loops<divided = 512>} { … } loops { … }
    ```
    After:
    ```mlir
    plan.object @native triple = "x86_64-pc-linux-gnu" cpu = "…" features = […] image = "…"
    plan.native_kernel @native.relu.0 attributes {object = @native, parallel_extent = 512 : i64} { … }
    ```
    Requires: `loops` as `codegen-choose-native-loops` makes them.
    Guarantees: every kernel of a processor refers to the object, which needs no instructions but those of the processor.
  }];
  let options = [
    Option<"reference", "reference", "bool", "false", "no reassociation, functions of libm">,
    Option<"threads", "threads", "unsigned", "2", "threads that compile">,
    Option<"cpu", "cpu", "std::string", "\"\"", "the processor to compile for, as LLVM names it, instead of the module's `plan.processor`; with neither, "
           "this machine's">];
  let dependentDialects = ["::cleave::plan::PlanDialect"];
}

def ChooseGpuLaunchesPass : Pass<"codegen-choose-gpu-launches", "::mlir::ModuleOp"> {
  let summary = "Decide the launches of kernels for GPUs";
  let description = [{
    Each `plan.native_kernel` of the driver `cuda` gets, beside its operators, `loops`: the same as linalg operations on
    signless integers, with elementwise ones joined, sums of everything divided by rows, and copies where a tensor cannot
    lie where it is wanted. Operations share a launch where each of its threads needs only what it has computed itself or
    with its group; each has a `#plan.gpu_step` for each launch and phase in which it runs, and the kernel a
    `#plan.gpu_mapping` for each launch: blocks, threads, what a thread takes at once and keeps in registers. Blocks and
    threads are for as many multiprocessors as the largest GPU of the module's `dist.machine` has.
    [Why so](../rationale/kernels-for-gpus.md).

    Before:
    ```mlir
    plan.native_kernel @native.relu.0 attributes {driver = "cuda"} {
    ^bb0(%x: tensor<1000xf32>):
      %0 = dfg.relu %x : (tensor<1000xf32>) -> tensor<1000xf32>
      plan.yield %0 : tensor<1000xf32>
    }
    ```
    After:
    ```mlir
    plan.native_kernel @native.relu.0 attributes {driver = "cuda",
        mappings = [#plan.gpu_mapping<outer = [1000], blocks = 8, groups = 128>]} { … } loops {
    ^bb0(%x: tensor<1000xf32>):
      %e = tensor.empty() : tensor<1000xf32>
      %0 = linalg.generic {…, plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], stores = [0]>]} ins(%x) outs(%e) { … }
      plan.yield %0 : tensor<1000xf32>
    }
    ```
    Requires: `plan.native_kernel`s as `codegen-outline-native-kernels` makes them.
    Guarantees: `loops` computes what the body does, and its attributes describe launches that do (or
    `codegen-compile-gpu-kernels` fails).
  }];
  let options = [
    Option<"reference", "reference", "bool", "false", "every operation by itself, one thread an element">,
    Option<"threads", "threads", "unsigned", "2", "threads that decide">];
  let dependentDialects = ["::cleave::plan::PlanDialect", "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
                           "::mlir::tensor::TensorDialect"];
}

def WriteGpuLaunchesPass : Pass<"codegen-write-gpu-launches", "::mlir::ModuleOp"> {
  let summary = "Show the functions that launches on GPUs are written as";
  let description = [{
    For people and tests, in the place of `codegen-compile-gpu-kernels`, which compiles the same functions: each launch
    becomes a function of the module that all its threads run. Launches beside each other are one function.

    Before:
    ```mlir
    plan.native_kernel @native.relu.0 attributes {driver = "cuda",
        mappings = [#plan.gpu_mapping<outer = [1000], blocks = 8, groups = 128>]} { … } loops { … }
    ```
    After:
    ```mlir
    plan.native_kernel @native.relu.0 attributes {driver = "cuda"} { … }
    llvm.func @native.relu.0.launch_0(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>) attributes {nvvm.kernel, nvvm.reqntid = array<i32: 128>} { … }
    ```
    Requires: `loops` as `codegen-choose-gpu-launches` makes them.
    Guarantees: no kernel of the driver `cuda` has `loops`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
                           "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect"];
}

def CompileGpuKernelsPass : Pass<"codegen-compile-gpu-kernels", "::mlir::ModuleOp"> {
  let summary = "Compile kernels for GPUs to PTX";
  let description = [{
    All `plan.native_kernel`s of the driver `cuda` become one `plan.object` of PTX, as their `loops` and `mappings` say; each
    learns its launches and scratch memory. Launches that compute something else than the operations mean are refused.

    Before:
    ```mlir
    plan.native_kernel @native.softmax.0 attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [128],
        inner = [1024], blocks = 128, lanes = 256, along = inner, width = 4, unrolled = true>]} { … } loops { … }
    ```
    After:
    ```mlir
    plan.object @gpu triple = "nvptx64-nvidia-cuda" cpu = "sm_90" features = [] image = "…"
    plan.native_kernel @native.softmax.0 attributes {driver = "cuda", launches = [#plan.gpu_launch<"cleave_kernel_0_0",
        blocks = 128, threads = 256, shared_bytes = 0>], object = @gpu} { … }
    ```
    Functions such as `exp` come from CUDA's libdevice, which is found where the toolkit was when Cleave was built, or in
    CUDA_PATH. Where the driver `null` stands for all GPUs the text is empty: nothing will run it.
    Requires: `loops` as `codegen-choose-gpu-launches` makes them.
    Guarantees: every kernel of the driver `cuda` refers to the object and names its launches, in order.
  }];
  let options = [
    Option<"threads", "threads", "unsigned", "2", "threads that compile">,
    Option<"chip", "chip", "std::string", "\"\"",
           "the oldest GPU that the code has to run on, as sm_90; empty: the oldest of the module's devices">];
  let dependentDialects = ["::cleave::plan::PlanDialect"];
}

#endif // CLEAVE_PASSES_CODEGEN_KERNELPASSES
