// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every error says which field of the request is wrong.

#include "runtime/serve/InferenceRequest.h"

#include "runtime/Json.h"
#include "runtime/serve/Datatype.h"
#include "runtime/serve/TensorJson.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>

namespace cleave::runtime::serve {

namespace dom = simdjson::dom;

/// The most samples of one request.
static constexpr int64_t mostSamples = 1 << 20;

template <typename... Parts> static Error refuse(const Parts &...parts) { return makeError(Status::Failure, parts...); }

static std::string text(const std::vector<int64_t> &shape) {
  std::string list;
  for (int64_t size : shape)
    list += (list.empty() ? "" : ",") + std::to_string(size);
  return "[" + list + "]";
}

/// Names by which clients know ports; shortened, as they may be anything.
static std::string quoted(std::string_view name) { return "\"" + std::string(name.substr(0, 80)) + "\""; }

static size_t positionOf(const std::vector<ServedPort> &ports, std::string_view name) {
  return static_cast<size_t>(std::ranges::find(ports, name, &ServedPort::name) - ports.begin());
}

namespace {

class RequestReader {
public:
  RequestReader(const BatchedPlan &plan, const std::string &body) : plan(plan), body(body) {
    request.job = std::make_shared<InferenceJob>();
    request.job->inputs.resize(plan.getInputs().size());
  }

  Error readRaw();
  Error readJson(size_t jsonBytes, Time now);

  InferenceRequest request;

private:
  Error readParameters(const dom::object &object, Time now);
  Error readInputs(const dom::object &object);
  Error readInput(const dom::element &element);
  Error readOutputs(const dom::object &object);
  Expected<HostTensor> readTensor(const dom::object &input, const ServedPort &port, std::vector<int64_t> shape);
  Error checkShape(const ServedPort &port, const std::vector<int64_t> &shape);
  Error allocateOutputs();
  Expected<std::string_view> takeBinary(uint64_t bytes);

  const BatchedPlan &plan;
  const std::string &body;
  size_t taken = 0; ///< bytes of the body that have been read
  bool binaryOutputs = false, hasSamples = false;
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

Error RequestReader::checkShape(const ServedPort &port, const std::vector<int64_t> &shape) {
  std::vector<int64_t> expected = port.type.shape;
  if (!plan.isBatched())
    return shape == expected
               ? Error::success()
               : refuse("input ", quoted(port.name), " expects shape ", text(expected), ", got ", text(shape));
  bool fits = shape.size() == expected.size() + 1 && std::equal(expected.begin(), expected.end(), shape.begin() + 1) &&
              shape.front() >= 1 && shape.front() <= mostSamples;
  if (!fits) {
    expected.insert(expected.begin(), -1);
    return refuse("input ", quoted(port.name), " expects shape ", text(expected), " of at least one sample, got ",
                  text(shape));
  }
  auto samples = static_cast<uint64_t>(shape.front());
  if (hasSamples && samples != request.job->samples)
    return refuse("input ", quoted(port.name), " expects the ", request.job->samples,
                  " samples of the other inputs, got ", samples);
  request.job->samples = samples;
  hasSamples = true;
  return Error::success();
}

Error RequestReader::allocateOutputs() {
  for (const ServedPort &port : plan.getOutputs()) {
    auto tensor = HostTensor::allocate(port.ofSamples(request.job->samples, plan.isBatched()));
    if (!tensor)
      return tensor.error();
    request.job->outputs.push_back(std::move(*tensor));
  }
  return Error::success();
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
  auto tensor = HostTensor::allocate(port.ofSamples(1, plan.isBatched()));
  if (!tensor)
    return tensor.error();
  if (tensor->bytes().size() != body.size())
    return refuse("input ", quoted(port.name), " expects ", tensor->bytes().size(), " bytes for one sample, got ",
                  body.size());
  std::memcpy(tensor->bytes().data(), body.data(), body.size());
  request.job->inputs.front() = std::move(*tensor);
  for (size_t i = 0; i != plan.getOutputs().size(); ++i)
    request.outputs.push_back({i, true});
  return allocateOutputs();
}

Error RequestReader::readJson(size_t jsonBytes, Time now) {
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
    request.id = value;
  }
  if (Error error = readParameters(object, now))
    return error;
  if (Error error = readInputs(object))
    return error;
  if (taken != body.size())
    return refuse("the inputs expect all ", body.size() - jsonBytes, " bytes after the JSON, got a sum of ",
                  taken - jsonBytes, " in \"binary_data_size\"");
  if (Error error = readOutputs(object))
    return error;
  return allocateOutputs();
}

/// `priority` (smaller is more urgent, 0 the usual), `timeout` in microseconds: Triton's names.
Error RequestReader::readParameters(const dom::object &object, Time now) {
  auto parameters = parametersOf(object);
  if (!parameters)
    return parameters.error();
  if (!*parameters)
    return Error::success();
  if (Error error = readFlag(**parameters, "binary_data_output", binaryOutputs))
    return error;
  std::optional<uint64_t> priority, timeout;
  if (Error error = readNumber(**parameters, "priority", priority))
    return error;
  if (Error error = readNumber(**parameters, "timeout", timeout))
    return error;
  request.job->priority = static_cast<uint32_t>(std::min<uint64_t>(priority.value_or(0), 1000));
  if (timeout && *timeout != 0 && *timeout < uint64_t(never - now) / 1000)
    request.job->deadline = now + static_cast<Time>(*timeout) * 1000;
  return Error::success();
}

Error RequestReader::readInputs(const dom::object &object) {
  dom::array inputs;
  if (object["inputs"].get(inputs) != simdjson::SUCCESS)
    return refuse("a request expects an array \"inputs\"");
  for (dom::element input : inputs)
    if (Error error = readInput(input))
      return error;
  for (size_t i = 0; i != plan.getInputs().size(); ++i)
    if (!request.job->inputs[i].bytes().data())
      return refuse("the model expects input ", quoted(plan.getInputs()[i].name), ", which the request lacks");
  return Error::success();
}

Error RequestReader::readInput(const dom::element &element) {
  dom::object input;
  std::string_view name, datatype;
  if (element.get(input) != simdjson::SUCCESS || input["name"].get(name) != simdjson::SUCCESS)
    return refuse("\"inputs\" expects objects with a \"name\"");
  size_t position = positionOf(plan.getInputs(), name);
  if (position == plan.getInputs().size())
    return refuse("the model has no input ", quoted(name));
  const ServedPort &port = plan.getInputs()[position];
  if (request.job->inputs[position].bytes().data())
    return refuse("input ", quoted(name), " expects to be given once");
  if (input["datatype"].get(datatype) != simdjson::SUCCESS || datatypeNamed(datatype) != port.type.element)
    return refuse("input ", quoted(name), " expects \"datatype\" ", quoted(datatypeName(port.type.element)), ", got ",
                  quoted(datatype));
  dom::array dims;
  std::vector<int64_t> shape;
  if (input["shape"].get(dims) != simdjson::SUCCESS)
    return refuse("input ", quoted(name), " expects an array \"shape\"");
  for (dom::element dim : dims) {
    int64_t size = 0;
    if (dim.get(size) != simdjson::SUCCESS || shape.size() == 64)
      return refuse("input ", quoted(name), " expects whole numbers in \"shape\"");
    shape.push_back(size);
  }
  if (Error error = checkShape(port, shape))
    return error;
  auto tensor = readTensor(input, port, shape);
  if (!tensor)
    return refuse("input ", quoted(name), " ", tensor.error().message());
  request.job->inputs[position] = std::move(*tensor);
  return Error::success();
}

Expected<HostTensor> RequestReader::readTensor(const dom::object &input, const ServedPort &port,
                                               std::vector<int64_t> shape) {
  TensorType type{port.type.element, std::move(shape), {}};
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
  auto tensor = HostTensor::allocate(type);
  if (!tensor)
    return tensor;
  if (!binary) {
    Error error = readElements(data, *tensor);
    return error ? Expected<HostTensor>(error) : tensor;
  }
  auto part = takeBinary(*binary);
  if (!part)
    return part.error();
  std::memcpy(tensor->bytes().data(), part->data(), part->size());
  // A byte of a BOOL is 0 or 1; kernels rely on it.
  if (type.element == ElementType::I1)
    for (std::byte &byte : tensor->bytes())
      byte = std::byte(byte != std::byte(0));
  return tensor;
}

Error RequestReader::readOutputs(const dom::object &object) {
  dom::element list;
  if (object["outputs"].get(list) != simdjson::SUCCESS) {
    for (size_t i = 0; i != plan.getOutputs().size(); ++i)
      request.outputs.push_back({i, binaryOutputs});
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
    WantedOutput wanted{positionOf(plan.getOutputs(), name), binaryOutputs};
    if (wanted.port == plan.getOutputs().size())
      return refuse("the model has no output ", quoted(name));
    if (std::ranges::find(request.outputs, wanted.port, &WantedOutput::port) != request.outputs.end())
      return refuse("output ", quoted(name), " expects to be asked for once");
    auto parameters = parametersOf(output);
    if (!parameters)
      return parameters.error();
    if (*parameters) {
      if (Error error = readFlag(**parameters, "binary_data", wanted.isBinary))
        return error;
      for (const char *other : {"classification", "shared_memory_region"})
        if (dom::element found; (**parameters)[other].get(found) == simdjson::SUCCESS)
          return refuse("output ", quoted(name), " has the parameter \"", other, "\", which is not supported");
    }
    request.outputs.push_back(wanted);
  }
  return Error::success();
}

} // namespace

Expected<InferenceRequest> readInferenceRequest(const BatchedPlan &plan, const std::string &body,
                                                const std::string &headerLength, Time now) {
  size_t jsonBytes = body.size();
  if (!headerLength.empty()) {
    auto [end, code] = std::from_chars(headerLength.data(), headerLength.data() + headerLength.size(), jsonBytes);
    if (code != std::errc() || end != headerLength.data() + headerLength.size() || jsonBytes > body.size())
      return refuse("Inference-Header-Content-Length expects a number of at most the body's ", body.size(),
                    " bytes, got ", quoted(headerLength));
  }
  RequestReader reader(plan, body);
  Error error = jsonBytes == 0 && !headerLength.empty() ? reader.readRaw() : reader.readJson(jsonBytes, now);
  if (error)
    return error;
  return std::move(reader.request);
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
           << datatypeName(tensor.type().element) << "\", \"shape\": " << text(tensor.type().shape);
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
