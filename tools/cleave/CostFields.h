// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys of maps in files of costs: quantities with units, and counts.

#ifndef CLEAVE_TOOLS_CLEAVE_COSTFIELDS_H
#define CLEAVE_TOOLS_CLEAVE_COSTFIELDS_H

#include "passes/cost/Quantity.h"

#include <optional>

namespace cleave::tool {

/// The list that is the only key of a YAML file. `subject` is what the file is called.
llvm::Expected<YamlValue> readListFile(llvm::StringRef path, llvm::StringRef key, llvm::StringRef subject);

/// A quantity; `missing` where the map lacks the key, which without it must be there.
llvm::Expected<double> quantityOf(const YamlValue &map, llvm::StringRef key, llvm::ArrayRef<Unit> units,
                                  llvm::StringRef subject, std::optional<double> missing = std::nullopt);

/// A whole number from 1 to `most`; 1 where the map lacks the key.
llvm::Expected<unsigned> countOf(const YamlValue &map, llvm::StringRef key, unsigned most, llvm::StringRef subject);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_COSTFIELDS_H
