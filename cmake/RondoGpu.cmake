# SPDX-License-Identifier: Apache-2.0
# The CUDA side of the build, chosen by RONDO_GPU: none, cuda, auto (cuda if nvcc is found), simt.
# -DRONDO_CUDA=OFF overrides a preset with none, -DRONDO_CUDA=ON with cuda.
if(DEFINED RONDO_CUDA AND NOT RONDO_GPU STREQUAL "simt")
  if(RONDO_CUDA)
    set(RONDO_GPU "cuda")
  else()
    set(RONDO_GPU "none")
  endif()
endif()
if(RONDO_GPU STREQUAL "auto")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(RONDO_GPU "cuda")
  else()
    set(RONDO_GPU "none")
    message(STATUS "no nvcc: building without CUDA")
  endif()
endif()
if(NOT RONDO_GPU MATCHES "^(none|cuda|simt)$")
  message(FATAL_ERROR "RONDO_GPU is '${RONDO_GPU}': use none, cuda, auto or simt")
endif()

if(RONDO_GPU STREQUAL "cuda")
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # Machine code for every generation, and PTX of the last one for future GPUs.
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real 120)
  endif()
  if(RONDO_CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${RONDO_CCACHE})
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  # CMake 3.25 does not detect that this nvcc supports C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  find_package(CUDAToolkit REQUIRED)
endif()

# -fmad=false: host and CUDA give equal bits for the same order of operations.
set(RONDO_NVCC_FLAGS -fmad=false --expt-relaxed-constexpr --compress-mode=size -Xptxas -v
    -Wno-deprecated-gpu-targets)

# Adds the kernels of kernels/cuda: compiled by nvcc, or as C++ for the emulated GPU. Only they and
# the table of CUDA calls have flags that depend on this. All other sources have the same flags in
# all builds, so a compiler cache serves them all.
function(rondo_gpu_kernels target)
  if(RONDO_GPU STREQUAL "none")
    return()
  endif()
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu)
  target_sources(${target} PRIVATE ${kernels} ${CMAKE_SOURCE_DIR}/kernels/cuda/kernels.cc)
  if(RONDO_GPU STREQUAL "simt")
    # Kernels keep arrays in registers uninitialised and set every element before they read it.
    set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS
                                "-xc++;-Wno-maybe-uninitialized;-Wno-uninitialized")
    set(table ${CMAKE_SOURCE_DIR}/tests/simt/gpu_simt.cc)
    set_source_files_properties(${kernels} ${CMAKE_SOURCE_DIR}/kernels/cuda/kernels.cc ${table}
                                PROPERTIES COMPILE_DEFINITIONS RONDO_SIMT)
    target_sources(${target} PRIVATE ${table})
    target_link_libraries(${target} PRIVATE simt_cudart)
  else()
    set(table ${CMAKE_SOURCE_DIR}/kernels/cuda/gpu_cuda.cc
              ${CMAKE_SOURCE_DIR}/kernels/cuda/gpu_cuda_driver.cc)
    list(TRANSFORM CUDAToolkit_INCLUDE_DIRS PREPEND "-isystem;" OUTPUT_VARIABLE headers)
    set_source_files_properties(${table} PROPERTIES COMPILE_OPTIONS "${headers}")
    target_sources(${target} PRIVATE ${table})
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${RONDO_NVCC_FLAGS}>)
    target_link_libraries(${target} INTERFACE $<LINK_ONLY:CUDA::cudart_static>)
  endif()
endfunction()
