// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Requests and answers of inference as messages.

#ifndef CLEAVE_RUNTIME_SERVE_GRPC_GRPCINFERENCE_H
#define CLEAVE_RUNTIME_SERVE_GRPC_GRPCINFERENCE_H

#include "runtime/serve/InferenceRequest.h"
#include "runtime/serve/InferenceServer.h"

#include "open_inference.pb.h"

namespace cleave::runtime::serve {

/// Reads a request for a model. The job is complete but for `done`; its timeout counts from `arrival`. Outputs are
/// wanted as bytes unless inputs came by their elements and all outputs have a field for theirs. Status::Failure with
/// what is wrong, for the client.
Expected<InferenceRequest> readInferenceRequest(const BatchedPlan &plan, const inference::ModelInferRequest &message,
                                                Time arrival);

void writeInferenceAnswer(const InferenceRequest &request, const InferenceModel &model,
                          inference::ModelInferResponse &message);

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_GRPC_GRPCINFERENCE_H
