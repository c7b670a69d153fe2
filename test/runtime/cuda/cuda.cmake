# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tests of the driver "cuda" with a simulated CUDA, and with real GPUs where there are some. The kernels that they call
# are compiled from TestKernels.cu; multiplications and additions stay apart, as on the processor.

if(NOT TARGET cleave_ptx_interpreter)
  add_subdirectory(${CLEAVE_ROOT}/test/ptx ${CMAKE_CURRENT_BINARY_DIR}/ptx)
endif()

set(CLEAVE_TEST_PTX ${CMAKE_CURRENT_BINARY_DIR}/TestKernels.ptx)
get_filename_component(CLEAVE_TEST_PTX_VERSION ../../runtime/drivers/cuda/PtxVersion.cmake ABSOLUTE)
get_filename_component(CLEAVE_CUDA_PROGRAMS ${CUDAToolkit_NVCC_EXECUTABLE} DIRECTORY)
add_custom_command(
  OUTPUT ${CLEAVE_TEST_PTX}
  COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -ptx -arch=compute_80 -fmad=false -std=c++17
          ${CMAKE_CURRENT_SOURCE_DIR}/cuda/TestKernels.cu -o ${CLEAVE_TEST_PTX}
  COMMAND ${CMAKE_COMMAND} -D PTX=${CLEAVE_TEST_PTX} -P ${CLEAVE_TEST_PTX_VERSION}
  DEPENDS cuda/TestKernels.cu ${CLEAVE_TEST_PTX_VERSION})
add_custom_target(cleave-test-ptx DEPENDS ${CLEAVE_TEST_PTX})
target_compile_definitions(cleave_test_plans PRIVATE CLEAVE_TEST_PTX="${CLEAVE_TEST_PTX}")
add_dependencies(cleave_test_plans cleave-test-ptx)

# A CUDA runtime without a GPU.
add_library(cleave_simulated_cuda STATIC
  cuda/Graphs.cpp
  cuda/Kernels.cpp
  cuda/Memory.cpp
  cuda/Scheduler.cpp
  cuda/SimulatedCuda.cpp
  cuda/Streams.cpp)
target_compile_options(cleave_simulated_cuda PRIVATE -Wall -Wextra)
target_link_libraries(cleave_simulated_cuda PUBLIC cleave_runtime cleave_cuda cleave_ptx_interpreter)

target_link_libraries(cleave-runtime-test PRIVATE cleave_simulated_cuda)
target_compile_definitions(cleave-runtime-test PRIVATE CLEAVE_TEST_PTX="${CLEAVE_TEST_PTX}")
add_dependencies(cleave-runtime-test cleave-test-ptx)

# Libraries for the loader to choose from.
set(fakes "")
foreach(kind LACKING NEWER FITTING)
  string(TOLOWER cleave-fake-${kind} fake)
  add_library(${fake} MODULE cuda/FakeLibrary.c)
  target_compile_definitions(${fake} PRIVATE ${kind} DRIVER=12080 LIBRARY=$<IF:$<STREQUAL:${kind},NEWER>,13000,12000>)
  list(APPEND fakes ${fake})
  list(APPEND fake_definitions CLEAVE_FAKE_${kind}="$<TARGET_FILE:${fake}>")
endforeach()

add_executable(cleave-cuda-test
  CommunicatorConformanceTest.cpp
  cuda/CudaApiTest.cpp
  cuda/CudaBoxesTest.cpp
  cuda/CudaCommunicator.cpp
  cuda/CudaCommunicatorTest.cpp
  cuda/CudaDriverTest.cpp
  cuda/CudaPtxTest.cpp
  cuda/CudaRandomPlanTest.cpp
  cuda/CudaScheduleTest.cpp
  cuda/SimulatedCudaTest.cpp)
if(CLEAVE_NCCL_INCLUDE)
  target_sources(cleave-cuda-test PRIVATE cuda/NcclWorldTest.cpp)
  if(CLEAVE_MPI) # which the simulation takes for several ranks
    target_sources(cleave-cuda-test PRIVATE cuda/SimulatedNccl.cpp)
    target_compile_definitions(cleave-cuda-test PRIVATE CLEAVE_SIMULATED_NCCL)
    target_link_libraries(cleave-cuda-test PRIVATE cleave_mpi)
  endif()
endif()
target_compile_options(cleave-cuda-test PRIVATE -Wall -Wextra)
target_compile_definitions(cleave-cuda-test PRIVATE
  CLEAVE_TEST_KERNELS="$<TARGET_FILE:cleave-test-kernels>"
  CLEAVE_TEST_PTX="${CLEAVE_TEST_PTX}"
  CLEAVE_CUDA_PROGRAMS="${CLEAVE_CUDA_PROGRAMS}"
  ${fake_definitions})
target_link_libraries(cleave-cuda-test PRIVATE cleave_test_plans cleave_simulated_cuda GTest::gtest_main)
target_precompile_headers(cleave-cuda-test PRIVATE <gtest/gtest.h> <string> <vector>)
add_dependencies(cleave-cuda-test cleave-test-kernels cleave-test-ptx ${fakes})
gtest_discover_tests(cleave-cuda-test)
