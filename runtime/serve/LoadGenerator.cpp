// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thread for each client; in an open loop they take the next request of one schedule.

#include "runtime/serve/LoadGenerator.h"

#include "runtime/FileReplacement.h"
#include "runtime/Generator.h"
#include "runtime/HostTensor.h"
#include "runtime/Json.h"
#include "runtime/serve/Datatype.h"
#include "runtime/serve/http/HttpClient.h"

#include <simdjson.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

namespace cleave::runtime::serve {
namespace {

using Clock = std::chrono::steady_clock;
namespace dom = simdjson::dom;

struct Message {
  std::string target, body;
  HttpHeaders headers;
};

/// Normal numbers for floats, zeros and ones for others.
Expected<HostTensor> randomTensor(TensorType type, uint64_t seed) {
  auto tensor = HostTensor::allocate(std::move(type));
  if (!tensor)
    return tensor;
  GeneratedSource source;
  source.distribution = isFloatingPoint(tensor->type().element) ? Distribution::Normal : Distribution::Uniform;
  source.a = 0;
  source.b = 1;
  source.seed = seed;
  generate(source, tensor->type().element, tensor->bytes());
  return tensor;
}

/// A request for a model with this metadata.
Expected<Message> messageFor(const dom::element &metadata, const LoadOptions &options) {
  Message message;
  std::ostringstream head;
  std::string bytes;
  head << "{\"parameters\": {\"binary_data_output\": true";
  if (options.deadlineMs > 0)
    head << ", \"timeout\": " << static_cast<uint64_t>(options.deadlineMs * 1e3);
  head << "}, \"inputs\": [";
  dom::array inputs;
  if (metadata["inputs"].get(inputs) != simdjson::SUCCESS)
    return makeError(Status::Failure, "the server's metadata of the model expects \"inputs\"");
  for (dom::element input : inputs) {
    std::string_view name, datatype;
    dom::array shape;
    if (input["name"].get(name) != simdjson::SUCCESS || input["datatype"].get(datatype) != simdjson::SUCCESS ||
        input["shape"].get(shape) != simdjson::SUCCESS || !datatypeNamed(datatype))
      return makeError(Status::Failure,
                       "the server's metadata of the model expects name, datatype and shape of inputs");
    TensorType type{*datatypeNamed(datatype), {}, {}};
    std::ostringstream dims;
    for (dom::element dim : shape) {
      int64_t size = 0;
      if (dim.get(size) != simdjson::SUCCESS)
        size = 1;
      type.shape.push_back(size < 0 ? static_cast<int64_t>(options.samples) : size);
      dims << (type.shape.size() == 1 ? "" : ",") << type.shape.back();
    }
    auto tensor = randomTensor(type, options.seed + bytes.size());
    if (!tensor)
      return tensor.error();
    bool isFirst = bytes.empty();
    bytes.append(reinterpret_cast<const char *>(tensor->bytes().data()), tensor->bytes().size());
    head << (isFirst ? "" : ", ") << "{\"name\": " << JsonString{name} << ", \"datatype\": \"" << datatype
         << "\", \"shape\": [" << dims.str() << "], \"parameters\": {\"binary_data_size\": " << tensor->bytes().size()
         << "}}";
  }
  head << "]}";
  std::string json = head.str();
  message.headers["Inference-Header-Content-Length"] = std::to_string(json.size());
  message.headers["Content-Type"] = "application/octet-stream";
  // The server is told in the header, too, for it to refuse what it will not answer in time before the body.
  if (options.deadlineMs > 0)
    message.headers["X-Cleave-Timeout"] = std::to_string(static_cast<uint64_t>(options.deadlineMs * 1e3));
  message.body = std::move(json) + bytes;
  return message;
}

/// Of all threads of this process, up to now.
double processorSeconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

class Load {
public:
  Load(const LoadOptions &options, Message message) : options(options), message(std::move(message)) {}

  LoadReport run() {
    if (options.rate > 0)
      makeSchedule();
    double processorBegin = processorSeconds();
    begin = Clock::now();
    end = begin + std::chrono::nanoseconds(static_cast<int64_t>(options.seconds * 1e9));
    std::vector<std::thread> clients;
    for (unsigned i = 0; i != options.clients; ++i)
      clients.emplace_back([this] { runClient(); });
    for (std::thread &client : clients)
      client.join();
    report.seconds = std::chrono::duration<double>(std::max(Clock::now(), end) - begin).count();
    report.processorSeconds = processorSeconds() - processorBegin;
    std::sort(report.latencies.begin(), report.latencies.end());
    report.inputBytes = static_cast<double>(message.body.size());
    return std::move(report);
  }

private:
  void makeSchedule() {
    std::mt19937_64 random(options.seed);
    std::exponential_distribution<double> gap(options.rate);
    for (double at = gap(random); at < options.seconds; at += gap(random))
      schedule.push_back(at);
  }

  void runClient() {
    auto client = HttpClient::create(options.url, options.authorities);
    LoadReport own;
    while (client) {
      Clock::time_point due = Clock::now();
      if (options.rate > 0) {
        size_t index = next++;
        if (index >= schedule.size())
          break;
        due = begin + std::chrono::nanoseconds(static_cast<int64_t>(schedule[index] * 1e9));
        std::this_thread::sleep_until(due);
      } else if (due >= end) {
        break;
      }
      auto answer = client->ask("POST", message.target, message.headers, message.body);
      count(own, answer, std::chrono::duration<double>(Clock::now() - due).count());
    }
    std::lock_guard lock(mutex);
    report.latencies.insert(report.latencies.end(), own.latencies.begin(), own.latencies.end());
    report.good += own.good;
    report.broken += own.broken;
    for (auto [status, number] : own.statuses)
      report.statuses[status] += number;
  }

  void count(LoadReport &own, const Expected<HttpResponse> &answer, double seconds) const {
    if (!answer) {
      ++own.broken;
      // A server that is away is asked ten times a second.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return;
    }
    ++own.statuses[answer->status];
    if (answer->status != 200)
      return;
    own.latencies.push_back(seconds);
    own.good += options.deadlineMs <= 0 || seconds <= options.deadlineMs * 1e-3;
  }

  const LoadOptions &options;
  const Message message;
  std::vector<double> schedule;
  std::atomic<size_t> next = 0;
  Clock::time_point begin, end;
  std::mutex mutex;
  LoadReport report;
};

} // namespace

double LoadReport::percentile(double share) const {
  if (latencies.empty())
    return 0;
  auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(latencies.size())));
  return latencies[std::clamp<size_t>(rank, 1, latencies.size()) - 1];
}

static double meanOf(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values)
    sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

void LoadReport::print(std::ostream &out, uint64_t samples) const {
  double answered = static_cast<double>(latencies.size());
  out << latencies.size() << " answers in " << seconds << " s, " << answered / seconds << " a second, "
      << answered * static_cast<double>(samples) / seconds << " samples a second, "
      << static_cast<double>(good) / seconds << " answers a second in time\nlatency ms: mean "
      << meanOf(latencies) * 1e3;
  for (double share : {0.5, 0.9, 0.95, 0.99, 0.999})
    out << ", p" << share * 100 << " " << percentile(share) * 1e3;
  out << "\n";
  for (auto [status, number] : statuses)
    if (status != 200)
      out << "status " << status << ": " << number << "\n";
  if (broken != 0)
    out << "without an answer: " << broken << "\n";
}

void LoadReport::writeJson(std::ostream &out, const LoadOptions &options) const {
  double answered = static_cast<double>(latencies.size());
  out << "{\"version\": 1, \"model\": " << JsonString{options.model} << ", \"clients\": " << options.clients
      << ", \"rate\": " << JsonNumber{options.rate} << ", \"samples\": " << options.samples
      << ", \"seconds\": " << JsonNumber{seconds} << ", \"processor_seconds\": " << JsonNumber{processorSeconds}
      << ", \"answers\": " << latencies.size() << ", \"answers_per_second\": " << JsonNumber{answered / seconds}
      << ", \"samples_per_second\": " << JsonNumber{answered * static_cast<double>(options.samples) / seconds}
      << ", \"goodput_per_second\": " << JsonNumber{static_cast<double>(good) / seconds}
      << ", \"latency_ms\": {\"mean\": " << JsonNumber{meanOf(latencies) * 1e3};
  for (auto [name, share] :
       {std::pair("p50", 0.5), {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1.0}})
    out << ", \"" << name << "\": " << JsonNumber{percentile(share) * 1e3};
  out << "}, \"statuses\": {";
  for (auto at = statuses.begin(); at != statuses.end(); ++at)
    out << (at == statuses.begin() ? "" : ", ") << "\"" << at->first << "\": " << at->second;
  out << "}, \"broken\": " << broken << "}\n";
}

Expected<LoadReport> generateLoad(const LoadOptions &options) {
  auto client = HttpClient::create(options.url, options.authorities);
  if (!client)
    return client.error();
  HttpHeaders headers;
  if (!options.tokenFile.empty()) {
    std::string token;
    std::ifstream in(options.tokenFile);
    if (!in || !std::getline(in, token))
      return makeError(Status::Failure, "--token-file expects a file with a token in its first line, got \"",
                       options.tokenFile, '"');
    headers["Authorization"] = "Bearer " + token;
  }
  std::string path = "/v2/models/" + options.model + (options.version.empty() ? "" : "/versions/" + options.version);
  auto answer = client->ask("GET", path, headers, "");
  if (!answer)
    return answer.error();
  dom::parser parser;
  dom::element metadata;
  if (answer->status != 200 || parser.parse(answer->body.front()).get(metadata) != simdjson::SUCCESS)
    return makeError(Status::Failure, options.url, path, " expects to describe a model, got status ", answer->status,
                     ": ", answer->body.front().substr(0, 200));
  auto message = messageFor(metadata, options);
  if (!message)
    return message.error();
  message->target = path + "/infer";
  message->headers.insert(headers.begin(), headers.end());
  if (options.expectsContinue)
    message->headers["Expect"] = "100-continue";
  return Load(options, std::move(*message)).run();
}

int loadCommand(const LoadOptions &options, std::ostream &out, std::ostream &err) {
  auto report = generateLoad(options);
  if (!report) {
    err << report.error().report();
    return static_cast<int>(report.error().status());
  }
  if (options.jsonFile != "-")
    report->print(out, options.samples);
  if (!options.jsonFile.empty())
    if (Error error =
            replaceTextFile(options.jsonFile, [&](std::ostream &file) { report->writeJson(file, options); })) {
      err << error.report();
      return static_cast<int>(error.status());
    }
  return 0;
}

} // namespace cleave::runtime::serve
