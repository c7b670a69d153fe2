// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How long a kernel takes on a device: a roofline (Williams, Waterman, Patterson 2009) under the efficiency of the
// machine's curves, or for products of matrices the waves of tiles in which a device computes them, and the cost of a
// launch. The only place that turns work into seconds: planner and simulator both ask here.

#ifndef CLEAVE_PASSES_COST_OPERATORCOST_H
#define CLEAVE_PASSES_COST_OPERATORCOST_H

#include "dialects/interfaces/SplitRule.h"
#include "passes/cost/Machine.h"

namespace cleave {

/// The kind of a device; where the machine says nothing of it, the default one (DefaultMachine.h).
DeviceKind deviceKindOf(const Machine &machine, unsigned device);

/// What one call of a kernel does.
struct KernelWork {
  CostClass costClass = CostClass::Elementwise;
  double flops = 0;    ///< Floating-point operations; a multiply-add counts as two.
  double bytes = 0;    ///< Read and written.
  bool slides = false; ///< A contraction whose window slides over its operand, a convolution.
  /// Of a contraction the elements of its two operands and of its result. With its operations they say what is
  /// multiplied: see extents(). 0: not known.
  double lhs = 0, rhs = 0, result = 0;
  /// Of a convolution that Winograd's algorithm may compute, doing less than `flops`, the weights.
  enum class Winograd { None, OfConstants, OfChanging };
  Winograd winograd = Winograd::None;
  bool isLinear = false; ///< A product of a linear layer, which software may multiply in fewer bits (LinearLayers).

  /// A batch of products of `rows` x `inner` and `inner` x `columns` matrices.
  struct Extents {
    double batch = 1, rows = 1, columns = 1, inner = 1;
  };
  /// From the sizes B M K, B K N and B M N of the three tensors and the B M N K products that are summed, which hold
  /// for every contraction whatever its dimensions are called; none where the sizes are not known, or are no product's.
  std::optional<Extents> extents() const;
};

/// The work of a call of a plan's kernel, by what the plan says of it: of a contraction what multiplies the elements of
/// `lhs` and `rhs` to those of `result` (0: not known), and the routine of a library that computes it (empty: none).
/// Other kernels wait for memory: what they compute does not count.
KernelWork workOfCall(CostClass costClass, double flops, double bytes, llvm::StringRef routine, double lhs, double rhs,
                      double result);

/// Of fewer pixels a transform of weights that change takes longer than the rest of Winograd's algorithm saves.
inline constexpr double leastWinogradPixels = 400;

/// The costs of kernels on devices of one kind that compute in one element type ("f32", "bf16", …).
class OperatorCost {
public:
  /// Where the kind has no peak for the element type, float32's counts; where it has none at all, 1 TFLOP/s.
  /// Everything takes `slowdown` times as long as on a device whose host is idle besides (HostSharing::slowdown).
  /// Products of linear layers are of the type `linear`, where that is not empty and the kind has a peak for it.
  OperatorCost(const DeviceKind &kind, llvm::StringRef elementType, double slowdown = 1, llvm::StringRef linear = "");
  /// What equal parts of work take on all of these devices: everything takes as long as on the slowest of them. Expects
  /// at least one. Linear layers are multiplied as the machine's executor does.
  OperatorCost(const Machine &machine, llvm::ArrayRef<unsigned> devices, llvm::StringRef elementType,
               double slowdown = 1);

  /// Seconds of a call. Views are free. The bytes of a linear layer's product are those of values; what is rounded for
  /// it is read in fewer.
  double seconds(const KernelWork &work) const;
  double seconds(CostClass costClass, double flops, double bytes, bool slides = false) const {
    return seconds({costClass, flops, bytes, slides});
  }
  /// Seconds to read or write `bytes` of the device's memory.
  double memorySeconds(double bytes) const {
    return slowest(bytes / bandwidth, [&](const OperatorCost &other) { return other.memorySeconds(bytes); });
  }
  /// The same in one kernel of its own, at the rate of elementwise operators and without a launch.
  double streamSeconds(double bytes) const;
  /// Operations a second at most, those of linear layers aside.
  double peakFlops() const {
    return fewest(products.peak, [](const OperatorCost &other) { return other.peakFlops(); });
  }
  /// The same of all operations.
  double mostFlops() const {
    return fewest(linear ? std::max(products.peak, linear->peak) : products.peak,
                  [](const OperatorCost &other) { return other.mostFlops(); });
  }
  /// Operations a second that large products reach for long.
  double sustainedFlops() const {
    return fewest(products.tiles ? products.peak * products.tiles->sustained : products.peak,
                  [](const OperatorCost &other) { return other.sustainedFlops(); });
  }
  /// Whether products of linear layers are of a type of their own.
  bool roundsLinearLayers() const {
    return linear || llvm::any_of(others, [](const OperatorCost &other) { return other.roundsLinearLayers(); });
  }
  double launchSeconds() const {
    return slowest(launch, [](const OperatorCost &other) { return other.launchSeconds(); });
  }
  /// Operations a second of attention as one kernel that reaches `share` of an A100's peak; `tuned`: of one that was
  /// written for the device, where the kind says what that reaches.
  double attentionFlops(double share, bool tuned) const {
    return fewest(products.peak * share * (tuned ? tunedAttention : attention),
                  [&](const OperatorCost &other) { return other.attentionFlops(share, tuned); });
  }

  /// Whether none of the devices is a GPU.
  bool isOfProcessors() const {
    return isProcessor && llvm::all_of(others, [](const OperatorCost &other) { return other.isProcessor; });
  }

  /// Whether convolutions of constant weights have a curve by Winograd's algorithm on one of the devices.
  bool packsWinograd() const {
    return winograd || llvm::any_of(others, [](const OperatorCost &other) { return other.packsWinograd(); });
  }

  /// Whether libraries of all devices compute attention in bfloat16 by one kernel.
  bool hasAttentionKernels() const {
    return fusesAttention && llvm::all_of(others, [](const OperatorCost &other) { return other.fusesAttention; });
  }

  /// Whether both give the same answers.
  bool operator==(const OperatorCost &) const = default;

private:
  template <typename Of> double slowest(double own, Of of) const {
    for (const OperatorCost &other : others)
      own = std::max(own, of(other));
    return own;
  }
  template <typename Of> double fewest(double own, Of of) const {
    for (const OperatorCost &other : others)
      own = std::min(own, of(other));
    return own;
  }
  /// Products of matrices of one element type.
  struct Products {
    Products(const DeviceKind &kind, llvm::StringRef elementType, double slowdown);
    double seconds(const KernelWork::Extents &extents) const;

    double peak, elementBytes;
    std::optional<EfficiencyCurve> curve;
    std::optional<TileModel> tiles;

    bool operator==(const Products &) const = default;
  };
  double ownSeconds(const KernelWork &work) const;
  const std::optional<EfficiencyCurve> &curveOfSliding(KernelWork::Winograd winograd) const;

  Products products;
  std::optional<Products> linear;
  double bandwidth, launch, attention = 1, tunedAttention = 1;
  bool isProcessor, fusesAttention;
  std::map<CostClass, EfficiencyCurve> efficiency;
  std::optional<EfficiencyCurve> convolution, winograd, winogradTraining, streaming;
  std::vector<OperatorCost> others; ///< Of further kinds of devices.
};

/// Seconds of a copy between the host's memory and that of a device: over the way between them (DeviceKind::host).
/// Where nothing is said of it, a processor copies within its memory, and a GPU has 12 GB/s and 10 us, what PCI Express
/// 3 with 16 lanes leaves to copies.
double hostCopySeconds(const DeviceKind &kind, double bytes);

/// Bytes of an element of a type that machine files name ("f16": 2); 4 of unknown ones.
double bytesOfElement(llvm::StringRef elementType);

/// "contraction", "elementwise", "reduction", "movement", "view".
llvm::StringRef costClassName(CostClass costClass);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_OPERATORCOST_H
