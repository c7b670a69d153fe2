// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Load, open, serve, drain.

#include "runtime/serve/ServeCommand.h"

#include "runtime/Printable.h"
#include "runtime/serve/ListenAddress.h"
#include "runtime/serve/PartServer.h"
#include "runtime/serve/grpc/GrpcServer.h"
#include "runtime/serve/http/HttpService.h"
#include "runtime/training/StopSignals.h"

#include <fstream>
#include <future>
#include <iostream>
#include <malloc.h>
#include <thread>

namespace cleave::runtime::serve {
namespace {

Expected<std::string> readToken(const std::string &file) {
  std::string token;
  if (file.empty())
    return token;
  std::ifstream in(file);
  if (!in || !std::getline(in, token))
    return makeError(Status::Failure, "--token-file expects a file with a token in its first line, got \"", file, '"');
  while (!token.empty() && (token.back() == '\r' || token.back() == ' '))
    token.pop_back();
  if (token.empty())
    return makeError(Status::Failure, "--token-file expects a token in the first line of \"", file, "\", got none");
  return token;
}

class Server {
public:
  /// `processes`: null where there is one.
  Server(const ServeOptions &options, std::vector<PreparedPlan> prepared, ServingProcesses *processes,
         std::ostream &out, std::ostream &err)
      : options(options), prepared(std::move(prepared)), processes(processes), out(out), err(err) {}

  Error run() {
    if (options.plans.empty() && prepared.empty() && options.modelsFolder.empty())
      return makeError(Status::Usage, "serving expects plans or --models FOLDER, got neither");
    if (processes && options.model.instances > 1)
      return makeError(Status::Usage, "--instances expects one process, got ", processes->count(),
                       "; leave it out under mpirun");
    HttpOptions http = options.http;
    if (!options.httpAddress.empty())
      if (Error error = readListenAddress(options.httpAddress, "--http", http.address, http.port))
        return error;
    GrpcOptions grpc;
    grpc.messageBytes = http.bodyBytes;
    grpc.headerBytes = http.headerBytes;
    grpc.idleSeconds = http.idleSeconds;
    grpc.handshakeSeconds = http.headerSeconds;
    if (!options.grpcAddress.empty())
      if (Error error = readListenAddress(options.grpcAddress, "--grpc", grpc.address, grpc.port))
        return error;
    if (!options.grpcAddress.empty() && grpc.port != 0 && grpc.port == http.port && grpc.address == http.address)
      return makeError(Status::Usage, "--http and --grpc expect ports of their own, got ",
                       listenAddressText(http.address, http.port), " for both");
    auto token = readToken(options.tokenFile);
    if (!token)
      return token.error();
    std::string warning;
    auto tls = readTlsIdentity(options.tlsCertificate, options.tlsKey, warning);
    if (!tls)
      return tls.error();
    if (!warning.empty())
      err << "warning: " << warning << "\n";
    http.tls = *tls;
    grpc.certificates = tls->certificates;
    grpc.key = tls->key;
    if (!options.accessLog.empty()) {
      auto log = AccessLog::open(options.accessLog);
      if (!log)
        return log.error();
      accessLog = std::move(*log);
    }
    // From here on a signal ends the server in order.
    StopSignals signals;
    ServerState state(models, options.version, *token, accessLog.get());
    state.traces.keep(options.traces);
    HttpService service(state);
    auto opened = HttpServer::open(http, [&](const HttpRequest &head) { return service.admit(head); });
    if (!opened)
      return opened.error();
    HttpServer &server = **opened;
    std::unique_ptr<GrpcServer> grpcServer;
    if (!options.grpcAddress.empty()) {
      auto openedGrpc = openGrpcServer(grpc, state);
      if (!openedGrpc)
        return openedGrpc.error();
      grpcServer = std::move(*openedGrpc);
    }
    service.countConnections = [&] { return server.connections(); };
    if (Error error = loadPlans())
      return error;
    std::optional<ModelFolder> folder;
    if (!options.modelsFolder.empty()) {
      folder.emplace(options.modelsFolder, models,
                     [&](auto &name, auto &version, auto &files) { return make(name, version, files); });
      if (Error error = folder->loadAll())
        return error;
      state.folder = &*folder;
    }
    if (StopSignals::asked())
      return Error::success();
    if (processes)
      processes->outliveOthers();
    if (grpcServer) {
      if (Error error = grpcServer->start())
        return error;
      out << "serving gRPC at " << listenAddressText(grpc.address, grpcServer->port())
          << (tls->isEmpty() ? "" : " with TLS") << std::endl;
    }
    if (Error error = server.start())
      return error;
    out << "serving at " << (tls->isEmpty() ? "http" : "https") << "://"
        << listenAddressText(http.address, server.port()) << std::endl;
    TlsFilesWatch tlsFiles(options.tlsCertificate, options.tlsKey);
    for (unsigned turn = 1; !StopSignals::asked(); ++turn) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (turn % 20 == 0)
        renewTls(tlsFiles, server, grpcServer.get());
    }
    state.drain();
    auto drainGrpc =
        std::async(std::launch::async, [&] { return !grpcServer || grpcServer->drain(options.drainSeconds); });
    if (!server.drain(options.drainSeconds))
      err << "warning: " << server.connections() << " connections were not done in " << options.drainSeconds
          << " seconds\n";
    if (!drainGrpc.get())
      err << "warning: calls of gRPC were not done in " << options.drainSeconds << " seconds\n";
    // What is loaded still, and then what is left to answer, while there is a server to answer through.
    state.folder = nullptr;
    folder.reset();
    for (const auto &model : models.all())
      models.remove(model->getName());
    return Error::success();
  }

private:
  void renewTls(TlsFilesWatch &files, HttpServer &server, GrpcServer *grpcServer) {
    std::string warning;
    auto identity = files.poll(warning);
    if (!identity)
      return;
    Error error = identity->error();
    if (!error)
      error = server.setTls(**identity);
    if (!error && grpcServer)
      error = grpcServer->setTls((*identity)->certificates, (*identity)->key);
    std::lock_guard lock(outMutex);
    if (error)
      err << "warning: the certificate stays as it was: " << error.text() << std::endl;
    else
      out << "the certificate is now that in " << printable(options.tlsCertificate) << std::endl;
    if (!warning.empty())
      err << "warning: " << warning << std::endl;
  }

  Error loadPlans() {
    for (const std::string &binding : options.plans) {
      size_t equals = binding.find('=');
      std::filesystem::path file = equals == std::string::npos ? binding : binding.substr(equals + 1);
      std::string name = equals == std::string::npos ? file.stem().string() : binding.substr(0, equals);
      if (name.empty())
        return makeError(Status::Usage, "a plan to serve expects FILE or NAME=FILE, got \"", binding, '"');
      if (models.find(name))
        return makeError(Status::Usage, "two models are called \"", name,
                         "\"; give one another name, as in other=", file.string());
      auto loaded = make(name, "1", {file});
      if (!loaded)
        return loaded.error();
      models.add(std::move(*loaded));
    }
    for (PreparedPlan &each : prepared) {
      auto loaded = load(each.name, "1", {{each.from, std::move(each.plan), std::move(each.parameters)}});
      if (!loaded)
        return loaded.error();
      models.add(std::move(*loaded));
    }
    return Error::success();
  }

  /// From any thread.
  Expected<std::shared_ptr<ServedModel>> make(const std::string &name, const std::string &version,
                                              const ModelFolder::Plans &files) {
    std::vector<ModelPlan> plans;
    for (const std::filesystem::path &file : files) {
      auto plan = Plan::read(file);
      if (!plan)
        return plan.error();
      if (options.trust)
        if (Error error = options.trust(*plan, file.string()))
          return error;
      plans.push_back({file.string(), std::move(*plan)});
    }
    return load(name, version, std::move(plans));
  }

  Expected<std::shared_ptr<ServedModel>> load(const std::string &name, const std::string &version,
                                              std::vector<ModelPlan> plans) {
    if (processes && !processes->loss()) {
      auto devices = static_cast<uint32_t>(plans.front().plan->devices.size());
      auto divided = divideDevices(devices, processes->count(), options.devicesOfRank);
      if (!divided)
        return Error(divided.error().status(), plans.front().from + ": " + divided.error().message());
    }
    ServedModelOptions model = options.model;
    model.processes = processes;
    model.maxDelay = static_cast<Time>(options.maxDelayMs * 1e6);
    model.tracesRequests = options.traces != 0;
    if (options.timeoutMs > 0)
      model.timeout = static_cast<Time>(std::min(options.timeoutMs, 1e12) * 1e6);
    model.explain = options.explain;
    model.report = [this, about = "model \"" + printable(name) + "\", version " + printable(version) +
                                  ", "](const std::string &line) {
      std::lock_guard lock(outMutex);
      err << about << printable(line) << std::endl;
    };
    std::string from = plans.front().from;
    auto loaded = ServedModel::load(name, version, std::move(plans), model);
    if (!loaded)
      return Error(loaded.error().status(), loaded.error().text());
    std::lock_guard lock(outMutex);
    out << "model \"" << printable(name) << "\" is loaded from " << printable(from)
        << (model.instances > 1 ? ", " + std::to_string(model.instances) + " times" : "") << std::endl;
    return std::shared_ptr<ServedModel>(std::move(*loaded));
  }

  const ServeOptions &options;
  std::vector<PreparedPlan> prepared;
  ServingProcesses *const processes;
  std::ostream &out, &err;
  std::mutex outMutex;
  std::unique_ptr<AccessLog> accessLog;
  ModelRepository models;
};

} // namespace

/// Bodies of requests are as large from one to the next: what is free keeps its pages, up to a bound in each of
/// malloc's arenas, instead of being given back to the system and asked for again, a page at a time.
static void keepFreedMemory() {
#ifdef __GLIBC__
  constexpr int32_t mostOfABlock = 32 << 20, mostOfAnArena = 64 << 20;
  ::mallopt(M_MMAP_THRESHOLD, mostOfABlock);
  ::mallopt(M_TRIM_THRESHOLD, mostOfAnArena);
#endif
}

int serveCommand(const ServeOptions &options, std::vector<PreparedPlan> prepared, std::ostream &out,
                 std::ostream &err) {
  keepFreedMemory();
  std::optional<ServingProcesses> processes;
  if (options.processes && options.processes->count() > 1) {
    options.processes->expectLosses();
    auto messages = options.processes->createMessages();
    if (!messages) {
      if (options.processes->claimReport())
        err << messages.error().report();
      return static_cast<int>(messages.error().status());
    }
    if (options.processes->rank() != 0)
      return PartServer(*options.processes, std::move(*messages), options.devicesOfRank, options.trust).serve();
    processes.emplace(*options.processes, std::move(*messages), options.devicesOfRank);
  }
  Error error = Server(options, std::move(prepared), processes ? &*processes : nullptr, out, err).run();
  if (error && (!options.processes || options.processes->claimReport()))
    err << error.report();
  auto code = static_cast<int>(error.status());
  if (processes)
    processes->end(code);
  return code;
}

} // namespace cleave::runtime::serve
