// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a model, again where the plan takes more memory than it may.

#include "compiler/EntryTimes.h"
#include "compiler/Figures.h"
#include "compiler/ModelCompiler.h"
#include "compiler/PlanMachine.h"
#include "passes/cost/HostCache.h"
#include "passes/cost/Quantity.h"

#include <numeric>
#include <set>

using namespace mlir;

namespace cleave {

namespace {

/// The compiler's own faults and progress alone, for a compilation that is tried beside another.
class WithoutMessages : public Messages {
public:
  explicit WithoutMessages(Messages &messages) : messages(messages) {}

  void progress(const std::string &line) override { messages.progress(line); }
  void endProgress() override { messages.endProgress(); }
  void reproducer(std::string text) override { messages.reproducer(std::move(text)); }
  void internalError(const std::string &message) override { messages.internalError(message); }

protected:
  Messages &messages;
};

/// All but warnings, for who has them from another compilation of the same.
class WithoutWarnings : public WithoutMessages {
public:
  using WithoutMessages::WithoutMessages;

  void diagnostic(Diagnostic &diagnostic) override {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Warning)
      messages.diagnostic(diagnostic);
  }
  void note(const std::string &text) override { messages.note(text); }
};

/// Neither warnings, which another compilation of the same has given, nor errors, after which there may be another try.
class WithoutProblems : public WithoutMessages {
public:
  using WithoutMessages::WithoutMessages;

  void diagnostic(Diagnostic &diagnostic) override {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Note || diagnostic.getSeverity() == DiagnosticSeverity::Remark)
      messages.diagnostic(diagnostic);
  }
  void note(const std::string &text) override { messages.note(text); }
};

} // namespace

/// Of a plan for this host, of which nothing says how much memory it may take: what each device may, and why, where all
/// of them need more than the host has.
static std::optional<std::pair<double, std::string>> limitByHost(const CompileRequest &request,
                                                                 const runtime::Plan &plan) {
  llvm::StringRef machine = request.target.machine;
  if (!request.target.memory.empty() || (machine != "host" && !machine.starts_with("host:")))
    return std::nullopt;
  double most = 0, has = static_cast<double>(hostMemory());
  for (const runtime::Entry &entry : plan->entries) {
    std::vector<double> bytes = arenaBytes(plan, entry);
    double all = std::accumulate(bytes.begin(), bytes.end(), 0.0);
    for (const runtime::Program &program : entry.programs)
      all += static_cast<double>(program.hostBytes) * static_cast<double>(plan->meshes[program.mesh].devices.size());
    most = std::max(most, all);
  }
  if (has == 0 || most <= has)
    return std::nullopt;
  return std::pair(has / static_cast<double>(plan->devices.size()),
                   "the plan needs " + bytesText(most) + ", more than the " + bytesText(has) + " of this host");
}

/// What would help where a plan takes more memory than it may.
static std::string remedyFor(const TargetOptions &target, bool searches) {
  std::string remedy = searches ? "; take " : "; take --strategy auto, which looks for plans that fit, ";
  remedy += "more devices, ";
  if (!target.memory.empty())
    remedy += "a larger --memory, ";
  return remedy + "or a smaller --batch";
}

/// Compiles, again with less where a plan that the search found takes more memory than it may: the search's own account
/// of memory leaves out where tensors lie and what kernels need.
static Expected<CompiledModel> compileWithinLimits(CompileRequest request, Messages &messages) {
  static constexpr unsigned mostSearches = 6;
  static constexpr double lessEachTime = 0.005;
  WithoutProblems again(messages);
  // Shares of the memory with which the search finds plans that take too much, or none.
  double share = 1, tooLarge = 1, tooSmall = 0;
  std::optional<MissingMemory> least;
  bool isDirect = false;
  for (unsigned searches = 1;; ++searches) {
    ModelCompiler compiler(request, least || isDirect ? again : messages, share);
    auto compiled = compiler.run();
    const std::optional<MissingMemory> &missing = compiler.missingMemory();
    if (compiled || (!missing && !(least && compiled.error().status() == Status::Infeasible)))
      return compiled;
    // The same plan without may fit.
    if (missing && missing->transforms) {
      messages.note(missing->text() + "; computing windows of 3 x 3 directly, as with --no-winograd");
      request.target.noWinograd = isDirect = true;
      continue;
    }
    if (missing) {
      tooLarge = share;
      // The next plan is likely to need more than the search expects of it in the same proportion, if it is not the
      // same.
      share = (1 - lessEachTime * searches) * missing->searched / missing->bytes;
      if (!least || missing->bytes / missing->limit < least->bytes / least->limit)
        least = missing;
    } else {
      tooSmall = share;
    }
    if (share <= tooSmall)
      share = (tooSmall + tooLarge) / 2;
    bool searched = missing ? compiler.hasSearched() : true;
    if (!searched || searches == mostSearches)
      return makeError(Status::Infeasible, least->text(), remedyFor(request.target, searched));
    messages.note((missing ? missing->text() : "no plan is that small") + "; searching for one of " +
                  bytesText(share * least->limit));
  }
}

static Expected<CompiledModel> compileWithinMemory(CompileRequest request, Messages &messages) {
  auto compiled = compileWithinLimits(request, messages);
  if (!compiled || compiled->plan.empty())
    return compiled;
  auto plan = openPlan(*compiled);
  if (!plan)
    return plan.error();
  auto byHost = limitByHost(request, *plan);
  if (!byHost)
    return compiled;
  auto &[bytes, reason] = *byHost;
  // Only the search can do with less.
  if (compiled->strategy != "auto") {
    messages.warning(reason + "; to run, it takes a host with more");
    return compiled;
  }
  std::string memory = std::to_string(static_cast<uint64_t>(bytes) >> 20) + "MiB";
  messages.note(reason + "; searching as with --memory " + memory + ", which you may set higher");
  request.target.memory = memory;
  WithoutWarnings again(messages);
  return compileWithinLimits(request, again);
}

/// Seconds of a step, by the simulator; -1 where it was not asked.
static double simulatedSeconds(const CompiledModel &compiled) {
  auto plan = openPlan(compiled);
  const auto &entries = plan ? (*plan)->entries : std::vector<runtime::Entry>();
  return entries.empty() || !entries.front().prediction ? -1 : entries.front().prediction->simulatedSeconds;
}

/// Whether nothing about a training step is said that other strategies would not know.
static bool leavesStepOpen(const TargetOptions &target) {
  const TargetOptions open;
  return target.microbatches == open.microbatches && target.schedule == open.schedule && target.chunks == open.chunks &&
         target.recompute == open.recompute && target.zero == open.zero &&
         target.optimizerMemory == open.optimizerMemory && target.sync == open.sync &&
         target.replicas == open.replicas && target.executor == open.executor;
}

/// Whether the request leaves it to the search how a model runs on devices of several kinds, on several hosts, or on
/// devices that are only planned for, so that no kernels are compiled.
static bool searchesAmongUnlike(const CompileRequest &request, const CompiledModel &compiled) {
  const TargetOptions &target = request.target;
  bool isFree = compiled.strategy == "auto" && target.placementFile.empty() && target.degrees.empty() &&
                target.objective != "cost" && target.memory.empty() && !request.decision;
  if (!isFree || compiled.plan.empty() || (target.train && !leavesStepOpen(target)))
    return false;
  auto machine = readMachine(target.machine);
  std::set<std::string> kinds;
  if (machine)
    for (const DeviceSpec &device : machine->devices)
      kinds.insert(device.kind);
  if (!machine || machine->devices.size() < 2)
    return false;
  if (target.train && machine->executor != Executor())
    return false;
  const DeviceSpec &last = machine->devices.back();
  return kinds.size() > 1 || last.host > 0 || last.driver == "null";
}

/// Bytes of a plan that is compiled again in a moment.
static constexpr size_t smallPlan = 4u << 20;

/// The simulator sees what the search sums up: loads, stores and exchanges as they follow each other, and each kernel's
/// launch. On devices of several kinds or hosts, where these differ most, it decides between the plan that was found
/// and equal parts of the batch, and where training is small, a pipeline of whole layers, too.
static Expected<CompiledModel> compileFaster(const CompileRequest &request, Messages &messages) {
  auto compiled = compileWithinMemory(request, messages);
  if (!compiled || !searchesAmongUnlike(request, *compiled))
    return compiled;
  const double found = simulatedSeconds(*compiled);
  if (found < 0)
    return compiled;
  struct Other {
    const char *strategy, *is;
  };
  SmallVector<Other> others = {{"data", "the batch in equal parts"}};
  if (request.target.train && compiled->plan.size() <= smallPlan)
    others.push_back({"pipeline", "a pipeline"});
  double least = found;
  const Other *taken = nullptr;
  for (const Other &candidate : others) {
    CompileRequest asked = request;
    asked.target.strategy = candidate.strategy;
    asked.target.timeBudget = 0;
    asked.target.solver = TargetOptions().solver;
    WithoutMessages trial(messages);
    auto other = ModelCompiler(asked, trial).run();
    double seconds = other ? simulatedSeconds(*other) : -1;
    if (seconds < 0 || seconds >= least)
      continue;
    compiled = std::move(other);
    least = seconds;
    taken = &candidate;
  }
  if (taken)
    messages.note("by the simulator a step takes " + secondsText(found) + " with the plan that the search found, and " +
                  secondsText(least) + " with " + taken->is + ", as by --strategy " + taken->strategy +
                  ", which is taken");
  return compiled;
}

Expected<CompiledModel> compileModel(const CompileRequest &request, Messages &messages) {
  auto compiled = compileFaster(request, messages);
  if (compiled && !compiled->mixing.empty())
    messages.warning(compiled->mixing);
  return compiled;
}

Expected<runtime::Plan> openPlan(const CompiledModel &compiled) {
  return runtime::Plan::fromBytes(std::as_bytes(std::span(compiled.plan)));
}

} // namespace cleave
