# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Kernel libraries of GPUs. The compiler's rules need no CUDA; the driver's kernels run on simulated libraries.

add_executable(cleave-cuda-rules-test ${CMAKE_CURRENT_LIST_DIR}/CudaLibraryRulesTest.cpp)
target_compile_options(cleave-cuda-rules-test PRIVATE -Wall -Wextra)
target_link_libraries(cleave-cuda-rules-test PRIVATE cleave_cuda_rules GTest::gtest_main)
gtest_discover_tests(cleave-cuda-rules-test)

if(CLEAVE_CUDA)
  # For tests of whole plans, too. Streams come from whoever links it (SimulatedLibraries.h).
  add_library(cleave_simulated_libraries STATIC
    ${CMAKE_CURRENT_LIST_DIR}/SimulatedConvolution.cpp
    ${CMAKE_CURRENT_LIST_DIR}/SimulatedGraph.cpp
    ${CMAKE_CURRENT_LIST_DIR}/SimulatedCublasLt.cpp
    ${CMAKE_CURRENT_LIST_DIR}/SimulatedCudnn.cpp
    ${CMAKE_CURRENT_LIST_DIR}/SimulatedCudnnBackend.cpp
    ${CMAKE_CURRENT_LIST_DIR}/SimulatedProduct.cpp)
  target_compile_options(cleave_simulated_libraries PRIVATE -Wall -Wextra)
  target_link_libraries(cleave_simulated_libraries PUBLIC cleave_runtime cleave_cuda)

  add_executable(cleave-cuda-library-test
    ${CMAKE_CURRENT_LIST_DIR}/ConvolutionProductsTest.cpp
    ${CMAKE_CURRENT_LIST_DIR}/ConvolutionWindow.cpp
    ${CMAKE_CURRENT_LIST_DIR}/CublasLtTest.cpp
    ${CMAKE_CURRENT_LIST_DIR}/CudaEpilogueTest.cpp
    ${CMAKE_CURRENT_LIST_DIR}/CudaLibraryAlgorithmsTest.cpp
    ${CMAKE_CURRENT_LIST_DIR}/CudaLibraryHarness.cpp
    ${CMAKE_CURRENT_LIST_DIR}/CudnnConvolutionTest.cpp
    ${CMAKE_CURRENT_LIST_DIR}/CudnnEnginesTest.cpp
    ${CMAKE_CURRENT_LIST_DIR}/CudnnPoolingTest.cpp
    ${CMAKE_CURRENT_LIST_DIR}/CudnnAttentionTest.cpp
    ${CMAKE_CURRENT_LIST_DIR}/SimulatedConvolutionTest.cpp)
  target_compile_options(cleave-cuda-library-test PRIVATE -Wall -Wextra)
  set_target_properties(cleave-cuda-library-test PROPERTIES UNITY_BUILD OFF) # files of cases have helpers of the same names
  target_link_libraries(cleave-cuda-library-test PRIVATE
    cleave_simulated_libraries cleave_ptx_interpreter GTest::gtest_main)
  gtest_discover_tests(cleave-cuda-library-test)

  # cleave-run where there are no GPUs, for tests of whole plans.
  find_package(CLI11 REQUIRED)
  get_target_property(sources cleave-run SOURCES)
  get_target_property(folder cleave-run SOURCE_DIR)
  get_target_property(libraries cleave-run LINK_LIBRARIES)
  get_target_property(definitions cleave-run COMPILE_DEFINITIONS)
  list(TRANSFORM sources PREPEND ${folder}/)
  add_executable(cleave-run-simulated ${CMAKE_CURRENT_LIST_DIR}/SimulatedRun.cpp ${sources})
  target_compile_options(cleave-run-simulated PRIVATE -Wall -Wextra)
  target_link_libraries(cleave-run-simulated PRIVATE cleave_simulated_cuda cleave_simulated_libraries ${libraries})
  if(definitions)
    target_compile_definitions(cleave-run-simulated PRIVATE ${definitions})
  endif()
  if(CLEAVE_MPI AND CLEAVE_NCCL_INCLUDE)
    target_sources(cleave-run-simulated PRIVATE ${CMAKE_CURRENT_LIST_DIR}/SimulatedNccl.cpp)
    target_compile_definitions(cleave-run-simulated PRIVATE CLEAVE_SIMULATED_NCCL)
    target_sources(cleave-fault-test PRIVATE
      ${CMAKE_CURRENT_LIST_DIR}/CudaFaultTest.cpp ${CMAKE_CURRENT_LIST_DIR}/CudaProcessesTest.cpp)
    target_compile_definitions(cleave-fault-test PRIVATE CLEAVE_TEST_PTX="${CLEAVE_TEST_PTX}")
    add_dependencies(cleave-fault-test cleave-run-simulated cleave-test-ptx)
  endif()
  add_executable(cleave-cuda-library-plan-test ${CMAKE_CURRENT_LIST_DIR}/CudaLibraryPlanTest.cpp)
  target_compile_options(cleave-cuda-library-plan-test PRIVATE -Wall -Wextra)
  target_compile_definitions(cleave-cuda-library-plan-test PRIVATE
    CLEAVE_TEST_KERNELS="$<TARGET_FILE:cleave-test-kernels>"
    CLEAVE_TEST_PTX="${CLEAVE_TEST_PTX}")
  target_link_libraries(cleave-cuda-library-plan-test PRIVATE
    cleave_test_plans cleave_simulated_cuda cleave_simulated_libraries GTest::gtest_main)
  add_dependencies(cleave-cuda-library-plan-test cleave-test-kernels cleave-test-ptx)
  gtest_discover_tests(cleave-cuda-library-plan-test)
endif()
