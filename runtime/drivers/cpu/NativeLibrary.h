// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan's native object, loaded into this process without touching the disk.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_NATIVELIBRARY_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_NATIVELIBRARY_H

#include "runtime/Plan.h"

namespace cleave::runtime {

/// A native kernel: computes the part [begin, end) of its outermost parallel loop.
using NativeFunction = void (*)(void *const *arguments, int64_t begin, int64_t end);

/// A loaded shared object; unloaded with the last reference.
class NativeLibrary {
public:
  /// Loads an object whose processor features were checked. Status::Rejected when the loader refuses it.
  static Expected<std::shared_ptr<NativeLibrary>> load(const NativeObject &object);
  ~NativeLibrary();
  NativeLibrary(const NativeLibrary &) = delete;
  NativeLibrary &operator=(const NativeLibrary &) = delete;

  /// The code of a kernel. Status::Rejected when the object has none of its symbol, or when the kernel's extent,
  /// arguments or scratch memory are not what the code declares (plan.fbs, NativeObject): it would read or write beyond
  /// its buffers. `kernel` has passed verifyPlan and has a native body.
  Expected<NativeFunction> find(const Kernel &kernel) const;

private:
  NativeLibrary(int descriptor, void *handle) : descriptor(descriptor), handle(handle) {}
  int descriptor;
  void *handle;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_NATIVELIBRARY_H
