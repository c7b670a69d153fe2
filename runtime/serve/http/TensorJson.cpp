// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Element by element; integers keep all their digits.

#include "runtime/serve/http/TensorJson.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace cleave::runtime::serve {

namespace dom = simdjson::dom;

/// The C++ type of an element type that is no small float; calls `work` with a value of it.
template <typename Work> static decltype(auto) withType(ElementType type, Work work) {
  switch (type) {
  case ElementType::I8:
    return work(int8_t());
  case ElementType::I1:
  case ElementType::U8:
    return work(uint8_t());
  case ElementType::I16:
    return work(int16_t());
  case ElementType::U16:
    return work(uint16_t());
  case ElementType::I32:
    return work(int32_t());
  case ElementType::U32:
    return work(uint32_t());
  case ElementType::I64:
    return work(int64_t());
  case ElementType::U64:
    return work(uint64_t());
  case ElementType::F64:
    return work(double());
  default:
    return work(float());
  }
}

namespace {

class ElementReader {
public:
  explicit ElementReader(const HostTensor &tensor)
      : type(tensor.type().element), next(tensor.bytes().data()), left(*tensor.type().elementCount()) {}

  Error readAll(const dom::array &array, uint64_t count) {
    if (Error error = read(array))
      return error;
    return left == 0 ? Error::success()
                     : makeError(Status::Failure, "expects ", count, " elements in \"data\", got ", count - left);
  }

private:
  Error read(const dom::array &array) {
    for (dom::element element : array) {
      dom::array inner;
      Error error = element.get(inner) == simdjson::SUCCESS ? read(inner) : store(element);
      if (error)
        return error;
    }
    return Error::success();
  }

  Error store(const dom::element &element) {
    if (left == 0)
      return makeError(Status::Failure, "expects no more elements in \"data\" than its shape has, got more");
    bool isStored = false;
    if (type == ElementType::I1) {
      bool value = false;
      isStored = element.get(value) == simdjson::SUCCESS;
      *next = std::byte(value ? 1 : 0);
    } else if (isFloatingPoint(type)) {
      double value = 0;
      isStored = element.get(value) == simdjson::SUCCESS;
      if (isStored)
        storeElement(type, next, value);
    }
    if (!isStored && !isFloatingPoint(type))
      isStored = withType(type, [&](auto zero) { return storeInteger(element, zero); });
    if (!isStored)
      return makeError(Status::Failure, "expects elements of \"data\" that are numbers of its datatype, got ",
                       simdjson::to_string(element).substr(0, 40));
    next += elementBytes(type);
    --left;
    return Error::success();
  }

  template <typename T> bool storeInteger(const dom::element &element, T) {
    T value = 0;
    if (int64_t number; element.get(number) == simdjson::SUCCESS) {
      if (!std::in_range<std::conditional_t<std::is_integral_v<T>, T, int64_t>>(number))
        return false;
      value = static_cast<T>(number);
    } else if (uint64_t large; element.get(large) == simdjson::SUCCESS) {
      if (!std::in_range<std::conditional_t<std::is_integral_v<T>, T, int64_t>>(large))
        return false;
      value = static_cast<T>(large);
    } else {
      return false;
    }
    if (type == ElementType::I1 && value != 0 && value != 1)
      return false;
    std::memcpy(next, &value, sizeof(value));
    return true;
  }

  ElementType type;
  std::byte *next;
  uint64_t left;
};

} // namespace

Error readElements(const dom::array &array, const HostTensor &tensor) {
  return ElementReader(tensor).readAll(array, *tensor.type().elementCount());
}

template <typename T> static void appendNumber(std::string &text, T value) {
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value)) {
      text += "null";
      return;
    }
  char digits[32];
  text.append(digits, std::to_chars(std::begin(digits), std::end(digits), value).ptr);
}

void appendElements(std::string &text, const HostTensor &tensor) {
  ElementType type = tensor.type().element;
  unsigned width = elementBytes(type);
  const std::byte *next = tensor.bytes().data();
  text += '[';
  for (uint64_t i = 0, count = *tensor.type().elementCount(); i != count; ++i, next += width) {
    if (i != 0)
      text += ',';
    if (type == ElementType::I1) {
      text += *next == std::byte(0) ? "false" : "true";
    } else if (type == ElementType::F16 || type == ElementType::BF16) {
      appendNumber(text, static_cast<float>(loadElement(type, next)));
    } else {
      withType(type, [&](auto value) {
        std::memcpy(&value, next, sizeof(value));
        appendNumber(text, value);
      });
    }
  }
  text += ']';
}

} // namespace cleave::runtime::serve
