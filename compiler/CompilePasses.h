// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The stages of a compilation that are not passes of their own as passes, so that cleave-opt goes on with a dump as the
// compiler would have.

#ifndef CLEAVE_COMPILER_COMPILEPASSES_H
#define CLEAVE_COMPILER_COMPILEPASSES_H

namespace cleave {

/// Makes known:
///
///   compile-place{OPTIONS}   operators to devices, by any strategy, the search included
///   compile-train{OPTIONS}   the graphs of the plan's entries: a step and an evaluation, or the model as it is
///   compile-emit{model=FILE output=FILE}   the plan and its weights as files
///
/// OPTIONS are rows of the table of options (Options.h), as in compile-place{machine=host:2 strategy=data}; a flag
/// takes true or false. Errors of the compiler are diagnostics at the module.
void registerCompilePasses();

} // namespace cleave

#endif // CLEAVE_COMPILER_COMPILEPASSES_H
