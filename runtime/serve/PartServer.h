// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The processes of a server that are not the first: each runs its parts of the plans that the first one serves
// (ServingProcesses.h).

#ifndef CLEAVE_RUNTIME_SERVE_PARTSERVER_H
#define CLEAVE_RUNTIME_SERVE_PARTSERVER_H

#include "runtime/Processes.h"
#include "runtime/serve/PlanPart.h"

#include <map>

namespace cleave::runtime::serve {

class PartServer {
public:
  /// Asked before anything of a plan runs.
  using Trust = std::function<Error(const Plan &, const std::string &file)>;

  /// See ServingProcesses, which the first process makes at the same time.
  PartServer(Processes &processes, std::unique_ptr<Messages> messages, std::vector<std::string> devicesOfRank,
             Trust trust);
  ~PartServer();

  /// Serves until the first process says that it is over; the exit code.
  int serve();

private:
  class Part;
  Expected<std::unique_ptr<Part>> open(const std::string &file);
  Error load(const PartCommand &command, const std::string &file);

  Processes &processes;
  const std::vector<std::string> devicesOfRank;
  const Trust trust;
  const std::unique_ptr<Messages> messages;
  std::map<uint32_t, std::unique_ptr<Part>> parts; ///< by line
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_PARTSERVER_H
