// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An inference is a reactor that lives until gRPC has sent its answer; its job has it as long as it is queued or runs.

#include "runtime/serve/grpc/GrpcService.h"

#include "runtime/Clock.h"
#include "runtime/serve/Datatype.h"
#include "runtime/serve/grpc/GrpcInference.h"

namespace cleave::runtime::serve {
namespace {

/// What a call is about in the access log.
struct Call {
  grpc::CallbackServerContext &context;
  const char *method;
  uint64_t requestBytes;
  int64_t begin = now();

  AccessEntry entry(const grpc::Status &status, uint64_t responseBytes) const {
    AccessEntry entry;
    // "ipv4:127.0.0.1:4711"
    std::string peer = context.peer();
    entry.peer = peer.substr(peer.find(':') + 1);
    entry.method = "gRPC";
    entry.target = std::string("/inference.GRPCInferenceService/") + method;
    entry.status = static_cast<unsigned>(status.error_code());
    entry.requestBytes = requestBytes;
    entry.responseBytes = responseBytes;
    entry.nanoseconds = now() - begin;
    return entry;
  }
};

grpc::Status checkToken(const InferenceServer &server, const grpc::CallbackServerContext &context) {
  auto found = context.client_metadata().find("authorization");
  std::string_view given;
  if (found != context.client_metadata().end())
    given = {found->second.data(), found->second.size()};
  if (server.isAllowed(given))
    return grpc::Status::OK;
  return {grpc::StatusCode::UNAUTHENTICATED,
          "a call expects the metadata authorization with this server's bearer token"};
}

/// Who may make a call.
enum class Access { Open, ByToken };

/// Answers a call at once by what `fill` says.
template <typename Request, typename Response, typename Fill>
grpc::ServerUnaryReactor *answer(InferenceServer &server, grpc::CallbackServerContext &context, Access access,
                                 const char *method, const Request &request, Response &response, Fill fill) {
  Call call{context, method, request.ByteSizeLong()};
  grpc::Status status = access == Access::Open ? grpc::Status::OK : checkToken(server, context);
  if (status.ok())
    status = fill();
  server.log(call.entry(status, status.ok() ? response.ByteSizeLong() : 0));
  grpc::ServerUnaryReactor *reactor = context.DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

void describe(const std::vector<ServedPort> &ports, bool isBatched,
              google::protobuf::RepeatedPtrField<inference::ModelMetadataResponse::TensorMetadata> &list) {
  for (const ServedPort &port : ports) {
    auto &tensor = *list.Add();
    tensor.set_name(port.name);
    tensor.set_datatype(std::string(datatypeName(port.type.element)));
    if (isBatched)
      tensor.add_shape(-1);
    tensor.mutable_shape()->Add(port.type.shape.begin(), port.type.shape.end());
  }
}

grpc::StatusCode codeOf(Outcome outcome, const InferenceJob &job) {
  switch (outcome) {
  case Outcome::Answered:
    return grpc::StatusCode::OK;
  case Outcome::Full:
  case Outcome::Draining:
    return grpc::StatusCode::UNAVAILABLE;
  case Outcome::Late:
    return grpc::StatusCode::DEADLINE_EXCEEDED;
  case Outcome::Cancelled:
    return grpc::StatusCode::CANCELLED;
  case Outcome::Failed:
    break;
  }
  return job.error.status() == Status::Lost ? grpc::StatusCode::UNAVAILABLE : grpc::StatusCode::INTERNAL;
}

} // namespace

class GrpcService::Inference final : public grpc::ServerUnaryReactor {
public:
  Inference(GrpcService &service, grpc::CallbackServerContext &context, const inference::ModelInferRequest &message,
            inference::ModelInferResponse &response)
      : service(service), call{context, "ModelInfer", message.ByteSizeLong()}, response(response) {}

  void begin(const inference::ModelInferRequest &message) {
    if (grpc::Status status = checkToken(service.server, call.context); !status.ok())
      return end(status);
    auto model = service.server.find(message.model_name(), message.model_version());
    if (!model)
      return end({grpc::StatusCode::NOT_FOUND, missingModel(message.model_name(), message.model_version())});
    auto read = readInferenceRequest(model->getPlan(), message, call.begin);
    if (!read)
      return end({grpc::StatusCode::INVALID_ARGUMENT, read.error().message()});
    request = std::move(*read);
    if (call.context.deadline() != std::chrono::system_clock::time_point::max()) {
      std::chrono::nanoseconds rest = call.context.deadline() - std::chrono::system_clock::now();
      request.job->deadline = std::min(request.job->deadline, now() + rest.count());
    }
    // The thread that calls this is the model's own: the model is there.
    request.job->done = [this, model = model.get()](Outcome outcome) { finish(outcome, *model); };
    present = model;
    // The job may be over when `submit` returns; this is there until gRPC has been told of it.
    id = model->submit(request.job);
  }

private:
  void finish(Outcome outcome, const InferenceModel &model) {
    if (outcome != Outcome::Answered)
      return end({codeOf(outcome, *request.job), refusalOf(outcome, *request.job)});
    writeInferenceAnswer(request, model, response);
    end(grpc::Status::OK);
  }

  void end(const grpc::Status &status) {
    AccessEntry entry = call.entry(status, status.ok() ? response.ByteSizeLong() : 0);
    entry.id = request.id;
    entry.job = request.job;
    service.server.log(entry);
    Finish(status);
  }

  void OnCancel() override {
    if (auto model = present.lock())
      model->cancel(id);
  }

  void OnDone() override { delete this; }

  GrpcService &service;
  const Call call;
  inference::ModelInferResponse &response;
  InferenceRequest request;
  /// Weak, so that a model that has been taken out does not end, and wait for its thread, in a thread of gRPC's.
  std::weak_ptr<InferenceModel> present;
  RequestId id = 0;
};

grpc::ServerUnaryReactor *GrpcService::ModelInfer(Context *context, const inference::ModelInferRequest *request,
                                                  inference::ModelInferResponse *response) {
  // Its own from here on: OnDone.
  auto *made = new Inference(*this, *context, *request, *response);
  made->begin(*request);
  return made;
}

grpc::ServerUnaryReactor *GrpcService::ServerLive(Context *context, const inference::ServerLiveRequest *request,
                                                  inference::ServerLiveResponse *response) {
  return answer(server, *context, Access::Open, "ServerLive", *request, *response, [&] {
    response->set_live(true);
    return grpc::Status::OK;
  });
}

grpc::ServerUnaryReactor *GrpcService::ServerReady(Context *context, const inference::ServerReadyRequest *request,
                                                   inference::ServerReadyResponse *response) {
  return answer(server, *context, Access::Open, "ServerReady", *request, *response, [&] {
    response->set_ready(server.isReady());
    return grpc::Status::OK;
  });
}

grpc::ServerUnaryReactor *GrpcService::ModelReady(Context *context, const inference::ModelReadyRequest *request,
                                                  inference::ModelReadyResponse *response) {
  return answer(server, *context, Access::ByToken, "ModelReady", *request, *response, [&] {
    auto model = server.find(request->name(), request->version());
    if (!model)
      return grpc::Status(grpc::StatusCode::NOT_FOUND, missingModel(request->name(), request->version()));
    response->set_ready(model->isReady());
    return grpc::Status::OK;
  });
}

grpc::ServerUnaryReactor *GrpcService::ServerMetadata(Context *context, const inference::ServerMetadataRequest *request,
                                                      inference::ServerMetadataResponse *response) {
  return answer(server, *context, Access::ByToken, "ServerMetadata", *request, *response, [&] {
    response->set_name("cleave");
    response->set_version(server.getVersion());
    return grpc::Status::OK;
  });
}

grpc::ServerUnaryReactor *GrpcService::ModelMetadata(Context *context, const inference::ModelMetadataRequest *request,
                                                     inference::ModelMetadataResponse *response) {
  return answer(server, *context, Access::ByToken, "ModelMetadata", *request, *response, [&] {
    auto model = server.find(request->name(), request->version());
    if (!model)
      return grpc::Status(grpc::StatusCode::NOT_FOUND, missingModel(request->name(), request->version()));
    response->set_name(model->getName());
    for (const std::string &version : server.versions(request->name()))
      response->add_versions(version);
    response->set_platform("cleave_plan");
    const BatchedPlan &plan = model->getPlan();
    describe(plan.getInputs(), plan.isBatched(), *response->mutable_inputs());
    describe(plan.getOutputs(), plan.isBatched(), *response->mutable_outputs());
    return grpc::Status::OK;
  });
}

} // namespace cleave::runtime::serve
