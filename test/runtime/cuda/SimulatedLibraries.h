// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cuBLASLt and cuDNN without a GPU: tables whose functions read the descriptors and attributes that the driver sets,
// reject what the libraries' documentation says they reject, and compute in double on memory of the host,
// late, as work on a simulated stream. float32 is rounded to TF32 first where the arithmetic that was asked for allows
// it, so that asking for the wrong one shows. Workspace is overwritten, as far as an algorithm says that it needs it.
//
// What they do not show: which algorithms the libraries really have for a shape, and how fast these are.

#ifndef CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDLIBRARIES_H
#define CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDLIBRARIES_H

#include "runtime/drivers/cuda/CublasLtApi.h"
#include "runtime/drivers/cuda/CudnnApi.h"

#include <atomic>
#include <functional>
#include <set>

namespace cleave::simulated {

/// Puts work on a stream; defined by whoever simulates streams.
void enqueue(cudaStream_t stream, std::function<void()> work);

/// The tables, complete.
const runtime::CublasLt &cublasLt();
const runtime::Cudnn &cudnn();

/// What algorithms take on the simulated GPU, in milliseconds: called by each kernel when it runs, to be added up by
/// whoever simulates events. Does nothing unless set.
extern std::function<void(double)> spendTime;

/// How often the libraries were asked to search for algorithms, of cuBLASLt, of cuDNN's routines and of its backend,
/// and to multiply in TF32, since the program began.
extern std::atomic<int> heuristicSearches, measuredSearches, engineSearches, tf32Products;

/// What the libraries have no algorithms for, besides what they never have.
struct LibraryRefusals {
  std::set<uint32_t> heuristic;   ///< epilogues of products for which cuBLASLt finds none
  std::set<uint32_t> running;     ///< those of which it finds some that it then refuses to run
  bool fusesConvolutions = false; ///< a convolution with what follows it in one routine of cuDNN
  bool engines = true;            ///< cuDNN's backend for convolutions: refused unless a test wants it
  bool convolutions = false;      ///< cuDNN's routines for convolutions altogether
  bool repeatable = false;        ///< gradients of convolutions that are the same every time
  /// Algorithms of cuDNN that need not be measured without tensor cores to be named, but do not run so.
  std::set<int> withoutTensorCores = {};
  /// Engines of cuDNN's backend that do not run after all.
  std::set<int64_t> runningEngines = {};
  /// Milliseconds that an activation in a product's routine takes.
  double activationTime = 0;
  /// Milliseconds that a product of matrices takes in addition whose columns do not all have, and begin at,
  /// multiples of 16 bytes.
  double misalignmentTime = 0;
  /// How cuBLASLt says it: also as an invalid value.
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
};
/// Inline, so that it is there before what sets it while the program begins.
inline LibraryRefusals libraryRefusals;

/// `value` with the 10 bits of mantissa that TF32 keeps.
double roundedToTf32(double value);

} // namespace cleave::simulated

#endif // CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDLIBRARIES_H
