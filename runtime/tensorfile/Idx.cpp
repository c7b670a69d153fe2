// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// IDX: two zero bytes, an element code, the number of dimensions, the dimensions (32 bits each), the elements; all
// big-endian. Often compressed with gzip.

#include "runtime/tensorfile/Formats.h"
#include "runtime/tensorfile/Inflater.h"

namespace cleave::runtime::tensorfile {

namespace {

struct IdxCode {
  unsigned code;
  ElementType element;
};
constexpr IdxCode idxCodes[] = {{0x08, ElementType::U8},  {0x09, ElementType::I8},  {0x0B, ElementType::I16},
                                {0x0C, ElementType::I32}, {0x0D, ElementType::F32}, {0x0E, ElementType::F64}};

struct Magic {
  ElementType element;
  unsigned rank;
};

Expected<Magic> readMagic(ByteCursor &cursor) {
  auto magic = cursor.big<uint32_t>("magic number");
  if (!magic)
    return magic.error();
  for (const IdxCode &code : idxCodes)
    if (*magic >> 8 == code.code)
      return Magic{code.element, *magic & 0xff};
  return malformed(0, "expected the magic number of an IDX file (00 00, element code, dimensions), got ", *magic);
}

Expected<std::vector<int64_t>> readShape(ByteCursor &cursor, unsigned rank) {
  std::vector<int64_t> shape;
  for (unsigned d = 0; d != rank; ++d) {
    auto size = cursor.big<uint32_t>("dimensions");
    if (!size)
      return size.error();
    shape.push_back(*size);
  }
  return shape;
}

} // namespace

Expected<HostTensor> readIdx(Bytes file) {
  ByteCursor cursor(file);
  auto magic = readMagic(cursor);
  if (!magic)
    return magic.error();
  auto shape = readShape(cursor, magic->rank);
  if (!shape)
    return shape.error();
  uint64_t position = cursor.position();
  auto type = typeOfBytes(magic->element, std::move(*shape), cursor.remaining(), position);
  if (!type)
    return type.error();
  return tensorOfBytes(std::move(*type), file.subspan(position), true);
}

Expected<HostTensor> readIdxGzip(Bytes file) {
  // The header first: it says how much there is to inflate.
  Inflater inflater(file, Inflater::Gzip);
  auto contents = inflater.read(4);
  if (!contents)
    return contents.error();
  ByteCursor start(*contents);
  auto magic = readMagic(start);
  if (!magic)
    return magic.error();
  auto dimensions = inflater.read(4 * magic->rank);
  if (!dimensions)
    return dimensions.error();
  ByteCursor cursor(*dimensions, 4);
  auto shape = readShape(cursor, magic->rank);
  if (!shape)
    return shape.error();
  TensorType type{magic->element, std::move(*shape), std::nullopt};
  if (Error error = type.check())
    return malformed(cursor.position(), error.message());
  auto data = inflater.read(*type.byteSize());
  if (!data)
    return data.error();
  if (Error error = inflater.expectEnd())
    return error;
  auto checked = typeOfBytes(type.element, type.shape, data->size(), cursor.position());
  return checked ? tensorOfBytes(std::move(*checked), *data, true) : Expected<HostTensor>(checked.error());
}

Error writeIdx(FileWriter &out, const HostTensor &tensor) {
  const TensorType &type = tensor.type();
  const IdxCode *found = nullptr;
  for (const IdxCode &code : idxCodes)
    if (code.element == type.element)
      found = &code;
  if (!found || type.shape.size() > 255)
    return makeError(Status::Unsupported, "an IDX file expects i8, u8, i16, i32, f32 or f64, got ", type.text(),
                     "; use .npy");
  std::string header{0, 0, static_cast<char>(found->code), static_cast<char>(type.shape.size())};
  for (int64_t size : type.shape) {
    if (size > UINT32_MAX)
      return makeError(Status::Unsupported, "an IDX file expects dimensions below 2^32, got ", type.text(),
                       "; use .npy");
    for (int shift = 24; shift >= 0; shift -= 8)
      header += static_cast<char>(size >> shift);
  }
  out.write(header);
  std::vector<std::byte> swapped(tensor.bytes().size());
  copySwapped(swapped.data(), tensor.bytes(), elementBytes(type.element));
  out.write(swapped);
  return Error::success();
}

} // namespace cleave::runtime::tensorfile
