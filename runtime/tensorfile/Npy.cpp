// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NumPy's array format: a magic string, a version, and a header that is a Python dictionary with three keys, then the
// elements.

#include "runtime/tensorfile/Formats.h"

#include <algorithm>
#include <cctype>

namespace cleave::runtime::tensorfile {

namespace {

constexpr std::string_view bfloat16Remark = "# bfloat16";

struct Header {
  std::string descr;
  bool fortran = false, bfloat16 = false;
  std::vector<int64_t> shape;
};

/// Reads the one dictionary that NumPy writes: 'descr', 'fortran_order' and 'shape', in any order.
class HeaderParser {
public:
  HeaderParser(std::string_view text, uint64_t origin) : text(text), origin(origin) {}

  Expected<Header> parse() {
    if (!accept('{'))
      return expected("'{'");
    unsigned seen = 0;
    while (!accept('}')) {
      std::string key;
      if (!string(key) || !accept(':'))
        return expected("a key in quotes and ':'");
      unsigned bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
      if (bit == 0 || (seen & bit) != 0)
        return expected("the keys 'descr', 'fortran_order' and 'shape', once each");
      seen |= bit;
      if (Error error = value(bit))
        return error;
      if (!accept(',') && peek() != '}')
        return expected("',' or '}'");
    }
    if (seen != 7)
      return expected("the keys 'descr', 'fortran_order' and 'shape'");
    skipSpace();
    header.bfloat16 = text.substr(offset).starts_with(bfloat16Remark);
    if (header.bfloat16)
      offset += bfloat16Remark.size();
    skipSpace();
    if (offset != text.size())
      return expected("nothing but spaces after the dictionary");
    return std::move(header);
  }

private:
  Error expected(const char *what) const { return malformed(origin + offset, "expected ", what, " in the header"); }

  void skipSpace() {
    while (offset != text.size() && std::isspace(static_cast<unsigned char>(text[offset])))
      ++offset;
  }
  char peek() {
    skipSpace();
    return offset == text.size() ? '\0' : text[offset];
  }
  bool accept(char wanted) {
    if (peek() != wanted)
      return false;
    ++offset;
    return true;
  }
  bool accept(std::string_view word) {
    skipSpace();
    if (!text.substr(offset).starts_with(word))
      return false;
    offset += word.size();
    return true;
  }

  bool string(std::string &result) {
    char quote = peek();
    if (quote != '\'' && quote != '"')
      return false;
    size_t end = text.find(quote, offset + 1);
    if (end == std::string_view::npos)
      return false;
    result = text.substr(offset + 1, end - offset - 1);
    offset = end + 1;
    return true;
  }

  Error value(unsigned bit) {
    if (bit == 4)
      return shape();
    if (bit == 1 && (peek() == '\'' || peek() == '"'))
      return string(header.descr) ? Error::success() : expected("a closing quote");
    if (bit == 1)
      return makeError(Status::Unsupported, "at byte ", origin + offset, ": expected a plain element type in quotes");
    if (bit == 2) {
      header.fortran = accept("True");
      if (!header.fortran && !accept("False"))
        return expected("True or False");
    }
    return Error::success();
  }

  Error shape() {
    if (!accept('('))
      return expected("'('");
    while (!accept(')')) {
      if (!std::isdigit(static_cast<unsigned char>(peek())))
        return expected("a dimension");
      int64_t size = 0;
      for (; offset != text.size() && std::isdigit(static_cast<unsigned char>(text[offset])); ++offset)
        if (__builtin_mul_overflow(size, int64_t(10), &size) ||
            __builtin_add_overflow(size, int64_t(text[offset] - '0'), &size))
          return expected("a dimension below 2^63");
      accept('L'); // Python 2 wrote long integers so
      header.shape.push_back(size);
      if (!accept(',') && peek() != ')')
        return expected("',' or ')'");
    }
    return Error::success();
  }

  std::string_view text;
  uint64_t origin;
  size_t offset = 0;
  Header header;
};

struct Name {
  std::string_view name;
  ElementType element;
};
constexpr Name names[] = {{"b1", ElementType::I1},  {"i1", ElementType::I8},  {"u1", ElementType::U8},
                          {"i2", ElementType::I16}, {"u2", ElementType::U16}, {"i4", ElementType::I32},
                          {"u4", ElementType::U32}, {"i8", ElementType::I64}, {"u8", ElementType::U64},
                          {"f2", ElementType::F16}, {"f4", ElementType::F32}, {"f8", ElementType::F64}};

std::optional<ElementType> elementOf(const Header &header, const TensorType *expected) {
  if (header.descr.size() < 3 || std::string_view("<>|=").find(header.descr[0]) == std::string_view::npos)
    return std::nullopt;
  std::string_view name = std::string_view(header.descr).substr(1);
  bool wanted = header.bfloat16 || (expected && expected->element == ElementType::BF16);
  if ((name == "u2" || name == "V2") && wanted)
    return ElementType::BF16;
  for (const Name &row : names)
    if (row.name == name)
      return row.element;
  return std::nullopt;
}

/// The elements of a column-major array in row-major order.
std::vector<std::byte> toRowMajor(const TensorType &type, Bytes data) {
  unsigned size = elementBytes(type.element);
  size_t rank = type.shape.size();
  std::vector<int64_t> strides(rank), index(rank, 0);
  int64_t stride = size;
  for (size_t d = 0; d != rank; ++d) {
    strides[d] = stride;
    stride *= type.shape[d];
  }
  std::vector<std::byte> result(data.size());
  int64_t source = 0;
  for (size_t target = 0; target != result.size(); target += size) {
    std::copy_n(data.begin() + source, size, result.begin() + target);
    for (size_t d = rank; d-- != 0;) {
      source += strides[d];
      if (++index[d] != type.shape[d])
        break;
      source -= strides[d] * type.shape[d];
      index[d] = 0;
    }
  }
  return result;
}

} // namespace

Expected<HostTensor> readNpy(Bytes file, const TensorType *expected, uint64_t origin) {
  ByteCursor cursor(file, origin);
  auto magic = cursor.take(6, "magic string");
  if (!magic)
    return magic.error();
  if (std::string_view(reinterpret_cast<const char *>(magic->data()), 6) != "\x93NUMPY")
    return malformed(origin, "expected the magic string of a NumPy array");
  auto version = cursor.little<uint16_t>("version");
  if (!version)
    return version.error();
  unsigned major = *version & 0xff;
  if (major < 1 || major > 3)
    return makeError(Status::Unsupported, "at byte ", origin + 6, ": expected version 1, 2 or 3, got ", major);
  uint64_t length = 0;
  if (major == 1) {
    auto read = cursor.little<uint16_t>("header length");
    if (!read)
      return read.error();
    length = *read;
  } else {
    auto read = cursor.little<uint32_t>("header length");
    if (!read)
      return read.error();
    length = *read;
  }
  uint64_t headerPosition = cursor.position();
  auto text = cursor.take(length, "header");
  if (!text)
    return text.error();
  auto header = HeaderParser({reinterpret_cast<const char *>(text->data()), text->size()}, headerPosition).parse();
  if (!header)
    return header.error();
  auto element = elementOf(*header, expected);
  if (!element)
    return makeError(Status::Unsupported, "at byte ", headerPosition, ": no element type here is \"", header->descr,
                     "\"; expected a boolean, an integer (signed, or unsigned of 8 bits) or a float");
  uint64_t position = cursor.position();
  auto type = typeOfBytes(*element, std::move(header->shape), cursor.remaining(), position);
  if (!type)
    return type.error();
  Bytes data = file.subspan(position - origin);
  std::vector<std::byte> rowMajor;
  if (header->fortran && !data.empty())
    data = rowMajor = toRowMajor(*type, data);
  bool swapped = header->descr[0] == '>' && elementBytes(*element) > 1;
  return tensorOfBytes(std::move(*type), data, swapped);
}

std::string npyHeader(const TensorType &type) {
  std::ostringstream text;
  unsigned size = elementBytes(type.element);
  text << "{'descr': '" << (size == 1 ? '|' : '<');
  std::string_view name = "u2";
  for (const Name &row : names)
    if (row.element == type.element)
      name = row.name;
  text << name << "', 'fortran_order': False, 'shape': (";
  for (size_t d = 0; d != type.shape.size(); ++d)
    text << type.shape[d] << (d + 1 != type.shape.size() ? ", " : d == 0 ? "," : "");
  text << "), }";
  if (type.element == ElementType::BF16)
    text << ' ' << bfloat16Remark;
  std::string header = text.str();
  // Magic, version, length and header together fill a multiple of 64 bytes, so that the elements are aligned.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string result = "\x93NUMPY";
  result += {'\x01', '\x00', static_cast<char>(header.size()), static_cast<char>(header.size() >> 8)};
  return result + header;
}

} // namespace cleave::runtime::tensorfile
