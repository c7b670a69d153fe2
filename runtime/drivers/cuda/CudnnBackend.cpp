// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Creates, sets and reads descriptors of cuDNN's backend.

#include "runtime/drivers/cuda/CudnnBackend.h"

#include <algorithm>

namespace cleave::runtime {

bool hasCudnnBackend(const Cudnn &library) {
  return library.cudnnBackendCreateDescriptor && library.cudnnBackendDestroyDescriptor && library.cudnnBackendExecute &&
         library.cudnnBackendFinalize && library.cudnnBackendGetAttribute && library.cudnnBackendSetAttribute;
}

CudnnBackendObject::CudnnBackendObject(const Cudnn &library, cudnnBackendDescriptorType_t type) : library(&library) {
  first = checkCudnn(library, library.cudnnBackendCreateDescriptor(type, &made), "cudnnBackendCreateDescriptor");
}

CudnnBackendObject::CudnnBackendObject(CudnnBackendObject &&other) noexcept
    : library(other.library), made(std::exchange(other.made, nullptr)), first(std::move(other.first)) {}

CudnnBackendObject &CudnnBackendObject::operator=(CudnnBackendObject &&other) noexcept {
  std::swap(library, other.library);
  std::swap(made, other.made);
  std::swap(first, other.first);
  return *this;
}

CudnnBackendObject::~CudnnBackendObject() {
  if (made)
    library->cudnnBackendDestroyDescriptor(made);
}

CudnnBackendObject &CudnnBackendObject::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                            int64_t count, const void *values) {
  if (!first)
    first = checkCudnn(*library, library->cudnnBackendSetAttribute(made, name, type, count, values),
                       "cudnnBackendSetAttribute");
  return *this;
}

CudnnBackendObject &CudnnBackendObject::set(cudnnBackendAttributeName_t name, const CudnnBackendObject &value) {
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.made);
}

CudnnBackendObject &CudnnBackendObject::set(cudnnBackendAttributeName_t name,
                                            const std::vector<CudnnBackendObject> &values) {
  std::vector<cudnnBackendDescriptor_t> descriptors;
  for (const CudnnBackendObject &value : values)
    descriptors.push_back(value.made);
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(values.size()), descriptors.data());
}

Error CudnnBackendObject::finalize() {
  if (first)
    return first;
  return checkCudnn(*library, library->cudnnBackendFinalize(made), "cudnnBackendFinalize");
}

Error CudnnBackendObject::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
                              int64_t *count, void *values) const {
  return checkCudnn(*library, library->cudnnBackendGetAttribute(made, name, type, most, count, values),
                    "cudnnBackendGetAttribute");
}

Expected<int64_t> CudnnBackendObject::countObjects(cudnnBackendAttributeName_t name) const {
  int64_t count = 0;
  if (Error error = get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr))
    return error;
  return count;
}

Expected<std::vector<CudnnBackendObject>> CudnnBackendObject::getObjects(cudnnBackendAttributeName_t name,
                                                                         cudnnBackendDescriptorType_t type,
                                                                         int64_t most) const {
  std::vector<CudnnBackendObject> objects;
  std::vector<cudnnBackendDescriptor_t> descriptors;
  for (int64_t i = 0; i != most; ++i) {
    objects.emplace_back(*library, type);
    if (objects.back().first)
      return objects.back().first;
    descriptors.push_back(objects.back().made);
  }
  int64_t count = 0;
  if (Error error = get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count, descriptors.data()))
    return error;
  // Those behind were not filled in.
  objects.erase(objects.begin() + static_cast<ptrdiff_t>(std::clamp<int64_t>(count, 0, most)), objects.end());
  return objects;
}

} // namespace cleave::runtime
