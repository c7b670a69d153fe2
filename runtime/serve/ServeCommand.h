// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command that serves plans: the whole of `cleave-run serve`, and what `cleave serve` does once it has a plan.

#ifndef CLEAVE_RUNTIME_SERVE_SERVECOMMAND_H
#define CLEAVE_RUNTIME_SERVE_SERVECOMMAND_H

#include "runtime/serve/ServedModel.h"
#include "runtime/serve/http/HttpServer.h"

#include <iosfwd>

namespace cleave::runtime::serve {

/// A plan that is in memory already.
struct PreparedPlan {
  std::string name, from; ///< from: what people know it by
  Plan plan;
  std::shared_ptr<ParameterSource> parameters;
};

/// What the user asked for.
struct ServeOptions {
  /// "FILE" or "NAME=FILE", of which the first is called as the file is without its ending.
  std::vector<std::string> plans;
  std::string modelsFolder; ///< of models that may be loaded and unloaded (ModelFolder); empty: none
  HttpOptions http;
  /// As readListenAddress has them. Empty: as `http` says; no gRPC.
  std::string httpAddress, grpcAddress;
  double maxDelayMs = 5, timeoutMs = 0; ///< timeoutMs: 0: none but requests' own
  ServedModelOptions model;
  std::string tokenFile, accessLog;
  size_t traces = 0;                  ///< how many of the latest are kept
  std::string tlsCertificate, tlsKey; ///< files; empty: in the clear
  double drainSeconds = 30;
  /// Those that were started together (mpirun), and the devices of each (divideDevices); null: there is one.
  Processes *processes = nullptr;
  std::vector<std::string> devicesOfRank;
  std::string version;   ///< of the program
  PlanExplainer explain; ///< empty where the program cannot explain plans
  /// Asked before anything of a plan runs.
  std::function<Error(const Plan &, const std::string &file)> trust;
};

/// Loads the plans, opens the port, says so on `out`, and serves until SIGTERM, SIGINT or SIGHUP asks for an end; then
/// answers what was asked and closes. Errors before the port opens are one line on `err`. The exit code. Of several
/// processes the first one does all that; the others run their parts of plans until it ends.
int serveCommand(const ServeOptions &options, std::vector<PreparedPlan> prepared, std::ostream &out, std::ostream &err);

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_SERVECOMMAND_H
