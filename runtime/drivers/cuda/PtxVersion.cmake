# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# cmake -D PTX=FILE -P PtxVersion.cmake: has the PTX of a file be of version 8.0, that of CUDA 12.0. nvcc writes its own
# toolkit's, which GPUs' drivers that came with an older one refuse whatever the code is. That the code needs no more the
# tests ask ptxas.

file(READ "${PTX}" text)
string(REGEX REPLACE "\n\\.version [0-9]+\\.[0-9]+" "\n.version 8.0" lowered "${text}")
if(NOT lowered MATCHES "\n\\.version 8\\.0\n")
  message(FATAL_ERROR "${PTX} expects a line with a version of PTX")
endif()
file(WRITE "${PTX}" "${lowered}")
