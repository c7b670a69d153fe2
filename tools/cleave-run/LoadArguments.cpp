// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declares the options of the load command.

#include "tools/cleave-run/LoadArguments.h"

#include "tools/cleave-run/NumberOptions.h"
#include "tools/cleave-run/OutputOptions.h"

#include <CLI/CLI.hpp>

namespace cleave {

void addLoadArguments(CLI::App &command, runtime::serve::LoadOptions &options) {
  command.add_option("URL", options.url, "the server, as http://127.0.0.1:8000")->required();
  command.add_option("--model", options.model, "which of its models to ask")->required();
  command.add_option("--model-version", options.version, "which version; otherwise the newest");
  command.add_option("--clients", options.clients, "connections; each waits for an answer before it asks again")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--seconds", options.seconds, "how long to ask")->check(positive)->capture_default_str();
  command
      .add_option("--rate", options.rate,
                  "requests a second, at random times, whatever the answers do; 0: as fast as answers come")
      ->type_name("FLOAT")
      ->check(notNegative);
  command.add_option("--samples", options.samples, "samples of a request")->check(positive)->capture_default_str();
  command
      .add_option("--deadline", options.deadlineMs,
                  "milliseconds within which an answer is good, which the server is told; 0: any")
      ->type_name("FLOAT")
      ->check(notNegative);
  command.add_flag("--expect-continue", options.expectsContinue,
                   "send a request's body when the server has answered its header with 100 Continue");
  command.add_option("--seed", options.seed, "of inputs and times")->capture_default_str();
  command.add_option("--token-file", options.tokenFile, "a file whose first line is the server's bearer token")
      ->type_name("FILE");
  command
      .add_option("--ca", options.authorities,
                  "a PEM file with certificates that sign the server's, for https://; otherwise those of the system")
      ->type_name("FILE");
  addOutputOption(command, "--json", options.jsonFile, "where the results go as JSON");
}

} // namespace cleave
