// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the services of one server share: its models, who may ask, and whether it is about to end.

#ifndef CLEAVE_RUNTIME_SERVE_SERVERSTATE_H
#define CLEAVE_RUNTIME_SERVE_SERVERSTATE_H

#include "runtime/serve/ModelFolder.h"
#include "runtime/serve/RequestTrace.h"

#include <atomic>

namespace cleave::runtime::serve {

class ServerState final : public InferenceServer {
public:
  /// `version`: of the program. `token`: what requests must bear, but for those about health; empty: nothing.
  /// `accessLog` may be null.
  ServerState(ModelRepository &models, std::string version, std::string token, AccessLog *accessLog)
      : models(models), version(std::move(version)), token(std::move(token)), accessLog(accessLog) {}

  const std::string &getVersion() const override { return version; }
  bool isAllowed(std::string_view authorization) const override;
  bool isReady() const override;
  std::shared_ptr<InferenceModel> find(const std::string &name, const std::string &version) const override {
    return models.find(name, version);
  }
  std::vector<std::string> versions(const std::string &name) const override { return models.versions(name); }
  void log(const AccessEntry &entry) override {
    if (accessLog)
      accessLog->write(entry);
  }

  const ModelRepository &getModels() const { return models; }
  /// From now on the server is not ready, though requests are answered.
  void drain() { isDraining = true; }
  /// Where models are loaded from while the server runs; null: nowhere. Must live until no request is handled that came
  /// while it was here.
  std::atomic<ModelFolder *> folder = nullptr;
  /// Of requests that want one; keeps none unless told otherwise before the port opens.
  TraceStore traces;

private:
  ModelRepository &models;
  const std::string version, token;
  AccessLog *const accessLog;
  std::atomic<bool> isDraining = false;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_SERVERSTATE_H
