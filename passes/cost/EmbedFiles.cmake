# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# cmake -DFOLDER=presets -DNAMES=a,b -DOUTPUT=Files.inc -P EmbedFiles.cmake: FOLDER's YAML files as the elements of a C++
# array, {"a", R"(text)", nvlink}, in the order of NAMES. The third element is there where a file says "# nvlink: { ... }".

string(REPLACE "," ";" names "${NAMES}")
set(all "")
foreach(name ${names})
  file(READ ${CMAKE_CURRENT_LIST_DIR}/${FOLDER}/${name}.yaml text)
  set(more "")
  if(text MATCHES "\n# nvlink: ({[^\n]*})")
    set(more ", NvlinkGeneration${CMAKE_MATCH_1}")
  endif()
  string(APPEND all "{\"${name}\", R\"YAML(${text})YAML\"${more}},\n")
endforeach()
file(WRITE ${OUTPUT} "${all}")
