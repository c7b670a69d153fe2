// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads measured operators.

#include "passes/cost/MeasuredOperators.h"

#include "passes/cost/MachineFile.h"
#include "passes/cost/Quantity.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace llvm;

namespace cleave {

namespace {

/// A line of the file, for messages.
struct Place {
  StringRef file;
  size_t line;

  Error error(const Twine &message) const {
    return createStringError(inconvertibleErrorCode(), file + ":" + Twine(line) + ": " + message);
  }
};

} // namespace

/// The sizes of a product: as many as are written, each a whole number from 1.
static Expected<SmallVector<double>> readExtents(StringRef text, const Place &place) {
  SmallVector<StringRef> parts;
  text.split(parts, 'x');
  SmallVector<double> extents;
  for (StringRef part : parts) {
    uint64_t extent = 0;
    if (!to_integer(part, extent, 10) || extent == 0 || extent > (uint64_t(1) << 40))
      return place.error("a product expects ROWSxCOLUMNSxINNER, or with their number before them, got \"" + text +
                         "\"");
    extents.push_back(static_cast<double>(extent));
  }
  if (extents.size() != 3 && extents.size() != 4)
    return place.error("a product expects three sizes, or four with the number of products first, got \"" + text +
                       "\"");
  if (extents.size() == 3)
    extents.insert(extents.begin(), 1);
  return extents;
}

static Expected<KernelWork> readKernel(StringRef text, StringRef elementType, const Place &place) {
  auto [name, amount] = text.trim().split(' ');
  amount = amount.trim();
  KernelWork work;
  if (name == "product") {
    auto extents = readExtents(amount, place);
    if (!extents)
      return extents.takeError();
    double batch = (*extents)[0], rows = (*extents)[1], columns = (*extents)[2], inner = (*extents)[3];
    work.costClass = CostClass::Contraction;
    work.lhs = batch * rows * inner;
    work.rhs = batch * inner * columns;
    work.result = batch * rows * columns;
    work.flops = 2 * work.result * inner;
    work.bytes = bytesOfElement(elementType) * (work.lhs + work.rhs + work.result);
    return work;
  }
  for (CostClass costClass : {CostClass::Elementwise, CostClass::Reduction, CostClass::Movement}) {
    if (name != costClassName(costClass))
      continue;
    Expected<double> bytes = parseQuantity(amount, sizeUnits, name);
    if (!bytes)
      return place.error(toString(bytes.takeError()));
    work.costClass = costClass;
    work.bytes = *bytes;
    return work;
  }
  return place.error("a kernel expects product, elementwise, reduction or movement, got \"" + name + "\"");
}

static Expected<MeasuredOperator> readOperator(ArrayRef<StringRef> fields, ArrayRef<size_t> columns,
                                               const Place &place) {
  auto field = [&](size_t index) { return fields[columns[index]].trim(); };
  MeasuredOperator measured;
  measured.name = field(0).str();
  measured.kind = field(1).str();
  measured.elementType = field(2).str();
  if (!is_contained(elementTypes, measured.elementType))
    return place.error("dtype expects one of " + join(ArrayRef(elementTypes), ", ") + ", got \"" + field(2) + "\"");
  SmallVector<StringRef> kernels;
  field(3).split(kernels, '+');
  for (StringRef kernel : kernels) {
    auto work = readKernel(kernel, measured.elementType, place);
    if (!work)
      return work.takeError();
    measured.kernels.push_back(*work);
  }
  if (!to_float(field(4), measured.seconds) || !std::isfinite(measured.seconds) || measured.seconds <= 0)
    return place.error("seconds expects a number greater than 0, got \"" + field(4) + "\"");
  return measured;
}

Expected<std::vector<MeasuredOperator>> parseMeasuredOperators(StringRef text, StringRef file) {
  constexpr StringRef names[] = {"operator", "kind", "dtype", "kernels", "seconds"};
  SmallVector<StringRef> lines, header;
  text.split(lines, '\n');
  lines.front().trim().split(header, ',');
  SmallVector<size_t> columns;
  for (StringRef name : names) {
    auto found = find_if(header, [&](StringRef column) { return column.trim() == name; });
    if (found == header.end())
      return Place{file, 1}.error("expects a first line that names the columns " + join(ArrayRef(names), ", ") +
                                  "; \"" + name + "\" is missing");
    columns.push_back(static_cast<size_t>(found - header.begin()));
  }
  std::vector<MeasuredOperator> operators;
  for (auto [index, line] : enumerate(lines)) {
    if (index == 0 || line.trim().empty())
      continue;
    Place place{file, index + 1};
    SmallVector<StringRef> fields;
    line.split(fields, ',');
    if (fields.size() != header.size())
      return place.error("expects " + Twine(header.size()) + " fields, got " + Twine(fields.size()));
    auto measured = readOperator(fields, columns, place);
    if (!measured)
      return measured.takeError();
    operators.push_back(std::move(*measured));
  }
  if (operators.empty())
    return Place{file, 1}.error("expects a measured operator in a line below, found none");
  return operators;
}

double hostSeconds(const MeasuredOperator &measured, const Machine &machine) {
  return machine.executor.dispatch * static_cast<double>(measured.kernels.size());
}

double predictedSeconds(const MeasuredOperator &measured, const Machine &machine) {
  OperatorCost cost(machine.kinds.at(measured.kind), measured.elementType);
  double seconds = 0;
  for (const KernelWork &work : measured.kernels)
    seconds += cost.seconds(work);
  return std::max(seconds, hostSeconds(measured, machine));
}

} // namespace cleave
