// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides how the keys and values of attention come to the devices that have the queries.

#include "passes/distribute/KeyRingCost.h"
#include "passes/distribute/Passes.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_EXCHANGEINRINGSPASS
#include "passes/distribute/Passes.h.inc"

namespace {

class ExchangeInRings : public impl::ExchangeInRingsPassBase<ExchangeInRings> {
public:
  using ExchangeInRingsPassBase::ExchangeInRingsPassBase;

private:
  /// What was decided of a program's attention, where layers repeat, in one sentence.
  struct Decisions {
    std::string text;
    Location location;
    unsigned count = 0;
  };

  LogicalResult initialize(MLIRContext *context) override {
    if (keys == "auto" || keys == "ring" || keys == "gather")
      return success();
    return emitError(UnknownLoc::get(context), "expects keys to be auto, ring or gather, got ") << keys;
  }

  void runOnOperation() override {
    if (keys == "gather")
      return;
    bool hasDecided = false;
    for (auto program : getOperation().getOps<dist::ProgramOp>())
      hasDecided |= exchange(program);
    if (keys == "ring" && !hasDecided)
      emitRemark(getOperation().getLoc()) << "there is no ring: no program gathers keys and values of attention";
  }

  /// Whether there was anything to decide.
  bool exchange(dist::ProgramOp program) {
    dist::MeshOp mesh = dist::getMesh(&program.getBody().front().front());
    std::vector<Decisions> decisions;
    DenseSet<Operation *> seen;
    // Found one by one: a ring takes the place of softmaxes that repeat its own.
    for (dfg::SoftmaxOp softmax = next(program, seen); softmax; softmax = next(program, seen)) {
      std::string why;
      Location location = softmax.getLoc();
      auto ring = findKeyRing(softmax, dist::MeshShape(mesh), why);
      if (ring && decide(*ring, program, mesh, why))
        writeKeyRing(*ring);
      if (!why.empty())
        note(decisions, why, location);
    }
    report(program, decisions);
    return !decisions.empty();
  }

  static dfg::SoftmaxOp next(dist::ProgramOp program, DenseSet<Operation *> &seen) {
    for (auto softmax : program.getBody().getOps<dfg::SoftmaxOp>())
      if (seen.insert(softmax).second)
        return softmax;
    return {};
  }

  /// Whether it becomes a ring; `why` says both.
  bool decide(KeyRing &ring, dist::ProgramOp program, dist::MeshOp mesh, std::string &why) {
    KeyTimes times = keyTimes(ring, getAnalysis<CostAnalysis>(), mesh, !dist::getDeviceOf(program).isGpu());
    bool isRing = keys == "ring" || times.ring < times.gathered;
    auto text = [](double seconds) { return llvm::formatv("{0:F3} ms", seconds * 1e3).str(); };
    why = isRing ? "go around among " + std::to_string(ring.numSteps()) + " devices: " + text(times.ring) +
                       " with them, gathered " + text(times.gathered)
                 : "are gathered: " + text(times.gathered) + " with them, in a ring " + text(times.ring);
    return isRing;
  }

  static void note(std::vector<Decisions> &decisions, const std::string &why, Location location) {
    auto same = llvm::find_if(decisions, [&](const Decisions &known) { return known.text == why; });
    if (same == decisions.end())
      decisions.push_back({why, location, 1});
    else
      ++same->count;
  }

  static void report(dist::ProgramOp program, ArrayRef<Decisions> decisions) {
    for (const Decisions &decision : decisions) {
      InFlightDiagnostic remark = emitRemark(decision.location) << "program \"" << program.getSymName()
                                                                << "\": keys and values of attention " << decision.text;
      if (decision.count > 1)
        remark << "; so it is in " << decision.count - 1 << " other places";
    }
  }
};

} // namespace
} // namespace cleave
