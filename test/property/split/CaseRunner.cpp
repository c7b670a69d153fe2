// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Processes that take cases from a counter in shared memory. A process says there which case it is at, so that whoever
// finds it dead knows, and another goes on behind that case.

#include "test/property/split/CaseRunner.h"

#include "test/property/split/CheckCase.h"
#include "test/property/split/ReduceCase.h"

#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"

#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <csignal>
#include <map>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;

namespace cleave::test {
namespace {

/// What the processes share.
struct Progress {
  static constexpr unsigned mostJobs = 64, mostFailed = 256;
  std::atomic<uint64_t> next, cases, graphs, gradients, attention, optimized, failures;
  std::atomic<uint64_t> current[mostJobs];
  std::atomic<uint64_t> failed[mostFailed];
};

class Runner {
public:
  explicit Runner(const RunOptions &options) : options(options) {
    progress = static_cast<Progress *>(
        mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    for (const OperatorTemplate &known : operatorTemplates())
      if (options.only.empty() || known.name == options.only)
        templates.push_back(&known);
    std::unique_ptr<MLIRContext> context = makeContext();
    for (const OperatorTemplate *known : templates)
      if (auto name = RegisteredOperationName::lookup("dfg." + known->name.str(), context.get());
          name && name->hasInterface<DifferentiateInterface>() && known->elements != Elements::Bool &&
          known->elements != Elements::Integer)
        differentiable.push_back(known);
    firstGraph = templates.size() * options.instances;
    firstGradient = firstGraph + options.graphs;
    firstAttention = firstGradient + differentiable.size() * options.gradients;
    total = firstAttention + options.attention;
    progress->next = options.unit.value_or(0);
    if (options.unit)
      total = std::min(total, *options.unit + 1);
  }

  unsigned run() {
    for (unsigned job = 0; job < options.jobs; ++job)
      start(job);
    while (!processes.empty()) {
      int status = 0;
      pid_t ended = wait(&status);
      auto found = processes.find(ended);
      if (found == processes.end())
        continue;
      unsigned job = found->second;
      processes.erase(found);
      if (status == 0)
        continue;
      noteFailure(progress->current[job]);
      start(job);
    }
    for (uint64_t i = 0; i < std::min<uint64_t>(progress->failures, Progress::mostFailed); ++i)
      reportFailure(progress->failed[i]);
    llvm::outs() << "seed " << options.seed << ": " << progress->cases << " cases of " << templates.size()
                 << " operators, " << progress->graphs << " graphs, " << progress->gradients << " gradients, "
                 << progress->attention << " of attention, " << progress->optimized << " optimized, "
                 << progress->failures << " failed\n";
    return static_cast<unsigned>(progress->failures);
  }

private:
  static std::unique_ptr<MLIRContext> makeContext() {
    auto context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
    context->loadDialect<dfg::DfgDialect, dist::DistDialect, plan::PlanDialect>();
    return context;
  }

  void start(unsigned job) {
    llvm::outs().flush();
    pid_t process = fork();
    if (process != 0) {
      processes[process] = job;
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    work(job);
    _exit(0);
  }

  /// What a process does. Types and attributes stay in a context, so now and then a new one is made.
  void work(unsigned job) {
    constexpr unsigned unitsInAContext = 50;
    std::unique_ptr<MLIRContext> context;
    for (unsigned done = 0; progress->failures < options.mostFailures; ++done) {
      uint64_t unit = progress->next++;
      if (unit >= total)
        return;
      progress->current[job] = unit;
      alarm(longestSeconds);
      if (done % unitsInAContext == 0)
        context = makeContext();
      SplitCase made = make(*context, unit);
      if (std::string found = checkCase(*made.module, optionsOf(unit)); !found.empty()) {
        llvm::errs() << "unit " << unit << " (" << made.name << ") fails: " << found << "\n";
        noteFailure(unit);
      }
      countOf(unit) += made.count;
      progress->optimized += optionsOf(unit).optimized ? made.count : 0;
    }
  }

  bool isAttention(uint64_t unit) const { return unit >= firstAttention; }
  bool isGradient(uint64_t unit) const { return unit >= firstGradient && !isAttention(unit); }
  bool isGraph(uint64_t unit) const { return unit >= firstGraph && unit < firstGradient; }
  std::atomic<uint64_t> &countOf(uint64_t unit) {
    return isAttention(unit)  ? progress->attention
           : isGradient(unit) ? progress->gradients
           : isGraph(unit)    ? progress->graphs
                              : progress->cases;
  }
  uint64_t seedOf(uint64_t unit) const { return Random(options.seed * 0x100000000 + unit)(); }
  CheckOptions optionsOf(uint64_t unit) const { return {seedOf(unit) % 100 < options.optimizedPercent}; }

  SplitCase make(MLIRContext &context, uint64_t unit) const {
    if (isGraph(unit))
      return makeGraphCase(context, seedOf(unit));
    if (isAttention(unit))
      return makeAttentionCase(context, seedOf(unit), (unit - firstAttention) % 2 == 1);
    if (isGradient(unit))
      return makeSplitGradientCase(context, *differentiable[(unit - firstGradient) % differentiable.size()],
                                   seedOf(unit), options.splits);
    return makeOperatorCase(context, *templates[unit % templates.size()], seedOf(unit), options.splits);
  }

  void noteFailure(uint64_t unit) {
    uint64_t index = progress->failures++;
    if (index < Progress::mostFailed)
      progress->failed[index] = unit;
  }

  /// The module and what is wrong with it, made small.
  void reportFailure(uint64_t unit) {
    std::unique_ptr<MLIRContext> context = makeContext();
    SplitCase made = make(*context, unit);
    CheckOptions check = optionsOf(unit);
    std::string found = checkInProcess(*made.module, check);
    llvm::outs() << "unit " << unit << " (" << made.name << "): " << (found.empty() ? "fails only sometimes" : found)
                 << "\n";
    OwningOpRef<ModuleOp> small = made.module->clone();
    if (!found.empty())
      small = reduceCase(*made.module, [&](ModuleOp module) {
        std::string other = checkInProcess(module, check);
        return !other.empty() && kindOf(other) == kindOf(found);
      });
    std::string file = options.folder + "/split-" + std::to_string(options.seed) + "-" + std::to_string(unit) + ".mlir";
    std::string text = "// " + checkInProcess(*small, check) + "\n";
    llvm::raw_string_ostream stream(text);
    small->print(stream);
    stream << "\n";
    std::error_code code;
    llvm::raw_fd_ostream(file, code) << text;
    llvm::outs() << text << "reproduce: split-property-test --file " << file
                 << (check.optimized ? " --optimized 100" : "") << "\n";
    llvm::outs().flush();
  }

  /// What is wrong, without what changes while a case is made smaller: sizes, names, types.
  static std::string kindOf(StringRef found) {
    if (found.starts_with("output"))
      return "output";
    std::string kind;
    bool quoted = false;
    for (char c : found.split("got").first) {
      quoted ^= c == '\'' || c == '"';
      if (!quoted && !std::isdigit(static_cast<unsigned char>(c)))
        kind += c;
    }
    return kind;
  }

  const RunOptions &options;
  Progress *progress;
  std::vector<const OperatorTemplate *> templates, differentiable;
  uint64_t firstGraph = 0, firstGradient = 0, firstAttention = 0, total = 0;
  std::map<pid_t, unsigned> processes;
};

} // namespace

unsigned runCases(const RunOptions &options) { return Runner(options).run(); }

} // namespace cleave::test
