// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fork, and what the guarded process asks of its guard.

#include "runtime/watch/Watch.h"

#include "runtime/watch/Guard.h"

#include <csignal>
#include <cstring>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cleave::runtime {

/// The guarded process's end of its socket to the guard; -1 in processes without one.
static int control = -1;

/// The signals that a guard hears of: its process changes, or it is to end.
static sigset_t guardSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT})
    sigaddset(&set, signal);
  return set;
}

/// The guarded process: nobody's orphan.
static void beGuarded(pid_t guard, const sigset_t &before, const int (&sockets)[2], int signals) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != guard)
    _exit(static_cast<int>(Status::Lost)); // it ended before the line above
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(sockets[0]);
  close(signals);
  control = sockets[1];
}

void startGuard(uint32_t rank) {
  Guarded guarded;
  guarded.book = Logbook::create();
  guarded.rank = rank;
  guarded.launcher = getppid();
  int sockets[2];
  if (!guarded.book || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    return;
  sigset_t wanted = guardSignals(), before;
  sigprocmask(SIG_BLOCK, &wanted, &before);
  guarded.signals = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
  pid_t guard = getpid();
  guarded.process = guarded.signals < 0 ? -1 : fork();
  if (guarded.process < 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    close(sockets[0]);
    close(sockets[1]);
    return;
  }
  if (guarded.process == 0) {
    beGuarded(guard, before, sockets, guarded.signals);
    return;
  }
  close(sockets[1]);
  guarded.control = sockets[0];
  // What mpirun passes on to the processes is not for the guard.
  for (int signal : {SIGUSR1, SIGUSR2, SIGPIPE, SIGTSTP})
    std::signal(signal, SIG_IGN);
  prctl(PR_SET_NAME, "cleave-guard");
  _exit(runtime::guard(guarded));
}

bool isGuarded() { return control >= 0; }

static GuardReply ask(const GuardRequest &request) {
  GuardReply reply;
  if (send(control, &request, sizeof request, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof request) &&
      recv(control, &reply, sizeof reply, 0) == static_cast<ssize_t>(sizeof reply))
    return reply;
  reply.fine = false;
  putText(reply.error, "the guard of this process does not answer");
  return reply;
}

Expected<WatchAddress> openWatch(bool everywhere) {
  WatchAddress address;
  if (getrandom(&address.token, sizeof address.token, 0) != static_cast<ssize_t>(sizeof address.token))
    return makeError(Status::Failure, "processes that watch each other expect random numbers of the system, got none");
  GuardRequest request;
  request.kind = GuardRequest::Kind::Open;
  request.everywhere = everywhere;
  GuardReply reply = ask(request);
  if (!reply.fine)
    return makeError(Status::Failure,
                     "processes that watch each other expect a TCP port, got none: ", reply.error.data());
  address.port = reply.port;
  address.addresses = everywhere ? addressesOfHost() : "127.0.0.1";
  return address;
}

Error joinWatch(uint32_t rank, uint32_t count, const WatchAddress &address, const WatchOptions &options) {
  GuardRequest request;
  request.kind = GuardRequest::Kind::Join;
  request.rank = rank;
  request.count = count;
  request.token = address.token;
  request.port = address.port;
  putText(request.addresses, address.addresses);
  request.options = options;
  GuardReply reply = ask(request);
  if (reply.fine)
    return Error::success();
  return makeError(Status::Failure,
                   "processes that watch each other expect a TCP connection to rank 0, got none: ", reply.error.data());
}

} // namespace cleave::runtime
