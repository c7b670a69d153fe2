// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mutates ONNX models by the reflection of their protobuf messages: any field becomes another value, goes, comes twice
// or is copied from another message of its kind, so that nodes are wired, shaped and typed otherwise.

#include "Mutation.h"

#include "onnx/onnx_pb.h"

#include <google/protobuf/reflection.h>
#include <vector>

using namespace cleave::fuzz;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

void collect(Message &message, std::vector<Message *> &messages) {
  messages.push_back(&message);
  std::vector<const FieldDescriptor *> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor *field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE)
      continue;
    if (!field->is_repeated()) {
      collect(*message.GetReflection()->MutableMessage(&message, field), messages);
      continue;
    }
    for (int i = 0; i != message.GetReflection()->FieldSize(message, field); ++i)
      collect(*message.GetReflection()->MutableRepeatedMessage(&message, field, i), messages);
  }
}

/// Strings that the model has in this kind of field or another: names of values, nodes and operators.
std::string anotherString(const std::vector<Message *> &messages, const std::string &old, Random &random) {
  for (int attempt = 0; attempt != 8; ++attempt) {
    const Message &message = *messages[random.below(messages.size())];
    std::vector<const FieldDescriptor *> fields;
    message.GetReflection()->ListFields(message, &fields);
    if (fields.empty())
      continue;
    const FieldDescriptor *field = fields[random.below(fields.size())];
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_STRING)
      continue;
    if (!field->is_repeated())
      return message.GetReflection()->GetString(message, field);
    return message.GetReflection()->GetRepeatedString(
        message, field,
        static_cast<int>(random.below(static_cast<uint64_t>(message.GetReflection()->FieldSize(message, field)))));
  }
  std::string text = old;
  text.resize(old.size() + 8);
  text.resize(mutateBytes(reinterpret_cast<uint8_t *>(text.data()), old.size(), text.size(), random));
  return text;
}

/// Sets a field, or element `index` of a repeated one, to `change` of what it is.
#define CLEAVE_CHANGE(KIND, value)                                                                                     \
  repeated ? reflection->SetRepeated##KIND(&message, field, index, value)                                              \
           : reflection->Set##KIND(&message, field, value)
#define CLEAVE_OLD(KIND)                                                                                               \
  (repeated ? reflection->GetRepeated##KIND(message, field, index) : reflection->Get##KIND(message, field))

void changeValue(Message &message, const FieldDescriptor *field, int index, const std::vector<Message *> &messages,
                 Random &random) {
  const auto *reflection = message.GetReflection();
  bool repeated = field->is_repeated();
  switch (field->cpp_type()) {
  case FieldDescriptor::CPPTYPE_INT32:
    CLEAVE_CHANGE(Int32, static_cast<int32_t>(mutated(static_cast<int64_t>(CLEAVE_OLD(Int32)), random)));
    return;
  case FieldDescriptor::CPPTYPE_INT64:
    CLEAVE_CHANGE(Int64, mutated(CLEAVE_OLD(Int64), random));
    return;
  case FieldDescriptor::CPPTYPE_UINT64:
    CLEAVE_CHANGE(UInt64, static_cast<uint64_t>(mutated(static_cast<int64_t>(CLEAVE_OLD(UInt64)), random)));
    return;
  case FieldDescriptor::CPPTYPE_FLOAT:
    CLEAVE_CHANGE(Float, static_cast<float>(mutated(static_cast<double>(CLEAVE_OLD(Float)), random)));
    return;
  case FieldDescriptor::CPPTYPE_DOUBLE:
    CLEAVE_CHANGE(Double, mutated(CLEAVE_OLD(Double), random));
    return;
  case FieldDescriptor::CPPTYPE_ENUM:
    CLEAVE_CHANGE(EnumValue, static_cast<int>(random.below(20)));
    return;
  case FieldDescriptor::CPPTYPE_STRING:
    CLEAVE_CHANGE(String, anotherString(messages, CLEAVE_OLD(String), random));
    return;
  default:
    return;
  }
}

void changeField(Message &message, const std::vector<Message *> &messages, Random &random) {
  const auto *reflection = message.GetReflection();
  std::vector<const FieldDescriptor *> fields;
  reflection->ListFields(message, &fields);
  // Mostly what is there; a field that is not begins with its default.
  const FieldDescriptor *field = fields.empty() || random.oneIn(8)
                                     ? message.GetDescriptor()->field(static_cast<int>(
                                           random.below(static_cast<uint64_t>(message.GetDescriptor()->field_count()))))
                                     : fields[random.below(fields.size())];
  bool isMessage = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (!field->is_repeated()) {
    if (random.oneIn(6))
      reflection->ClearField(&message, field);
    else
      changeValue(message, field, 0, messages, random);
    return;
  }
  int size = reflection->FieldSize(message, field);
  if (size == 0)
    return;
  int one = static_cast<int>(random.below(static_cast<uint64_t>(size)));
  int other = static_cast<int>(random.below(static_cast<uint64_t>(size)));
  switch (random.below(isMessage ? 3 : 6)) {
  case 0:
    reflection->SwapElements(&message, field, one, other);
    return;
  case 1:
    reflection->SwapElements(&message, field, one, size - 1);
    reflection->RemoveLast(&message, field);
    return;
  case 2:
    if (isMessage)
      reflection->AddMessage(&message, field)->CopyFrom(reflection->GetRepeatedMessage(message, field, one));
    return;
  default:
    changeValue(message, field, one, messages, random);
  }
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  Random random(seed);
  onnx::ModelProto model;
  if (random.oneIn(50) || !model.ParseFromArray(data, static_cast<int>(size)))
    return mutateBytes(data, size, most, random);
  for (uint64_t changes = 1 + random.below(2); changes != 0; --changes) {
    std::vector<Message *> messages;
    collect(model, messages);
    Message &message = *messages[random.below(messages.size())];
    Message &other = *messages[random.below(messages.size())];
    // A message within the other would be gone before it is copied.
    if (&message != &other && message.GetDescriptor() == other.GetDescriptor() && random.oneIn(4)) {
      std::unique_ptr<Message> copy(other.New());
      copy->CopyFrom(other);
      message.CopyFrom(*copy);
    } else {
      changeField(message, messages, random);
    }
  }
  if (model.ByteSizeLong() > most)
    return size;
  model.SerializeToArray(data, static_cast<int>(most));
  return model.ByteSizeLong();
}
