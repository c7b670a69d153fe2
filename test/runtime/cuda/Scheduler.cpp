// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The scheduler of the simulated CUDA, and its clock. Half of the seeds choose evenly among what is ready; the other
// half give streams priorities that change now and then, so that some are left behind for long (after Burckhardt et
// al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", 2010).

#include "Simulation.h"

#include <algorithm>
#include <chrono>

namespace cleave::simulated {

/// How long the calling thread has waited for GPUs. What threads tell each other nobody sees here, and takes no time.
static double &waited(const runtime::CudaRuntime &table) {
  static thread_local const runtime::CudaRuntime *of = nullptr;
  static thread_local double seconds = 0;
  if (std::exchange(of, &table) != &table)
    seconds = 0;
  return seconds;
}

double Simulation::hostTime() { return waited(table) + passed; }

void Simulation::noteEnd(const Op &op) {
  double &seconds = waited(table);
  seconds = std::max(seconds, op.end - passed);
}

std::shared_ptr<Op> Simulation::put(int gpu, uint64_t priority, Task task,
                                    const std::vector<std::shared_ptr<Op>> &before) {
  auto op = std::make_shared<Op>();
  op->task = std::move(task);
  op->gpu = gpu;
  op->priority = priority;
  op->begin = hostTime();
  for (const auto &other : before) {
    if (!other)
      continue;
    op->begin = std::max(op->begin, other->end);
    if (!other->isDone) {
      ++op->missing;
      other->after.push_back(op);
    }
  }
  ++pending;
  if (op->missing == 0)
    ready.push_back(op);
  return op;
}

std::shared_ptr<Op> Simulation::put(Stream &stream, Task task) {
  if (stream.capture) {
    stream.capture->nodes.push_back({std::move(task), stream.gpu, stream.captured});
    stream.captured = {stream.capture->nodes.size() - 1};
    return nullptr;
  }
  if (random() % 16 == 0)
    stream.priority = random();
  stream.last = put(stream.gpu, stream.priority, std::move(task), {stream.last});
  auto op = stream.last;
  dawdle();
  return op;
}

void Simulation::finish(const std::shared_ptr<Op> &op) {
  op->isDone = true;
  --pending;
  for (const auto &next : op->after) {
    next->begin = std::max(next->begin, op->end);
    if (--next->missing == 0)
      ready.push_back(next);
  }
  op->after.clear();
}

/// Out of what is ready, what waits for others last.
std::shared_ptr<Op> Simulation::takeReady() {
  auto end = std::partition(ready.begin(), ready.end(), [](const auto &op) { return !op->isWaiting; });
  if (end == ready.begin())
    end = ready.end();
  auto chosen = ready.begin() + static_cast<ptrdiff_t>(random() % static_cast<uint64_t>(end - ready.begin()));
  if (options.seed % 2 == 1 && !(*chosen)->isWaiting)
    chosen = std::max_element(ready.begin(), end,
                              [](const auto &left, const auto &right) { return left->priority < right->priority; });
  std::shared_ptr<Op> op = *chosen;
  *chosen = ready.back();
  ready.pop_back();
  return op;
}

/// Whatever else is ready now could run at the same time.
void Simulation::checkLane(const Op &op) {
  for (const auto &other : ready)
    if (op.task.lane && other->task.lane && other->task.lane != op.task.lane)
      misuse("communications of two communicators that nothing orders");
}

Simulation::Progress Simulation::runOne() {
  if (ready.empty())
    return Progress::None;
  std::shared_ptr<Op> op = takeReady();
  checkLane(*op);
  auto begin = std::chrono::steady_clock::now();
  if (op->task.work && lost == cudaSuccess) {
    cudaError_t code = op->task.work();
    if (code == cudaErrorNotReady) {
      op->isWaiting = true;
      ready.push_back(op);
      return Progress::Waiting;
    }
    if (code != cudaSuccess)
      lost = code;
  }
  op->task = {};
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  op->end = op->begin + std::max(took.count(), 1e-6);
  finish(op);
  return Progress::Made;
}

/// While what is left waits for other processes, other threads get in between.
cudaError_t Simulation::await(const std::shared_ptr<Op> &given) {
  const std::shared_ptr<Op> op = given;
  if (!op)
    return begin();
  while (!op->isDone) {
    Progress progress = runOne();
    if (progress == Progress::None)
      return misuse("work that waits for itself", cudaErrorUnknown);
    if (progress == Progress::Waiting)
      letOthers();
  }
  noteEnd(*op);
  return begin();
}

cudaError_t Simulation::awaitAll() {
  for (Progress progress = runOne(); progress != Progress::None; progress = runOne())
    if (progress == Progress::Waiting)
      letOthers();
  return pending == 0 ? begin() : misuse("work that waits for itself", cudaErrorUnknown);
}

void Simulation::letOthers() {
  mutex.unlock();
  std::this_thread::yield();
  mutex.lock();
}

bool Simulation::poll(const std::shared_ptr<Op> &op) {
  if (!op || !op->isDone)
    (void)runOne();
  if (op && op->isDone)
    noteEnd(*op);
  return !op || op->isDone;
}

void Simulation::dawdle() {
  // By the seed: never, now and then, always.
  uint64_t chance = options.seed / 2 % 3;
  if (chance == 0 || (chance == 1 && random() % 3 != 0))
    return;
  for (uint64_t count = chance == 2 ? UINT64_MAX : random() % 4; count != 0; --count)
    if (runOne() != Progress::Made)
      break;
}

} // namespace cleave::simulated
