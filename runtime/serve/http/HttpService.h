// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The Open Inference Protocol over HTTP: which path asks for what, and what the answers are.

#ifndef CLEAVE_RUNTIME_SERVE_HTTP_HTTPSERVICE_H
#define CLEAVE_RUNTIME_SERVE_HTTP_HTTPSERVICE_H

#include "runtime/serve/ServerState.h"
#include "runtime/serve/http/HttpServer.h"

namespace cleave::runtime::serve {

class HttpService {
public:
  explicit HttpService(ServerState &server) : server(server) {}

  /// Refuses a request by what its header says, or answers it when its body is there: at once, or when its batch is
  /// over. An HttpAdmission.
  std::variant<HttpResponse, HttpHandler> admit(const HttpRequest &head);

  /// For the metrics.
  std::function<unsigned()> countConnections;

private:
  struct Path;
  struct Exchange;
  struct Place;
  HttpResponse refuseHeader(const HttpRequest &head, HttpResponse response,
                            std::shared_ptr<const InferenceJob> job = nullptr);
  std::variant<HttpResponse, HttpHandler> admitInference(const HttpRequest &head, const Path &path);
  void handle(const std::shared_ptr<Exchange> &exchange, const Path &path);
  HttpResponse health(const Path &path) const;
  HttpResponse requestTrace(const std::string &number) const;
  HttpResponse serverMetadata() const;
  HttpResponse modelMetadata(const Path &path) const;
  HttpResponse modelReady(const Path &path) const;
  HttpResponse modelConfig(const Path &path) const;
  HttpResponse modelPlacement(const Path &path) const;
  static void changeModels(ModelFolder &folder, const std::shared_ptr<Exchange> &exchange, const Path &path);
  HttpGone infer(const std::shared_ptr<Exchange> &exchange, const Path &path, const Place &place);

  ServerState &server;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_HTTP_HTTPSERVICE_H
