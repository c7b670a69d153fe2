// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One thread uses the instances: it starts what the dispatcher chooses, and hands out what is over. Whoever loads a
// lost instance again has it alone until it is there.

#include "runtime/serve/ServedModel.h"

#include "runtime/Clock.h"
#include "runtime/serve/InstanceRecovery.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace cleave::runtime::serve {

struct ServedModel::State {
  State(ServedModel &model, const ServedModelOptions &options)
      : model(model), options(options), dispatcher({.maxDelay = options.maxDelay, .queueLimit = options.queueLimit}),
        instances(std::max(1u, options.instances)) {}

  ~State() {
    {
      std::lock_guard lock(mutex);
      isDraining = isEnding = true;
    }
    changed.notify_all();
    if (worker.joinable())
      worker.join();
    for (Instance &instance : instances)
      if (instance.recovery.joinable())
        instance.recovery.join();
  }

  /// A job that waits or runs. Its samples from number `begun` on wait.
  struct Known {
    std::shared_ptr<InferenceJob> job;
    uint64_t begun = 0;
    bool isCancelled = false;
  };
  struct Running {
    Batch batch;
    std::vector<JobSlice> slices;
    ModelInstance::Work work;
  };
  struct Instance {
    std::unique_ptr<ModelInstance> running; ///< null: it is being loaded again, or cannot be
    size_t plan = 0;
    std::deque<Running> batches;
    Error lostBy; ///< success: it runs
    int64_t lostAt = 0;
    unsigned lostInVain = 0; ///< losses since it has last answered anything
    std::thread recovery;    ///< joined when `recovered` is there
    std::optional<RecoveredInstance> recovered;
    uint64_t numBatches = 0, losses = 0, recoveries = 0;
    int64_t lostTime = 0; ///< nanoseconds

    bool isOver() const { return running && running->stepsOver() != 0 && !batches.empty(); }
  };

  Error prepare();
  Expected<std::unique_ptr<ModelInstance>> load(const InstanceChoice &choice);
  void run();
  bool settle(std::unique_lock<std::mutex> &lock);
  void start(Batch batch, std::unique_lock<std::mutex> &lock);
  void addToTraces(const Running &over);
  void endOldest(Instance &instance, std::unique_lock<std::mutex> &lock);
  void endSlices(const Running &over, const Error &error, std::unique_lock<std::mutex> &lock);
  void drop(RequestId id, Outcome outcome, std::unique_lock<std::mutex> &lock);
  void lose(Instance &instance, const Error &error);
  void beginRecovery(Instance &instance);
  void endRecovery(Instance &instance, std::unique_lock<std::mutex> &lock);
  void fail(const Error &error, std::unique_lock<std::mutex> &lock);
  std::optional<Outcome> unavailable(InferenceJob &job) const;
  Request requestOf(InferenceJob &job, Time at);
  void report(const std::string &text) const {
    if (options.report)
      options.report(text);
  }
  size_t numberOf(const Instance &instance) const { return static_cast<size_t>(&instance - instances.data()); }
  bool hasInstance() const {
    return std::ranges::any_of(instances,
                               [](const Instance &instance) { return instance.running && !instance.lostBy; });
  }
  /// Calls `done` without the lock.
  void finish(const std::shared_ptr<InferenceJob> &job, Outcome outcome, std::unique_lock<std::mutex> &lock) {
    job->times.end = now();
    model.statistics.countRequest(*job, outcome);
    lock.unlock();
    job->done(outcome);
    lock.lock();
  }

  ServedModel &model;
  const ServedModelOptions options;

  mutable std::mutex mutex;
  std::condition_variable changed;
  Dispatcher dispatcher;
  std::map<RequestId, Known> jobs;
  RequestId nextId = 0;
  bool isDraining = false, isEnding = false;
  Error failed;
  std::vector<Instance> instances; ///< by the dispatcher's numbers
  std::thread worker;
};

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

/// Ends what is over; whether anything was.
bool ServedModel::State::settle(std::unique_lock<std::mutex> &lock) {
  bool isSettled = true;
  for (Instance &instance : instances) {
    for (; instance.isOver(); isSettled = false)
      endOldest(instance, lock);
    if (instance.running && !instance.lostBy)
      if (Error error = instance.running->loss())
        lose(instance, error);
    if (instance.recovered) {
      endRecovery(instance, lock);
      isSettled = false;
    } else if (instance.lostBy && instance.running && instance.batches.empty()) {
      beginRecovery(instance);
    }
  }
  return isSettled;
}

void ServedModel::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    bool isSettled = settle(lock);
    Action action = dispatcher.next(now());
    // Whoever is late is told without the lock, so that clients may go meanwhile: what a batch takes has begun by then.
    if (action.batch)
      start(std::move(*action.batch), lock);
    for (RequestId id : action.dropped)
      drop(id, Outcome::Late, lock);
    if (action.batch || !action.dropped.empty() || !isSettled || std::ranges::any_of(instances, &Instance::isOver))
      continue;
    bool isIdle = std::ranges::all_of(instances, [](const Instance &instance) { return instance.batches.empty(); });
    if (isEnding && isIdle && dispatcher.waiting() == 0)
      return;
    if (action.wakeAt == never)
      changed.wait(lock);
    else
      changed.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(0, action.wakeAt - now())));
  }
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

/// Whoever waits is told, and later requests are refused.
void ServedModel::State::fail(const Error &error, std::unique_lock<std::mutex> &lock) {
  failed = error;
  isDraining = true;
  std::vector<RequestId> waiting;
  for (auto &[id, known] : jobs)
    if (dispatcher.cancel(id))
      waiting.push_back(id);
  for (RequestId id : waiting) {
    jobs.at(id).job->error = error;
    drop(id, Outcome::Failed, lock);
  }
}

void ServedModel::State::start(Batch batch, std::unique_lock<std::mutex> &lock) {
  Instance &instance = instances[batch.instance];
  Running made;
  int64_t begin = now();
  for (const Slice &slice : batch.slices) {
    Known &known = jobs.at(slice.id);
    known.begun = slice.first + slice.count;
    if (slice.first == 0)
      known.job->times.start = begin;
    made.slices.push_back({known.job, slice.first, slice.count});
  }
  made.batch = std::move(batch);
  lock.unlock();
  auto work = instance.running->start(made.batch.size, made.slices);
  lock.lock();
  if (work) {
    made.work = std::move(*work);
    instance.batches.push_back(std::move(made));
    return;
  }
  dispatcher.finish(made.batch.number, 0);
  lose(instance, work.error());
  endSlices(made, work.error(), lock);
}

/// Each job whose samples were in a batch has all of the batch; but for those that are over, as their batch failed.
void ServedModel::State::addToTraces(const Running &over) {
  const ModelInstance::Work &work = over.work;
  if (!work.isTraced)
    return;
  const ModelInstance &running = *instances[over.batch.instance].running;
  for (const JobSlice &slice : over.slices) {
    RequestTrace *own = slice.job->trace.get();
    if (!own || !jobs.contains(*slice.job->id))
      continue;
    own->batches.push_back({work.begin, work.gathered, work.computed, work.end, slice.count, over.batch.samples,
                            running.getTable().samples(over.batch.size)});
    if (own->batches.size() == 1) {
      own->ranOn = running.getServed();
      own->instance = over.batch.instance;
    }
    if (own->ranOn == running.getServed() && own->instance == over.batch.instance)
      running.copyTrace(work, own->devices);
  }
}

void ServedModel::State::endOldest(Instance &instance, std::unique_lock<std::mutex> &lock) {
  Running over = std::move(instance.batches.front());
  instance.batches.pop_front();
  ModelInstance::Work &work = over.work;
  lock.unlock();
  Error error = instance.running->end(work, over.slices);
  lock.lock();
  addToTraces(over);
  instance.running->giveBack(work);
  dispatcher.finish(over.batch.number, error ? 0 : static_cast<double>(work.end - work.begin) * 1e-9);
  ++instance.numBatches;
  model.statistics.countBatch(over.batch.samples);
  if (error)
    lose(instance, error);
  else
    instance.lostInVain = 0;
  for (const JobSlice &slice : over.slices) {
    JobTimes &times = slice.job->times;
    times.gathering += work.gathered - work.begin;
    times.running += work.computed - work.gathered;
    times.scattering += work.end - work.computed;
  }
  endSlices(over, error, lock);
}

/// Samples of jobs are over; jobs of which nothing else is to be waited for end. Where they failed, the rest of the job
/// does not run.
void ServedModel::State::endSlices(const Running &over, const Error &error, std::unique_lock<std::mutex> &lock) {
  for (const JobSlice &slice : over.slices) {
    InferenceJob &job = *slice.job;
    job.samplesOver += slice.count;
    if (error)
      job.error = error;
    auto known = jobs.find(*job.id);
    if (known == jobs.end())
      continue;
    if (job.error && dispatcher.cancel(*job.id))
      known->second.isCancelled = true;
    bool isCancelled = known->second.isCancelled;
    if (job.samplesOver != (isCancelled ? known->second.begun : job.samples))
      continue;
    jobs.erase(known);
    finish(slice.job, job.error ? Outcome::Failed : isCancelled ? Outcome::Cancelled : Outcome::Answered, lock);
  }
}

void ServedModel::State::drop(RequestId id, Outcome outcome, std::unique_lock<std::mutex> &lock) {
  auto found = jobs.find(id);
  if (found == jobs.end())
    return;
  std::shared_ptr<InferenceJob> job = found->second.job;
  jobs.erase(found);
  finish(job, outcome, lock);
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
