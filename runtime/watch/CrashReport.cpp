// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The handler only formats numbers and writes: whatever else it called might be what has crashed.

#include "runtime/watch/CrashReport.h"

#include "runtime/Clock.h"

#include <algorithm>
#include <csignal>
#include <unistd.h>

namespace cleave::runtime {

static thread_local RunningInstruction *current = nullptr;
/// The call that began last in the process: for the threads that help a queue's thread to compute.
static std::atomic<RunningInstruction *> latest{nullptr};
static uint32_t ownRank = 0;

RunningInstruction::RunningInstruction(const PlanDevice &device)
    : owner(&device), entry(Logbook::own() ? Logbook::own()->take() : nullptr), texts(&textsOfDevices[&device]) {}

RunningInstruction::~RunningInstruction() {
  RunningInstruction *self = this;
  latest.compare_exchange_strong(self, nullptr);
  Logbook::giveBack(entry);
}

RunningInstruction *RunningInstruction::ofThread() { return current; }

RunningInstruction::OfThread::OfThread(RunningInstruction &running) : before(current) { current = &running; }
RunningInstruction::OfThread::~OfThread() { current = before; }

void RunningInstruction::set(const Instruction *instruction) {
  running.store(instruction, std::memory_order_relaxed);
  if (instruction && std::holds_alternative<Call>(instruction->action))
    latest.store(this, std::memory_order_relaxed);
  if (!entry)
    return;
  if (!instruction) {
    entry->text.store(0, std::memory_order_relaxed);
    return;
  }
  write(textOf(*instruction));
}

void RunningInstruction::set(const PlanDevice &of, const Instruction *instruction) {
  if (&of != &device()) {
    owner.store(&of, std::memory_order_relaxed);
    texts = &textsOfDevices[&of];
  }
  set(instruction);
}

void RunningInstruction::setStep(ActivityKind kind, const std::string &what, uint64_t step) {
  set(nullptr);
  if (!entry)
    return;
  auto [found, isNew] = textsOfSteps.try_emplace(what);
  if (isNew)
    found->second = Logbook::own()->add(kind, what, /*isNumbered=*/true);
  entry->number.store(step, std::memory_order_relaxed);
  write(found->second);
}

void RunningInstruction::write(uint32_t text) const {
  entry->since.store(now(), std::memory_order_relaxed);
  entry->text.store(text, std::memory_order_release);
}

uint32_t RunningInstruction::textOf(const Instruction &instruction) {
  auto [found, isNew] = texts->try_emplace(&instruction);
  if (isNew) {
    const Action &action = instruction.action;
    bool waits =
        std::holds_alternative<Send>(action) || std::holds_alternative<Receive>(action) || !operandsOf(action).empty();
    found->second = Logbook::own()->add(waits ? ActivityKind::Communication : ActivityKind::Work,
                                        "on device \"" + device().name + "\" in " + kindName(action) + " at node \"" +
                                            instruction.node + "\"");
  }
  return found->second;
}

namespace {

/// Text of a bounded length, put together without allocating.
class Line {
public:
  Line &operator<<(std::string_view text) {
    size_t fitting = std::min(text.size(), bytes.size() - length);
    text.copy(bytes.data() + length, fitting);
    length += fitting;
    return *this;
  }
  Line &operator<<(uint32_t number) {
    if (number >= 10)
      *this << number / 10;
    char digit = static_cast<char>('0' + number % 10);
    return *this << std::string_view(&digit, 1);
  }
  void write() const {
    if (::write(STDERR_FILENO, bytes.data(), length) < 0)
      return; // there is nobody left to tell
  }

private:
  std::array<char, 1024> bytes;
  size_t length = 0;
};

} // namespace

static void onFatalSignal(int signal) {
  const RunningInstruction *thread = current ? current : latest.load(std::memory_order_relaxed);
  if (Logbook *book = Logbook::own()) {
    book->crash(signal, thread ? thread->line() : nullptr);
    _exit(static_cast<int>(Status::Lost));
  }
  Line line;
  line << "error: rank " << ownRank << " is lost: signal " << static_cast<uint32_t>(signal);
  if (const Instruction *instruction = thread ? thread->get() : nullptr)
    line << " on device \"" << thread->device().name << "\" in " << kindName(instruction->action) << " at node \""
         << instruction->node << "\"";
  (line << "\n").write();
  _exit(static_cast<int>(Status::Lost));
}

void reportCrashes(uint32_t rank) {
  ownRank = rank;
  struct sigaction action = {};
  action.sa_handler = onFatalSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    sigaction(signal, &action, nullptr);
}

} // namespace cleave::runtime
