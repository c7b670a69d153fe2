// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every error says which field of the message is wrong.

#include "runtime/serve/grpc/GrpcInference.h"

#include "runtime/serve/Datatype.h"

namespace cleave::runtime::serve {
namespace {

using inference::InferTensorContents;
using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;

template <typename... Parts> Error refuse(const Parts &...parts) { return makeError(Status::Failure, parts...); }

/// Where elements stand that are `Element` in tensors and `Sent` in messages.
template <typename Element, typename Sent> struct ContentsField {
  using Stored = Element;
  const google::protobuf::RepeatedField<Sent> &(InferTensorContents::*get)() const;
  google::protobuf::RepeatedField<Sent> *(InferTensorContents::*edit)();
};

/// Calls `visit` with the field of an element type; false where it has none.
template <typename Visit> bool visitField(ElementType type, Visit visit) {
  using C = InferTensorContents;
  auto use = [&]<typename Element, typename Sent>(ContentsField<Element, Sent> field) {
    visit(field);
    return true;
  };
  switch (type) {
  case ElementType::I1:
    return use(ContentsField<uint8_t, bool>{&C::bool_contents, &C::mutable_bool_contents});
  case ElementType::I8:
    return use(ContentsField<int8_t, int32_t>{&C::int_contents, &C::mutable_int_contents});
  case ElementType::I16:
    return use(ContentsField<int16_t, int32_t>{&C::int_contents, &C::mutable_int_contents});
  case ElementType::I32:
    return use(ContentsField<int32_t, int32_t>{&C::int_contents, &C::mutable_int_contents});
  case ElementType::I64:
    return use(ContentsField<int64_t, int64_t>{&C::int64_contents, &C::mutable_int64_contents});
  case ElementType::U8:
    return use(ContentsField<uint8_t, uint32_t>{&C::uint_contents, &C::mutable_uint_contents});
  case ElementType::U16:
    return use(ContentsField<uint16_t, uint32_t>{&C::uint_contents, &C::mutable_uint_contents});
  case ElementType::U32:
    return use(ContentsField<uint32_t, uint32_t>{&C::uint_contents, &C::mutable_uint_contents});
  case ElementType::U64:
    return use(ContentsField<uint64_t, uint64_t>{&C::uint64_contents, &C::mutable_uint64_contents});
  case ElementType::F32:
    return use(ContentsField<float, float>{&C::fp32_contents, &C::mutable_fp32_contents});
  case ElementType::F64:
    return use(ContentsField<double, double>{&C::fp64_contents, &C::mutable_fp64_contents});
  case ElementType::F16:
  case ElementType::BF16:
    return false;
  }
  return false;
}

bool hasField(ElementType type) {
  return visitField(type, [](auto) {});
}

/// A tensor of the elements that a message has.
Expected<HostTensor> fromContents(const TensorType &type, const InferTensorContents &contents) {
  Expected<HostTensor> result = refuse("expects its elements in raw_input_contents, as ", datatypeName(type.element),
                                       " has no field in contents");
  visitField(type.element, [&](auto field) {
    using Element = typename decltype(field)::Stored;
    const auto &elements = (contents.*field.get)();
    // As many as there are, before there is memory for them.
    auto expected = type.elementCount();
    if (!expected || *expected != static_cast<uint64_t>(elements.size())) {
      result = refuse("expects ", expected.value_or(0), " elements in the field of contents for ",
                      datatypeName(type.element), ", got ", elements.size());
      return;
    }
    result = HostTensor::allocate(type);
    if (!result)
      return;
    auto target = result->template as<Element>().begin();
    for (auto element : elements) {
      auto stored = static_cast<Element>(element);
      if constexpr (!std::is_floating_point_v<Element>)
        if (static_cast<decltype(element)>(stored) != element) {
          result = refuse("expects elements that ", datatypeName(type.element), " has, got ", element);
          return;
        }
      *target++ = stored;
    }
  });
  return result;
}

/// A parameter that is a whole number.
Error readNumber(const inference::InferParameter &parameter, const std::string &name, uint64_t &number) {
  if (parameter.has_uint64_param())
    number = parameter.uint64_param();
  else if (parameter.has_int64_param() && parameter.int64_param() >= 0)
    number = static_cast<uint64_t>(parameter.int64_param());
  else
    return refuse("parameter \"", name, "\" expects a whole number from 0 on");
  return Error::success();
}

class RequestReader {
public:
  RequestReader(const BatchedPlan &plan, const inference::ModelInferRequest &message, Time arrival)
      : builder(plan, arrival), message(message), isRaw(message.raw_input_contents_size() != 0) {}

  Error read() {
    builder.setId(message.id());
    for (const char *name : {"priority", "timeout"})
      if (auto found = message.parameters().find(name); found != message.parameters().end()) {
        uint64_t number = 0;
        if (Error error = readNumber(found->second, name, number))
          return error;
        builder.setParameter(name, number);
      }
    if (isRaw && message.raw_input_contents_size() != message.inputs_size())
      return refuse("raw_input_contents expects one for each of the ", message.inputs_size(), " inputs, got ",
                    message.raw_input_contents_size());
    for (int i = 0; i != message.inputs_size(); ++i)
      if (Error error = readInput(i))
        return error;
    return readOutputs();
  }

  RequestBuilder builder;

private:
  Error readInput(int index) {
    const auto &input = message.inputs(index);
    auto position = builder.findInput(input.name(), input.datatype());
    if (!position)
      return position.error();
    auto type = builder.typeOf(*position, {input.shape().begin(), input.shape().end()});
    if (!type)
      return type.error();
    auto tensor = readTensor(index, *type);
    if (!tensor)
      return refuse("input ", quotedName(input.name()), " ", tensor.error().message());
    builder.give(*position, std::move(*tensor));
    return Error::success();
  }

  Expected<HostTensor> readTensor(int index, const TensorType &type) const {
    const auto &input = message.inputs(index);
    if (input.parameters().contains("shared_memory_region"))
      return refuse("expects its data in the request; shared memory is not supported");
    if (!isRaw)
      return fromContents(type, input.contents());
    if (input.has_contents())
      return refuse("expects no contents beside raw_input_contents");
    return builder.fromBytes(type, message.raw_input_contents(index));
  }

  Error readOutputs() {
    if (message.outputs_size() == 0)
      builder.wantAll(isRaw);
    for (const auto &output : message.outputs()) {
      for (const char *other : {"classification", "shared_memory_region"})
        if (output.parameters().contains(other))
          return refuse("output ", quotedName(output.name()), " has the parameter \"", other,
                        "\", which is not supported");
      if (Error error = builder.want(output.name(), isRaw))
        return error;
    }
    return Error::success();
  }

  const inference::ModelInferRequest &message;
  const bool isRaw;
};

} // namespace

Expected<InferenceRequest> readInferenceRequest(const BatchedPlan &plan, const inference::ModelInferRequest &message,
                                                Time arrival) {
  RequestReader reader(plan, message, arrival);
  if (Error error = reader.read())
    return error;
  auto request = reader.builder.finish();
  if (request && std::ranges::any_of(request->outputs, [&](const WantedOutput &wanted) {
        return !hasField(plan.getOutputs()[wanted.port].type.element);
      }))
    for (WantedOutput &wanted : request->outputs)
      wanted.isBinary = true;
  return request;
}

void writeInferenceAnswer(const InferenceRequest &request, const InferenceModel &model,
                          inference::ModelInferResponse &message) {
  message.set_model_name(model.getName());
  message.set_model_version(model.getVersion());
  message.set_id(request.id);
  for (const WantedOutput &wanted : request.outputs) {
    const HostTensor &tensor = request.job->outputs[wanted.port];
    ElementType element = tensor.type().element;
    auto &output = *message.add_outputs();
    output.set_name(model.getPlan().getOutputs()[wanted.port].name);
    output.set_datatype(std::string(datatypeName(element)));
    output.mutable_shape()->Add(tensor.type().shape.begin(), tensor.type().shape.end());
    if (wanted.isBinary)
      message.add_raw_output_contents(tensor.bytes().data(), tensor.bytes().size());
    else
      visitField(element, [&](auto field) {
        auto elements = tensor.as<typename decltype(field)::Stored>();
        (output.mutable_contents()->*field.edit)()->Add(elements.begin(), elements.end());
      });
  }
}

} // namespace cleave::runtime::serve
