# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# cleave_onednn: oneDNN kernels for the cpu driver and their choice for the compiler. Whoever includes this file links it
# to the library of the runtime's tensor types.

# Debian's package configuration asks for OpenCL, which its CPU-only library does not use, so the parts are found here.
find_path(CLEAVE_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(CLEAVE_ONEDNN_LIBRARY dnnl REQUIRED)
file(STRINGS ${CLEAVE_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h CLEAVE_ONEDNN_VERSION REGEX "VERSION_(MAJOR|MINOR) +[0-9]")
string(REGEX REPLACE "[^0-9]*([0-9]+);[^0-9]*([0-9]+)" "\\1.\\2" CLEAVE_ONEDNN_VERSION "${CLEAVE_ONEDNN_VERSION}")
if(CLEAVE_ONEDNN_VERSION VERSION_LESS 2.6 OR NOT CLEAVE_ONEDNN_VERSION VERSION_LESS 3)
  message(FATAL_ERROR "oneDNN: expected version 2.6 or a later 2.x, got ${CLEAVE_ONEDNN_VERSION}; "
    "install libdnnl-dev of Debian 12 or configure with -DCLEAVE_ONEDNN=OFF")
endif()
find_package(OpenMP REQUIRED COMPONENTS CXX)

add_library(cleave_onednn STATIC
  ${CMAKE_CURRENT_LIST_DIR}/OneDnn.cpp
  ${CMAKE_CURRENT_LIST_DIR}/OneDnnBuilder.cpp
  ${CMAKE_CURRENT_LIST_DIR}/OneDnnContraction.cpp
  ${CMAKE_CURRENT_LIST_DIR}/OneDnnElementwise.cpp
  ${CMAKE_CURRENT_LIST_DIR}/OneDnnNormalization.cpp
  ${CMAKE_CURRENT_LIST_DIR}/OneDnnProcessor.cpp
  ${CMAKE_CURRENT_LIST_DIR}/OneDnnReduction.cpp
  ${CMAKE_CURRENT_LIST_DIR}/GatheredProducts.cpp
  ${CMAKE_CURRENT_LIST_DIR}/IntegerEpilogue.cpp
  ${CMAKE_CURRENT_LIST_DIR}/IntegerProducts.cpp
  ${CMAKE_CURRENT_LIST_DIR}/IntegerTiles.cpp
  ${CMAKE_CURRENT_LIST_DIR}/OneDnnWindow.cpp
  ${CMAKE_CURRENT_LIST_DIR}/OneDnnWinograd.cpp
  ${CMAKE_CURRENT_LIST_DIR}/WinogradTiles.cpp)
target_compile_features(cleave_onednn PUBLIC cxx_std_20)
target_compile_options(cleave_onednn PRIVATE -Wall -Wextra)
target_include_directories(cleave_onednn PUBLIC ${CMAKE_CURRENT_LIST_DIR}/../../..)
target_include_directories(cleave_onednn SYSTEM PRIVATE ${CLEAVE_ONEDNN_INCLUDE})
target_link_libraries(cleave_onednn PRIVATE ${CLEAVE_ONEDNN_LIBRARY} OpenMP::OpenMP_CXX)
target_precompile_headers(cleave_onednn PRIVATE <oneapi/dnnl/dnnl.hpp>)
