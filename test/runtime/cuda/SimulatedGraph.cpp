// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes graphs operation by operation in double precision: a virtual tensor has the values that its type has.

#include "test/runtime/cuda/SimulatedGraph.h"

#include <algorithm>
#include <cmath>

namespace cleave::simulated {

Tensor tensorOf(const Descriptor &descriptor) {
  return {descriptor.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE), descriptor.ints(CUDNN_ATTR_TENSOR_DIMENSIONS),
          descriptor.ints(CUDNN_ATTR_TENSOR_STRIDES)};
}

std::vector<DescriptorRule> rulesOfGraphs(cudnnBackendDescriptorType_t type) {
  constexpr auto object = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  switch (type) {
  case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
    return {{CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE}};
  case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
    return {{CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE},
            {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE},
            {CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 0, 1}};
  case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
    return {{CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE},
            {CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE}};
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    return {{CUDNN_ATTR_OPERATION_MATMUL_ADESC, object},
            {CUDNN_ATTR_OPERATION_MATMUL_BDESC, object},
            {CUDNN_ATTR_OPERATION_MATMUL_CDESC, object},
            {CUDNN_ATTR_OPERATION_MATMUL_DESC, object}};
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    return {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, object},
            {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, object},
            {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, object, 0, 1},
            {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, object, 0, 1},
            {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, object}};
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    return {{CUDNN_ATTR_OPERATION_REDUCTION_XDESC, object},
            {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, object},
            {CUDNN_ATTR_OPERATION_REDUCTION_DESC, object}};
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    return {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC, object}, {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, object}};
  default:
    return {};
  }
}

namespace {

bool has(const Descriptor &descriptor, int name) { return descriptor.values.contains(name); }

std::vector<int> dimsOf(const Descriptor &operation, int name) { return tensorOf(operation.object(name)).dims; }

/// Whether a tensor of these dimensions is repeated along those where it has one element.
bool broadcasts(const std::vector<int> &from, const std::vector<int> &to) {
  if (from.size() != to.size())
    return false;
  for (size_t d = 0; d != to.size(); ++d)
    if (from[d] != to[d] && from[d] != 1)
      return false;
  return true;
}

/// How many operands an elementwise operation has, its condition aside.
int operandsOf(cudnnPointwiseMode_t mode) {
  switch (mode) {
  case CUDNN_POINTWISE_EXP:
  case CUDNN_POINTWISE_LOG:
  case CUDNN_POINTWISE_IDENTITY:
  case CUDNN_POINTWISE_GEN_INDEX:
    return 1;
  case CUDNN_POINTWISE_ADD:
  case CUDNN_POINTWISE_SUB:
  case CUDNN_POINTWISE_MUL:
  case CUDNN_POINTWISE_DIV:
  case CUDNN_POINTWISE_CMP_GE:
  case CUDNN_POINTWISE_BINARY_SELECT:
    return 2;
  default:
    return 0;
  }
}

bool isPointwise(const Descriptor &operation) {
  const Descriptor &kind = operation.object(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  auto mode = kind.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  int operands = operandsOf(mode);
  std::vector<int> result = dimsOf(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  bool hasOther = has(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  bool hasCondition = has(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  return operands != 0 && hasOther == (operands == 2) && hasCondition == (mode == CUDNN_POINTWISE_BINARY_SELECT) &&
         has(kind, CUDNN_ATTR_POINTWISE_AXIS) == (mode == CUDNN_POINTWISE_GEN_INDEX) &&
         dimsOf(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC) == result &&
         (!hasOther || broadcasts(dimsOf(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC), result)) &&
         (!hasCondition || dimsOf(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC) == result);
}

bool isProduct(const Descriptor &operation) {
  std::vector<int> a = dimsOf(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  std::vector<int> b = dimsOf(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  std::vector<int> c = dimsOf(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  return a.size() == 4 && b.size() == 4 && a[3] == b[2] && c == std::vector<int>{a[0], a[1], a[2], b[3]} &&
         a[0] == b[0] && a[1] == b[1];
}

double applied(cudnnPointwiseMode_t mode, double x, double other, double condition) {
  switch (mode) {
  case CUDNN_POINTWISE_ADD:
    return x + other;
  case CUDNN_POINTWISE_SUB:
    return x - other;
  case CUDNN_POINTWISE_MUL:
    return x * other;
  case CUDNN_POINTWISE_DIV:
    return x / other;
  case CUDNN_POINTWISE_EXP:
    return std::exp(x);
  case CUDNN_POINTWISE_LOG:
    return std::log(x);
  case CUDNN_POINTWISE_CMP_GE:
    return x >= other;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return condition != 0 ? x : other;
  default:
    return x;
  }
}

/// Where each element of a tensor that is repeated up to `dims` is among its own, in row-major order.
std::vector<size_t> placesOf(const std::vector<int> &own, const std::vector<int> &dims) {
  std::vector<size_t> places;
  each(dims, [&](const std::vector<int> &index) {
    size_t place = 0;
    for (size_t d = 0; d != own.size(); ++d)
      place = place * own[d] + (own[d] == 1 ? 0 : index[d]);
    places.push_back(place);
  });
  return places;
}

double asType(cudnnDataType_t type, double value) {
  if (type == CUDNN_DATA_FLOAT)
    return static_cast<float>(value);
  if (type != CUDNN_DATA_BFLOAT16)
    return value;
  std::byte bytes[2];
  runtime::storeElement(ElementType::BF16, bytes, value);
  return runtime::loadElement(ElementType::BF16, bytes);
}

constexpr int tensorParts[] = {
    CUDNN_ATTR_OPERATION_MATMUL_ADESC,    CUDNN_ATTR_OPERATION_MATMUL_BDESC,    CUDNN_ATTR_OPERATION_MATMUL_CDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
    CUDNN_ATTR_OPERATION_RESHAPE_XDESC,   CUDNN_ATTR_OPERATION_RESHAPE_YDESC};

} // namespace

cudnnStatus_t checkOperation(const Descriptor &operation) {
  for (int part : tensorParts)
    if (has(operation, part) && operation.object(part).type != CUDNN_BACKEND_TENSOR_DESCRIPTOR)
      return CUDNN_STATUS_BAD_PARAM;
  bool isFine = true;
  if (operation.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
    isFine = isProduct(operation);
  else if (operation.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
    isFine = isPointwise(operation);
  else if (operation.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
    isFine = broadcasts(dimsOf(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC),
                        dimsOf(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
  else if (operation.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
    isFine = tensorOf(operation.object(CUDNN_ATTR_OPERATION_RESHAPE_XDESC)).count() ==
             tensorOf(operation.object(CUDNN_ATTR_OPERATION_RESHAPE_YDESC)).count();
  return isFine ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

Graph::Graph(const Descriptor &graph) : operations(graph.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).objects) {
  for (const Shared &operation : operations) {
    products += operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
    for (int part : tensorParts)
      if (has(*operation, part))
        add(operation->object(part));
  }
}

void Graph::add(const Descriptor &tensor) {
  auto flag = [&](int name) { return has(tensor, name) && tensor.one<char>(name) != 0; };
  cells.try_emplace(
      tensor.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
      Cell{tensorOf(tensor), flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL), flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE), {}});
}

uint64_t Graph::scoresBytes() const {
  for (const Shared &operation : operations)
    if (operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
      std::vector<int> dims = dimsOf(*operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
      auto tiles = [](int size) { return (uint64_t(size) + 127) / 128 * 128; };
      return uint64_t(dims[0]) * dims[1] * tiles(dims[2]) * tiles(dims[3]) * 2;
    }
  return 0;
}

bool Graph::fits(const GraphPlaces &places) const {
  size_t known = 0;
  for (const auto &[number, cell] : cells) {
    if (cell.isVirtual)
      continue;
    auto place = places.find(number);
    uintptr_t alignment = cell.isNumber ? sizeof(float) : 64;
    if (place == places.end() || !place->second || reinterpret_cast<uintptr_t>(place->second) % alignment != 0)
      return false;
    ++known;
  }
  return known == places.size();
}

void Graph::readNumbers(const GraphPlaces &places) {
  for (auto &[number, cell] : cells)
    if (cell.isNumber)
      cell.values = {*static_cast<const float *>(places.at(number))};
}

const Graph::Cell &Graph::read(const Descriptor &tensor, const GraphPlaces &places) {
  auto number = tensor.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  Cell &cell = cells.at(number);
  if (cell.values.empty())
    each(cell.tensor.dims,
         [&](const std::vector<int> &index) { cell.values.push_back(cell.tensor.load(places.at(number), index)); });
  return cell;
}

void Graph::write(const Descriptor &tensor, std::vector<double> values, const GraphPlaces &places) {
  auto number = tensor.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  Cell &cell = cells.at(number);
  for (double &value : values)
    value = asType(cell.tensor.type, value);
  cell.values = std::move(values);
  if (cell.isVirtual)
    return;
  size_t next = 0;
  each(cell.tensor.dims,
       [&](const std::vector<int> &index) { cell.tensor.store(places.at(number), index, cell.values[next++]); });
}

void Graph::product(const Descriptor &operation, const GraphPlaces &places) {
  const Cell &a = read(operation.object(CUDNN_ATTR_OPERATION_MATMUL_ADESC), places);
  const Cell &b = read(operation.object(CUDNN_ATTR_OPERATION_MATMUL_BDESC), places);
  const std::vector<int> &dims = a.tensor.dims;
  size_t batches = size_t(dims[0]) * dims[1], rows = dims[2], depth = dims[3], columns = b.tensor.dims[3];
  std::vector<double> sums(batches * rows * columns);
  for (size_t i = 0; i != batches * rows; ++i)
    for (size_t k = 0; k != depth; ++k) {
      double factor = a.values[i * depth + k];
      const double *line = &b.values[(i / rows * depth + k) * columns];
      for (size_t j = 0; j != columns; ++j)
        sums[i * columns + j] += factor * line[j];
    }
  write(operation.object(CUDNN_ATTR_OPERATION_MATMUL_CDESC), std::move(sums), places);
}

void Graph::pointwise(const Descriptor &operation, const GraphPlaces &places) {
  const Descriptor &kind = operation.object(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  auto mode = kind.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const Descriptor &result = operation.object(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  std::vector<int> dims = tensorOf(result).dims;
  std::vector<double> values;
  if (mode == CUDNN_POINTWISE_GEN_INDEX) {
    auto axis = static_cast<size_t>(kind.one<int64_t>(CUDNN_ATTR_POINTWISE_AXIS));
    each(dims, [&](const std::vector<int> &index) { values.push_back(index.at(axis)); });
    return write(result, std::move(values), places);
  }
  auto operand = [&](int name) {
    return has(operation, name) ? read(operation.object(name), places).values : std::vector<double>();
  };
  std::vector<double> x = operand(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  std::vector<double> other = operand(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  std::vector<double> condition = operand(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  std::vector<size_t> at =
      other.empty() ? std::vector<size_t>() : placesOf(dimsOf(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC), dims);
  for (size_t i = 0; i != x.size(); ++i)
    values.push_back(applied(mode, x[i], other.empty() ? 0 : other[at[i]], condition.empty() ? 0 : condition[i]));
  write(result, std::move(values), places);
}

void Graph::reduce(const Descriptor &operation, const GraphPlaces &places) {
  const Cell &x = read(operation.object(CUDNN_ATTR_OPERATION_REDUCTION_XDESC), places);
  const Descriptor &result = operation.object(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  Tensor tensor = tensorOf(result);
  bool isSum =
      operation.object(CUDNN_ATTR_OPERATION_REDUCTION_DESC).one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR) ==
      CUDNN_REDUCE_TENSOR_ADD;
  std::vector<double> values(tensor.count(), isSum ? 0 : -INFINITY);
  std::vector<size_t> at = placesOf(tensor.dims, x.tensor.dims);
  for (size_t i = 0; i != at.size(); ++i)
    values[at[i]] = isSum ? values[at[i]] + x.values[i] : std::max(values[at[i]], x.values[i]);
  write(result, std::move(values), places);
}

/// The elements that lie at the same places in memory.
void Graph::reshape(const Descriptor &operation, const GraphPlaces &places) {
  const Cell &x = read(operation.object(CUDNN_ATTR_OPERATION_RESHAPE_XDESC), places);
  const Descriptor &result = operation.object(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  Tensor tensor = tensorOf(result);
  std::map<int64_t, double> memory;
  size_t next = 0;
  each(x.tensor.dims, [&](const std::vector<int> &index) { memory[x.tensor.place(index)] = x.values[next++]; });
  std::vector<double> values;
  each(tensor.dims, [&](const std::vector<int> &index) { values.push_back(memory.at(tensor.place(index))); });
  write(result, std::move(values), places);
}

void Graph::run(const GraphPlaces &places) {
  for (const Shared &operation : operations)
    switch (operation->type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      product(*operation, places);
      break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      pointwise(*operation, places);
      break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      reduce(*operation, places);
      break;
    default:
      reshape(*operation, places);
    }
}

} // namespace cleave::simulated
