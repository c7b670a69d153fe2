# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# cmake -DOUTPUT=Page.inc -P JoinPage.cmake: the page of `cleave explain --format html` as two C++ strings, what comes
# before the plan's data and what comes after.

set(folder ${CMAKE_CURRENT_LIST_DIR})
file(READ ${folder}/page.html page)
file(READ ${folder}/style.css style)
set(script "")
foreach(part figures details layout graph table timeline main)
  file(READ ${folder}/${part}.js text)
  string(APPEND script "${text}\n")
endforeach()
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(FIND "${page}" "@PLAN@" place)
string(SUBSTRING "${page}" 0 ${place} begin)
math(EXPR place "${place} + 6")
string(SUBSTRING "${page}" ${place} -1 end)
file(WRITE ${OUTPUT} "static constexpr char pageBegin[] = R\"PAGE(${begin})PAGE\";
static constexpr char pageEnd[] = R\"PAGE(${end})PAGE\";\n")
