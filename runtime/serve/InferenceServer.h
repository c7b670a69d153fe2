// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is served, as the services for HTTP and gRPC see it. An interface, because gRPC's stands in a module of its own
// (serve/grpc/GrpcServer.h).

#ifndef CLEAVE_RUNTIME_SERVE_INFERENCESERVER_H
#define CLEAVE_RUNTIME_SERVE_INFERENCESERVER_H

#include "runtime/serve/AccessLog.h"
#include "runtime/serve/BatchedPlan.h"

namespace cleave::runtime::serve {

/// A model that answers requests. Safe to call from any thread.
class InferenceModel {
public:
  virtual ~InferenceModel() = default;
  virtual const std::string &getName() const = 0;
  virtual const std::string &getVersion() const = 0;
  virtual const BatchedPlan &getPlan() const = 0;
  /// A job is on its way, of which samples, deadline and arrival are known: gives it an id and keeps a place for it, or
  /// says why it would be refused. Whoever has a place submits the job under the same id, or withdraws it.
  virtual std::optional<Outcome> announce(InferenceJob &job) = 0;
  virtual void withdraw(RequestId id) = 0;
  /// Queues a job, whose `done` is called later or at once. The id to cancel it by.
  virtual RequestId submit(std::shared_ptr<InferenceJob> job) = 0;
  /// Its client has gone: where nothing of it runs yet, `done` is called now.
  virtual void cancel(RequestId id) = 0;
  /// Whether it takes jobs: not while it drains, nor after a device was lost.
  virtual bool isReady() const = 0;
};

/// Safe to call from any thread.
class InferenceServer {
public:
  virtual ~InferenceServer() = default;
  /// Of the program.
  virtual const std::string &getVersion() const = 0;
  /// Whether a request may be answered that bears this "Bearer TOKEN", or nothing.
  virtual bool isAllowed(std::string_view authorization) const = 0;
  /// Whether all models are, and the server is not about to end.
  virtual bool isReady() const = 0;
  /// The version of a model, or the newest one where `version` is empty; null where there is none.
  virtual std::shared_ptr<InferenceModel> find(const std::string &name, const std::string &version) const = 0;
  /// The versions of a name, the newest last.
  virtual std::vector<std::string> versions(const std::string &name) const = 0;
  /// Of a request that has been answered.
  virtual void log(const AccessEntry &entry) = 0;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_INFERENCESERVER_H
