// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every error says which field of the request is wrong.

#include "runtime/serve/http/JsonInference.h"

#include "runtime/Json.h"
#include "runtime/serve/Datatype.h"
#include "runtime/serve/http/TensorJson.h"

#include <charconv>
#include <sstream>

namespace cleave::runtime::serve {

namespace dom = simdjson::dom;

template <typename... Parts> static Error refuse(const Parts &...parts) { return makeError(Status::Failure, parts...); }

namespace {

class RequestReader {
public:
  /// `jsonBytes` at the body's beginning are JSON.
  RequestReader(const BatchedPlan &plan, const std::shared_ptr<HttpBody> &body, size_t jsonBytes, Time arrival)
      : builder(plan, arrival), plan(plan), body(*body), jsonBytes(jsonBytes) {
    // Tensors are not to keep what is much larger than they are.
    if (jsonBytes <= body->size() / 2)
      owner = body;
  }

  Error readRaw();
  Error readJson();

  RequestBuilder builder;

private:
  Error readParameters(const dom::object &object);
  Error readInputs(const dom::object &object);
  Error readInput(const dom::element &element);
  Error readOutputs(const dom::object &object);
  Expected<HostTensor> readTensor(const dom::object &input, const TensorType &type);
  Expected<std::string_view> takeBinary(uint64_t bytes);

  const BatchedPlan &plan;
  const HttpBody &body;
  const size_t jsonBytes;
  std::shared_ptr<HttpBody> owner; ///< the body, where tensors are parts of it; null: they are copies
  size_t taken = 0;                ///< bytes of the body that have been read
  bool binaryOutputs = false;
};

/// A flag among parameters; nothing where it is not there.
Error readFlag(const dom::object &parameters, const char *name, bool &flag) {
  dom::element element;
  if (parameters[name].get(element) != simdjson::SUCCESS)
    return Error::success();
  return element.get(flag) == simdjson::SUCCESS ? Error::success()
                                                : refuse("parameter \"", name, "\" expects true or false");
}

Error readNumber(const dom::object &parameters, const char *name, std::optional<uint64_t> &number) {
  dom::element element;
  if (parameters[name].get(element) != simdjson::SUCCESS)
    return Error::success();
  uint64_t value = 0;
  if (element.get(value) != simdjson::SUCCESS)
    return refuse("parameter \"", name, "\" expects a whole number from 0 on");
  number = value;
  return Error::success();
}

/// The parameters of an object; an empty optional where it has none.
Expected<std::optional<dom::object>> parametersOf(const dom::object &object) {
  dom::element element;
  if (object["parameters"].get(element) != simdjson::SUCCESS)
    return std::optional<dom::object>();
  dom::object parameters;
  if (element.get(parameters) != simdjson::SUCCESS)
    return refuse("\"parameters\" expects an object");
  return std::optional(parameters);
}

Expected<std::string_view> RequestReader::takeBinary(uint64_t bytes) {
  if (bytes > body.size() - taken)
    return refuse("\"binary_data_size\" expects at most the ", body.size() - taken, " bytes that follow, got ", bytes);
  std::string_view part(body.data() + taken, bytes);
  taken += bytes;
  return part;
}

Error RequestReader::readRaw() {
  if (plan.getInputs().size() != 1)
    return refuse("a request without JSON expects a model with one input, got one with ", plan.getInputs().size());
  const ServedPort &port = plan.getInputs().front();
  TensorType type = port.ofSamples(1, plan.isBatched());
  if (body.size() != type.byteSize())
    return refuse("input ", quotedName(port.name), " expects ", *type.byteSize(), " bytes for one sample, got ",
                  body.size());
  auto tensor = builder.fromBytes(type, {body.data(), body.size()}, owner);
  if (!tensor)
    return tensor.error();
  builder.give(0, std::move(*tensor));
  builder.wantAll(/*isBinary=*/true);
  return Error::success();
}

Error RequestReader::readJson() {
  dom::parser parser;
  dom::element root;
  if (auto code = parser.parse(body.data(), jsonBytes).get(root))
    return refuse("a request expects JSON, got: ", simdjson::error_message(code));
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS)
    return refuse("a request expects a JSON object");
  taken = jsonBytes;
  if (dom::element id; object["id"].get(id) == simdjson::SUCCESS) {
    std::string_view value;
    if (id.get(value) != simdjson::SUCCESS)
      return refuse("\"id\" expects a string");
    builder.setId(value);
  }
  if (Error error = readParameters(object))
    return error;
  if (Error error = readInputs(object))
    return error;
  if (taken != body.size())
    return refuse("the inputs expect all ", body.size() - jsonBytes, " bytes after the JSON, got a sum of ",
                  taken - jsonBytes, " in \"binary_data_size\"");
  return readOutputs(object);
}

Error RequestReader::readParameters(const dom::object &object) {
  auto parameters = parametersOf(object);
  if (!parameters)
    return parameters.error();
  if (!*parameters)
    return Error::success();
  if (Error error = readFlag(**parameters, "binary_data_output", binaryOutputs))
    return error;
  for (const char *name : {"priority", "timeout"}) {
    std::optional<uint64_t> number;
    if (Error error = readNumber(**parameters, name, number))
      return error;
    if (number)
      builder.setParameter(name, *number);
  }
  return Error::success();
}

Error RequestReader::readInputs(const dom::object &object) {
  dom::array inputs;
  if (object["inputs"].get(inputs) != simdjson::SUCCESS)
    return refuse("a request expects an array \"inputs\"");
  for (dom::element input : inputs)
    if (Error error = readInput(input))
      return error;
  return Error::success();
}

Error RequestReader::readInput(const dom::element &element) {
  dom::object input;
  std::string_view name, datatype;
  if (element.get(input) != simdjson::SUCCESS || input["name"].get(name) != simdjson::SUCCESS)
    return refuse("\"inputs\" expects objects with a \"name\"");
  if (input["datatype"].get(datatype) != simdjson::SUCCESS)
    datatype = {};
  auto position = builder.findInput(name, datatype);
  if (!position)
    return position.error();
  dom::array dims;
  std::vector<int64_t> shape;
  if (input["shape"].get(dims) != simdjson::SUCCESS)
    return refuse("input ", quotedName(name), " expects an array \"shape\"");
  for (dom::element dim : dims) {
    int64_t size = 0;
    if (dim.get(size) != simdjson::SUCCESS || shape.size() == 64)
      return refuse("input ", quotedName(name), " expects whole numbers in \"shape\"");
    shape.push_back(size);
  }
  auto type = builder.typeOf(*position, shape);
  if (!type)
    return type.error();
  auto tensor = readTensor(input, *type);
  if (!tensor)
    return refuse("input ", quotedName(name), " ", tensor.error().message());
  builder.give(*position, std::move(*tensor));
  return Error::success();
}

Expected<HostTensor> RequestReader::readTensor(const dom::object &input, const TensorType &type) {
  auto parameters = parametersOf(input);
  if (!parameters)
    return parameters.error();
  std::optional<uint64_t> binary;
  if (*parameters) {
    if (Error error = readNumber(**parameters, "binary_data_size", binary))
      return error;
    if (dom::element region; (**parameters)["shared_memory_region"].get(region) == simdjson::SUCCESS)
      return refuse("expects its data in the request; shared memory is not supported");
  }
  auto bytes = type.byteSize();
  dom::array data;
  bool hasData = input["data"].get(data) == simdjson::SUCCESS;
  if (binary.has_value() == hasData)
    return refuse("expects either an array \"data\" or the parameter \"binary_data_size\"");
  // As large as what came with the request, before there is memory for it.
  if (binary && (!bytes || *binary != *bytes))
    return refuse("expects \"binary_data_size\" ", bytes.value_or(0), ", got ", *binary);
  if (!binary && *type.elementCount() > body.size())
    return refuse("expects ", *type.elementCount(), " elements in \"data\", got a request of ", body.size(), " bytes");
  if (binary) {
    auto part = takeBinary(*binary);
    return part ? builder.fromBytes(type, *part, owner) : Expected<HostTensor>(part.error());
  }
  auto tensor = HostTensor::allocate(type);
  if (!tensor)
    return tensor;
  Error error = readElements(data, *tensor);
  return error ? Expected<HostTensor>(error) : tensor;
}

Error RequestReader::readOutputs(const dom::object &object) {
  dom::element list;
  if (object["outputs"].get(list) != simdjson::SUCCESS) {
    builder.wantAll(binaryOutputs);
    return Error::success();
  }
  dom::array outputs;
  if (list.get(outputs) != simdjson::SUCCESS)
    return refuse("\"outputs\" expects an array");
  for (dom::element element : outputs) {
    dom::object output;
    std::string_view name;
    if (element.get(output) != simdjson::SUCCESS || output["name"].get(name) != simdjson::SUCCESS)
      return refuse("\"outputs\" expects objects with a \"name\"");
    bool isBinary = binaryOutputs;
    auto parameters = parametersOf(output);
    if (!parameters)
      return parameters.error();
    if (*parameters) {
      if (Error error = readFlag(**parameters, "binary_data", isBinary))
        return error;
      for (const char *other : {"classification", "shared_memory_region"})
        if (dom::element found; (**parameters)[other].get(found) == simdjson::SUCCESS)
          return refuse("output ", quotedName(name), " has the parameter \"", other, "\", which is not supported");
    }
    if (Error error = builder.want(name, isBinary))
      return error;
  }
  return Error::success();
}

} // namespace

Expected<InferenceRequest> readInferenceRequest(const BatchedPlan &plan, const std::shared_ptr<HttpBody> &body,
                                                const std::string &headerLength, Time arrival) {
  size_t jsonBytes = body->size();
  if (!headerLength.empty()) {
    auto [end, code] = std::from_chars(headerLength.data(), headerLength.data() + headerLength.size(), jsonBytes);
    if (code != std::errc() || end != headerLength.data() + headerLength.size() || jsonBytes > body->size())
      return refuse("Inference-Header-Content-Length expects a number of at most the body's ", body->size(),
                    " bytes, got ", quotedName(headerLength));
  }
  RequestReader reader(plan, body, jsonBytes, arrival);
  Error error = jsonBytes == 0 && !headerLength.empty() ? reader.readRaw() : reader.readJson();
  if (error)
    return error;
  return reader.builder.finish();
}

static std::string_view bytesOf(const HostTensor &tensor) {
  return {reinterpret_cast<const char *>(tensor.bytes().data()), tensor.bytes().size()};
}

InferenceAnswer writeInferenceAnswer(const InferenceRequest &request, const BatchedPlan &plan, const std::string &name,
                                     const std::string &version) {
  InferenceAnswer answer;
  std::ostringstream head;
  head << "{\"model_name\": " << JsonString{name} << ", \"model_version\": " << JsonString{version};
  if (!request.id.empty())
    head << ", \"id\": " << JsonString{request.id};
  head << ", \"outputs\": [";
  std::string json = head.str();
  std::vector<std::string> binary;
  for (const WantedOutput &wanted : request.outputs) {
    const HostTensor &tensor = request.job->outputs[wanted.port];
    std::ostringstream output;
    output << (&wanted == request.outputs.data() ? "" : ", ")
           << "{\"name\": " << JsonString{plan.getOutputs()[wanted.port].name} << ", \"datatype\": \""
           << datatypeName(tensor.type().element) << "\", \"shape\": " << shapeText(tensor.type().shape);
    if (wanted.isBinary)
      output << ", \"parameters\": {\"binary_data_size\": " << tensor.bytes().size() << "}";
    json += output.str();
    if (wanted.isBinary) {
      binary.emplace_back(bytesOf(tensor));
    } else {
      json += ", \"data\": ";
      appendElements(json, tensor);
    }
    json += "}";
  }
  json += "]}";
  if (!binary.empty())
    answer.headerLength = json.size();
  answer.parts.push_back(std::move(json));
  for (std::string &part : binary)
    answer.parts.push_back(std::move(part));
  return answer;
}

} // namespace cleave::runtime::serve
