// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The Open Inference Protocol over gRPC: what each call answers. No call blocks a thread.

#ifndef CLEAVE_RUNTIME_SERVE_GRPC_GRPCSERVICE_H
#define CLEAVE_RUNTIME_SERVE_GRPC_GRPCSERVICE_H

#include "runtime/serve/InferenceServer.h"

#include "open_inference.grpc.pb.h"

namespace cleave::runtime::serve {

class GrpcService final : public inference::GRPCInferenceService::CallbackService {
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

public:
  explicit GrpcService(InferenceServer &server) : server(server) {}

  Reactor *ServerLive(Context *context, const inference::ServerLiveRequest *request,
                      inference::ServerLiveResponse *response) override;
  Reactor *ServerReady(Context *context, const inference::ServerReadyRequest *request,
                       inference::ServerReadyResponse *response) override;
  Reactor *ModelReady(Context *context, const inference::ModelReadyRequest *request,
                      inference::ModelReadyResponse *response) override;
  Reactor *ServerMetadata(Context *context, const inference::ServerMetadataRequest *request,
                          inference::ServerMetadataResponse *response) override;
  Reactor *ModelMetadata(Context *context, const inference::ModelMetadataRequest *request,
                         inference::ModelMetadataResponse *response) override;
  Reactor *ModelInfer(Context *context, const inference::ModelInferRequest *request,
                      inference::ModelInferResponse *response) override;

private:
  class Inference;
  InferenceServer &server;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_GRPC_GRPCSERVICE_H
