// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave profile`: measures the kernels of plans on this host, so that `cleave simulate` knows them.

#include "compiler/HostProfile.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/OutputFile.h"

#include "runtime/Verify.h"

#include "llvm/Support/Process.h"

#include <CLI/CLI.hpp>

namespace cleave::tool {
namespace {

struct ProfileOptions {
  std::vector<std::string> plans;
  std::string json;
};

Error profilePlans(const ProfileOptions &options) {
  runtime::Profile profile = readHostProfile(console());
  size_t before = profile.numKernels();
  bool shows = llvm::sys::Process::StandardErrIsDisplayed();
  for (const std::string &file : options.plans) {
    auto plan = runtime::readVerifiedPlan(file);
    if (!plan)
      return plan.error();
    Error error = measurePlan(*plan, profile, [&](size_t done, size_t count) {
      if (shows)
        llvm::errs() << "\r" << file << ": " << done << " of " << count << " kernels" << (done == count ? "\n" : "");
    });
    if (error)
      return error;
  }
  if (Error error = writeHostProfile(profile))
    return error;
  size_t measured = profile.numKernels() - before;
  Error error = writeText(options.json, [&](llvm::raw_ostream &out) {
    out << "measured " << measured << " kernels; " << hostProfileFile() << " has " << profile.numKernels() << "\n";
  });
  if (error || options.json.empty())
    return error;
  return writeJson(options.json, [&](JsonStream &json) {
    json.attribute("measured", measured);
    json.attribute("kernels", profile.numKernels());
    json.attribute("file", hostProfileFile());
  });
}

} // namespace

void addProfileCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<ProfileOptions>();
  CLI::App *command =
      app.add_subcommand("profile", "Measures the kernels of plans on this host, for better predictions.");
  command->add_option("PLAN", options->plans, "plans for devices of this host")->required();
  addOutputOption(*command, "--json", options->json, "where the result goes as JSON");
  command->callback([options, &chosen] { chosen = [options] { return report(profilePlans(*options)); }; });
}

} // namespace cleave::tool
