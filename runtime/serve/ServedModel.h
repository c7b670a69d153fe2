// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model that answers requests: a dispatcher, instances that run batches, and the thread that connects them.
//
// An instance whose batch fails is lost with the requests of its batches in work; what waits goes on waiting. It is
// loaded again, by another thread: from the same plan, or from the next of the model's plans on what is left of its
// devices. A plan that is lost again before it has answered anything comes after the others, and after a pause. A model
// without instances, none of which can be loaded, has failed.

#ifndef CLEAVE_RUNTIME_SERVE_SERVEDMODEL_H
#define CLEAVE_RUNTIME_SERVE_SERVEDMODEL_H

#include "runtime/serve/Dispatcher.h"
#include "runtime/serve/InferenceServer.h"
#include "runtime/serve/ModelInstance.h"
#include "runtime/serve/ModelStatistics.h"

namespace cleave::runtime::serve {

struct ServedModelOptions {
  Time maxDelay = 5'000'000; ///< DispatcherOptions::maxDelay
  uint64_t queueLimit = 4096;
  Time timeout = never;        ///< what is not over so long after its first byte is late, whatever its own deadline
  bool tracesRequests = false; ///< records the batches of jobs that have a trace
  unsigned inFlight = 0;       ///< batches at a time of an instance; 0: as many as its plan has stages
  unsigned instances = 1;      ///< how many run batches, on devices of their own each
  PlanExplainer explain;       ///< may be empty
  /// Run plans together where they can, and outlive the models; null: there is one process.
  ServingProcesses *processes = nullptr;
  /// Told in a line what becomes of instances, by any thread; may be empty.
  std::function<void(const std::string &line)> report;
};

/// What one of a model's instances does.
struct InstanceState {
  bool isReady = false;
  std::shared_ptr<const ServedPlan> plan; ///< by which it runs, or ran
  std::vector<DeviceMemory> devices;
  BatchTable table; ///< predicted and present seconds of every size
  uint64_t batches = 0, losses = 0, recoveries = 0;
  double lostSeconds = 0; ///< between losses and recoveries, together
};

class ServedModel final : public InferenceModel {
public:
  /// Loads the instances by the first plan and runs every size, so that nothing is left to be done when the first
  /// request comes and the dispatcher knows what batches take. The other plans, for when devices are lost, are only
  /// checked. Errors: those of BatchedPlan::open and of the executor; Status::Usage where the plans have other inputs
  /// or outputs than the first one.
  static Expected<std::unique_ptr<ServedModel>> load(std::string name, std::string version,
                                                     std::vector<ModelPlan> plans, const ServedModelOptions &options);
  /// Answers what is queued, then ends.
  ~ServedModel() override;

  const std::string &getName() const override { return name; }
  const std::string &getVersion() const override { return version; }
  const BatchedPlan &getPlan() const override { return plans.front()->plan; }
  /// The one that it was loaded by, and those for when devices are lost.
  const ServedPlans &getPlans() const { return plans; }
  const ModelStatistics &getStatistics() const { return statistics; }

  std::optional<Outcome> announce(InferenceJob &job) override;
  void withdraw(RequestId id) override;
  RequestId submit(std::shared_ptr<InferenceJob> job) override;
  void cancel(RequestId id) override;
  /// Takes no more jobs; those that are queued are answered. Returns at once.
  void drain();
  bool isReady() const override;
  std::vector<InstanceState> instances() const;
  uint64_t waiting() const;

private:
  struct State;
  ServedModel(std::string name, std::string version, ServedPlans plans);

  const std::string name, version;
  const ServedPlans plans;
  ModelStatistics statistics;
  std::unique_ptr<State> state;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_SERVEDMODEL_H
