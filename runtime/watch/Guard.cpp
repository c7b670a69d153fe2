// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One loop over everything that can happen: the process changes, a message comes, time goes by.

#include "runtime/watch/Guard.h"

#include "runtime/Clock.h"
#include "runtime/watch/RunWatch.h"

#include <csignal>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cleave::runtime {
namespace {

/// How often a guard looks at the time when nothing happens.
constexpr int64_t tick = second / 5;
/// How long a guard waits for what must follow at once, from processes that may have to wait for a core.
constexpr int64_t patience = 2 * second;
/// How long a failure that may follow from another's waits for that one.
constexpr int64_t grace = second / 2;

int code(Status status) { return static_cast<int>(status); }

class Guard {
public:
  explicit Guard(const Guarded &guarded) : guarded(guarded), rank(guarded.rank) {}

  int run() {
    while (!exitCode) {
      waitForSomething();
      int64_t time = now();
      // Whoever has not run for long itself cannot tell who else has not, and may be about to be ended by the others.
      if (time - lastLoop > second) {
        hubHeard = time;
        judgeAfter = time + patience;
        if (watch)
          watch->forgive(time);
      }
      lastLoop = time;
      hear();
      onSignals();
      onTime();
    }
    sayGoodbye();
    if (isCutOff)
      dismissDaemon();
    return *exitCode;
  }

private:
  //===-- what happens --------------------------------------------------------------------------------------------===//

  /// A connection that ends before all of it is read takes back what it has sent: the others, which are to end, end
  /// theirs first.
  void sayGoodbye() {
    std::vector<GuardMessage> unheard;
    for (int64_t until = now() + grace; !links.empty() && now() < until;) {
      waitForSomething();
      for (auto at = links.begin(); at != links.end();)
        at = at->second.receive(unheard) ? std::next(at) : links.erase(at);
    }
  }

  void waitForSomething() {
    std::vector<pollfd> list = {{guarded.signals, POLLIN, 0}};
    auto add = [&](int socket, bool writes) {
      if (socket >= 0)
        list.push_back({socket, static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0});
    };
    add(control, false);
    add(listener.socket, false);
    if (hub)
      add(hub->socket(), hub->hasMore());
    for (const GuardLink &link : strangers)
      add(link.socket(), false);
    for (const auto &[from, link] : links)
      add(link.socket(), link.hasMore());
    poll(list.data(), list.size(), static_cast<int>(tick / 1'000'000));
    if (hub)
      hub->flush();
    for (auto &[from, link] : links)
      link.flush();
  }

  /// mpirun's daemon on a host that is cut off from mpirun's own would wait for as long as TCP sends again.
  void dismissDaemon() const {
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(guarded.launcher) + "/comm"), name);
    if (name == "orted" || name == "prted")
      kill(guarded.launcher, SIGTERM);
  }

  void hear() {
    if (watch)
      watch->setAfterLoss(guarded.book->afterLoss());
    onRequests();
    acceptStrangers();
    std::vector<GuardMessage> messages;
    for (auto at = links.begin(); at != links.end();) {
      messages.clear();
      bool there = at->second.receive(messages);
      for (const GuardMessage &message : messages)
        onMember(at->first, message);
      if (!there)
        watch->leave(at->first, now());
      // Who has said goodbye waits for the connection to end.
      at = there && !watch->hasEnded(at->first) ? std::next(at) : links.erase(at);
    }
    if (!hub)
      return;
    messages.clear();
    bool there = hub->receive(messages);
    for (const GuardMessage &message : messages)
      onHub(message);
    if (!there && !exitCode)
      loseHub(Status::Lost, "its connection to this rank has ended");
  }

  void onRequests() {
    GuardRequest request;
    ssize_t got = control < 0 ? -1 : recv(control, &request, sizeof request, MSG_DONTWAIT);
    if (got == 0) { // the process has ended
      close(control);
      control = -1;
    }
    if (got != static_cast<ssize_t>(sizeof request))
      return;
    GuardReply reply = request.kind == GuardRequest::Kind::Open ? open(request) : join(request);
    (void)send(control, &reply, sizeof reply, MSG_NOSIGNAL);
  }

  GuardReply open(const GuardRequest &request) {
    GuardReply reply;
    listener = listenForProcesses(request.everywhere);
    reply.port = listener.port;
    reply.fine = listener.socket >= 0;
    putText(reply.error, listener.error);
    return reply;
  }

  GuardReply join(const GuardRequest &request) {
    GuardReply reply;
    options = request.options;
    rank = request.rank;
    token = request.token;
    if (rank == 0) {
      watch.emplace(request.count, options, now());
      return reply;
    }
    std::string error;
    int socket = connectToProcess(request.addresses.data(), request.port, error);
    reply.fine = socket >= 0;
    putText(reply.error, error);
    if (!reply.fine)
      return reply;
    hub.emplace(socket);
    hubHeard = now();
    GuardMessage hello;
    hello.kind = GuardMessageKind::Hello;
    hello.rank = rank;
    hello.token = token;
    gethostname(hello.host.data(), hello.host.size() - 1);
    hub->send(hello);
    return reply;
  }

  /// Connections count once they have said who they are.
  void acceptStrangers() {
    if (listener.socket >= 0 && watch)
      for (int socket; (socket = accept4(listener.socket, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;)
        strangers.emplace_back(socket);
    for (auto at = strangers.begin(); at != strangers.end();) {
      std::vector<GuardMessage> messages;
      bool there = at->receive(messages);
      if (!messages.empty()) {
        const GuardMessage &hello = messages.front();
        there = hello.kind == GuardMessageKind::Hello && hello.token == token && watch->join(hello, now());
        if (there)
          links.emplace(hello.rank, std::move(*at));
        for (size_t i = 1; there && i != messages.size(); ++i)
          onMember(hello.rank, messages[i]);
        there = false;
      }
      at = there ? std::next(at) : strangers.erase(at);
    }
  }

  void onMember(uint32_t from, const GuardMessage &message) {
    if (message.kind == GuardMessageKind::Beat)
      watch->beat(from, message, now());
    else if (message.kind == GuardMessageKind::Failed)
      watch->fail(failureOf(from, message), now());
    else if (message.kind == GuardMessageKind::Bye)
      watch->end(from);
  }

  void onHub(const GuardMessage &message) {
    hubHeard = now();
    if (message.kind == GuardMessageKind::End)
      endWith(message.code);
    if (message.kind != GuardMessageKind::Stay)
      return;
    // mpirun would end the others if this guard ended before them.
    processCode = 0;
    pending.reset();
    endBy.reset();
    killProcess();
  }

  void onSignals() {
    signalfd_siginfo info;
    int asked = 0;
    while (read(guarded.signals, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      if (info.ssi_signo != SIGCHLD)
        asked = static_cast<int>(info.ssi_signo);
    int status = 0;
    while (!processStatus && waitpid(guarded.process, &status, WNOHANG | WUNTRACED | WCONTINUED) == guarded.process) {
      if (WIFSTOPPED(status))
        stopped = stopped ? stopped : std::optional(now());
      else if (WIFCONTINUED(status))
        stopped.reset();
      else
        processEnded(status);
    }
    if (asked == 0 || exitCode)
      return;
    // Launchers may pass on a signal that the terminal has sent as well.
    if (askedAt && now() - *askedAt < second)
      return;
    // A process that has something to keep ends by itself; whoever asks again has no time for that.
    if (!askedAt && asked != SIGQUIT && !processStatus && guarded.book->askToEnd(asked)) {
      askedAt = now();
      askedBy = asked;
      return;
    }
    // Whoever has started the run ends it: nothing has failed.
    sendToAll(GuardMessageKind::End, 128 + asked);
    endWith(processCode ? *processCode : 128 + asked);
  }

  void onTime() {
    int64_t time = now();
    if (exitCode)
      return;
    if (getppid() != guarded.launcher)
      return endWith(code(Status::Lost)); // mpirun is gone
    int64_t limit = nanoseconds(options.rankTimeout);
    if (stopped && limit > 0 && time - *stopped >= limit)
      fail({rank, Status::TimedOut, Urgency::Now,
            "rank " + std::to_string(rank) + " has been stopped for " + secondsText(time - *stopped) + latestText(),
            ""});
    if (deathAt && time >= *deathAt)
      fail(deathOf(*processStatus));
    if (Error error = guarded.book->failure(); error && !toldFailure) {
      toldFailure = true;
      // The processes would agree on the same status.
      fail({rank, Status::Lost, Urgency::IfItHangs, "rank " + std::to_string(rank) + ": " + error.message(),
            error.node()});
    }
    if (time - lastBeat >= beatPeriod() && (watch || !processCode)) {
      lastBeat = time;
      GuardMessage beat = ownBeat(time);
      if (hub)
        hub->send(beat);
      for (auto &[to, link] : links)
        link.send(beat);
    }
    if (watch)
      judge(time);
    else if (hub && limit > 0 && time - hubHeard >= limit)
      loseHub(Status::TimedOut, "it has not answered for " + secondsText(time - hubHeard));
    if (!endBy || time < *endBy || exitCode)
      return;
    if (pending)
      return sayAndEnd(*pending);
    sendToAll(GuardMessageKind::End, processCode.value_or(endCode));
    endWith(processCode.value_or(endCode));
  }

  //===-- the own process -----------------------------------------------------------------------------------------===//

  void processEnded(int status) {
    processStatus = status;
    stopped.reset();
    if (pending || processCode || exitCode)
      return;
    bool left = WIFEXITED(status) && (guarded.book->hasLeft() || WEXITSTATUS(status) == 0);
    if (left)
      return leave(WEXITSTATUS(status));
    // A signal that asks to end may be for all: then the guard has it, too.
    bool asked = WIFSIGNALED(status) && (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT);
    deathAt = now() + (asked ? grace : 0);
  }

  /// The process has ended as it should. Rank 0's guard stays until all have, and the others until it knows.
  void leave(int code) {
    processCode = code;
    if (watch) {
      watch->end(0);
      return;
    }
    if (!hub) {
      exitCode = code;
      return;
    }
    sendToAll(GuardMessageKind::Bye, code);
    endBy = now() + patience;
  }

  std::string latestText() const {
    auto list = guarded.book->activities();
    return list.empty() ? ", between instructions" : " " + list.front().text;
  }

  Failure deathOf(int status) const {
    Logbook &book = *guarded.book;
    std::string who = "rank " + std::to_string(rank);
    if (Error error = book.lastWords())
      return {rank, error.status(), Urgency::Soon, who + ": " + error.message(), error.node()};
    if (int signal = book.crashSignal()) {
      auto activity = book.crashActivity();
      return {rank, Status::Lost, Urgency::Now,
              who + " is lost: signal " + std::to_string(signal) + (activity ? " " + activity->text : latestText()),
              ""};
    }
    if (WIFSIGNALED(status))
      return {rank, Status::Lost, Urgency::Now,
              who + " is lost: signal " + std::to_string(WTERMSIG(status)) + latestText(), ""};
    // Libraries end a process by themselves when another one is gone.
    return {rank, Status::Lost, Urgency::Soon,
            who + " is lost: it has ended by itself with exit code " + std::to_string(WEXITSTATUS(status)) +
                latestText(),
            ""};
  }

  GuardMessage ownBeat(int64_t time) const {
    GuardMessage beat;
    beat.rank = rank;
    auto list = guarded.book->activities();
    if (list.empty())
      return beat;
    auto put = [&](SentActivity &to, const Activity &activity) {
      to.kind = activity.kind;
      to.age = time - activity.since;
      putText(to.text, activity.text);
    };
    put(beat.latest, list.front());
    const Activity *longest = &list.front();
    for (const Activity &each : list)
      if (each.kind > longest->kind || (each.kind == longest->kind && each.since < longest->since))
        longest = &each;
    put(beat.longest, *longest);
    return beat;
  }

  //===-- the run -------------------------------------------------------------------------------------------------===//

  int64_t beatPeriod() const {
    int64_t limit = nanoseconds(options.rankTimeout);
    return limit > 0 ? std::min(second, limit / 4) : second;
  }

  static Failure failureOf(uint32_t from, const GuardMessage &message) {
    return {from, static_cast<Status>(message.code), static_cast<Urgency>(message.urgency), message.text.data(),
            message.node.data()};
  }

  /// A failure of the own process: rank 0's guard decides, if it can be reached.
  void fail(const Failure &failure) {
    if (pending)
      return;
    if (watch)
      return watch->fail(failure, now());
    if (!hub && failure.urgency == Urgency::IfItHangs)
      return;
    if (!hub)
      return sayAndEnd(failure);
    GuardMessage message;
    message.kind = GuardMessageKind::Failed;
    message.rank = rank;
    message.code = code(failure.status);
    message.urgency = static_cast<uint32_t>(failure.urgency);
    putText(message.text, failure.text);
    putText(message.node, failure.node);
    hub->send(message);
    if (failure.urgency == Urgency::IfItHangs)
      return;
    deathAt.reset();
    killProcess();
    pending = failure;
    endCode = code(failure.status);
    endBy = now() + patience + grace;
  }

  /// What rank 0's guard does about what it has heard.
  void judge(int64_t time) {
    watch->beat(0, ownBeat(time), time);
    if (time < judgeAfter)
      return;
    if (auto failure = watch->decide(time))
      return sayAndEnd(*failure);
    for (const Failure &loss : watch->takeLosses())
      goOnWithout(loss);
    if (!watch->isOver() || exitCode)
      return;
    // Those of lost ranks are still there.
    sendToAll(GuardMessageKind::End, processCode.value_or(0));
    exitCode = processCode.value_or(0);
  }

  void goOnWithout(const Failure &loss) {
    if (!guarded.book->lose(loss.rank, Error(loss.status, loss.text, loss.node)))
      return sayAndEnd(loss);
    GuardMessage message;
    message.kind = GuardMessageKind::Stay;
    if (auto link = links.find(loss.rank); link != links.end())
      link->second.send(message);
  }

  /// Without rank 0's guard the next one says what has happened; the others only end.
  void loseHub(Status status, const std::string &how) {
    hub.reset();
    isCutOff = status == Status::TimedOut;
    if (processCode)
      return endWith(*processCode);
    if (askedAt)
      return endWith(128 + askedBy); // mpirun, which has asked, waits no longer
    if (getppid() != guarded.launcher)
      return endWith(code(Status::Lost)); // mpirun is gone
    if (pending && rank == pending->rank)
      return sayAndEnd(*pending);
    if (rank == 1)
      return sayAndEnd({0, status, Urgency::Now, "rank 0 is lost: " + how, ""});
    endCode = code(status);
    endBy = now() + grace;
  }

  void sayAndEnd(const Failure &failure) {
    // The process of rank 0 may be saying what all have agreed on.
    bool says = guarded.book->claimReport();
    if (says) {
      std::cerr << Error(failure.status, failure.text, failure.node).report() << std::flush;
    } else if (!processStatus && !stopped) {
      endCode = code(failure.status);
      endBy = endBy ? endBy : std::optional(now() + patience);
      return;
    }
    sendToAll(GuardMessageKind::End, code(failure.status));
    endWith(code(failure.status));
  }

  void sendToAll(GuardMessageKind kind, int code) {
    GuardMessage message;
    message.kind = kind;
    message.rank = rank;
    message.code = code;
    if (hub && kind == GuardMessageKind::Bye)
      hub->send(message);
    for (auto &[to, link] : links)
      link.send(message);
  }

  void killProcess() const {
    if (!processStatus)
      kill(guarded.process, SIGKILL);
  }

  void endWith(int code) {
    killProcess();
    // One that the system does not let go of dies when it does.
    int status = 0;
    for (int64_t until = now() + patience; !processStatus && now() < until; usleep(1000))
      if (waitpid(guarded.process, &status, WNOHANG) == guarded.process)
        processStatus = status;
    if (!exitCode)
      exitCode = code;
  }

  const Guarded guarded;
  uint32_t rank;
  WatchOptions options;
  uint64_t token = 0;
  int control = guarded.control;

  // The own process: since when it is stopped, how it ended and with which code if it was as it should, when its death
  // is to be told, and when it was asked to end.
  std::optional<int64_t> stopped, deathAt, askedAt;
  std::optional<int> processStatus, processCode;
  bool toldFailure = false;
  int askedBy = 0; ///< the signal

  // Rank 0's guard has the watch and links to all, the others one to it.
  Listener listener;
  std::vector<GuardLink> strangers;
  std::map<uint32_t, GuardLink> links;
  std::optional<RunWatch> watch;
  std::optional<GuardLink> hub;
  bool isCutOff = false; ///< from rank 0's host, as far as this one can tell
  int64_t hubHeard = 0, lastBeat = 0, lastLoop = now(), judgeAfter = 0;

  // A failure of the own process that rank 0's guard has been told, and when this one ends even without an answer.
  std::optional<Failure> pending;
  std::optional<int64_t> endBy;
  int endCode = code(Status::Lost);
  std::optional<int> exitCode;
};

} // namespace

int guard(const Guarded &guarded) { return Guard(guarded).run(); }

} // namespace cleave::runtime
