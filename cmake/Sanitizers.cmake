# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Sanitizers for everything that is built. Code that plans hold is not instrumented.

set(CLEAVE_SANITIZE "" CACHE STRING "sanitizers to build with: address,undefined or thread")
if(CLEAVE_SANITIZE)
  add_compile_options(-fsanitize=${CLEAVE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${CLEAVE_SANITIZE})
endif()
