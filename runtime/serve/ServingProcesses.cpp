// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Commands go to all; then all do the same together.

#include "runtime/serve/ServingProcesses.h"

#include "runtime/watch/Logbook.h"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <optional>
#include <thread>

namespace cleave::runtime::serve {

/// How often who waits for all processes looks whether one is lost, and how long what all do then may still take.
static constexpr std::chrono::milliseconds betweenLooks{50};
static constexpr std::chrono::seconds patienceAfterLoss{2};

ServingProcesses::ServingProcesses(Processes &processes, std::unique_ptr<Messages> messages,
                                   std::vector<std::string> devicesOfRank)
    : processes(processes), devicesOfRank(std::move(devicesOfRank)), messages(std::move(messages)) {}

ServingProcesses::~ServingProcesses() {
  if (loss())
    processes.setSomebodyGone();
}

Error ServingProcesses::loss() const {
  Error error = Logbook::own() ? Logbook::own()->firstLoss() : Error::success();
  // One that has stopped is as good as gone.
  return error ? Error(Status::Lost, error.message(), error.node()) : error;
}

void ServingProcesses::outliveOthers() {
  // What MPI writes to a connection that has ended must not end this process.
  std::signal(SIGPIPE, SIG_IGN);
  if (Logbook *book = Logbook::own())
    book->setAfterLoss(AfterLoss::GoOnAlone);
}

/// An error is one of loss(), which whoever comes next finds as well.
void ServingProcesses::tellAll(PartCommand command, const std::string &file) {
  command.fileBytes = file.size();
  for (uint32_t rank = 1; rank != count() && !loss(); ++rank)
    if (!messages->send(rank, PartCommand::commands, {partOf(command)}) && !file.empty())
      (void)messages->send(rank, PartCommand::commands, {std::as_bytes(std::span(file))});
}

bool ServingProcesses::doTogether(std::function<void()> work) const {
  struct Joint {
    std::function<void()> work;
    std::mutex mutex;
    std::condition_variable changed;
    bool isOver = false;
  };
  auto joint = std::make_shared<Joint>();
  joint->work = std::move(work);
  std::thread([joint] {
    joint->work();
    std::lock_guard lock(joint->mutex);
    joint->isOver = true;
    joint->changed.notify_all();
  }).detach();
  std::unique_lock lock(joint->mutex);
  for (auto since = std::chrono::steady_clock::now(); !joint->isOver; joint->changed.wait_for(lock, betweenLooks)) {
    auto time = std::chrono::steady_clock::now();
    since = loss() ? since : time;
    if (time - since <= patienceAfterLoss)
      continue;
    static auto &abandoned = *new std::vector<std::shared_ptr<Joint>>;
    abandoned.push_back(joint);
    return false;
  }
  return true;
}

static Expected<PlanPart> loadTogether(Processes &processes, const std::vector<std::string> &devicesOfRank,
                                       const ServedPlan &served, ExecutorOptions options) {
  // Whether the others can read it.
  if (Error error = processes.agree(Error::success()))
    return error;
  auto part = PlanPart::create(served.plan, *served.parameters, processes, devicesOfRank, std::move(options));
  // Whether they have tensors for it.
  if (part)
    if (Error error = processes.agree(Error::success()))
      return error;
  return part;
}

Expected<PlanPart> ServingProcesses::load(std::shared_ptr<const ServedPlan> served, unsigned inFlight,
                                          ExecutorOptions options, uint32_t &line) {
  std::lock_guard lock(mutex);
  line = ++lastLine;
  tellAll({PartCommand::Kind::Load, line, inFlight}, served->from);
  auto part = std::make_shared<std::optional<Expected<PlanPart>>>();
  bool isOver = doTogether([part, served, options = std::move(options), devices = devicesOfRank, &all = processes] {
    *part = loadTogether(all, devices, *served, options);
  });
  return isOver ? std::move(**part) : loss();
}

void ServingProcesses::unload(uint32_t line, PlanPart &part) {
  std::lock_guard lock(mutex);
  tellAll({PartCommand::Kind::Unload, line});
  auto executor = std::make_shared<std::unique_ptr<Executor>>(std::move(part.executor));
  doTogether([executor] { executor->reset(); });
}

void ServingProcesses::end(int code) {
  std::lock_guard lock(mutex);
  tellAll({PartCommand::Kind::Exit, 0, 0, code});
}

} // namespace cleave::runtime::serve
