// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A request of the Open Inference Protocol, version 2, whichever way it came: what it must say, and how it becomes a
// job.

#ifndef CLEAVE_RUNTIME_SERVE_INFERENCEREQUEST_H
#define CLEAVE_RUNTIME_SERVE_INFERENCEREQUEST_H

#include "runtime/serve/BatchedPlan.h"
#include "runtime/serve/InferenceJob.h"

#include <string>
#include <string_view>

namespace cleave::runtime::serve {

/// An output that somebody wants, by its position.
struct WantedOutput {
  size_t port = 0;
  bool isBinary = false; ///< as bytes, where the protocol has another way, too
};

struct InferenceRequest {
  std::string id;
  std::shared_ptr<InferenceJob> job;
  std::vector<WantedOutput> outputs;
};

/// Checks what a request says, part by part. Every error is Status::Failure with what is wrong, for the client.
class RequestBuilder {
public:
  /// `arrival`: of the request's first byte, from which its timeout counts.
  RequestBuilder(const BatchedPlan &plan, Time arrival);

  void setId(std::string_view id) { request.id = id; }
  /// The position of the input of that name, which must have that datatype and may be given once.
  Expected<size_t> findInput(std::string_view name, std::string_view datatype) const;
  /// The type of an input that is said to have this shape: of as many samples as the other inputs.
  Expected<TensorType> typeOf(size_t input, const std::vector<int64_t> &shape);
  /// The input's tensor from all of its bytes: a copy of them, or a view that keeps `owner`, where there is one.
  Expected<HostTensor> fromBytes(const TensorType &type, std::string_view bytes,
                                 std::shared_ptr<void> owner = nullptr) const;
  void give(size_t input, HostTensor tensor) { request.job->inputs[input] = std::move(tensor); }

  /// Asks for an output, once.
  Error want(std::string_view name, bool isBinary);
  void wantAll(bool isBinary);

  /// The parameter of that name, as far as it means something here: "priority" (smaller is more urgent, 0 the usual)
  /// and "timeout" in microseconds, which are Triton's names.
  void setParameter(std::string_view name, uint64_t value);

  /// The request, when all has been said: complete but for the job's `done`.
  Expected<InferenceRequest> finish();

private:
  const BatchedPlan &plan;
  InferenceRequest request;
  bool hasSamples = false;
};

/// The deadline of a request that arrived at `arrival` with a timeout of `microseconds`; `never` for 0, and for longer
/// than a clock goes.
Time deadlineOf(Time arrival, uint64_t microseconds);
/// The least number of samples in a request for the model whose tensors take `bytes`.
uint64_t leastSamples(const BatchedPlan &plan, uint64_t bytes);

/// Names of others in messages: quoted, and shortened, as they may be anything.
std::string quotedName(std::string_view name);
/// "[2,10]".
std::string shapeText(const std::vector<int64_t> &shape);

/// What to say of a request for a model that is not there, and of one that got no answer.
std::string missingModel(const std::string &name, const std::string &version);
std::string refusalOf(Outcome outcome, const InferenceJob &job);

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_INFERENCEREQUEST_H
