# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# cmake -DOUTPUT=StatusPage.inc -P EmbedPage.cmake: the page that a server shows, as a C++ string.

file(READ ${CMAKE_CURRENT_LIST_DIR}/status.html page)
file(WRITE ${OUTPUT} "static constexpr char statusPage[] = R\"PAGE(${page})PAGE\";\n")
