// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The Open Inference Protocol over gRPC: what each call answers. No call blocks a thread.

#ifndef CLEAVE_RUNTIME_SERVE_GRPC_GRPCSERVICE_H
#define CLEAVE_RUNTIME_SERVE_GRPC_GRPCSERVICE_H

#include "runtime/serve/InferenceServer.h"

#include "open_inference.grpc.pb.h"

namespace cleave::runtime::serve {

class GrpcService final : public inference::GRPCInferenceService::CallbackService {
public:
  explicit GrpcService(InferenceServer &server) : server(server) {}

  grpc::ServerUnaryReactor *ServerLive(grpc::CallbackServerContext *context,
                                       const inference::ServerLiveRequest *request,
                                       inference::ServerLiveResponse *response) override;
  grpc::ServerUnaryReactor *ServerReady(grpc::CallbackServerContext *context,
                                        const inference::ServerReadyRequest *request,
                                        inference::ServerReadyResponse *response) override;
  grpc::ServerUnaryReactor *ModelReady(grpc::CallbackServerContext *context,
                                       const inference::ModelReadyRequest *request,
                                       inference::ModelReadyResponse *response) override;
  grpc::ServerUnaryReactor *ServerMetadata(grpc::CallbackServerContext *context,
                                           const inference::ServerMetadataRequest *request,
                                           inference::ServerMetadataResponse *response) override;
  grpc::ServerUnaryReactor *ModelMetadata(grpc::CallbackServerContext *context,
                                          const inference::ModelMetadataRequest *request,
                                          inference::ModelMetadataResponse *response) override;
  grpc::ServerUnaryReactor *ModelInfer(grpc::CallbackServerContext *context,
                                       const inference::ModelInferRequest *request,
                                       inference::ModelInferResponse *response) override;

private:
  class Inference;
  InferenceServer &server;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_GRPC_GRPCSERVICE_H
