// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A CUDA runtime of version LIBRARY where the GPU's driver is of version DRIVER, as far as the loader asks.

int cudaRuntimeGetVersion(int *version) {
  *version = LIBRARY;
  return 0;
}

int cudaDriverGetVersion(int *version) {
  *version = DRIVER;
  return 0;
}

#ifndef LACKING
int cleaveFakeFunction(void) { return LIBRARY; }
#endif
