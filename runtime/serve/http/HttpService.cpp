// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Paths are cut at slashes; each part is decoded by itself, so that a name may have slashes in it.

#include "runtime/serve/http/HttpService.h"

#include "runtime/Clock.h"
#include "runtime/Json.h"
#include "runtime/serve/Datatype.h"
#include "runtime/serve/Metrics.h"
#include "runtime/serve/Placement.h"
#include "runtime/serve/http/JsonInference.h"

#include "StatusPage.inc"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace cleave::runtime::serve {
namespace {

HttpResponse json(unsigned status, std::string body) { return {status, "application/json", {}, {std::move(body)}}; }

HttpResponse refuse(unsigned status, const std::string &message) {
  std::ostringstream body;
  body << "{\"error\": " << JsonString{message} << "}";
  return json(status, body.str());
}

int digitOf(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/// With %XX as the byte that it stands for.
std::string decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i != text.size(); ++i) {
    int high = text[i] == '%' && i + 2 < text.size() ? digitOf(text[i + 1]) : -1;
    int low = high >= 0 ? digitOf(text[i + 2]) : -1;
    result += low >= 0 ? static_cast<char>(high * 16 + low) : text[i];
    i += low >= 0 ? 2 : 0;
  }
  return result;
}

} // namespace

/// What a path names.
struct HttpService::Path {
  explicit Path(const std::string &target) {
    std::string_view rest = target;
    while (!rest.empty()) {
      if (rest.front() == '/')
        rest.remove_prefix(1);
      size_t end = std::min(rest.find('/'), rest.size());
      parts.push_back(decoded(rest.substr(0, end)));
      rest.remove_prefix(end);
    }
    if (parts.size() >= 3 && parts[0] == "v2" && parts[1] == "models") {
      model = parts[2];
      size_t next = 3;
      if (parts.size() >= 5 && parts[3] == "versions") {
        version = parts[4];
        next = 5;
      }
      if (parts.size() <= next + 1)
        action = parts.size() == next ? "metadata" : parts[next];
    }
  }

  bool is(std::initializer_list<std::string_view> names) const {
    return std::equal(parts.begin(), parts.end(), names.begin(), names.end());
  }
  /// Triton's extension: v2/repository/index, v2/repository/models/NAME/load and unload.
  bool isRepository() const {
    return is({"v2", "repository", "index"}) || (parts.size() == 5 && parts[0] == "v2" && parts[1] == "repository" &&
                                                 parts[2] == "models" && (parts[4] == "load" || parts[4] == "unload"));
  }
  /// A page that has nothing in it but how to ask for the rest.
  bool isPage() const { return parts.empty() || is({""}); }
  /// Of a single request.
  bool isTrace() const { return parts.size() == 4 && parts[0] == "v2" && parts[1] == "cleave" && parts[2] == "traces"; }
  bool isHealth() const { return parts.size() == 3 && parts[0] == "v2" && parts[1] == "health"; }

  std::vector<std::string> parts;
  std::string model, version;
  /// Of a model: "metadata", "ready", "config", "infer", "placement" or "explanation", or what else there stands.
  std::string action;
};

/// A place in a model's queue, from a request's header on; given back where the job does not come.
struct HttpService::Place {
  Place(std::shared_ptr<InferenceModel> model, const InferenceJob &job, Time since)
      : model(model), id(*job.id), deadline(job.deadline), since(since) {}
  Place(const Place &) = delete;
  ~Place() {
    if (auto present = model.lock())
      present->withdraw(id);
  }

  /// Weak, so that a model that is replaced does not wait for bodies.
  const std::weak_ptr<InferenceModel> model;
  const RequestId id;
  const Time deadline, since;
};

/// A request that is being answered.
struct HttpService::Exchange {
  HttpRequest request;
  HttpAnswer answer;
  ServerState &server;
  uint64_t bytes = request.body.size();
  int64_t begin = request.begin;
  std::string id = {};
  std::shared_ptr<InferenceJob> job = {};
  Time admitted = 0;

  void keepTrace(HttpResponse &response) {
    uint64_t number = server.traces.add({job->samples, job->times, admitted, now(), 0, job->trace});
    response.headers["X-Cleave-Trace"] = std::to_string(number);
    response.sent = [&server = server, number] { server.traces.setSent(number, now()); };
  }

  void end(HttpResponse response) {
    if (job && job->trace)
      keepTrace(response);
    server.log({request.peer, request.method, request.target, id, response.status, bytes, response.bodyBytes(),
                now() - begin, job});
    answer(std::move(response));
  }
};

/// A page for people. It loads nothing from elsewhere, and no other site may embed it.
static HttpResponse pageResponse(std::string page) {
  return {
      200,
      "text/html; charset=utf-8",
      {{"Content-Security-Policy", "default-src 'none'; connect-src 'self'; img-src data:; script-src 'unsafe-inline'; "
                                   "style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"},
       {"X-Content-Type-Options", "nosniff"}},
      {std::move(page)}};
}

/// An answer without the body.
HttpResponse HttpService::refuseHeader(const HttpRequest &head, HttpResponse response,
                                       std::shared_ptr<const InferenceJob> job) {
  server.log({head.peer, head.method, head.target, "", response.status, 0, response.bodyBytes(), now() - head.begin,
              std::move(job)});
  return response;
}

std::variant<HttpResponse, HttpHandler> HttpService::admit(const HttpRequest &head) {
  Path path(head.target);
  if (!path.isHealth() && !path.isPage() && !server.isAllowed(head.header("authorization"))) {
    HttpResponse response = refuse(401, "a request expects the header Authorization with this server's bearer token");
    response.headers["WWW-Authenticate"] = "Bearer";
    return refuseHeader(head, std::move(response));
  }
  bool isInference = path.action == "infer", isRepository = server.folder.load() && path.isRepository();
  const std::string expected = isInference || isRepository ? "POST" : "GET";
  static constexpr std::string_view actions[] = {"infer", "metadata", "ready", "config", "placement", "explanation"};
  bool isKnown = isRepository || path.isTrace() || path.isHealth() || path.isPage() || path.is({"v2"}) ||
                 path.is({"metrics"}) || std::ranges::find(actions, path.action) != std::end(actions);
  if (!isKnown)
    return refuseHeader(head, refuse(404, "no such path; the protocol's begin with /v2, metrics are at /metrics"));
  if (head.method != expected && !(expected == "GET" && head.method == "HEAD")) {
    HttpResponse response = refuse(405, "the path expects " + expected + ", got " + head.method);
    response.headers["Allow"] = expected;
    return refuseHeader(head, std::move(response));
  }
  if (isInference)
    return admitInference(head, path);
  return [this, path](HttpRequest request, HttpAnswer answer) {
    handle(std::make_shared<Exchange>(Exchange{std::move(request), std::move(answer), server}), path);
    return HttpGone();
  };
}

void HttpService::handle(const std::shared_ptr<Exchange> &exchange, const Path &path) {
  if (path.isRepository()) {
    // It may have gone since the header was read.
    if (ModelFolder *repository = server.folder)
      return changeModels(*repository, exchange, path);
    return exchange->end(refuse(503, "the server is about to end"));
  }
  if (path.isHealth())
    exchange->end(health(path));
  else if (path.isPage())
    exchange->end(pageResponse(statusPage));
  else if (path.is({"v2"}))
    exchange->end(serverMetadata());
  else if (path.isTrace())
    exchange->end(requestTrace(path.parts[3]));
  else if (path.is({"metrics"}))
    exchange->end({200,
                   "text/plain; version=0.0.4; charset=utf-8",
                   {},
                   {writeMetrics(server.getModels(), countConnections ? countConnections() : 0)}});
  else if (path.action == "metadata")
    exchange->end(modelMetadata(path));
  else if (path.action == "ready")
    exchange->end(modelReady(path));
  else if (path.action == "config")
    exchange->end(modelConfig(path));
  else
    exchange->end(modelPlacement(path));
}

HttpResponse HttpService::health(const Path &path) const {
  if (path.parts[2] == "live")
    return json(200, R"({"live": true})");
  if (path.parts[2] != "ready")
    return refuse(404, "no such path; health is at /v2/health/live and /v2/health/ready");
  // The protocol's text calls the field of both answers "live".
  return server.isReady() ? json(200, R"({"live": true, "ready": true})")
                          : json(400, R"({"live": false, "ready": false})");
}

HttpResponse HttpService::requestTrace(const std::string &number) const {
  auto found = server.traces.find(number);
  return found ? json(200, found->text())
               : refuse(404, "no trace " + quotedName(number) + " is kept, of the latest " +
                                 std::to_string(server.traces.kept()) + " of requests with X-Cleave-Trace: 1");
}

HttpResponse HttpService::serverMetadata() const {
  std::ostringstream body;
  body << R"({"name": "cleave", "version": )" << JsonString{server.getVersion()}
       << R"(, "extensions": ["binary_tensor_data", "model_configuration")"
       << (server.folder ? R"(, "model_repository")" : "") << "]}";
  return json(200, body.str());
}

static void writePorts(std::ostream &out, const std::vector<ServedPort> &ports, bool isBatched) {
  for (const ServedPort &port : ports) {
    out << (&port == ports.data() ? "" : ", ") << "{\"name\": " << JsonString{port.name} << ", \"datatype\": \""
        << datatypeName(port.type.element) << "\", \"shape\": [" << (isBatched ? "-1" : "");
    for (size_t i = 0; i != port.type.shape.size(); ++i)
      out << (i != 0 || isBatched ? ", " : "") << port.type.shape[i];
    out << "]}";
  }
}

HttpResponse HttpService::modelMetadata(const Path &path) const {
  auto model = server.find(path.model, path.version);
  if (!model)
    return refuse(404, missingModel(path.model, path.version));
  std::ostringstream body;
  body << "{\"name\": " << JsonString{model->getName()} << ", \"versions\": [";
  std::vector<std::string> versions = server.versions(path.model);
  for (size_t i = 0; i != versions.size(); ++i)
    body << (i == 0 ? "" : ", ") << JsonString{versions[i]};
  body << "], \"platform\": \"cleave_plan\", \"inputs\": [";
  writePorts(body, model->getPlan().getInputs(), model->getPlan().isBatched());
  body << "], \"outputs\": [";
  writePorts(body, model->getPlan().getOutputs(), model->getPlan().isBatched());
  body << "]}";
  return json(200, body.str());
}

HttpResponse HttpService::modelReady(const Path &path) const {
  auto model = server.find(path.model, path.version);
  if (!model)
    return refuse(404, missingModel(path.model, path.version));
  bool isReady = model->isReady();
  std::ostringstream body;
  body << "{\"name\": " << JsonString{model->getName()} << ", \"ready\": " << (isReady ? "true" : "false") << "}";
  return json(isReady ? 200 : 400, body.str());
}

/// What clients of Triton's model configuration look for.
HttpResponse HttpService::modelConfig(const Path &path) const {
  auto model = server.find(path.model, path.version);
  if (!model)
    return refuse(404, missingModel(path.model, path.version));
  const BatchedPlan &plan = model->getPlan();
  std::ostringstream body;
  body << "{\"name\": " << JsonString{model->getName()}
       << ", \"platform\": \"cleave_plan\", \"max_batch_size\": " << (plan.isBatched() ? plan.getTable().largest() : 0)
       << ", \"input\": [";
  for (bool isInput : {true, false}) {
    const std::vector<ServedPort> &ports = isInput ? plan.getInputs() : plan.getOutputs();
    for (const ServedPort &port : ports) {
      body << (&port == ports.data() ? "" : ", ") << "{\"name\": " << JsonString{port.name}
           << ", \"data_type\": \"TYPE_" << datatypeName(port.type.element) << "\", \"dims\": [";
      for (size_t i = 0; i != port.type.shape.size(); ++i)
        body << (i == 0 ? "" : ", ") << port.type.shape[i];
      body << "]}";
    }
    body << (isInput ? "], \"output\": [" : "]}");
  }
  return json(200, body.str());
}

/// Where it runs: figures, or a page where the program has what makes one.
HttpResponse HttpService::modelPlacement(const Path &path) const {
  auto model = server.getModels().find(path.model, path.version);
  if (!model)
    return refuse(404, missingModel(path.model, path.version));
  if (path.action == "placement")
    return json(200, writePlacement(*model));
  const std::string &page = model->getPlans().front()->explanation;
  return page.empty() ? refuse(404, "this program explains no plans; cleave serve and cleave explain do")
                      : pageResponse(page);
}

void HttpService::changeModels(ModelFolder &folder, const std::shared_ptr<Exchange> &exchange, const Path &path) {
  if (path.parts[2] != "index") {
    auto done = [exchange](const Error &error) { exchange->end(error ? refuse(400, error.text()) : json(200, "{}")); };
    return path.parts[4] == "load" ? folder.load(path.parts[3], done) : folder.unload(path.parts[3], done);
  }
  std::ostringstream body;
  body << "[";
  for (const FolderEntry &entry : folder.list())
    body << (body.tellp() == 1 ? "" : ", ") << "{\"name\": " << JsonString{entry.name}
         << ", \"version\": " << JsonString{entry.version} << ", \"state\": \""
         << (entry.isLoaded ? "READY" : "UNAVAILABLE") << "\", \"reason\": \"\"}";
  body << "]";
  exchange->end(json(200, body.str()));
}

/// The status of a request that was not served.
static unsigned statusOf(Outcome outcome, const InferenceJob &job) {
  switch (outcome) {
  case Outcome::Full:
  case Outcome::Draining:
    return 503;
  case Outcome::Late:
    return 504;
  case Outcome::Cancelled:
    return 499;
  default:
    return job.error.status() == Status::Lost ? 503 : 500;
  }
}

static HttpResponse refusal(Outcome outcome, const InferenceJob &job) {
  HttpResponse response = refuse(statusOf(outcome, job), refusalOf(outcome, job));
  if (outcome == Outcome::Full)
    response.headers["Retry-After"] = "1";
  return response;
}

static uint64_t numberIn(const std::string &text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// What the header says of the job: how many samples it has at least, and until when it is of use.
std::variant<HttpResponse, HttpHandler> HttpService::admitInference(const HttpRequest &head, const Path &path) {
  auto model = server.find(path.model, path.version);
  if (!model)
    return refuseHeader(head, refuse(404, missingModel(path.model, path.version)));
  auto job = std::make_shared<InferenceJob>();
  job->times.arrival = head.begin;
  const std::string &jsonBytes = head.header("inference-header-content-length");
  uint64_t bytes = numberIn(head.header("content-length")), json = jsonBytes.empty() ? bytes : numberIn(jsonBytes);
  job->samples = leastSamples(model->getPlan(), bytes - std::min(json, bytes));
  if (const std::string &timeout = head.header("x-cleave-timeout"); !timeout.empty()) {
    if (!std::ranges::all_of(timeout, [](char c) { return c >= '0' && c <= '9'; }))
      return refuseHeader(head,
                          refuse(400, "X-Cleave-Timeout expects a number of microseconds, got " + quotedName(timeout)));
    job->deadline = deadlineOf(head.begin, numberIn(timeout));
  }
  const std::string &trace = head.header("x-cleave-trace");
  if (!trace.empty() && trace != "1")
    return refuseHeader(head, refuse(400, "X-Cleave-Trace expects 1, got " + quotedName(trace)));
  if (auto outcome = model->announce(*job))
    return refuseHeader(head, refusal(*outcome, *job), job);
  auto place = std::make_shared<const Place>(model, *job, now());
  return [this, path, place](HttpRequest request, HttpAnswer answer) {
    return infer(std::make_shared<Exchange>(Exchange{std::move(request), std::move(answer), server}), path, *place);
  };
}

HttpGone HttpService::infer(const std::shared_ptr<Exchange> &exchange, const Path &path, const Place &place) {
  auto model = server.find(path.model, path.version);
  if (!model) {
    exchange->end(refuse(404, missingModel(path.model, path.version)));
    return {};
  }
  // It may be large: it goes as soon as no tensor needs it.
  auto body = std::make_shared<HttpBody>(std::exchange(exchange->request.body, {}));
  auto read = readInferenceRequest(model->getPlan(), body, exchange->request.header("inference-header-content-length"),
                                   exchange->begin);
  body.reset();
  if (!read) {
    exchange->end(refuse(400, read.error().message()));
    return {};
  }
  auto request = std::make_shared<InferenceRequest>(std::move(*read));
  exchange->id = request->id;
  exchange->job = request->job;
  request->job->deadline = std::min(request->job->deadline, place.deadline);
  if (place.model.lock() == model)
    request->job->id = place.id;
  if (server.traces.kept() != 0 && !exchange->request.header("x-cleave-trace").empty()) {
    request->job->trace = std::make_shared<RequestTrace>();
    exchange->admitted = place.since;
  }
  // The thread that calls this is the model's own: the model is there.
  request->job->done = [exchange, request, model = model.get()](Outcome outcome) {
    // Whoever holds the job holds this, and this the job.
    auto release = std::exchange(request->job->done, {});
    if (outcome != Outcome::Answered)
      return exchange->end(refusal(outcome, *request->job));
    InferenceAnswer answer = writeInferenceAnswer(*request, model->getPlan(), model->getName(), model->getVersion());
    HttpResponse response{
        200, answer.headerLength ? "application/octet-stream" : "application/json", {}, std::move(answer.parts)};
    if (answer.headerLength)
      response.headers["Inference-Header-Content-Length"] = std::to_string(*answer.headerLength);
    exchange->end(std::move(response));
  };
  RequestId id = model->submit(request->job);
  return [weak = std::weak_ptr(model), id] {
    if (auto present = weak.lock())
      present->cancel(id);
  };
}

} // namespace cleave::runtime::serve
