// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `ip netns exec` lays /etc/netns/NAME/hosts over /etc/hosts, so that each host knows the other by name.

#include "TwoHosts.h"

#include <cstdlib>
#include <fstream>

namespace cleave::runtime::test {

namespace fs = std::filesystem;

static constexpr const char *addresses = "127.0.0.1 localhost\n10.99.0.1 alpha\n10.99.0.2 beta\n";

static bool shell(const std::string &command) {
  // NOLINTNEXTLINE(bugprone-command-processor): fixed commands of a test
  return std::system(("(" + command + ") >/dev/null 2>&1").c_str()) == 0;
}

static void remove() {
  shell("ip netns del cleave-alpha; ip netns del cleave-beta; rm -rf /etc/netns/cleave-alpha /etc/netns/cleave-beta");
}

TwoHosts::TwoHosts(const fs::path &folder) : folder(folder) {
  remove(); // what a killed test may have left
  made = shell("ip netns add cleave-alpha && ip netns add cleave-beta && "
               "ip link add cleave-a type veth peer name cleave-b && "
               "ip link set cleave-a netns cleave-alpha && ip link set cleave-b netns cleave-beta && "
               "ip -n cleave-alpha addr add 10.99.0.1/24 dev cleave-a && "
               "ip -n cleave-beta addr add 10.99.0.2/24 dev cleave-b && "
               // mpirun tells its daemon on the other host to end, and without a cable waits until TCP gives up: for a
               // quarter of an hour if it is not told otherwise. Four times are 6.2 s, of 200 ms that double. Fewer
               // would end the guards' connections about when ranks have been silent for two seconds.
               "ip netns exec cleave-alpha sh -c 'echo 4 > /proc/sys/net/ipv4/tcp_retries2' && "
               "ip -n cleave-alpha link set lo up && ip -n cleave-beta link set lo up && "
               "ip -n cleave-alpha link set cleave-a up && ip -n cleave-beta link set cleave-b up && "
               "mkdir -p /etc/netns/cleave-alpha /etc/netns/cleave-beta && "
               "ip netns exec cleave-alpha unshare --uts hostname alpha");
  if (!made)
    return;
  for (const char *host : {"alpha", "beta"})
    std::ofstream("/etc/netns/cleave-" + std::string(host) + "/hosts") << addresses;
  std::ofstream(folder / "ssh") << "#!/bin/sh\n"
                                   "while [ \"${1#-}\" != \"$1\" ]; do shift; done\n" // options
                                   "host=$1\n"
                                   "shift\n"
                                   "exec ip netns exec cleave-$host unshare --uts sh -c \"hostname $host; $*\"\n";
  fs::permissions(folder / "ssh", fs::perms::owner_all);
}

TwoHosts::~TwoHosts() { remove(); }

std::vector<std::string> TwoHosts::onAlpha() const {
  return {"ip", "netns", "exec", "cleave-alpha", "unshare", "--uts", "sh", "-c", "hostname alpha; exec \"$0\" \"$@\""};
}

std::vector<std::string> TwoHosts::options() const {
  return {"--host", "alpha:2,beta:2", "-x", "PATH", "--mca", "plm_rsh_agent", folder / "ssh"};
}

void TwoHosts::cut() const { shell("ip -n cleave-beta link set cleave-b down"); }

} // namespace cleave::runtime::test
