// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The processes of a server (mpirun), as the first of them sees them: it has the requests, and the others run their
// parts of plans on its word.

#ifndef CLEAVE_RUNTIME_SERVE_SERVINGPROCESSES_H
#define CLEAVE_RUNTIME_SERVE_SERVINGPROCESSES_H

#include "runtime/Processes.h"
#include "runtime/serve/PlanPart.h"
#include "runtime/serve/ServedPlan.h"

#include <mutex>

namespace cleave::runtime::serve {

/// When one of the others is lost the first process goes on alone: the plans that they ran together are lost, and what
/// is loaded from then on it runs by itself. Thread-safe.
class ServingProcesses {
public:
  /// Made by all processes together, the others' being PartServer, before anything is loaded, once they expect losses.
  ServingProcesses(Processes &processes, std::unique_ptr<Messages> messages, std::vector<std::string> devicesOfRank);
  ~ServingProcesses();

  uint32_t count() const { return processes.count(); }
  /// Whether the processes run a plan together: all are there, and each can have a device of it.
  bool divide(const PlanContents &plan) const { return !loss() && plan.devices.size() >= count(); }
  /// Status::Lost with what is known of the first process that was lost; success while all are there.
  Error loss() const;
  /// From here on a loss does not end the run.
  void outliveOthers();

  /// Loads a plan in all processes; its steps' line. Errors: see PlanPart::create, and the others' where they cannot
  /// read it. After a loss the load is given up, wherever it stands: what `options` name must live as long as they do.
  Expected<PlanPart> load(std::shared_ptr<const ServedPlan> served, unsigned inFlight, ExecutorOptions options,
                          uint32_t &line);
  /// Takes down what has got its last step, if nobody is lost.
  void unload(uint32_t line, PlanPart &part);
  Messages &getMessages() { return *messages; }
  /// The others exit with this code. Nothing is loaded any more.
  void end(int code);

private:
  /// Does what all processes do at the same time on a thread of its own: in the midst of it MPI waits for ever for one
  /// that is gone. False when it has not ended some time after a loss; it is left then, with all that it uses. With the
  /// mutex held.
  bool doTogether(std::function<void()> work) const;
  void tellAll(PartCommand command, const std::string &file = {});

  Processes &processes;
  const std::vector<std::string> devicesOfRank;
  const std::unique_ptr<Messages> messages;
  std::mutex mutex; ///< what processes do together they do in one order
  uint32_t lastLine = PartCommand::commands;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_SERVINGPROCESSES_H
