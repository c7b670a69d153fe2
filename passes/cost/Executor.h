// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What runs a plan: which operators share a kernel, what overlaps, what a call costs its host, and which bytes the
// software moves and holds besides the model's. Predictions of training depend on it as much as on the machine.
//
//   executor: megatron-2021            in a machine file: one by name, or
//   executor: { base: fsdp, dispatch: 5 us, attention: { streamed: false } }

#ifndef CLEAVE_PASSES_COST_EXECUTOR_H
#define CLEAVE_PASSES_COST_EXECUTOR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace cleave {

struct YamlValue;

/// Which operators are computed in one kernel.
enum class Fusion {
  Products, ///< Elementwise operators in the kernel of what they follow, products too.
  Chains,   ///< Elementwise operators in a row, and a reduction at their end; products are apart but for their bias.
  None      ///< Each by itself, but for a product's bias.
};

/// Products with the weights of layers, but for those that make the model's outputs, in fewer bits than values are
/// stored in.
struct LinearLayers {
  std::string products; ///< The element type that is multiplied, as `peak` of a kind names it; empty: that of values.
  /// Bytes that rounding to it reads and writes of an element of a layer's input, forward, and of its result's
  /// gradient.
  double castBytes = 0, gradientCastBytes = 0;

  bool operator==(const LinearLayers &) const = default;
};

struct Executor {
  std::string name = "cleave";
  Fusion fusion = Fusion::Products;
  /// Attention, that is two products with a reduction between them and no weights, is one kernel: what is between is
  /// neither written nor kept.
  bool streamsAttention = false;
  double attentionForward = 1, attentionBackward = 1; ///< Shares of the peak that this kernel reaches on an A100.
  bool tunesAttention = false;                        ///< On newer devices it is another kernel, written for them.
  /// Where attention is not one kernel: how often its scores are read or written between the two products, in the place
  /// of what the model's operators say; its probabilities are all that is kept. 0: as the operators say.
  double scorePasses = 0, backwardScorePasses = 0;
  bool skipsMasked = false;    ///< It leaves out what a causal mask hides, half of the work.
  bool roundsProducts = false; ///< Products of f32 are rounded to TF32 where a kind of device has a rate for it.
  bool joinsProducts = false;  ///< Products of one tensor with several weights are one product.
  LinearLayers linearLayers;
  /// Stages are cut, and activations kept to compute others again, between the layers that a model repeats and nowhere
  /// inside of them.
  bool wholeLayers = false;
  /// Computing a layer again ends with the last operator whose operands or result its backward pass reads; else all of
  /// the layer is computed again.
  bool stopsRecomputing = false;
  /// Operators between the products of a tensor group may be split along any dimension; else along those alone that lie
  /// between a product split by columns and one split by rows, and all others are repeated.
  bool splitsSequence = true;
  bool overlapsGradients = true; ///< They are joined while the backward pass runs.
  bool overlapsGathers = false;  ///< Sharded parameters are gathered while other layers compute.
  /// What layers gather and scatter within a host comes in as many parts as there are devices, and products begin with
  /// the first one.
  bool overlapsExchanges = false;
  double bucket = 25e6; ///< Bytes of gradients that are joined at once; 0: all.
  /// Seconds that the host takes for an operator forward and backward: a pass is never faster.
  double dispatch = 0, backwardDispatch = 0;
  bool blocks = false;          ///< The host waits for every kernel: its seconds come on top.
  double accumulationBytes = 0; ///< Of a parameter and microbatch: adding up gradients.
  double updateBytes = 0;       ///< Of a parameter and step: the optimizer; 0: what is stored of it.
  double lossBytes = 0;         ///< Of an element of the model's outputs: the loss and its gradient.
  double keptLossBytes = 0;     ///< Of these, what lies in memory until the backward pass.
  double memory = 0;            ///< Bytes of a device that the software takes for itself.

  bool operator==(const Executor &) const = default;
};

/// cleave, megatron-2021, megatron-core, megatron-core-fp8, fsdp, eager, eager-split: the files of
/// passes/cost/executors.
std::vector<llvm::StringRef> executorNames();
/// The error names `subject` and the names there are.
llvm::Expected<Executor> findExecutor(llvm::StringRef name, llvm::StringRef subject);
/// A name, or a map whose `base` says what holds besides (cleave where it says none). Errors have line and column.
llvm::Expected<Executor> readExecutor(const YamlValue &value);
/// As a value of a machine file's key `executor`.
std::string executorText(const Executor &executor);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_EXECUTOR_H
