// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One thread uses the instances: it starts what the dispatcher chooses, and hands out what is over, in this order, so
// that devices do not wait for it; while they are busy it brings together what they will be given next.

#include "runtime/serve/ServedModelState.h"

namespace cleave::runtime::serve {

/// What is over by now. Notices lost instances, too, before anything else is started on them.
std::vector<ServedModel::State::Ended> ServedModel::State::takeEnded(std::unique_lock<std::mutex> &lock) {
  std::vector<Ended> ended;
  for (Instance &instance : instances) {
    while (instance.isOver())
      ended.push_back(endOldest(instance, lock));
    if (instance.running && !instance.lostBy)
      if (Error error = instance.running->loss())
        lose(instance, error);
  }
  return ended;
}

/// Loads what is lost again, when the results of its last batches have been handed out; whether one is there again, or
/// not to be had.
bool ServedModel::State::recover(std::unique_lock<std::mutex> &lock) {
  bool isAny = false;
  for (Instance &instance : instances) {
    if (instance.recovered) {
      endRecovery(instance, lock);
      isAny = true;
    } else if (instance.lostBy && instance.running && instance.batches.empty()) {
      beginRecovery(instance);
    }
  }
  return isAny;
}

/// Whether there was anything to bring together; if not, the lock has been held all the time, so that nothing has
/// happened that the thread must look at before it waits.
bool ServedModel::State::gatherAhead(std::unique_lock<std::mutex> &lock) {
  auto upcoming = dispatcher.upcoming(now());
  if (!upcoming)
    return false;
  std::vector<JobSlice> slices;
  for (const Slice &slice : upcoming->slices)
    slices.push_back({jobs.at(slice.id).job, slice.first, slice.count});
  ModelInstance &instance = *instances[upcoming->instance].running;
  if (instance.isGathered(slices))
    return false;
  lock.unlock();
  instance.gatherAhead(slices);
  lock.lock();
  return true;
}

void ServedModel::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    std::vector<Ended> ended = takeEnded(lock);
    Action action = dispatcher.next(now());
    if (action.batch)
      start(std::move(*action.batch), lock);
    // Devices are at work by now. Clients are told without the lock, so that they may go meanwhile.
    for (Ended &each : ended)
      handOut(each, lock);
    for (RequestId id : action.dropped)
      drop(id, Outcome::Late, lock);
    bool isRecovered = recover(lock);
    if (action.batch || !action.dropped.empty() || !ended.empty() || isRecovered ||
        std::ranges::any_of(instances, &Instance::isOver))
      continue;
    bool isIdle = std::ranges::all_of(instances, [](const Instance &instance) { return instance.batches.empty(); });
    if (isEnding && isIdle && dispatcher.waiting() == 0)
      return;
    dispatcher.prepare(now());
    if (gatherAhead(lock))
      continue;
    if (action.wakeAt == never)
      changed.wait(lock);
    else
      changed.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(0, action.wakeAt - now())));
  }
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

ServedModel::State::Ended ServedModel::State::endOldest(Instance &instance, std::unique_lock<std::mutex> &lock) {
  Ended ended{std::move(instance.batches.front()), {}};
  instance.batches.pop_front();
  ModelInstance::Work &work = ended.batch.work;
  lock.unlock();
  ended.error = instance.running->wait(work);
  lock.lock();
  double seconds = static_cast<double>(work.computed - work.begin) * 1e-9;
  dispatcher.finish(ended.batch.batch.number, ended.error ? 0 : seconds);
  ++instance.numBatches;
  model.statistics.countBatch(ended.batch.batch.samples);
  if (ended.error)
    lose(instance, ended.error);
  else
    instance.lostInVain = 0;
  return ended;
}

void ServedModel::State::handOut(Ended &ended, std::unique_lock<std::mutex> &lock) {
  Running &over = ended.batch;
  ModelInstance::Work &work = over.work;
  ModelInstance &running = *instances[over.batch.instance].running;
  if (!ended.error) {
    lock.unlock();
    running.handOut(work, over.slices);
    lock.lock();
  }
  addToTraces(over);
  running.giveBack(work);
  for (const JobSlice &slice : over.slices) {
    JobTimes &times = slice.job->times;
    times.gathering += work.gathered - work.begin;
    times.running += work.computed - work.gathered;
    times.scattering += work.end - work.computed;
  }
  endSlices(over, ended.error, lock);
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

} // namespace cleave::runtime::serve
