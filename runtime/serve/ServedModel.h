// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model that answers requests: a dispatcher, an executor, and the thread that connects them.

#ifndef CLEAVE_RUNTIME_SERVE_SERVEDMODEL_H
#define CLEAVE_RUNTIME_SERVE_SERVEDMODEL_H

#include "runtime/serve/Dispatcher.h"
#include "runtime/serve/InferenceServer.h"
#include "runtime/serve/ModelStatistics.h"

namespace cleave::runtime::serve {

struct ServedModelOptions {
  Time maxDelay = 5'000'000; ///< DispatcherOptions::maxDelay
  uint64_t queueLimit = 4096;
  Time timeout = never;        ///< what is not over so long after its first byte is late, whatever its own deadline
  bool tracesRequests = false; ///< records the batches of jobs that have a trace
  unsigned inFlight = 0;       ///< batches at a time; 0: as many as the plan has stages
};

class ServedModel final : public InferenceModel {
public:
  /// Makes the executor and runs every size, so that nothing is left to be done when the first request comes and the
  /// dispatcher knows what batches take. Errors: those of BatchedPlan::open and of the executor.
  /// `parameters`: where the plan's are; null: in its folder.
  static Expected<std::unique_ptr<ServedModel>> load(std::string name, std::string version, Plan plan,
                                                     const ServedModelOptions &options,
                                                     std::unique_ptr<ParameterSource> parameters = nullptr);
  /// Answers what is queued, then ends.
  ~ServedModel() override;

  const std::string &getName() const override { return name; }
  const std::string &getVersion() const override { return version; }
  const BatchedPlan &getPlan() const override { return plan; }
  const ModelStatistics &getStatistics() const { return statistics; }

  std::optional<Outcome> announce(InferenceJob &job) override;
  void withdraw(RequestId id) override;
  RequestId submit(std::shared_ptr<InferenceJob> job) override;
  void cancel(RequestId id) override;
  /// Takes no more jobs; those that are queued are answered. Returns at once.
  void drain();
  bool isReady() const override;
  /// What ended the model, if something did.
  Error failure() const;
  /// Predicted and present seconds of every size.
  BatchTable getTable() const;
  uint64_t waiting() const;

private:
  struct State;
  ServedModel(std::string name, std::string version, BatchedPlan plan);

  const std::string name, version;
  const BatchedPlan plan;
  ModelStatistics statistics;
  std::unique_ptr<State> state;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_SERVEDMODEL_H
