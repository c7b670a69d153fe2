// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Commands go to all; then all do the same together.

#include "runtime/serve/ServingProcesses.h"

#include "runtime/watch/Logbook.h"

#include <csignal>

namespace cleave::runtime::serve {

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

Expected<PlanPart> ServingProcesses::load(const std::string &file, const BatchedPlan &plan, ParameterSource &parameters,
                                          unsigned inFlight, ExecutorOptions options, uint32_t &line) {
  std::lock_guard lock(mutex);
  line = ++lastLine;
  tellAll({PartCommand::Kind::Load, line, inFlight}, file);
  // Whether the others can read it.
  if (Error error = processes.agree(Error::success()))
    return error;
  auto part = PlanPart::create(plan, parameters, processes, devicesOfRank, std::move(options));
  // Whether they have tensors for it.
  if (part)
    if (Error error = processes.agree(Error::success()))
      return error;
  return part;
}

void ServingProcesses::unload(uint32_t line, PlanPart &part) {
  std::lock_guard lock(mutex);
  tellAll({PartCommand::Kind::Unload, line});
  part.executor.reset();
}

void ServingProcesses::end(int code) {
  std::lock_guard lock(mutex);
  tellAll({PartCommand::Kind::Exit, 0, 0, code});
}

} // namespace cleave::runtime::serve
