// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A request of the Open Inference Protocol, version 2: a JSON object, and after it the bytes of those tensors that the
// binary tensor extension has there.

#ifndef CLEAVE_RUNTIME_SERVE_HTTP_JSONINFERENCE_H
#define CLEAVE_RUNTIME_SERVE_HTTP_JSONINFERENCE_H

#include "runtime/serve/InferenceRequest.h"
#include "runtime/serve/http/HttpServer.h"

namespace cleave::runtime::serve {

/// Reads a request for a model; tensors may be parts of the body, which they keep. `headerLength` is the header
/// Inference-Header-Content-Length: how many bytes the JSON has; empty: all. "0": the body is one input's bytes, of one
/// sample, and outputs are binary, too. The job is complete but for `done`; its timeout counts from `arrival`.
/// Status::Failure with what is wrong, for the client.
Expected<InferenceRequest> readInferenceRequest(const BatchedPlan &plan, const std::shared_ptr<HttpBody> &body,
                                                const std::string &headerLength, Time arrival);

/// The answer: its parts one after the other, and how many bytes of them are JSON, where binary tensors follow.
struct InferenceAnswer {
  std::vector<std::string> parts;
  std::optional<size_t> headerLength;
};
InferenceAnswer writeInferenceAnswer(const InferenceRequest &request, const BatchedPlan &plan, const std::string &name,
                                     const std::string &version);

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_HTTP_JSONINFERENCE_H
