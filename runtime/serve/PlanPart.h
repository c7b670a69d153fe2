// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan that several processes serve together: the part of it that each of them makes, and what the first one, which
// has the requests, and the others say to each other. The first one is DividedExecutor.h, the others are PartServer.h.

#ifndef CLEAVE_RUNTIME_SERVE_PLANPART_H
#define CLEAVE_RUNTIME_SERVE_PLANPART_H

#include "runtime/Messages.h"
#include "runtime/serve/BatchedPlan.h"

namespace cleave::runtime::serve {

/// What the first process tells each of the others, on line `commands`. There is no reply; of plans that are loaded or
/// taken down all know together how that has ended (Processes::agree).
struct PartCommand {
  enum class Kind : uint32_t {
    Load,   ///< the plan in the file whose name follows; its steps are on the line `line`
    Unload, ///< the plan of that line, after its StepRequest::Kind::End
    Exit,   ///< with `code`
  };
  static constexpr uint32_t commands = 0;
  Kind kind = Kind::Exit;
  uint32_t line = 0, inFlight = 0;
  int32_t code = 0;
  uint64_t fileBytes = 0;
};

/// On a plan's own line. The inputs' parts follow, and the reply, to each step in their order, is followed by an error
/// or the outputs' parts.
struct StepRequest {
  enum class Kind : uint32_t { Step, End };
  Kind kind = Kind::End;
  uint32_t entry = 0; ///< by its place in BatchedPlan::getEntries
};
struct StepReply {
  uint64_t errorBytes = 0; ///< an error follows (packError); 0: none
  int64_t signal = 0;      ///< that has asked the process to end; 0: none
};

struct PlanPart {
  std::vector<uint32_t> rankOfDevice;
  std::unique_ptr<Executor> executor;
  std::vector<DeviceMemory> memory; ///< at rank 0 of all processes' devices

  /// Makes this process's part; called by all together, with the same plan and the same devices for each rank
  /// (divideDevices). The error, the executor's or that of a difference, is agreed on.
  static Expected<PlanPart> create(const BatchedPlan &plan, ParameterSource &parameters, Processes &processes,
                                   const std::vector<std::string> &devicesOfRank, ExecutorOptions options);
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_PLANPART_H
