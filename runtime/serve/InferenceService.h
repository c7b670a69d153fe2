// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The Open Inference Protocol over HTTP: which path asks for what, and what the answers are.

#ifndef CLEAVE_RUNTIME_SERVE_INFERENCESERVICE_H
#define CLEAVE_RUNTIME_SERVE_INFERENCESERVICE_H

#include "runtime/serve/AccessLog.h"
#include "runtime/serve/ModelFolder.h"

#include <atomic>

namespace cleave::runtime::serve {

struct ServiceOptions {
  std::string version; ///< of the program
  std::string token;   ///< that requests must bear, but for those about health; empty: none
};

class InferenceService {
public:
  /// `log` may be null.
  InferenceService(ModelRepository &models, ServiceOptions options, AccessLog *log)
      : models(models), options(std::move(options)), log(log) {}

  /// Answers a request, now or when its batch is over. An HttpHandler.
  HttpGone handle(HttpRequest request, HttpAnswer answer);

  /// From now on the server is not ready, though requests are answered.
  void drain() { isDraining = true; }
  /// For the metrics.
  std::function<unsigned()> countConnections;
  /// Where models are loaded from while the server runs; null: nowhere. Must live until no request is handled that came
  /// while it was here.
  std::atomic<ModelFolder *> folder = nullptr;

private:
  struct Path;
  struct Exchange;
  bool isAllowed(const HttpRequest &request, const Path &path) const;
  HttpResponse health(const Path &path) const;
  HttpResponse serverMetadata() const;
  HttpResponse modelMetadata(const Path &path) const;
  HttpResponse modelReady(const Path &path) const;
  HttpResponse modelConfig(const Path &path) const;
  static void changeModels(ModelFolder &folder, const std::shared_ptr<Exchange> &exchange, const Path &path);
  HttpGone infer(const std::shared_ptr<Exchange> &exchange, const Path &path);

  ModelRepository &models;
  const ServiceOptions options;
  AccessLog *const log;
  std::atomic<bool> isDraining = false;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_INFERENCESERVICE_H
