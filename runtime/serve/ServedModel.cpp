// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loading, and loading again what was lost: whoever does that has the instance alone until it is there. Requests come
// in by any thread.

#include "runtime/serve/ServedModelState.h"

namespace cleave::runtime::serve {

/// From any thread.
Expected<std::unique_ptr<ModelInstance>> ServedModel::State::load(const InstanceChoice &choice) {
  auto look = [this] {
    // Whoever looked before the step was over waits by now.
    std::lock_guard lock(mutex);
    changed.notify_all();
  };
  return ModelInstance::load(model.plans[choice.plan], choice.place, options.inFlight, options.tracesRequests, look,
                             options.processes);
}

/// Before the worker runs: no lock is needed.
Error ServedModel::State::prepare() {
  for (Instance &instance : instances) {
    auto number = static_cast<unsigned>(numberOf(instance)), count = static_cast<unsigned>(instances.size());
    auto loaded = load(choicesOf(model.plans, 0, number, count).front());
    if (!loaded)
      return loaded.error();
    instance.running = std::move(*loaded);
    dispatcher.addInstance(instance.running->getTable(), instance.running->getInFlight());
  }
  return Error::success();
}

/// Nothing starts on it any more; what has started ends as it does.
void ServedModel::State::lose(Instance &instance, const Error &error) {
  if (instance.lostBy)
    return;
  instance.lostBy = error;
  instance.lostAt = now();
  ++instance.losses;
  ++instance.lostInVain;
  dispatcher.lose(numberOf(instance));
  report("has lost an instance: " + error.text());
}

/// What has lost its device twice in vain is tried last, after a pause that grows: it may be its requests that break
/// it.
void ServedModel::State::beginRecovery(Instance &instance) {
  auto number = static_cast<unsigned>(numberOf(instance)), count = static_cast<unsigned>(instances.size());
  std::vector<size_t> order;
  for (size_t plan = instance.plan; plan != model.plans.size(); ++plan)
    order.push_back(plan);
  // What has run in processes of which one is lost runs in one of them from here on: others may be made for that.
  if (instance.lostInVain > 1 || instance.running->loss())
    std::ranges::rotate(order, order.begin() + 1);
  std::vector<InstanceChoice> choices;
  for (size_t plan : order)
    std::ranges::copy(choicesOf(model.plans, plan, number, count), std::back_inserter(choices));
  auto pause =
      std::chrono::seconds(instance.lostInVain > 1 ? std::min(60, 1 << std::min(instance.lostInVain - 2, 6u)) : 0);
  instance.recovery = std::thread(
      [this, &instance, choices, pause, broken = instance.plan, lost = std::move(instance.running)]() mutable {
        // Its memory is wanted.
        lost.reset();
        auto loadLater = [&](const InstanceChoice &choice) -> Expected<std::unique_ptr<ModelInstance>> {
          if (choice.plan == broken) {
            std::unique_lock lock(mutex);
            if (changed.wait_for(lock, pause, [&] { return isEnding; }) && pause.count() != 0)
              return makeError(Status::Lost, "the model is about to end");
          }
          return load(choice);
        };
        RecoveredInstance recovered =
            loadFirst(model.plans, choices, loadLater, [this](const std::string &text) { report(text); });
        std::lock_guard lock(mutex);
        instance.recovered = std::move(recovered);
        changed.notify_all();
      });
}

void ServedModel::State::endRecovery(Instance &instance, std::unique_lock<std::mutex> &lock) {
  instance.recovery.join();
  RecoveredInstance recovered = std::move(*instance.recovered);
  instance.recovered.reset();
  if (!recovered.instance) {
    report("goes on without the instance that was lost: no plan of it can be loaded");
    bool isLast = std::ranges::all_of(
        instances, [](const Instance &each) { return each.lostBy && !each.running && !each.recovery.joinable(); });
    return isLast ? fail(instance.lostBy, lock) : void();
  }
  instance.running = std::move(recovered.instance);
  instance.plan = recovered.plan;
  instance.lostBy = Error::success();
  ++instance.recoveries;
  int64_t taken = now() - instance.lostAt;
  instance.lostTime += taken;
  dispatcher.restore(numberOf(instance), instance.running->getTable(), instance.running->getInFlight());
  report("runs again by " + model.plans[instance.plan]->from + ", " + std::to_string(taken / 1'000'000) +
         " ms after the loss");
}

ServedModel::ServedModel(std::string name, std::string version, ServedPlans plans)
    : name(std::move(name)), version(std::move(version)), plans(std::move(plans)) {}

ServedModel::~ServedModel() = default;

Expected<std::unique_ptr<ServedModel>> ServedModel::load(std::string name, std::string version,
                                                         std::vector<ModelPlan> plans,
                                                         const ServedModelOptions &options) {
  auto opened = openPlans(std::move(plans), options.explain);
  if (!opened)
    return opened.error();
  std::unique_ptr<ServedModel> model(new ServedModel(std::move(name), std::move(version), std::move(*opened)));
  model->state = std::make_unique<State>(*model, options);
  if (Error error = model->state->prepare())
    return Error(error.status(), model->plans.front()->from + ": " + error.message(), error.node());
  model->state->worker = std::thread([state = model->state.get()] { state->run(); });
  return model;
}

/// Why no job is taken at all, if none is.
std::optional<Outcome> ServedModel::State::unavailable(InferenceJob &job) const {
  if (!isDraining)
    return std::nullopt;
  job.error = failed;
  return failed ? Outcome::Failed : Outcome::Draining;
}

/// A job as the dispatcher sees it, under an id of its own.
Request ServedModel::State::requestOf(InferenceJob &job, Time at) {
  if (!job.id)
    job.id = nextId++;
  if (options.timeout < never - job.times.arrival)
    job.deadline = std::min(job.deadline, job.times.arrival + options.timeout);
  return {*job.id, job.samples, job.priority, at, job.deadline};
}

static std::optional<Outcome> refusalOf(Admission admission) {
  switch (admission) {
  case Admission::Queued:
    return std::nullopt;
  case Admission::Full:
    return Outcome::Full;
  case Admission::Late:
    return Outcome::Late;
  }
  return std::nullopt;
}

std::optional<Outcome> ServedModel::announce(InferenceJob &job) {
  std::unique_lock lock(state->mutex);
  std::optional<Outcome> refusal = state->unavailable(job);
  if (!refusal)
    refusal = refusalOf(state->dispatcher.announce(state->requestOf(job, now())));
  if (refusal)
    statistics.countRequest(job, *refusal);
  return refusal;
}

void ServedModel::withdraw(RequestId id) {
  std::unique_lock lock(state->mutex);
  state->dispatcher.withdraw(id);
}

RequestId ServedModel::submit(std::shared_ptr<InferenceJob> job) {
  std::unique_lock lock(state->mutex);
  job->times.queued = now();
  Request request = state->requestOf(*job, job->times.queued);
  std::optional<Outcome> refusal = state->unavailable(*job);
  if (!refusal)
    refusal = refusalOf(state->dispatcher.submit(request));
  if (refusal) {
    state->finish(job, *refusal, lock);
    return request.id;
  }
  state->jobs[request.id] = {std::move(job)};
  lock.unlock();
  state->changed.notify_all();
  return request.id;
}

void ServedModel::cancel(RequestId id) {
  std::unique_lock lock(state->mutex);
  auto found = state->jobs.find(id);
  if (found == state->jobs.end() || !state->dispatcher.cancel(id))
    return;
  found->second.isCancelled = true;
  if (found->second.begun == found->second.job->samplesOver)
    state->drop(id, Outcome::Cancelled, lock);
}

void ServedModel::drain() {
  {
    std::lock_guard lock(state->mutex);
    state->isDraining = true;
  }
  state->changed.notify_all();
}

bool ServedModel::isReady() const {
  std::lock_guard lock(state->mutex);
  return !state->isDraining && state->hasInstance();
}

std::vector<InstanceState> ServedModel::instances() const {
  std::lock_guard lock(state->mutex);
  std::vector<InstanceState> states;
  for (const State::Instance &instance : state->instances)
    states.push_back({instance.running && !instance.lostBy, plans[instance.plan],
                      instance.running ? instance.running->getMemory() : std::vector<DeviceMemory>(),
                      state->dispatcher.getTable(state->numberOf(instance)), instance.numBatches, instance.losses,
                      instance.recoveries, static_cast<double>(instance.lostTime) * 1e-9});
  return states;
}

uint64_t ServedModel::waiting() const {
  std::lock_guard lock(state->mutex);
  return state->dispatcher.waiting();
}

} // namespace cleave::runtime::serve
