// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Descriptors of cuDNN's backend as C++ objects: attributes get the type that the backend wants by the C++ type of the
// value.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNBACKEND_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNBACKEND_H

#include "runtime/drivers/cuda/CudnnApi.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace cleave::runtime {

/// The backend's name for a type of attributes; descriptors have functions of their own.
template <typename T>
constexpr cudnnBackendAttributeType_t cudnnAttributeType = [] {
  static_assert(sizeof(T) == 0, "the backend has no attributes of this type");
  return CUDNN_TYPE_INT64;
}();
template <> inline constexpr auto cudnnAttributeType<int64_t> = CUDNN_TYPE_INT64;
template <> inline constexpr auto cudnnAttributeType<float> = CUDNN_TYPE_FLOAT;
template <> inline constexpr auto cudnnAttributeType<char> = CUDNN_TYPE_CHAR;
template <> inline constexpr auto cudnnAttributeType<bool> = CUDNN_TYPE_BOOLEAN;
template <> inline constexpr auto cudnnAttributeType<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <> inline constexpr auto cudnnAttributeType<cudnnReduceTensorOp_t> = CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
template <> inline constexpr auto cudnnAttributeType<void *> = CUDNN_TYPE_VOID_PTR;
template <> inline constexpr auto cudnnAttributeType<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <> inline constexpr auto cudnnAttributeType<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <> inline constexpr auto cudnnAttributeType<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <> inline constexpr auto cudnnAttributeType<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <> inline constexpr auto cudnnAttributeType<cudnnBackendKnobType_t> = CUDNN_TYPE_KNOB_TYPE;
template <> inline constexpr auto cudnnAttributeType<cudnnBackendNumericalNote_t> = CUDNN_TYPE_NUMERICAL_NOTE;
template <> inline constexpr auto cudnnAttributeType<cudnnBackendBehaviorNote_t> = CUDNN_TYPE_BEHAVIOR_NOTE;

/// Whether the library has the backend at all.
bool hasCudnnBackend(const Cudnn &library);

/// Owns a descriptor of the backend. Setting goes on after an error, which finalize() then reports.
class CudnnBackendObject {
public:
  CudnnBackendObject(const Cudnn &library, cudnnBackendDescriptorType_t type);
  CudnnBackendObject(CudnnBackendObject &&other) noexcept;
  CudnnBackendObject &operator=(CudnnBackendObject &&other) noexcept;
  ~CudnnBackendObject();

  template <typename T> CudnnBackendObject &set(cudnnBackendAttributeName_t name, const std::vector<T> &values) {
    return set(name, cudnnAttributeType<T>, static_cast<int64_t>(values.size()), values.data());
  }
  template <typename T> CudnnBackendObject &set(cudnnBackendAttributeName_t name, const T &value) {
    return set(name, cudnnAttributeType<T>, 1, &value);
  }
  /// Finished ones, which need not live on.
  CudnnBackendObject &set(cudnnBackendAttributeName_t name, const CudnnBackendObject &value);
  CudnnBackendObject &set(cudnnBackendAttributeName_t name, const std::vector<CudnnBackendObject> &values);
  /// Ends the setting of attributes.
  Error finalize();

  /// At most `most` values of an attribute of a finished object.
  template <typename T>
  Expected<std::vector<T>> get(cudnnBackendAttributeName_t name, int64_t most, T fill = T()) const {
    std::vector<T> values(static_cast<size_t>(most), fill);
    int64_t count = 0;
    if (Error error = get(name, cudnnAttributeType<T>, most, &count, values.data()))
      return error;
    values.resize(static_cast<size_t>(std::clamp<int64_t>(count, 0, most)));
    return values;
  }
  /// The one value of an attribute.
  template <typename T> Expected<T> getOne(cudnnBackendAttributeName_t name) const {
    T value = T();
    int64_t count = 0;
    if (Error error = get(name, cudnnAttributeType<T>, 1, &count, &value))
      return error;
    return value;
  }
  /// At most `most` objects of the type that are an attribute's value.
  Expected<std::vector<CudnnBackendObject>> getObjects(cudnnBackendAttributeName_t name,
                                                       cudnnBackendDescriptorType_t type, int64_t most) const;
  /// How many objects an attribute has.
  Expected<int64_t> countObjects(cudnnBackendAttributeName_t name) const;

  cudnnBackendDescriptor_t descriptor() const { return made; }

private:
  CudnnBackendObject &set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                          const void *values);
  Error get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most, int64_t *count,
            void *values) const;

  const Cudnn *library;
  cudnnBackendDescriptor_t made = nullptr;
  Error first; ///< of creating and setting
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNBACKEND_H
