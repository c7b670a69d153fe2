// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Looks at what a plan holds and who could have written it.

#include "tools/cleave-run/PlanTrust.h"

#include "runtime/Printable.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstring>
#include <grp.h>
#include <optional>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <variant>

namespace cleave {

using runtime::makeError;
using runtime::Plan;
using runtime::printable;
using runtime::Status;

static runtime::Error refuseCode(const Plan &plan, const std::string &file) {
  std::string holder = "an object that no kernel uses";
  for (const runtime::Kernel &kernel : plan->kernels)
    if (!std::holds_alternative<runtime::LibraryKernel>(kernel.body)) {
      holder = "kernel \"" + printable(kernel.name) + "\"";
      break;
    }
  return makeError(Status::Rejected, file, ": ", holder,
                   " is native code, which --no-native refuses; compile the model yourself, or leave --no-native out "
                   "where you trust whoever made the plan");
}

/// Whether the group has the user's name and no other member: with umask 002, all that such a user writes is
/// writable by this group.
static bool isPrivateGroup(gid_t group) {
  const passwd *user = getpwuid(geteuid());
  if (!user || user->pw_gid != group)
    return false;
  std::string name = user->pw_name;
  const struct group *found = getgrgid(group);
  if (!found || found->gr_name != name)
    return false;
  for (char **member = found->gr_mem; *member; ++member)
    if (*member != name)
      return false;
  return true;
}

/// Which other users could have written the file, and what to do about it; none if only the user and root could.
static std::optional<std::string> otherWriters(const struct stat &status) {
  if (status.st_uid != geteuid() && status.st_uid != 0)
    return "belongs to user " + std::to_string(status.st_uid) + ", neither you nor root; copy it";
  if (status.st_mode & S_IWOTH)
    return "can be written by everybody; take that right away with chmod go-w";
  if ((status.st_mode & S_IWGRP) && status.st_gid != 0 && !isPrivateGroup(status.st_gid))
    return "can be written by group " + std::to_string(status.st_gid) + "; take that right away with chmod go-w";
  return std::nullopt;
}

void PlanTrust::addTo(CLI::App &command) {
  CLI::Option *noNative = command.add_flag("--no-native", refusesCode,
                                           "refuse a plan that holds native code, which can do whatever you can");
  command
      .add_flag("--trust-plan", acceptsAny,
                "run a plan's native code even if others than you and root could have written the plan")
      ->excludes(noNative);
}

runtime::Error PlanTrust::check(const Plan &plan, const std::string &file) const {
  if (plan->objects.empty() || acceptsAny)
    return runtime::Error::success();
  if (refusesCode)
    return refuseCode(plan, file);
  struct stat status = {};
  if (stat(file.c_str(), &status) != 0)
    return makeError(Status::Failure, file, ": ", std::strerror(errno));
  if (auto writers = otherWriters(status))
    return makeError(Status::Rejected, file, ": holds native code, and ", *writers,
                     " if you know what it holds, or give --trust-plan");
  return runtime::Error::success();
}

} // namespace cleave
