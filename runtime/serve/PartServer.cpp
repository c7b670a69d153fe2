// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two threads for each plan: one takes steps, and one replies to them when they are over.

#include "runtime/serve/PartServer.h"

#include "runtime/serve/BatchBuffers.h"
#include "runtime/serve/StepParts.h"
#include "runtime/training/StopSignals.h"
#include "runtime/watch/Logbook.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace cleave::runtime::serve {

/// The process that has the requests.
static constexpr uint32_t firstRank = 0;

/// This process's part of one plan.
class PartServer::Part {
public:
  explicit Part(BatchedPlan plan) : plan(std::move(plan)) {}
  /// Needs that the first process has said that there are no more steps.
  ~Part() {
    if (taker.joinable())
      taker.join();
    if (replier.joinable())
      replier.join();
  }

  const BatchedPlan &getPlan() const { return plan; }
  /// Makes the devices, together with the other processes, and tensors for so many batches at a time.
  Error prepare(Processes &processes, const std::vector<std::string> &devicesOfRank, unsigned inFlight) {
    FolderSource parameters(plan.getPlan().folder());
    auto made = PlanPart::create(plan, parameters, processes, devicesOfRank, {});
    if (!made)
      return made.error();
    part = std::move(*made);
    rank = processes.rank();
    for (const std::string &name : plan.getEntries())
      parts.push_back(stepPartsOf(*plan.getPlan(), **plan.getPlan().entry(name), part.rankOfDevice, processes.rank()));
    return processes.agree(allocate(inFlight));
  }
  void start(Messages &messages, uint32_t line) {
    taker = std::thread([this, &messages, line] {
      // What is said of it when it dies between instructions.
      NotedActivity noted(ActivityKind::Between, "between batches");
      while (takeStep(messages, line)) {
      }
      end();
    });
    replier = std::thread([this, &messages, line] {
      while (std::optional<Step> step = nextStep())
        if (!reply(*step, messages, line))
          break;
    });
  }

private:
  struct Step {
    Ticket ticket = 0;
    uint32_t entry = 0;
    std::unique_ptr<BatchBuffers> buffers;
  };

  Error allocate(unsigned inFlight) {
    for (unsigned slot = 0; slot != inFlight; ++slot) {
      idle.push_back(std::make_unique<BatchBuffers>(plan));
      for (size_t size = 0; size != plan.getEntries().size(); ++size)
        if (Error error = idle.back()->use(size))
          return error;
    }
    return Error::success();
  }

  /// False when there is none, or the first process is gone; its guard then ends this one.
  bool takeStep(Messages &messages, uint32_t line) {
    StepRequest request;
    if (messages.receive(firstRank, line, {partOf(request)}) || request.kind == StepRequest::Kind::End)
      return false;
    const TensorParts &own = parts[request.entry].inputs;
    received.resize(own.bytes());
    if (messages.receive(firstRank, line, {partOf(received)}))
      return false;
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !idle.empty(); });
    Step step{0, request.entry, std::move(idle.back())};
    idle.pop_back();
    lock.unlock();
    (void)step.buffers->use(request.entry); // they are there
    own.unpack(received, step.buffers->getInputs());
    auto ticket = part.executor->submit(request.entry, step.buffers->getInputs(), step.buffers->getOutputs());
    if (!ticket)
      return false;
    step.ticket = *ticket;
    lock.lock();
    running.push_back(std::move(step));
    changed.notify_all();
    return true;
  }

  void end() {
    std::lock_guard lock(mutex);
    isOver = true;
    changed.notify_all();
  }

  std::optional<Step> nextStep() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return isOver || !running.empty(); });
    if (running.empty())
      return std::nullopt;
    Step step = std::move(running.front());
    running.pop_front();
    return step;
  }

  bool reply(Step &step, Messages &messages, uint32_t line) {
    auto times = part.executor->wait(step.ticket);
    const TensorParts &own = parts[step.entry].outputs;
    replied = times ? std::vector<std::byte>(own.bytes()) : packError(atRank(times.error(), rank));
    if (times)
      own.pack(step.buffers->getOutputs(), replied);
    StepReply reply{times ? 0 : replied.size(), StopSignals::asked()};
    bool isSent =
        !messages.send(firstRank, line, {partOf(reply)}) && !messages.send(firstRank, line, {partOf(replied)});
    std::lock_guard lock(mutex);
    idle.push_back(std::move(step.buffers));
    changed.notify_all();
    return isSent;
  }

  const BatchedPlan plan;
  uint32_t rank = 0;
  PlanPart part;
  std::vector<StepParts> parts; ///< by entry
  std::vector<std::byte> received, replied;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<BatchBuffers>> idle;
  std::deque<Step> running;
  bool isOver = false;
  std::thread taker, replier;
};

PartServer::PartServer(Processes &processes, std::unique_ptr<Messages> messages, std::vector<std::string> devicesOfRank,
                       Trust trust)
    : processes(processes), devicesOfRank(std::move(devicesOfRank)), trust(std::move(trust)),
      messages(std::move(messages)) {}

PartServer::~PartServer() = default;

int PartServer::serve() {
  // Only the first process decides when to end: it has what was asked.
  StopSignals signals;
  NotedActivity noted(ActivityKind::Between, "between batches");
  while (true) {
    PartCommand command;
    if (Error error = messages->receive(firstRank, PartCommand::commands, {partOf(command)}))
      return static_cast<int>(error.status());
    if (command.kind == PartCommand::Kind::Exit)
      return command.code;
    if (command.kind == PartCommand::Kind::Unload) {
      parts.erase(command.line);
      continue;
    }
    std::string file(command.fileBytes, 0);
    if (Error error = messages->receive(firstRank, PartCommand::commands, {std::as_writable_bytes(std::span(file))}))
      return static_cast<int>(error.status());
    // The first process says it.
    (void)load(command, file);
  }
}

Expected<std::unique_ptr<PartServer::Part>> PartServer::open(const std::string &file) {
  auto plan = Plan::read(file);
  if (!plan)
    return plan.error();
  if (trust)
    if (Error error = trust(*plan, file))
      return error;
  auto batched = BatchedPlan::open(std::move(*plan));
  if (!batched)
    return batched.error();
  return std::make_unique<Part>(std::move(*batched));
}

Error PartServer::load(const PartCommand &command, const std::string &file) {
  auto part = open(file);
  if (Error error = processes.agree(part.error()))
    return error;
  if (Error error = (*part)->prepare(processes, devicesOfRank, command.inFlight))
    return error;
  (*part)->start(*messages, command.line);
  parts[command.line] = std::move(*part);
  return Error::success();
}

} // namespace cleave::runtime::serve
