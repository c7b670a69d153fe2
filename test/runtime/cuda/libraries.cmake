# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Kernel libraries of GPUs. The compiler's rules need no CUDA.

add_executable(cleave-cuda-rules-test ${CMAKE_CURRENT_LIST_DIR}/CudaLibraryRulesTest.cpp)
target_compile_options(cleave-cuda-rules-test PRIVATE -Wall -Wextra)
target_link_libraries(cleave-cuda-rules-test PRIVATE cleave_cuda_rules GTest::gtest_main)
gtest_discover_tests(cleave-cuda-rules-test)
