# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Sanitizers for everything that is built. Code that plans hold is not instrumented.

set(CLEAVE_SANITIZE "" CACHE STRING "sanitizers to build with: address,undefined or thread")
if(CLEAVE_SANITIZE)
  add_compile_options(-fsanitize=${CLEAVE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${CLEAVE_SANITIZE})
  # Compiled kernels do not say what type their functions have.
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang AND CLEAVE_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize=function)
  endif()
endif()

# Programs that feed mutated files to what reads them (test/fuzz). libFuzzer is clang's and steers by coverage; without
# this option, and with any compiler, the same programs replay their corpora and a fixed number of mutations.
option(CLEAVE_FUZZ "build the programs of test/fuzz on libFuzzer; needs clang" OFF)
if(CLEAVE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "CLEAVE_FUZZ expects clang, got ${CMAKE_CXX_COMPILER_ID}; configure with "
                        "-DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22")
  endif()
  # Enough optimization to run fast, little enough to compile fast. Calls into a plan's code go to functions that no
  # sanitizer has prepared for the check of their type.
  add_compile_options(-fsanitize=fuzzer-no-link -O1)
  if(CLEAVE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=function,vptr)
  endif()
endif()
