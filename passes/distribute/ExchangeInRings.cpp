// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides how the keys and values of attention come to the devices that have the queries.

#include "dialects/dist/KeyExchange.h"
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
    bool hasDecided = false;
    placed.clear();
    for (auto graph : getOperation().getOps<dfg::GraphOp>())
      for (auto softmax : graph.getBody().getOps<dfg::SoftmaxOp>())
        if (dist::PlaceAttr place = dist::getPlace(softmax))
          placed[{softmax.getLoc(), place.getMesh().getAttr()}].push_back(softmax);
    for (auto program : getOperation().getOps<dist::ProgramOp>())
      hasDecided |= exchange(program);
    if (keys == "ring" && !hasDecided)
      emitRemark(getOperation().getLoc()) << "there is no ring: no program gathers keys and values of attention";
  }

  /// Whether there was anything to decide.
  bool exchange(dist::ProgramOp program) {
    dist::MeshOp mesh = dist::getMesh(&program.getBody().front().front());
    std::vector<Decisions> decisions;
    // Taken away at once: else what is computed again would be no repetition.
    DenseMap<Operation *, dist::KeyExchange> plans;
    for (auto softmax : program.getBody().getOps<dfg::SoftmaxOp>())
      if (auto planned = dist::getKeyExchange(softmax)) {
        plans[softmax] = *planned;
        softmax->removeDiscardableAttr(dist::keysAttrName);
      }
    DenseSet<Operation *> seen;
    std::vector<dfg::SoftmaxOp> left = unseen(program, seen);
    while (!left.empty()) {
      dfg::SoftmaxOp softmax = left.back();
      left.pop_back();
      seen.insert(softmax);
      std::string why;
      Location location = softmax.getLoc();
      std::optional<dist::KeyExchange> planned;
      if (auto known = plans.find(softmax); known != plans.end())
        planned = known->second;
      auto ring = findKeyRing(softmax, dist::MeshShape(mesh), why);
      std::optional<dist::KeyExchange> decision;
      if (ring)
        decision = decide(*ring, program, mesh, planned);
      // A plan may say of others, too, that their keys are gathered.
      if (ring || !planned || planned->isRing)
        record(location, mesh, decision);
      if (decision)
        why = describe(*decision);
      else if (planned && planned->isRing)
        why = (why.empty() ? "are not gathered" : why) + ", where the planner has them go around";
      // A ring takes the place of softmaxes that repeat its own.
      if (decision && decision->isRing) {
        writeKeyRing(*ring);
        left = unseen(program, seen);
      }
      if (!why.empty() && keys != "gather")
        note(decisions, why, location);
    }
    report(program, decisions);
    return !decisions.empty();
  }

  /// The last one first.
  static std::vector<dfg::SoftmaxOp> unseen(dist::ProgramOp program, const DenseSet<Operation *> &seen) {
    std::vector<dfg::SoftmaxOp> left;
    for (auto softmax : program.getBody().getOps<dfg::SoftmaxOp>())
      if (!seen.contains(softmax))
        left.push_back(softmax);
    std::reverse(left.begin(), left.end());
    return left;
  }

  /// As `keys` says, else as the planner decided, else as takes less.
  dist::KeyExchange decide(KeyRing &ring, dist::ProgramOp program, dist::MeshOp mesh,
                           const std::optional<dist::KeyExchange> &planned) {
    KeyTimes times = keyTimes(ring, getAnalysis<CostAnalysis>(), mesh, !dist::getDeviceOf(program).isGpu());
    bool isRing = keys == "ring";
    if (keys == "auto")
      isRing = planned ? planned->isRing : times.ring.seconds() < times.gathered.seconds();
    return {isRing,           ring.numSteps(),     times.ring.seconds(), times.gathered.seconds(),
            times.ring.bytes, times.gathered.bytes};
  }

  /// Writes it on the attention of the placed graphs, from which explanations are made. Nothing: there is none.
  void record(Location location, dist::MeshOp mesh, const std::optional<dist::KeyExchange> &decision) {
    for (dfg::SoftmaxOp softmax : placed.lookup({location, mesh.getSymNameAttr()}))
      if (decision)
        dist::setKeyExchange(softmax, *decision);
      else
        softmax->removeDiscardableAttr(dist::keysAttrName);
  }

  static std::string describe(const dist::KeyExchange &decision) {
    auto text = [](double seconds) { return llvm::formatv("{0:F3} ms", seconds * 1e3).str(); };
    std::string ring = text(decision.ringSeconds), gathered = text(decision.gatheredSeconds);
    return decision.isRing ? "go around among " + std::to_string(decision.devices) + " devices: " + ring +
                                 " with them, gathered " + gathered
                           : "are gathered: " + gathered + " with them, in a ring " + ring;
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
        remark << "; " << decision.count << " such places in all";
    }
  }

  /// Of the placed graphs, by location and mesh.
  DenseMap<std::pair<Location, StringAttr>, SmallVector<dfg::SoftmaxOp, 1>> placed;
};

} // namespace
} // namespace cleave
