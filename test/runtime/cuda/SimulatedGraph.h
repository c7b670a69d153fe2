// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Descriptors of the simulated cuDNN's backend, and graphs of several operations: what they are made of, and what they
// compute.

#ifndef CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDGRAPH_H
#define CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDGRAPH_H

#include "test/runtime/cuda/SimulatedConvolution.h"

#include <cstring>
#include <map>
#include <memory>

namespace cleave::simulated {

struct Descriptor;
using Shared = std::shared_ptr<Descriptor>;

struct Value {
  std::vector<std::byte> bytes;
  std::vector<Shared> objects; ///< of descriptors, as they were
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool isFinished = false;
  std::map<int, Value> values;

  template <typename T> std::vector<T> list(int name) const {
    auto found = values.find(name);
    std::vector<T> result(found == values.end() ? 0 : found->second.bytes.size() / sizeof(T));
    if (!result.empty())
      std::memcpy(result.data(), found->second.bytes.data(), found->second.bytes.size());
    return result;
  }
  template <typename T> T one(int name) const { return list<T>(name).at(0); }
  const Descriptor &object(int name) const { return *values.at(name).objects.at(0); }
  std::vector<int> ints(int name) const {
    std::vector<int64_t> wide = list<int64_t>(name);
    return {wide.begin(), wide.end()};
  }
};

inline Shared &shared(cudnnBackendDescriptor_t descriptor) { return *static_cast<Shared *>(descriptor); }

/// An attribute as the backend's documentation has it.
struct DescriptorRule {
  int name;
  cudnnBackendAttributeType_t type;
  int64_t least = 1, most = 1; ///< values; 0: it may be left out
};

/// The tensor that a descriptor describes.
Tensor tensorOf(const Descriptor &descriptor);

/// Of descriptors of operations of graphs and their parts; none of others.
std::vector<DescriptorRule> rulesOfGraphs(cudnnBackendDescriptorType_t type);
/// What cuDNN checks when such an operation is finished.
cudnnStatus_t checkOperation(const Descriptor &operation);

/// Where the tensors of a graph are that are no virtual ones, by their numbers.
using GraphPlaces = std::map<int64_t, void *>;

/// A graph of products, elementwise operations, reductions and reshapes.
class Graph {
public:
  explicit Graph(const Descriptor &graph);

  /// Whether it is attention, of two products, or its gradient, of five; cuDNN has engines for nothing else.
  bool isAttention() const { return products == 2; }
  bool isGradient() const { return products == 5; }
  /// Whether the gradient of the queries goes through float32 in memory.
  bool accumulates() const {
    return isGradient() && operations.back()->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
  }
  /// Bytes of the scores in bfloat16, in tiles of 128 by 128.
  uint64_t scoresBytes() const;

  /// Whether each tensor that is in memory has a place there, a multiple of 64 unless it is a number of the host's, and
  /// nothing else has one.
  bool fits(const GraphPlaces &places) const;
  /// Reads the numbers of the host's, which may be gone when `run` is called.
  void readNumbers(const GraphPlaces &places);
  void run(const GraphPlaces &places);

private:
  struct Cell {
    Tensor tensor;
    bool isVirtual = false, isNumber = false;
    std::vector<double> values; ///< in row-major order, once it is known
  };
  void add(const Descriptor &tensor);
  const Cell &read(const Descriptor &tensor, const GraphPlaces &places);
  void write(const Descriptor &tensor, std::vector<double> values, const GraphPlaces &places);
  void product(const Descriptor &operation, const GraphPlaces &places);
  void pointwise(const Descriptor &operation, const GraphPlaces &places);
  void reduce(const Descriptor &operation, const GraphPlaces &places);
  void reshape(const Descriptor &operation, const GraphPlaces &places);

  std::vector<Shared> operations;
  std::map<int64_t, Cell> cells;
  int products = 0;
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDGRAPH_H
