// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a device gets of a parameter, whatever the parameter's source: the same for every driver.

#ifndef CLEAVE_RUNTIME_PARAMETERLOAD_H
#define CLEAVE_RUNTIME_PARAMETERLOAD_H

#include "runtime/ParameterSource.h"
#include "runtime/TileLoad.h"

namespace cleave::runtime {

/// Puts the load's boxes of the parameter, and its padding, into a buffer in the host's memory. The errors of `source`.
Error loadParameter(ParameterSource &source, const Parameter &parameter, const TileLoad &load,
                    std::span<std::byte> buffer);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PARAMETERLOAD_H
