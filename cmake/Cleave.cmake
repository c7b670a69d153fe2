# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# How the project's targets are made: warnings, the linker, the compiler cache, precompiled headers,
# sources compiled together.

find_program(CLEAVE_MOLD NAMES mold)
if(CLEAVE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
find_program(CLEAVE_CCACHE NAMES ccache)
if(CLEAVE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Relative paths, so that another clone or worktree finds what this one has compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CLEAVE_CCACHE})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()

option(CLEAVE_UNITY "compile sources together: a whole build takes half the time, one after a change more" OFF)
if(CLEAVE_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
endif()

# libstdc++ 12's sorts call a function that it declares deprecated itself, which clang reports where they are used.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>)

# Warnings that every target of ours is built with.
function(cleave_warnings target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-unused-parameter>)
endfunction()

# Sources of a target that open the same namespaces are compiled together: where some open MLIR's and some LLVM's, names
# of both would be ambiguous.
function(cleave_group_by_namespaces target)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    get_filename_component(path ${source} ABSOLUTE)
    if(NOT CLEAVE_UNITY OR NOT path MATCHES "\\.cpp$")
      continue()
    endif()
    file(STRINGS ${path} namespaces REGEX "^using namespace [a-z:]+;$")
    string(MAKE_C_IDENTIFIER "${target}_${namespaces}" group)
    math(EXPR number "0${count_${group}} / ${CMAKE_UNITY_BUILD_BATCH_SIZE}")
    math(EXPR count_${group} "0${count_${group}} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${number})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

# cleave_mlir_library(NAME SOURCES ... LINK ... [DEPENDS ...])
# A static library of the compiler side, built on the shared precompiled header of MLIR's headers.
function(cleave_mlir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  cleave_warnings(${name})
  cleave_group_by_namespaces(${name})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_link_libraries(${name} PUBLIC cleave_mlir ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  if(NOT name STREQUAL cleave_precompiled)
    target_precompile_headers(${name} REUSE_FROM cleave_precompiled)
  endif()
endfunction()

# cleave_tablegen(TARGET TD KIND... ) runs mlir-tblgen on a .td file beside the sources; output paths mirror them.
function(cleave_tablegen target td)
  set(outputs "")
  get_filename_component(base ${td} NAME_WE)
  foreach(rule ${ARGN})
    string(REPLACE "=" ";" parts "${rule}")
    list(POP_FRONT parts suffix)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/${base}${suffix}.inc)
    string(REPLACE "," ";" flags "${parts}")
    add_custom_command(OUTPUT ${output}
      COMMAND ${MLIR_TABLEGEN_EXE} ${flags} -I ${CLEAVE_SOURCE_DIR} -I ${MLIR_INCLUDE_DIR_FIRST}
              ${CMAKE_CURRENT_SOURCE_DIR}/${td} -o ${output} --write-if-changed -d ${output}.d
      DEPFILE ${output}.d
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${td})
    list(APPEND outputs ${output})
  endforeach()
  add_custom_target(${target} DEPENDS ${outputs})
endfunction()
