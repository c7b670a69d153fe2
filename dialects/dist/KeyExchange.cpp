// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dictionaries of exchanges of keys.

#include "dialects/dist/KeyExchange.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace cleave::dist {

/// The numbers of an exchange, by their names.
static constexpr std::pair<llvm::StringLiteral, double KeyExchange::*> numbers[] = {
    {"ring_seconds", &KeyExchange::ringSeconds},
    {"gathered_seconds", &KeyExchange::gatheredSeconds},
    {"ring_bytes", &KeyExchange::ringBytes},
    {"gathered_bytes", &KeyExchange::gatheredBytes}};

static std::optional<KeyExchange> readExchange(Attribute attribute) {
  auto dictionary = dyn_cast_or_null<DictionaryAttr>(attribute);
  if (!dictionary || dictionary.size() != 2 + std::size(numbers))
    return std::nullopt;
  auto way = dictionary.getAs<StringAttr>("way");
  auto devices = dictionary.getAs<IntegerAttr>("devices");
  if (!way || !llvm::is_contained({"ring", "gather"}, way.getValue()) || !devices || devices.getInt() < 2)
    return std::nullopt;
  KeyExchange exchange{way.getValue() == "ring", devices.getInt()};
  for (auto [name, number] : numbers) {
    auto value = dictionary.getAs<FloatAttr>(name);
    if (!value)
      return std::nullopt;
    exchange.*number = value.getValueAsDouble();
  }
  return exchange;
}

std::optional<KeyExchange> getKeyExchange(Operation *op) { return readExchange(op->getDiscardableAttr(keysAttrName)); }

void setKeyExchange(Operation *op, const KeyExchange &exchange) {
  Builder builder(op->getContext());
  SmallVector<NamedAttribute> entries = {
      builder.getNamedAttr("way", builder.getStringAttr(exchange.isRing ? "ring" : "gather")),
      builder.getNamedAttr("devices", builder.getI64IntegerAttr(exchange.devices))};
  for (auto [name, number] : numbers)
    entries.push_back(builder.getNamedAttr(name, builder.getF64FloatAttr(exchange.*number)));
  op->setAttr(keysAttrName, builder.getDictionaryAttr(entries));
}

LogicalResult verifyKeyExchange(Operation *op, Attribute attribute) {
  if (readExchange(attribute))
    return success();
  return op->emitOpError("expects '") << keysAttrName
                                      << "' to say a way, \"ring\" or \"gather\", two devices or more, and the seconds "
                                         "and bytes of both ways, got "
                                      << attribute;
}

} // namespace cleave::dist
