// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps of the train command: data, checkpoint, executor, loop, results.

#include "runtime/training/TrainCommand.h"

#include "runtime/FileReplacement.h"
#include "runtime/JoinResults.h"
#include "runtime/Printable.h"
#include "runtime/Trace.h"
#include "runtime/Verify.h"
#include "runtime/training/KeptParameters.h"
#include "runtime/training/ParameterExport.h"
#include "runtime/training/SequenceData.h"
#include "runtime/training/StopSignals.h"
#include "runtime/training/TrainLog.h"
#include "runtime/training/TrainReport.h"
#include "runtime/training/TrainingSets.h"
#include "runtime/training/asynchronous/ReplicaLoop.h"
#include "runtime/training/asynchronous/ReplicaServer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <numeric>
#include <unistd.h>

namespace cleave::runtime {
namespace {

class TrainCommand : private TrainObserver {
public:
  TrainCommand(const Plan &plan, ParameterSource &parameters, const TrainOptions &options, std::ostream &out,
               std::ostream &err)
      : plan(plan), values(parameters), options(options), out(out), err(err),
        progress(err, options.isTerminal && isFirst()), log(out, options.logEvery) {}

  Error run() {
    if (Error error = agree(prepare()))
      return error;
    if (processes)
      if (Error error = checkSame(*processes, plan, commonOptions()))
        return error;
    if (Error error = openCheckpoints())
      return error;
    if (Error error = agree(restorePosition()))
      return error;
    if (Error error = createExecutor())
      return error;
    if (Error error = createLoop())
      return error;
    if (server)
      return serve();
    Error error = train();
    progress.clear();
    if (error)
      error = cannotCheckpoint ? afterFailedCheckpoint(error) : error;
    else
      error = finish();
    if (replicaLoop && replicaLoop->end(exitCode(error)))
      processes->setSomebodyGone();
    return error;
  }

  /// What the program exits with.
  int exitCode(const Error &error) const {
    if (server && !error)
      return served.code;
    return !error && stoppedBy != 0 ? StopSignals::exitCodeOf(stoppedBy) : static_cast<int>(error.status());
  }

  /// Whether this process reports.
  bool isFirst() const { return !processes || processes->rank() == 0; }
  const TrainReport &results() const { return report; }

private:
  /// Where replicas train, the first process leads and the others serve.
  bool isTogether() const { return processes && !replicaLoop && !server; }
  Error agree(const Error &error) const { return isTogether() ? processes->agree(error) : error; }
  void notice(const std::string &text) {
    if (!isFirst())
      return;
    progress.clear();
    err << "notice: " << printable(text) << "\n";
  }

  std::string commonOptions() const {
    std::ostringstream text;
    text << "--epochs " << schedule.epochs << " --steps " << schedule.steps.value_or(0) << " --checkpoint-every "
         << options.checkpointEvery << " --in-flight " << options.inFlight << " --seed " << options.seed.value_or(0)
         << (options.resume ? " --resume" : "") << (options.checkpointFolder.empty() ? "" : " --checkpoint")
         << (options.traceFile.empty() ? "" : " --trace") << (options.exportFile.empty() ? "" : " --export")
         << " --weights " << options.weightsFile << " --tokens " << options.tokens << " --vocabulary "
         << options.vocabularyFile << " --lr-schedule " << options.learningRate.schedule;
    text << (options.goOnWithout ? " --lost-replica go-on" : "");
    if (options.learningRate.rate)
      text << " --learning-rate " << *options.learningRate.rate;
    for (const auto *bindings :
         {&options.data, &options.evaluation, &options.scales, &options.devicesOfRank, &options.trials})
      for (const std::string &binding : *bindings)
        text << " " << binding;
    return text.str();
  }

  /// Everything that each process does without the others.
  Error prepare() {
    if (Error error = verifyPlan(plan))
      return error;
    if (Error error = findEntries())
      return error;
    if (Error error = readSchedule())
      return error;
    context.rankOfDevice = replicaOptions.rankOfDevice;
    if (replicaOptions.rankOfDevice.empty()) {
      auto divided = divideDevices(static_cast<uint32_t>(plan->devices.size()), processes ? processes->count() : 1,
                                   options.devicesOfRank);
      if (!divided)
        return divided.error();
      context.rankOfDevice = std::move(*divided);
    }
    if (isFirst() && !options.exportFile.empty()) {
      if (Error error = checkExport(*plan, *entries[0], options))
        return error;
    }
    if (isFirst() && !options.logFile.empty())
      if (Error error = log.open(options.logFile, options.resume))
        return error;
    context.plan = plan;
    // The keeper runs steps by itself.
    context.processes = plan->replicas ? nullptr : processes;
    return readData();
  }

  /// The entry of that name, or those for several lengths of sequences, by increasing length.
  std::vector<const Entry *> entriesNamed(const std::string &name) const {
    std::vector<const Entry *> found;
    for (const Entry &entry : plan->entries) {
      std::string own = entry.bucket == 0 ? name : name + "/" + std::to_string(entry.bucket);
      if (entry.name == own && !entry.isDecision() && entry.samples != 0)
        found.push_back(&entry);
    }
    std::ranges::sort(found, std::less(), &Entry::bucket);
    return found;
  }

  Error findEntries() {
    auto read = ReplicaOptions::read(options, *plan);
    if (!read)
      return read.error();
    replicaOptions = std::move(*read);
    for (const char *name : {trainEntryName, evaluateEntryName}) {
      std::vector<const Entry *> found = entriesNamed(name);
      if (name == evaluateEntryName && options.evaluation.empty())
        break;
      if (found.empty())
        return makeError(Status::Usage, "training expects a plan with an entry \"", name,
                         "\" that can run, got none; compile the model with --train for devices of this machine");
      if (!entries.empty() && !std::ranges::equal(found, entries, {}, &Entry::bucket, &Entry::bucket))
        return makeError(Status::Usage,
                         "training expects a plan that evaluates sequences of the lengths that it trains "
                         "on, got entries \"",
                         entries.back()->name, "\" and \"", found.back()->name, "\" as the longest");
      // Of replicas it is their keeper who has the parameters.
      bool isReplicas = name == trainEntryName && plan->replicas;
      if (isReplicas)
        entries = entriesNamed(applyEntryName);
      else
        entries.insert(entries.end(), found.begin(), found.end());
      (name == trainEntryName ? trained : evaluated) = std::move(found);
    }
    batch = trained.front()->samples * (plan->replicas ? plan->replicas->count : 1);
    context.training.resize(trained.size());
    std::iota(context.training.begin(), context.training.end(), 0u);
    context.evaluating.resize(evaluated.size());
    std::iota(context.evaluating.begin(), context.evaluating.end(), static_cast<uint32_t>(trained.size()));
    if (auto fill = entriesNamed(fillEntryName), drain = entriesNamed(drainEntryName);
        !fill.empty() && !drain.empty()) {
      context.ends = {static_cast<uint32_t>(entries.size()), static_cast<uint32_t>(entries.size() + 1)};
      entries.insert(entries.end(), {fill.front(), drain.front()});
    }
    for (const Program &program : entries.front()->programs)
      for (uint32_t device : plan->meshes[program.mesh].devices)
        if (plan->devices[device].driver == "null")
          return makeError(Status::Unsupported, "training expects devices that compute, got \"",
                           plan->devices[device].name, "\", which simulates; see cleave simulate");
    return Error::success();
  }

  Error readSchedule() {
    if (options.inFlight == 0)
      return makeError(Status::Usage, "--in-flight expects at least one step, got 0");
    if (options.checkpointFolder.empty() && (options.resume || options.checkpointEvery != 0))
      return makeError(Status::Usage, options.resume ? "--resume" : "--checkpoint-every",
                       " expects a folder of checkpoints; say --checkpoint DIR");
    schedule.epochs = options.epochs.value_or(options.steps ? UINT64_MAX : 1);
    schedule.steps = options.steps;
    schedule.checkpointEvery = options.checkpointEvery;
    schedule.keepsCheckpoints = !options.checkpointFolder.empty();
    schedule.inFlight = options.inFlight;
    return Error::success();
  }

  Error readData() {
    bool trains = schedule.epochs != 0 || !options.data.empty();
    auto read = TrainingSets::read(options, trained, evaluated, trains);
    if (!read)
      return read.error();
    data = std::move(read->training);
    evaluation = std::move(read->evaluation);
    if (!data)
      return Error::success();
    const auto *sequences = dynamic_cast<const SequenceData *>(data.get());
    if (!sequences && data->samples() < batch)
      return makeError(Status::Failure, "training expects at least a batch of ", batch, " samples, got ",
                       data->samples(), "; compile with a smaller --batch");
    if (data->isText())
      progress.showPerplexity();
    if (sequences)
      report.sequences = sequences->summary();
    return Error::success();
  }

  //===-- checkpoints ---------------------------------------------------------------------------------------------===//

  /// The first process alone writes, and chooses from which checkpoint all go on.
  Error openCheckpoints() {
    if (options.checkpointFolder.empty())
      return Error::success();
    Error error;
    if (isFirst()) {
      auto opened = CheckpointFolder::open(options.checkpointFolder);
      if (opened)
        folder.emplace(std::move(*opened));
      error = opened.error();
      if (!error && !options.resume && !CheckpointFolder::steps(options.checkpointFolder).empty())
        error = makeError(Status::Usage, "checkpoint folder \"", options.checkpointFolder,
                          "\" has checkpoints of another run; say --resume to go on with it, or choose another folder");
    }
    if (Error failed = agree(error))
      return failed;
    if (!options.resume)
      return Error::success();
    double step = -1;
    if (isFirst()) {
      error = readLatestCheckpoint();
      if (checkpoint)
        step = static_cast<double>(checkpoint->position.steps);
    }
    if (Error failed = agree(error))
      return failed;
    if (processes)
      step = processes->maximum(step);
    if (step < 0 || isFirst())
      return agree(Error::success());
    auto read = readCheckpoint(CheckpointFolder::pathOf(options.checkpointFolder, static_cast<uint64_t>(step)));
    if (read)
      checkpoint = std::move(*read);
    return agree(read.error());
  }

  /// None at all is where a run begins; beginning anew over damaged ones would lose what they are of.
  Error readLatestCheckpoint() {
    std::string damaged;
    checkpoint = CheckpointFolder::readLatest(options.checkpointFolder, [&](const Error &skipped) {
      notice(skipped.message() + "; it is skipped");
      damaged += (damaged.empty() ? "" : "; ") + skipped.message();
    });
    if (checkpoint)
      return Error::success();
    if (damaged.empty()) {
      notice("there is no checkpoint in \"" + options.checkpointFolder + "\"; training starts at the beginning");
      return Error::success();
    }
    return makeError(Status::Rejected, "--resume expects a checkpoint that can be read in \"", options.checkpointFolder,
                     "\", got none: ", damaged, "; restore one of them, or remove them all to begin anew");
  }

  Error restorePosition() {
    position.seed = options.seed.value_or(0);
    position.samples = data ? data->samples() : 0;
    if (!checkpoint) {
      Error error = readRate(nullptr);
      return error ? error : readWeights();
    }
    const TrainPosition &saved = checkpoint->position;
    if (data && saved.samples != 0 && saved.samples != data->samples())
      return makeError(Status::Failure, "checkpoint ", checkpoint->folder, " expects the data of its run, with ",
                       saved.samples, " samples, got ", data->samples());
    if (options.seed && *options.seed != saved.seed)
      return makeError(Status::Usage, "checkpoint ", checkpoint->folder, " expects its run's --seed ", saved.seed,
                       ", got ", *options.seed);
    position = saved;
    lastKept = checkpoint->folder;
    report.resumedFrom = saved.steps;
    if (Error error = readRate(&*checkpoint))
      return error;
    std::string text;
    if (Error error = restore(*plan, *entries[0], *checkpoint, values, text))
      return error;
    if (!text.empty())
      notice(text);
    notice("going on from " + checkpoint->folder.string() + ", in epoch " + std::to_string(saved.epoch + 1));
    return Error::success();
  }

  Error readRate(const Checkpoint *from) {
    auto read = LearningRate::read(*plan, from, options.learningRate);
    if (!read)
      return read.error();
    learningRate = std::move(*read);
    learningRate.addTo(values);
    return Error::success();
  }

  /// First values of the model's parameters, for a run that goes on from no checkpoint.
  Error readWeights() {
    if (options.weightsFile.empty())
      return Error::success();
    std::string text;
    Error error = beginWith(*plan, *entries[0], options.weightsFile, weights, values, text);
    if (!error && !text.empty())
      notice(text);
    return error;
  }

  Error onCheckpoint(const TrainPosition &at) override {
    if (options.checkpointFolder.empty())
      return Error::success();
    if (Error error = agree(divergence()))
      return error;
    auto tensors = readParameters(context, checkpointParameters(*plan, *entries[0]));
    if (!tensors)
      return tensors.error();
    auto rate = learningRate.tensors();
    if (!rate)
      return rate.error();
    if (isFirst())
      tensors->insert(tensors->end(), rate->begin(), rate->end());
    if (replicaLoop) {
      auto own = replicaLoop->ownState();
      if (!own)
        return own.error();
      tensors->insert(tensors->end(), own->begin(), own->end());
    }
    Error error = folder ? folder->write(at, *tensors) : Error::success();
    if (error && !lastKept.empty())
      error = makeError(error.status(), error.message(), "; the last whole checkpoint is ", lastKept);
    else if (!error)
      lastKept = CheckpointFolder::pathOf(options.checkpointFolder, at.steps);
    error = agree(error);
    cannotCheckpoint = static_cast<bool>(error);
    return error;
  }

  //===-- the run -------------------------------------------------------------------------------------------------===//

  Error createExecutor() {
    ExecutorOptions executorOptions;
    executorOptions.processes = context.processes;
    executorOptions.rankOfDevice = context.rankOfDevice;
    executorOptions.trace = options.traceFile.empty() ? nullptr : &trace;
    if (plan->replicas) {
      if (!isFirst())
        return agree(Error::success());
      executorOptions.pin = !processes;
      // Replicas work beside the keeper, whose devices may be theirs or come after them.
      uint32_t replicaDevices = plan->replicas->count * plan->replicas->devices;
      bool isApart = *keeperDevices(*plan).rbegin() >= replicaDevices;
      for (uint32_t device = 0; device != replicaDevices; ++device)
        (isApart ? executorOptions.threadsBefore : executorOptions.threadsBehind) += plan->devices[device].cores;
    }
    std::vector<std::string> names;
    for (const Entry *entry : entries)
      names.push_back(entry->name);
    auto created = Executor::create(plan, names, values, std::move(executorOptions));
    if (Error error = plan->replicas ? agree(created.error()) : created.error())
      return error;
    executor = std::move(*created);
    context.executor = executor.get();
    report.batch = batch;
    report.samples = position.samples;
    report.hasLosses = options.jsonSteps;
    report.devices = executor->memory();
    return Error::success();
  }

  Error createLoop() {
    if (!data)
      return Error::success();
    TrainObserver &observer = *this;
    if (!plan->replicas) {
      loop = std::make_unique<TrainLoop>(context, *data, evaluation.get(), schedule, observer);
      return Error::success();
    }
    if (processes) {
      if (replicaOptions.goOn)
        processes->expectLosses();
      auto made = processes->createMessages();
      if (!made)
        return made.error();
      messages = std::move(*made);
    }
    std::span<const NamedTensor> restored;
    if (checkpoint)
      restored = checkpoint->tensors;
    if (!isFirst())
      return createServer(restored);
    auto made = std::make_unique<ReplicaLoop>(context, *data, evaluation.get(), schedule, observer, replicaOptions,
                                              messages.get());
    if (Error error = agree(made->create(values, restored, position.seed)))
      return error;
    report.replicas = plan->replicas->count;
    report.devices = made->memory();
    joinReplicas();
    replicaLoop = made.get();
    loop = std::move(made);
    return Error::success();
  }

  /// The replicas of a process that does not lead.
  Error createServer(std::span<const NamedTensor> restored) {
    auto made = std::make_unique<ReplicaServer>(plan, *data, *messages);
    Error error;
    for (uint32_t number = 0; number != plan->replicas->count && !error; ++number)
      if (replicaOptions.rankOf(number) == processes->rank())
        error = made->add(number, values, restored, replicaOptions.trialOf(number));
    if (Error failed = agree(error))
      return failed;
    report.devices = made->memory();
    joinReplicas();
    server = std::move(made);
    return Error::success();
  }

  /// The memory of all processes' devices.
  void joinReplicas() {
    std::set<uint32_t> devices;
    for (uint32_t device = 0; device != plan->replicas->count * plan->replicas->devices; ++device)
      devices.insert(device);
    devices.merge(keeperDevices(*plan));
    if (processes)
      report.devices = joinMemory(*processes, plan, devices, context.rankOfDevice, report.devices);
  }

  Error serve() {
    if (keeps())
      signals.emplace();
    auto end = server->serve();
    if (!end)
      return end.error();
    served = *end;
    if (served.somebodyGone != 0)
      processes->setSomebodyGone();
    return Error::success();
  }

  /// Whether the run has something to keep when it is asked to end.
  bool keeps() const { return !options.checkpointFolder.empty() || !options.exportFile.empty(); }

  Error train() {
    auto begin = std::chrono::steady_clock::now();
    if (data) {
      // Without something to keep the run ends at once.
      if (keeps())
        signals.emplace();
      if (replicaLoop)
        if (Error error = replicaLoop->prepareForLosses())
          return error;
      if (Error error = loop->run(position))
        return error;
      if (Error error = agree(divergence()))
        return error;
      if (replicaLoop) {
        report.staleness = replicaLoop->staleness();
        report.versions = replicaLoop->versions();
        report.exchanged = replicaLoop->exchanged();
      }
      stoppedBy = loop->stopSignal();
      if (stoppedBy != 0)
        noticeStop(loop->at());
    }
    if (report.epochs.empty() && evaluation && stoppedBy == 0) {
      auto result = evaluate(context, *evaluation, options.inFlight);
      if (!result)
        return result.error();
      report.evaluation = *result;
      if (isFirst() && *result)
        printEvaluation(out, **result);
    }
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return Error::success();
  }

  /// A loss that is no number makes parameters that are none: steps, checkpoints and exports after it are worth
  /// nothing, and would take the place of good ones. Known to the first process.
  Error divergence() const {
    if (!context.hasDiverged)
      return Error::success();
    std::string kept = lastKept.empty() ? "" : "; checkpoint " + lastKept.string() + " is from before";
    return makeError(Status::Failure, "training expects finite losses, got ", divergedTo, " in step ", divergedAt, kept,
                     "; train with a smaller --learning-rate, or compile with --clip-norm");
  }

  void noticeStop(const TrainPosition &at) {
    std::string text = StopSignals::nameOf(stoppedBy) + " has ended training after step " + std::to_string(at.steps);
    if (!options.checkpointFolder.empty())
      text += "; " + CheckpointFolder::pathOf(options.checkpointFolder, at.steps).string() + " has what --resume needs";
    if (!options.exportFile.empty())
      text += "; the parameters so far go to " + options.exportFile;
    notice(text);
  }

  void onStep(const TrainPosition &at, const StepOutcome &outcome, uint64_t stepsOfEpoch) override {
    report.steps += 1;
    if (options.jsonSteps)
      report.losses.push_back(outcome.loss);
    // No label that counts has no loss.
    if (isFirst() && !std::isfinite(outcome.loss) && outcome.count != 0u && !std::exchange(context.hasDiverged, true))
      std::tie(divergedAt, divergedTo) = std::pair(at.steps, outcome.loss);
    progress.onStep(at, outcome, stepsOfEpoch, report.batch);
    if (isFirst() && (options.logEvery != 0 || !options.logFile.empty()))
      logStep(at, outcome.loss, stepsOfEpoch);
  }

  void logStep(const TrainPosition &at, double loss, uint64_t stepsOfEpoch) {
    uint64_t all = schedule.epochs > UINT64_MAX / stepsOfEpoch ? UINT64_MAX : schedule.epochs * stepsOfEpoch;
    progress.clear();
    if (Error error = log.onStep(at, loss, learningRate.ofStep(at.steps), std::min(all, schedule.steps.value_or(all)),
                                 report.batch))
      notice(error.message() + "; training goes on without it");
  }

  void onLostReplica(const Error &error) override { notice(error.text() + "; the others go on without it"); }

  void onEpoch(const EpochResult &result) override {
    report.epochs.push_back(result);
    progress.clear();
    if (isFirst())
      printEpoch(out, result);
  }

  /// Brings together what the processes have, and writes what is asked for: all of it, whatever part fails.
  Error finish() {
    Error first = options.exportFile.empty() ? Error::success() : exportTrained(lastKept);
    if (isTogether()) {
      report.devices = joinMemory(*processes, plan, entries, context.rankOfDevice, report.devices);
      if (!options.traceFile.empty())
        joinTrace(*processes, plan, entries, trace);
    }
    auto write = [&](const std::string &file, const std::function<void(std::ostream &)> &write) {
      if (!isFirst() || file.empty())
        return;
      Error error = replaceTextFile(file, write);
      first = first ? first : error;
    };
    write(options.traceFile, [&](std::ostream &file) { trace.write(file); });
    write(options.jsonFile, [&](std::ostream &file) { report.writeJson(file); });
    return first;
  }

  /// `kept`: a checkpoint that has these parameters, if there is one.
  Error exportTrained(const std::filesystem::path &kept) {
    auto tensors = readParameters(context, modelParameters(*plan, keptParameters(*entries[0])));
    if (!tensors)
      return tensors.error();
    return agree(isFirst() ? exportParameters(options.exportFile, *tensors, kept, options.modelExport)
                           : Error::success());
  }

  /// The parameters are worth more than the last checkpoint's, and may have room where it has none.
  Error afterFailedCheckpoint(const Error &error) {
    if (options.exportFile.empty())
      return error;
    Error failed = exportTrained({});
    return makeError(error.status(), error.message(), "; ",
                     failed ? failed.message() : "the parameters are in \"" + options.exportFile + "\"");
  }

  const Plan &plan;
  ValueSource values;
  const TrainOptions &options;
  std::ostream &out, &err;
  Processes *const processes = options.processes && options.processes->count() > 1 ? options.processes : nullptr;
  /// Those that train, by increasing length of sequences, then those that evaluate, if that is asked for.
  std::vector<const Entry *> entries, trained, evaluated;
  TrainSchedule schedule;
  std::unique_ptr<TrainingData> data, evaluation;
  LearningRate learningRate;
  std::optional<CheckpointFolder> folder;
  std::optional<Checkpoint> checkpoint;
  TrainPosition position;
  Trace trace;
  TrainContext context;
  std::unique_ptr<Executor> executor;
  uint64_t batch = 0; ///< samples of a step, of all replicas together
  ReplicaOptions replicaOptions;
  std::unique_ptr<TrainLoop> loop;
  ReplicaLoop *replicaLoop = nullptr; ///< the loop, where there are replicas
  std::unique_ptr<ReplicaServer> server;
  std::unique_ptr<Messages> messages; ///< goes before who uses them
  ReplicaEnd served;
  TrainReport report;
  TrainProgress progress;
  TrainLog log;
  std::vector<ArchiveMember> weights; ///< of a file, which `values` refers to
  std::optional<StopSignals> signals;
  int stoppedBy = 0;
  /// The checkpoint of the last step of which there is one, as the first process knows it.
  std::filesystem::path lastKept;
  bool cannotCheckpoint = false;
  uint64_t divergedAt = 0;
  double divergedTo = 0;
};

} // namespace

int trainPlan(const Plan &plan, ParameterSource &parameters, const TrainOptions &options, std::ostream &out,
              std::ostream &err) {
  TrainCommand command(plan, parameters, options, out, err);
  Error error = command.run();
  if (!command.isFirst())
    return command.exitCode(error);
  if (!error)
    command.results().print(out);
  if (error && (!options.processes || options.processes->claimReport()))
    err << error.report();
  return command.exitCode(error);
}

int trainPlan(const Plan &plan, ParameterSource &parameters, TrainOptions options) {
  options.isTerminal = isatty(STDERR_FILENO) != 0;
  // JSON has standard output for itself.
  std::ostream nowhere(nullptr);
  return trainPlan(plan, parameters, options, options.jsonFile == "-" ? nowhere : std::cout, std::cerr);
}

} // namespace cleave::runtime
