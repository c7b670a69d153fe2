// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The end of standard output: a program that could not write its results has failed.

#ifndef CLEAVE_RUNTIME_STANDARDOUTPUT_H
#define CLEAVE_RUNTIME_STANDARDOUTPUT_H

#include "runtime/Error.h"

namespace cleave::runtime {

/// Writes what std::cout still holds. Status::Failure when that, or anything before it, could not be written: the disk
/// is full, or nobody takes it.
Error flushStandardOutput();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STANDARDOUTPUT_H
