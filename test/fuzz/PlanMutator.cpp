// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mutates plan files past their seal: instructions, buffers and kernels go, come twice or change places, and any number
// or name in the tables becomes another one. The file is a FlatBuffer with a right seal again. Code stays as it is.

#include "Mutation.h"

#include "runtime/Plan.h"
#include "runtime/plan_generated.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

using namespace cleave;
using namespace cleave::fuzz;

namespace {

/// A number in the file.
struct Scalar {
  uint8_t *at;
  flatbuffers::ElementaryType type;
};

/// All that may change in place, by table and field: every field is as likely as any other, however often it occurs.
struct Places {
  std::map<std::pair<const flatbuffers::TypeTable *, size_t>, std::vector<Scalar>> scalars;
  std::vector<uint8_t *> lengths, strings;
};

size_t widthOf(flatbuffers::ElementaryType type) {
  switch (type) {
  case flatbuffers::ET_SHORT:
  case flatbuffers::ET_USHORT:
    return 2;
  case flatbuffers::ET_INT:
  case flatbuffers::ET_UINT:
  case flatbuffers::ET_FLOAT:
    return 4;
  case flatbuffers::ET_LONG:
  case flatbuffers::ET_ULONG:
  case flatbuffers::ET_DOUBLE:
    return 8;
  default:
    return 1;
  }
}

uint8_t *follow(uint8_t *offset) { return offset + flatbuffers::ReadScalar<flatbuffers::uoffset_t>(offset); }

/// The walk of a sound FlatBuffer.
class PlaceFinder {
public:
  Places places;

  void visit(const flatbuffers::TypeTable *type, uint8_t *table) {
    const flatbuffers::TypeTable *object = fb::NativeObjectTypeTable();
    uint8_t unionType = 0;
    for (size_t field = 0; field != type->num_elems; ++field) {
      const auto &code = type->type_codes[field];
      auto slot = static_cast<flatbuffers::voffset_t>(4 + 2 * field);
      auto offset = reinterpret_cast<const flatbuffers::Table *>(table)->GetOptionalFieldOffset(slot);
      if (offset == 0)
        continue;
      uint8_t *at = table + offset;
      auto base = static_cast<flatbuffers::ElementaryType>(code.base_type);
      bool isBytes = code.is_repeating && base == flatbuffers::ET_UCHAR && code.sequence_ref < 0;
      if (base == flatbuffers::ET_UTYPE)
        unionType = *at;
      if (isBytes) {
        if (type != object)
          places.lengths.push_back(follow(at));
      } else if (code.is_repeating) {
        visitVector(type, field, follow(at));
      } else if (base == flatbuffers::ET_SEQUENCE) {
        visitTable(type->type_refs[code.sequence_ref](), unionType, follow(at));
      } else if (base == flatbuffers::ET_STRING) {
        places.strings.push_back(follow(at));
      } else {
        places.scalars[{type, field}].push_back({at, base});
      }
    }
  }

private:
  void visitTable(const flatbuffers::TypeTable *type, uint8_t unionType, uint8_t *table) {
    if (type->st != flatbuffers::ST_UNION)
      return visit(type, table);
    if (unionType != 0 && unionType < type->num_elems)
      visit(type->type_refs[type->type_codes[unionType].sequence_ref](), table);
  }

  void visitVector(const flatbuffers::TypeTable *type, size_t field, uint8_t *vector) {
    const auto &code = type->type_codes[field];
    auto base = static_cast<flatbuffers::ElementaryType>(code.base_type);
    auto count = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(vector);
    places.lengths.push_back(vector);
    uint8_t *element = vector + sizeof(flatbuffers::uoffset_t);
    bool refers = base == flatbuffers::ET_SEQUENCE || base == flatbuffers::ET_STRING;
    for (flatbuffers::uoffset_t i = 0; i != count; ++i, element += refers ? 4 : widthOf(base))
      if (base == flatbuffers::ET_SEQUENCE)
        visit(type->type_refs[code.sequence_ref](), follow(element));
      else if (base == flatbuffers::ET_STRING)
        places.strings.push_back(follow(element));
      else
        places.scalars[{type, field}].push_back({element, base});
  }
};

template <typename T> void mutateNumber(uint8_t *at, Random &random) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::is_floating_point_v<T>)
    value = static_cast<T>(mutated(static_cast<double>(value), random));
  else
    value = static_cast<T>(mutated(static_cast<int64_t>(value), random));
  std::memcpy(at, &value, sizeof value);
}

void mutateScalar(Places &places, Random &random) {
  auto kind = std::next(places.scalars.begin(), static_cast<ptrdiff_t>(random.below(places.scalars.size())));
  std::vector<Scalar> &alike = kind->second;
  Scalar place = alike[random.below(alike.size())];
  size_t width = widthOf(place.type);
  if (alike.size() > 1 && random.oneIn(3)) {
    std::memcpy(place.at, alike[random.below(alike.size())].at, width);
    return;
  }
  if (place.type == flatbuffers::ET_FLOAT)
    mutateNumber<float>(place.at, random);
  else if (place.type == flatbuffers::ET_DOUBLE)
    mutateNumber<double>(place.at, random);
  else if (width == 8)
    mutateNumber<int64_t>(place.at, random);
  else if (width == 4)
    mutateNumber<int32_t>(place.at, random);
  else if (width == 2)
    mutateNumber<int16_t>(place.at, random);
  else
    mutateNumber<int8_t>(place.at, random);
}

void mutateString(Places &places, Random &random) {
  auto sizeOf = [](uint8_t *string) { return flatbuffers::ReadScalar<flatbuffers::uoffset_t>(string); };
  uint8_t *string = places.strings[random.below(places.strings.size())];
  uint8_t *other = places.strings[random.below(places.strings.size())];
  if (sizeOf(string) == 0)
    return;
  if (sizeOf(other) == sizeOf(string))
    std::copy_n(other + 4, sizeOf(string), string + 4);
  else
    string[4 + random.below(sizeOf(string))] = static_cast<uint8_t>(random.below(256));
}

/// An element goes, comes twice, or changes places with another.
template <typename T> void mutateList(std::vector<std::unique_ptr<T>> &list, Random &random) {
  if (list.empty())
    return;
  size_t one = random.below(list.size()), other = random.below(list.size());
  switch (random.below(3)) {
  case 0:
    list.erase(list.begin() + static_cast<ptrdiff_t>(one));
    return;
  case 1:
    list.insert(list.begin() + static_cast<ptrdiff_t>(other), std::make_unique<T>(*list[one]));
    return;
  default:
    std::swap(list[one], list[other]);
  }
}

void mutateLists(fb::PlanT &plan, Random &random) {
  if (plan.entries.empty())
    return;
  fb::EntryT &entry = *plan.entries[random.below(plan.entries.size())];
  if (entry.programs.empty())
    return;
  fb::ProgramT &program = *entry.programs[random.below(entry.programs.size())];
  switch (random.below(11)) {
  case 0:
    return mutateList(program.body, random);
  case 1:
    return mutateList(program.prepare, random);
  case 2:
    return mutateList(program.buffers, random);
  case 3:
    return mutateList(plan.kernels, random);
  case 4:
    return mutateList(entry.tiles, random);
  case 5:
    return mutateList(plan.parameters, random);
  case 6:
    return mutateList(entry.programs, random);
  case 7:
    return mutateList(plan.meshes, random);
  case 8:
    return mutateList(program.state, random);
  case 9:
    if (!program.body.empty())
      return mutateList(program.body[random.below(program.body.size())]->waits, random);
    return;
  default:
    if (!plan.kernels.empty())
      return mutateList(plan.kernels[random.below(plan.kernels.size())]->inputs, random);
  }
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  Random random(seed);
  if (!runtime::Plan::fromBytes(std::as_bytes(std::span(data, size))))
    return size;
  auto plan = fb::UnPackPlan(data);
  if (random.oneIn(3))
    mutateLists(*plan, random);
  flatbuffers::FlatBufferBuilder builder;
  // So that fields with their default value are there to be changed.
  builder.ForceDefaults(true);
  fb::FinishPlanBuffer(builder, fb::CreatePlan(builder, plan.get()));
  uint8_t *bytes = builder.GetBufferPointer();
  PlaceFinder finder;
  finder.visit(fb::PlanTypeTable(), follow(bytes));
  for (uint64_t changes = random.below(3); changes != 0; --changes)
    if (uint64_t kind = random.below(12); kind == 0)
      mutateString(finder.places, random);
    else if (kind == 1) {
      uint8_t *length = finder.places.lengths[random.below(finder.places.lengths.size())];
      auto count = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(length);
      flatbuffers::WriteScalar(length, static_cast<flatbuffers::uoffset_t>(random.below(uint64_t(count) + 1)));
    } else
      mutateScalar(finder.places, random);
  auto seal = runtime::planSeal(std::as_bytes(std::span(bytes, builder.GetSize())));
  if (builder.GetSize() + seal.size() > most)
    return size;
  std::copy_n(bytes, builder.GetSize(), data);
  std::memcpy(data + builder.GetSize(), seal.data(), seal.size());
  return builder.GetSize() + seal.size();
}
