// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What decoders of several kinds have in common.

#ifndef CLEAVE_PASSES_ZOO_DECODERLAYERS_H
#define CLEAVE_PASSES_ZOO_DECODERLAYERS_H

#include "passes/zoo/ModelBuilder.h"

#include <functional>

namespace cleave {

/// An input of words.
Layer tokens(ModelBuilder &builder, const std::string &name, std::vector<int64_t> shape);

/// 0, 1, 2, … as float32 of a shape.
Layer floatRange(ModelBuilder &builder, const std::string &name, int64_t count, std::vector<int64_t> shape);

/// What a query may not attend to, by `apply` to the scores.
using Mask = std::function<Layer(const std::string &name, const Layer &scores)>;

/// A mask under which no query attends to later keys, and with a window only to as many as it has, its own the last.
/// The positions are compared in the graph: no table of their pairs is in the file.
Mask causalMask(ModelBuilder &builder, int64_t sequence, const std::string &name = "mask", int64_t window = 0);

/// The product with the embedding's table, or with a table of its own.
Layer languageHead(ModelBuilder &builder, const Layer &input);

} // namespace cleave

#endif // CLEAVE_PASSES_ZOO_DECODERLAYERS_H
