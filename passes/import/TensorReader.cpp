// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads ONNX tensors: bytes in the message, numbers in its typed fields, or ranges of files beside the model.

#include "passes/import/TensorReader.h"

#include "dialects/interfaces/SplitRule.h"
#include "passes/import/Import.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

char UnsupportedTensor::ID = 0;

Type elementTypeFromOnnx(MLIRContext *context, int onnxType) {
  switch (onnxType) {
  case onnx::TensorProto::FLOAT:
    return Float32Type::get(context);
  case onnx::TensorProto::DOUBLE:
    return Float64Type::get(context);
  case onnx::TensorProto::FLOAT16:
    return Float16Type::get(context);
  case onnx::TensorProto::BFLOAT16:
    return BFloat16Type::get(context);
  case onnx::TensorProto::INT8:
    return IntegerType::get(context, 8);
  case onnx::TensorProto::INT16:
    return IntegerType::get(context, 16);
  case onnx::TensorProto::INT32:
    return IntegerType::get(context, 32);
  case onnx::TensorProto::INT64:
    return IntegerType::get(context, 64);
  case onnx::TensorProto::UINT8:
    return IntegerType::get(context, 8, IntegerType::Unsigned);
  case onnx::TensorProto::UINT16:
    return IntegerType::get(context, 16, IntegerType::Unsigned);
  case onnx::TensorProto::UINT32:
    return IntegerType::get(context, 32, IntegerType::Unsigned);
  case onnx::TensorProto::UINT64:
    return IntegerType::get(context, 64, IntegerType::Unsigned);
  case onnx::TensorProto::BOOL:
    return IntegerType::get(context, 1);
  default:
    return {};
  }
}

std::string onnxTypeName(int onnxType) {
  static constexpr const char *names[] = {"undefined",      "float",    "uint8",        "int8",           "uint16",
                                          "int16",          "int32",    "int64",        "string",         "bool",
                                          "float16",        "double",   "uint32",       "uint64",         "complex64",
                                          "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
                                          "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1"};
  if (onnxType >= 0 && onnxType < static_cast<int>(std::size(names)))
    return names[onnxType];
  return "type " + std::to_string(onnxType);
}

llvm::Expected<RankedTensorType> makeTensorType(ArrayRef<int64_t> shape, Type elementType) {
  if (shape.size() > largestTensorRank)
    return llvm::createStringError("has " + std::to_string(shape.size()) + " dimensions, more than the " +
                                   std::to_string(largestTensorRank) + " that Cleave supports");
  int64_t bytes = (elementType.getIntOrFloatBitWidth() + 7) / 8;
  for (int64_t size : shape) {
    if (size < 0)
      return llvm::createStringError("has the negative dimension " + std::to_string(size));
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes) || bytes > largestTensorBytes)
      return llvm::createStringError(
          "has dimensions whose product is too large (" +
          llvm::join(llvm::map_range(shape, [](int64_t n) { return std::to_string(n); }), " x ") + ")");
    if (size >= dimensionLimit)
      return llvm::createStringError("has the dimension " + std::to_string(size) + ", expected less than 2^40");
  }
  return RankedTensorType::get(shape, elementType);
}

/// Codes of TensorProto.DataType that older descriptions of ONNX's messages lack.
static constexpr int uint4Code = 21, int4Code = 22;

llvm::Expected<ModelTensor> TensorReader::read(const onnx::TensorProto &proto) {
  if (proto.data_type() == uint4Code || proto.data_type() == int4Code)
    return readPacked(proto, proto.data_type() == int4Code);
  Type element = elementTypeFromOnnx(context, proto.data_type());
  if (!element)
    return llvm::make_error<UnsupportedTensor>("has elements of " + onnxTypeName(proto.data_type()) +
                                               ", which Cleave does not support");
  SmallVector<int64_t> shape(proto.dims().begin(), proto.dims().end());
  auto type = makeTensorType(shape, element);
  if (!type)
    return type.takeError();
  return readAs(proto, *type);
}

llvm::Expected<ModelTensor> TensorReader::readAs(const onnx::TensorProto &proto, RankedTensorType type) {
  if (proto.has_segment())
    return llvm::make_error<UnsupportedTensor>("is stored in segments, which Cleave does not support");
  if (proto.data_location() == onnx::TensorProto::EXTERNAL)
    return readExternal(proto, type);
  auto tensor = proto.has_raw_data() ? readRaw(proto.raw_data(), type) : readFields(proto, type);
  if (!tensor)
    return tensor.takeError();
  return ModelTensor{*tensor, "", 0};
}

/// Elements of 4 bits as 8: two lie in a byte, the first in its lower half.
llvm::Expected<ModelTensor> TensorReader::readPacked(const onnx::TensorProto &proto, bool hasSign) {
  Type byte = IntegerType::get(context, 8, IntegerType::Unsigned);
  SmallVector<int64_t> shape(proto.dims().begin(), proto.dims().end());
  auto type = makeTensorType(shape, hasSign ? Type(IntegerType::get(context, 8)) : byte);
  if (!type)
    return type.takeError();
  int64_t bytes = (type->getNumElements() + 1) / 2;
  auto packed = readAs(proto, RankedTensorType::get({bytes}, byte));
  if (!packed)
    return packed.takeError();
  char *writable = nullptr;
  HostTensor tensor = HostTensor::allocate(*type, writable);
  ArrayRef<uint8_t> pairs = packed->tensor.as<uint8_t>();
  for (int64_t i = 0, e = type->getNumElements(); i < e; ++i) {
    unsigned bits = i % 2 == 0 ? pairs[i / 2] & 15 : pairs[i / 2] >> 4;
    writable[i] = static_cast<char>(hasSign && bits >= 8 ? static_cast<int>(bits) - 16 : static_cast<int>(bits));
  }
  return ModelTensor{tensor, "", 0, /*isPacked=*/true};
}

static llvm::Error sizeError(int64_t expected, uint64_t actual, StringRef unit) {
  return llvm::createStringError("expects " + std::to_string(expected) + " " + unit.str() + " by its dimensions, got " +
                                 std::to_string(actual));
}

/// Truth values as 0 and 1, whatever bytes the file has for them.
static HostTensor normalizeBool(const HostTensor &tensor) {
  char *writable = nullptr;
  HostTensor result = HostTensor::allocate(tensor.getType(), writable);
  for (int64_t i = 0, e = tensor.getNumElements(); i < e; ++i)
    writable[i] = tensor.data()[i] != 0;
  return result;
}

llvm::Expected<HostTensor> TensorReader::readRaw(const std::string &raw, RankedTensorType type) {
  if (raw.size() != static_cast<uint64_t>(tensorBytes(type)))
    return sizeError(tensorBytes(type), raw.size(), "bytes");
  HostTensor tensor(type, raw.data(), owner);
  return type.getElementType().isInteger(1) ? normalizeBool(tensor) : tensor;
}

/// Elements that lie in a typed field, one number each, narrowed to T.
template <typename T, typename Field>
static llvm::Expected<HostTensor> copyField(const Field &field, RankedTensorType type) {
  if (field.size() != type.getNumElements())
    return sizeError(type.getNumElements(), field.size(), "elements");
  char *writable = nullptr;
  HostTensor tensor = HostTensor::allocate(type, writable);
  for (auto [index, value] : llvm::enumerate(field))
    reinterpret_cast<T *>(writable)[index] = static_cast<T>(value);
  return tensor;
}

llvm::Expected<HostTensor> TensorReader::readFields(const onnx::TensorProto &proto, RankedTensorType type) {
  int64_t count = type.getNumElements();
  auto shared = [&](const auto &field) -> llvm::Expected<HostTensor> {
    if (field.size() != count)
      return sizeError(count, field.size(), "elements");
    return HostTensor(type, field.data(), owner);
  };
  Type element = type.getElementType();
  if (element.isF32())
    return shared(proto.float_data());
  if (element.isF64())
    return shared(proto.double_data());
  if (element.isUnsignedInteger(64))
    return shared(proto.uint64_data());
  if (element.isInteger(64))
    return shared(proto.int64_data());
  if (element.isUnsignedInteger(32))
    return copyField<uint32_t>(proto.uint64_data(), type);
  if (element.isInteger(32))
    return shared(proto.int32_data());
  if (element.getIntOrFloatBitWidth() == 16)
    return copyField<uint16_t>(proto.int32_data(), type);
  auto bytes = copyField<uint8_t>(proto.int32_data(), type);
  return bytes && element.isInteger(1) ? normalizeBool(*bytes) : std::move(bytes);
}

llvm::Expected<ModelTensor> TensorReader::readExternal(const onnx::TensorProto &proto, RankedTensorType type) {
  std::string location;
  uint64_t offset = 0, length = static_cast<uint64_t>(tensorBytes(type)), given = length;
  for (const onnx::StringStringEntryProto &entry : proto.external_data()) {
    if (entry.key() == "location")
      location = entry.value();
    else if (entry.key() == "offset" && StringRef(entry.value()).getAsInteger(10, offset))
      return llvm::createStringError("expects a number as external offset, got \"" + entry.value() + "\"");
    else if (entry.key() == "length" && StringRef(entry.value()).getAsInteger(10, given))
      return llvm::createStringError("expects a number as external length, got \"" + entry.value() + "\"");
  }
  if (given != length)
    return sizeError(static_cast<int64_t>(length), given, "external bytes");
  auto file = files.find(location);
  if (file == files.end()) {
    auto mapped = mapFileInside(folder, location);
    if (!mapped)
      return llvm::createStringError("has its data in a file that cannot be used: " +
                                     llvm::toString(mapped.takeError()));
    file = files.emplace(location, std::move(*mapped)).first;
  }
  const MappedBytes &bytes = file->second;
  if (offset > bytes.size || length > bytes.size - offset)
    return llvm::createStringError("expects " + std::to_string(length) + " bytes at offset " + std::to_string(offset) +
                                   " of \"" + location + "\", which has " + std::to_string(bytes.size));
  HostTensor tensor(type, bytes.data + offset, bytes.owner);
  // Elements that do not lie on their own boundary, and truth values, are read into memory.
  int64_t width = tensorBytes(type) / std::max<int64_t>(type.getNumElements(), 1);
  if (type.getElementType().isInteger(1))
    return ModelTensor{normalizeBool(tensor), "", 0};
  if (width > 1 && offset % width != 0) {
    char *writable = nullptr;
    HostTensor copy = HostTensor::allocate(type, writable);
    std::memcpy(writable, tensor.data(), length);
    return ModelTensor{copy, "", 0};
  }
  return ModelTensor{tensor, location, offset};
}

llvm::Expected<HostTensor> readTensorFile(MLIRContext &context, StringRef path) {
  auto mapped = mapFile(path);
  if (!mapped)
    return mapped.takeError();
  auto proto = std::make_shared<onnx::TensorProto>();
  if (mapped->size > INT32_MAX || !proto->ParseFromArray(mapped->data, static_cast<int>(mapped->size)))
    return llvm::createStringError("\"" + path.str() + "\" is not an ONNX tensor");
  TensorReader reader(&context, proto, "");
  if (proto->data_location() == onnx::TensorProto::EXTERNAL)
    return llvm::createStringError("\"" + path.str() + "\" refers to another file");
  auto tensor = reader.read(*proto);
  if (!tensor)
    return llvm::createStringError("the tensor in \"" + path.str() + "\" " + llvm::toString(tensor.takeError()));
  return tensor->tensor;
}

} // namespace cleave
