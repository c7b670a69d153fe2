// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX's TensorProto message, read from protobuf's wire format without protobuf: a sequence of fields, each a key
// (field number and wire type) and a value.

#include "runtime/tensorfile/Formats.h"

#include <cstring>
#include <utility>

namespace cleave::runtime::tensorfile {

namespace {

enum WireType { Varint = 0, Fixed64 = 1, LengthDelimited = 2, Fixed32 = 5 };
enum Field {
  Dims = 1,
  DataType = 2,
  Segment = 3,
  FloatData = 4,
  Int32Data = 5,
  StringData = 6,
  Int64Data = 7,
  RawData = 9,
  DoubleData = 10,
  Uint64Data = 11,
  ExternalData = 13,
  DataLocation = 14
};

struct ProtoCode {
  int64_t code;
  ElementType element;
  /// The field that holds the elements where they are not raw.
  Field field;
};
constexpr ProtoCode protoCodes[] = {
    {1, ElementType::F32, FloatData},   {2, ElementType::U8, Int32Data},    {3, ElementType::I8, Int32Data},
    {4, ElementType::U16, Int32Data},   {5, ElementType::I16, Int32Data},   {6, ElementType::I32, Int32Data},
    {7, ElementType::I64, Int64Data},   {9, ElementType::I1, Int32Data},    {10, ElementType::F16, Int32Data},
    {11, ElementType::F64, DoubleData}, {12, ElementType::U32, Uint64Data}, {13, ElementType::U64, Uint64Data},
    {16, ElementType::BF16, Int32Data}};

Expected<uint64_t> readVarint(ByteCursor &cursor, const char *what) {
  uint64_t start = cursor.position(), value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    auto byte = cursor.little<uint8_t>(what);
    if (!byte)
      return byte.error();
    if (shift == 63 && (*byte & 0x7e) != 0)
      break;
    value |= static_cast<uint64_t>(*byte & 0x7f) << shift;
    if ((*byte & 0x80) == 0)
      return value;
  }
  return malformed(start, "expected a number of at most 64 bits for ", what);
}

/// What the message says. The vectors grow with the bytes of the file, by at most 8 bytes for each.
struct Message {
  std::vector<int64_t> dims, int32s, int64s;
  std::vector<uint64_t> uint64s;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::optional<Bytes> raw;
  uint64_t rawPosition = 0;
  int64_t dataType = 0;
};

class MessageReader {
public:
  explicit MessageReader(Bytes file) : cursor(file) {}

  Expected<Message> read() {
    while (cursor.remaining() != 0)
      if (Error error = readField())
        return error;
    return std::move(message);
  }

private:
  Error readField() {
    uint64_t start = cursor.position();
    auto key = readVarint(cursor, "a field's key");
    if (!key)
      return key.error();
    uint64_t field = *key >> 3;
    unsigned wire = *key & 7;
    if (field == 0 || field > (uint64_t(1) << 29) - 1)
      return malformed(start, "expected a field number of a tensor message, got ", field);
    if (field == Segment || field == StringData || field == ExternalData)
      return makeError(Status::Unsupported, "at byte ", start, ": a tensor with ",
                       field == Segment      ? "segments"
                       : field == StringData ? "strings"
                                             : "its data in another file",
                       " cannot be read");
    switch (wire) {
    case Varint: {
      auto value = readVarint(cursor, "a number");
      return value ? addVarint(field, *value, start) : value.error();
    }
    case Fixed32: {
      auto bytes = cursor.take(4, "a number");
      return bytes ? addFixed(field, *bytes, 4, start) : bytes.error();
    }
    case Fixed64: {
      auto bytes = cursor.take(8, "a number");
      return bytes ? addFixed(field, *bytes, 8, start) : bytes.error();
    }
    case LengthDelimited:
      return readDelimited(field, start);
    default:
      return malformed(start, "expected a known wire type, got ", wire);
    }
  }

  Error readDelimited(uint64_t field, uint64_t start) {
    auto length = readVarint(cursor, "a length");
    if (!length)
      return length.error();
    uint64_t position = cursor.position();
    auto bytes = cursor.take(*length, field == RawData ? "raw data" : "a field");
    if (!bytes)
      return bytes.error();
    if (field == RawData) {
      message.raw = *bytes;
      message.rawPosition = position;
    } else if (field == FloatData || field == DoubleData) {
      return addFixed(field, *bytes, field == FloatData ? 4 : 8, start);
    } else if (field == Dims || field == Int32Data || field == Int64Data || field == Uint64Data) {
      ByteCursor packed(*bytes, position);
      while (packed.remaining() != 0) {
        auto value = readVarint(packed, "a number");
        if (!value)
          return value.error();
        if (Error error = addVarint(field, *value, start))
          return error;
      }
    } else if (field == DataType || field == DataLocation) {
      return malformed(start, "field ", field, " has the wrong wire type");
    }
    return Error::success();
  }

  Error addVarint(uint64_t field, uint64_t value, uint64_t start) {
    auto number = static_cast<int64_t>(value);
    switch (field) {
    case Dims:
      if (number < 0)
        return malformed(start, "expected no negative dimension, got ", number);
      message.dims.push_back(number);
      break;
    case DataType:
      message.dataType = number;
      break;
    case Int32Data:
      message.int32s.push_back(number);
      break;
    case Int64Data:
      message.int64s.push_back(number);
      break;
    case Uint64Data:
      message.uint64s.push_back(value);
      break;
    case DataLocation:
      if (number != 0)
        return makeError(Status::Unsupported, "at byte ", start,
                         ": a tensor with its data in another file cannot be read");
      break;
    case FloatData:
    case DoubleData:
    case RawData:
      return malformed(start, "field ", field, " has the wrong wire type");
    default:
      break;
    }
    return Error::success();
  }

  /// Little-endian numbers of `size` bytes, one or a packed row.
  Error addFixed(uint64_t field, Bytes bytes, unsigned size, uint64_t start) {
    bool floats = field == FloatData && size == 4, doubles = field == DoubleData && size == 8;
    if (bytes.size() % size != 0)
      return malformed(start, "expected a multiple of ", size, " bytes, got ", bytes.size());
    if (floats || doubles) {
      size_t count = bytes.size() / size;
      std::byte *target;
      if (floats) {
        message.floats.resize(message.floats.size() + count);
        target = reinterpret_cast<std::byte *>(message.floats.data() + message.floats.size() - count);
      } else {
        message.doubles.resize(message.doubles.size() + count);
        target = reinterpret_cast<std::byte *>(message.doubles.data() + message.doubles.size() - count);
      }
      std::copy(bytes.begin(), bytes.end(), target);
    } else if (field <= DataLocation && field != 8 && field != 12) {
      return malformed(start, "field ", field, " has the wrong wire type");
    }
    return Error::success();
  }

  ByteCursor cursor;
  Message message;
};

/// The smallest and largest number that an entry of a field of wider numbers may be.
std::pair<int64_t, int64_t> rangeOf(ElementType element) {
  switch (element) {
  case ElementType::I1:
    return {0, 1};
  case ElementType::I8:
    return {INT8_MIN, INT8_MAX};
  case ElementType::U8:
    return {0, UINT8_MAX};
  case ElementType::I16:
    return {INT16_MIN, INT16_MAX};
  case ElementType::U16:
  case ElementType::F16:
  case ElementType::BF16:
    return {0, UINT16_MAX}; // of floats, their bits
  case ElementType::U32:
    return {0, UINT32_MAX};
  default:
    return {INT32_MIN, INT32_MAX};
  }
}

/// The entries of a field of wider numbers as elements: the low bytes of each.
template <typename Number>
Expected<std::vector<std::byte>> narrowed(ElementType element, const std::vector<Number> &values) {
  auto [smallest, largest] = rangeOf(element);
  unsigned size = elementBytes(element);
  std::vector<std::byte> result(values.size() * size);
  for (size_t i = 0; i != values.size(); ++i) {
    if (std::cmp_less(values[i], smallest) || std::cmp_greater(values[i], largest))
      return makeError(Status::Rejected, "element ", i, " expects a number from ", smallest, " to ", largest, " for ",
                       elementName(element), ", got ", values[i]);
    std::memcpy(result.data() + i * size, &values[i], size);
  }
  return result;
}

template <typename T> Bytes bytesOf(const std::vector<T> &values) { return std::as_bytes(std::span(values)); }

} // namespace

Expected<HostTensor> readTensorProto(Bytes file, const TensorType *expected) {
  constexpr int64_t uint16Code = 4, bfloat16Code = 16;
  auto message = MessageReader(file).read();
  if (!message)
    return message.error();
  if (message->dataType == uint16Code && expected && expected->element == ElementType::BF16)
    message->dataType = bfloat16Code;
  const ProtoCode *code = nullptr;
  for (const ProtoCode &row : protoCodes)
    if (row.code == message->dataType)
      code = &row;
  if (!code)
    return makeError(message->dataType == 0 ? Status::Rejected : Status::Unsupported,
                     "expected a tensor message of a known element type, got data_type ", message->dataType);
  const std::pair<Field, size_t> counts[] = {{FloatData, message->floats.size()},
                                             {Int32Data, message->int32s.size()},
                                             {Int64Data, message->int64s.size()},
                                             {Uint64Data, message->uint64s.size()},
                                             {DoubleData, message->doubles.size()}};
  for (auto [field, count] : counts)
    if (count != 0 && (field != code->field || (message->raw && !message->raw->empty())))
      return makeError(Status::Rejected, "field ", static_cast<int>(field), " holds ", count, " numbers beside ",
                       field != code->field ? "another element type, " : "raw data of type ",
                       elementName(code->element));
  std::vector<std::byte> storage;
  Bytes data;
  if (message->raw && !message->raw->empty()) {
    data = *message->raw;
  } else if (code->field == Int32Data || code->element == ElementType::U32) {
    auto elements =
        code->field == Int32Data ? narrowed(code->element, message->int32s) : narrowed(code->element, message->uint64s);
    if (!elements)
      return elements.error();
    data = storage = std::move(*elements);
  } else {
    data = code->field == FloatData    ? bytesOf(message->floats)
           : code->field == Int64Data  ? bytesOf(message->int64s)
           : code->field == Uint64Data ? bytesOf(message->uint64s)
                                       : bytesOf(message->doubles);
  }
  auto type = typeOfBytes(code->element, message->dims, data.size(), message->rawPosition);
  return type ? tensorOfBytes(std::move(*type), data) : Expected<HostTensor>(type.error());
}

static void appendVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

std::string tensorProtoHeader(const TensorType &type) {
  std::string out;
  for (int64_t size : type.shape) {
    appendVarint(out, Dims << 3 | Varint);
    appendVarint(out, size);
  }
  appendVarint(out, DataType << 3 | Varint);
  for (const ProtoCode &row : protoCodes)
    if (row.element == type.element)
      appendVarint(out, row.code);
  appendVarint(out, RawData << 3 | LengthDelimited);
  appendVarint(out, *type.byteSize());
  return out;
}

} // namespace cleave::runtime::tensorfile
