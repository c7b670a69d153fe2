// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declares the options of the serve command.

#include "tools/cleave-run/ServeArguments.h"

#include "tools/cleave-run/NumberOptions.h"
#include "tools/cleave-run/TrainArguments.h"

#include <CLI/CLI.hpp>

namespace cleave {

const runtime::serve::ServeOptions &ServeArguments::complete() {
  options.version = CLEAVE_VERSION;
  options.trust = [this](const runtime::Plan &plan, const std::string &file) { return trust.check(plan, file); };
  return options;
}

void addServeArguments(CLI::App &command, ServeArguments &arguments) {
  runtime::serve::ServeOptions &options = arguments.options;
  command
      .add_option(
          "--http", options.httpAddress,
          "where to listen: a port, HOST:PORT or [HOST]:PORT; default: 127.0.0.1:8000. Port 0: any that is free")
      ->type_name("ADDRESS");
  command
      .add_option(
          "--grpc", options.grpcAddress,
          "where to listen for gRPC, as --http; default: nowhere. --max-body and the limits of time hold there, too")
      ->type_name("ADDRESS");
  command
      .add_option("--models", options.modelsFolder,
                  "a folder of models, NAME/VERSION/*.plan, which may be loaded, replaced and unloaded while it serves")
      ->type_name("FOLDER");
  command
      .add_option("--max-delay", options.maxDelayMs,
                  "milliseconds after which a request that waits for others starts as soon as a batch can")
      ->check(notNegative)
      ->capture_default_str();
  command
      .add_option(
          "--request-timeout", options.timeoutMs,
          "milliseconds from its first byte within which a request is to be answered, unless its own timeout is "
          "shorter; 0: its own alone")
      ->type_name("FLOAT")
      ->check(notNegative);
  command.add_option("--queue-limit", options.model.queueLimit, "samples of a model that may wait; more are refused")
      ->check(positive)
      ->capture_default_str();
  command
      .add_option("--in-flight", options.model.inFlight,
                  "batches of a model, or of each of its instances, at a time; 0: as many as its plan has stages")
      ->capture_default_str();
  command
      .add_option("--instances", options.model.instances,
                  "how many times to load each model, on cores or GPUs of their own; batches go to the one with the "
                  "least work left")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command.add_option("--max-body", options.http.bodyBytes, "bytes of a request's body, as 64MiB")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command.add_option("--max-connections", options.http.connections, "connections at a time; more are refused")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--http-threads", options.http.threads, "threads that read and write messages")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  auto addSeconds = [&](const char *name, double &seconds, const char *help) {
    command.add_option(name, seconds, help)->type_name("SECONDS")->check(positive)->capture_default_str();
  };
  addSeconds("--idle-timeout", options.http.idleSeconds, "how long a connection may ask nothing");
  addSeconds("--header-timeout", options.http.headerSeconds, "how long a request's header may take");
  addSeconds("--body-timeout", options.http.bodySeconds, "how long a request's body may take");
  addSeconds("--drain-timeout", options.drainSeconds, "how long requests may take after SIGTERM");
  command
      .add_option("--token-file", options.tokenFile,
                  "a file whose first line is the bearer token that requests need, but for those about health")
      ->type_name("FILE");
  command
      .add_option(
          "--tls-certificate", options.tlsCertificate,
          "a PEM file with the server's certificate and those that sign it: clients use https://, and TLS for gRPC")
      ->type_name("FILE");
  command.add_option("--tls-key", options.tlsKey, "a PEM file with the certificate's private key")->type_name("FILE");
  command
      .add_option("--traces", options.traces,
                  "how many traces to keep of requests with the header X-Cleave-Trace: 1; 0: none is made")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command
      .add_option("--access-log", options.accessLog, "where a line of JSON goes for each request; -: standard error")
      ->type_name("FILE");
  arguments.trust.addTo(command);
  addProcessOptions(command, options.devicesOfRank, arguments.watch);
}

} // namespace cleave
