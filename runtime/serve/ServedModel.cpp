// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One thread uses the executor: it starts what the dispatcher chooses, and hands out what is over. Steps end in the
// order in which they start, so that it is enough to know how many have ended.

#include "runtime/serve/ServedModel.h"

#include "runtime/Clock.h"
#include "runtime/serve/BatchBuffers.h"
#include "runtime/serve/RequestTrace.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace cleave::runtime::serve {

struct ServedModel::State {
  State(ServedModel &model, const ServedModelOptions &options, std::unique_ptr<ParameterSource> parameters)
      : model(model), parameters(std::move(parameters)),
        inFlight(options.inFlight ? options.inFlight : model.plan.numStages()), timeout(options.timeout),
        dispatcher({.maxDelay = options.maxDelay, .queueLimit = options.queueLimit}) {
    if (!options.tracesRequests)
      return;
    trace.emplace();
    trace->recordSingleSteps();
  }

  ~State() {
    {
      std::lock_guard lock(mutex);
      isDraining = isEnding = true;
    }
    changed.notify_all();
    if (worker.joinable())
      worker.join();
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
    std::unique_ptr<BatchBuffers> buffers;
    Ticket ticket = 0;
    int64_t begin = 0, gathered = 0;
    bool isTraced = false;
    Trace::StepOf step; ///< where it is traced
  };

  Error prepare();
  Error runOnce(size_t size, double &seconds);
  void run();
  Error start(Batch batch, std::unique_lock<std::mutex> &lock);
  void addToTraces(const Running &over, int64_t computed, int64_t end);
  void endOldest(std::unique_lock<std::mutex> &lock);
  void drop(RequestId id, Outcome outcome, std::unique_lock<std::mutex> &lock);
  void fail(const Error &error, std::unique_lock<std::mutex> &lock);
  std::optional<Outcome> unavailable(InferenceJob &job) const;
  Request requestOf(InferenceJob &job, Time at);
  /// Calls `done` without the lock.
  void finish(const std::shared_ptr<InferenceJob> &job, Outcome outcome, std::unique_lock<std::mutex> &lock) {
    job->times.end = now();
    model.statistics.countRequest(*job, outcome);
    lock.unlock();
    job->done(outcome);
    lock.lock();
  }

  ServedModel &model;
  const std::unique_ptr<ParameterSource> parameters;
  const unsigned inFlight;
  const Time timeout;
  std::optional<Trace> trace;
  std::unique_ptr<Executor> executor;
  std::vector<uint64_t> steps; ///< by size, that were submitted
  std::vector<std::unique_ptr<BatchBuffers>> idleBuffers;

  mutable std::mutex mutex;
  std::condition_variable changed;
  Dispatcher dispatcher;
  std::map<RequestId, Known> jobs;
  std::deque<Running> running;
  RequestId nextId = 0;
  uint64_t stepsOver = 0; ///< that have ended and were not handed out
  bool isDraining = false, isEnding = false;
  Error failed;
  std::thread worker;
};

/// Before the worker runs: no lock is needed.
Error ServedModel::State::prepare() {
  ExecutorOptions options;
  options.trace = trace ? &*trace : nullptr;
  options.stepOver = [this] {
    {
      std::lock_guard lock(mutex);
      ++stepsOver;
    }
    changed.notify_all();
  };
  const std::vector<std::string> &entries = model.plan.getEntries();
  steps.resize(entries.size());
  auto made = entries.size() == 1 ? Executor::create(model.plan.getPlan(), entries.front(), *parameters, options)
                                  : Executor::create(model.plan.getPlan(), entries, *parameters, options);
  if (!made)
    return made.error();
  executor = std::move(*made);
  for (unsigned slot = 0; slot != inFlight; ++slot)
    idleBuffers.push_back(std::make_unique<BatchBuffers>(model.plan));
  // The first run of a size touches its memory for the first time; the second one is as later ones are.
  BatchTable table = model.plan.getTable();
  for (size_t size = 0; size != entries.size(); ++size)
    for (bool counts : {false, true}) {
      double seconds = 0;
      if (Error error = runOnce(size, seconds))
        return error;
      if (counts)
        table.measure(size, seconds);
    }
  dispatcher.addInstance(std::move(table), inFlight);
  stepsOver = 0;
  return Error::success();
}

Error ServedModel::State::runOnce(size_t size, double &seconds) {
  int64_t begin = now();
  BatchBuffers &buffers = *idleBuffers.front();
  if (Error error = buffers.use(size))
    return error;
  buffers.gather({});
  auto ticket = executor->submit(static_cast<uint32_t>(size), buffers.getInputs(), buffers.getOutputs());
  if (!ticket)
    return ticket.error();
  ++steps[size];
  auto times = executor->wait(*ticket);
  seconds = static_cast<double>(now() - begin) * 1e-9;
  return times.error();
}

void ServedModel::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    while (stepsOver != 0 && !running.empty())
      endOldest(lock);
    Action action = dispatcher.next(now());
    // Whoever is late is told without the lock, so that clients may go meanwhile: what a batch takes has begun by then.
    if (action.batch)
      if (Error error = start(std::move(*action.batch), lock))
        fail(error, lock);
    for (RequestId id : action.dropped)
      drop(id, Outcome::Late, lock);
    if (action.batch || !action.dropped.empty() || (stepsOver != 0 && !running.empty()))
      continue;
    if (isEnding && running.empty() && dispatcher.waiting() == 0)
      return;
    if (action.wakeAt == never)
      changed.wait(lock);
    else
      changed.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(0, action.wakeAt - now())));
  }
}

/// What is lost with a device does not come back: whoever waits is told, and later requests are refused.
void ServedModel::State::fail(const Error &error, std::unique_lock<std::mutex> &lock) {
  failed = error;
  isDraining = true;
  std::vector<RequestId> waiting;
  for (auto &[id, known] : jobs)
    if (dispatcher.cancel(id))
      waiting.push_back(id);
  for (RequestId id : waiting) {
    auto found = jobs.find(id);
    std::shared_ptr<InferenceJob> job = found->second.job;
    job->error = error;
    bool runs = found->second.begun != job->samplesOver;
    found->second.isCancelled = true;
    if (runs)
      continue;
    jobs.erase(found);
    finish(job, Outcome::Failed, lock);
  }
}

Error ServedModel::State::start(Batch batch, std::unique_lock<std::mutex> &lock) {
  Running made;
  made.begin = now();
  for (const Slice &slice : batch.slices) {
    Known &known = jobs.at(slice.id);
    known.begun = slice.first + slice.count;
    if (slice.first == 0)
      known.job->times.start = made.begin;
    made.slices.push_back({known.job, slice.first, slice.count});
  }
  made.buffers = std::move(idleBuffers.back());
  idleBuffers.pop_back();
  made.batch = std::move(batch);
  lock.unlock();
  Error error = made.buffers->use(made.batch.size);
  if (!error) {
    made.buffers->gather(made.slices);
    made.gathered = now();
    made.isTraced =
        trace && std::ranges::any_of(made.slices, [](const JobSlice &slice) { return slice.job->trace != nullptr; });
    if (made.isTraced)
      trace->want(made.step = {static_cast<uint32_t>(made.batch.size), steps[made.batch.size]});
    auto ticket =
        executor->submit(static_cast<uint32_t>(made.batch.size), made.buffers->getInputs(), made.buffers->getOutputs());
    error = ticket.error();
    if (!error) {
      made.ticket = *ticket;
      ++steps[made.batch.size];
    } else if (made.isTraced) {
      trace->forget(made.step);
    }
  }
  lock.lock();
  if (!error) {
    running.push_back(std::move(made));
    return error;
  }
  dispatcher.finish(made.batch.number, 0);
  idleBuffers.push_back(std::move(made.buffers));
  for (const JobSlice &slice : made.slices) {
    slice.job->samplesOver += slice.count;
    slice.job->error = error;
    if (jobs.erase(*slice.job->id))
      finish(slice.job, Outcome::Failed, lock);
  }
  return error;
}

/// Each job whose samples were in a batch has all of the batch; but for those that are over, as their batch failed.
void ServedModel::State::addToTraces(const Running &over, int64_t computed, int64_t end) {
  if (!over.isTraced)
    return;
  for (const JobSlice &slice : over.slices)
    if (RequestTrace *own = slice.job->trace.get(); own && jobs.contains(*slice.job->id)) {
      own->batches.push_back({over.begin, over.gathered, computed, end, slice.count, over.batch.samples,
                              model.plan.getTable().samples(over.batch.size)});
      trace->copyStep(over.step, own->devices);
    }
  trace->forget(over.step);
}

void ServedModel::State::endOldest(std::unique_lock<std::mutex> &lock) {
  Running over = std::move(running.front());
  running.pop_front();
  --stepsOver;
  lock.unlock();
  auto times = executor->wait(over.ticket);
  int64_t computed = now();
  if (times)
    over.buffers->scatter(over.slices);
  int64_t end = now();
  lock.lock();
  addToTraces(over, computed, end);
  idleBuffers.push_back(std::move(over.buffers));
  dispatcher.finish(over.batch.number, times ? static_cast<double>(end - over.begin) * 1e-9 : 0);
  model.statistics.countBatch(over.batch.samples);
  if (!times)
    fail(times.error(), lock);
  for (const JobSlice &slice : over.slices) {
    InferenceJob &job = *slice.job;
    job.samplesOver += slice.count;
    job.times.gathering += over.gathered - over.begin;
    job.times.running += computed - over.gathered;
    job.times.scattering += end - computed;
    if (!times)
      job.error = times.error();
    auto known = jobs.find(*job.id);
    if (known == jobs.end())
      continue;
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

ServedModel::ServedModel(std::string name, std::string version, BatchedPlan plan)
    : name(std::move(name)), version(std::move(version)), plan(std::move(plan)) {}

ServedModel::~ServedModel() = default;

Expected<std::unique_ptr<ServedModel>> ServedModel::load(std::string name, std::string version, Plan plan,
                                                         const ServedModelOptions &options,
                                                         std::unique_ptr<ParameterSource> parameters) {
  if (!parameters)
    parameters = std::make_unique<FolderSource>(plan.folder());
  auto opened = BatchedPlan::open(std::move(plan));
  if (!opened)
    return opened.error();
  std::unique_ptr<ServedModel> model(new ServedModel(std::move(name), std::move(version), std::move(*opened)));
  model->state = std::make_unique<State>(*model, options, std::move(parameters));
  if (Error error = model->state->prepare())
    return error;
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
  if (timeout < never - job.times.arrival)
    job.deadline = std::min(job.deadline, job.times.arrival + timeout);
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
  return !state->isDraining;
}

Error ServedModel::failure() const {
  std::lock_guard lock(state->mutex);
  return state->failed;
}

BatchTable ServedModel::getTable() const {
  std::lock_guard lock(state->mutex);
  return state->dispatcher.getTable();
}

uint64_t ServedModel::waiting() const {
  std::lock_guard lock(state->mutex);
  return state->dispatcher.waiting();
}

} // namespace cleave::runtime::serve
