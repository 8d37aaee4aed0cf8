# SPDX-License-Identifier: Apache-2.0
# Compiler settings and third-party packages of all targets.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)  # headers are half of the compile time
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

find_program(RONDO_CCACHE ccache)
if(RONDO_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${RONDO_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${RONDO_CCACHE})
endif()

# Libraries and programs that need only glibc: for wheels, bundles and other machines than the build
# machine, and for use beside another libstdc++. Programs find the libraries in ../lib.
if(RONDO_PORTABLE)
  add_link_options(-static-libgcc $<$<NOT:$<LINK_LANGUAGE:C>>:-static-libstdc++>)
  set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
endif()
include(RondoNeeds)
# InfiniBand and RoCE: only the header's types. The library is loaded at run time.
option(RONDO_VERBS "Build the transport over libibverbs, where its header is found" ON)
if(RONDO_VERBS)
  find_path(RONDO_VERBS_HEADERS infiniband/verbs.h)
  if(NOT RONDO_VERBS_HEADERS)
    message(STATUS "no infiniband/verbs.h (libibverbs-dev): building without InfiniBand and RoCE")
    set(RONDO_VERBS OFF)
  endif()
endif()
option(RONDO_UCX "Build the transport over UCX, where its headers are found" ON)
if(RONDO_UCX)
  find_path(RONDO_UCX_HEADERS ucp/api/ucp.h)
  if(NOT RONDO_UCX_HEADERS)
    message(STATUS "no ucp/api/ucp.h (libucx-dev): building without UCX")
    set(RONDO_UCX OFF)
  endif()
endif()
foreach(network VERBS UCX)
  if(RONDO_${network})
    list(APPEND RONDO_HEADER_DIRS ${RONDO_${network}_HEADERS})
  endif()
endforeach()
# A folder that the compiler searches anyway must not come earlier.
list(REMOVE_DUPLICATES RONDO_HEADER_DIRS)
list(REMOVE_ITEM RONDO_HEADER_DIRS ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES} "")

# -ffp-contract=off: host and CUDA must give equal bits for the same order of operations.
add_library(rondo_flags INTERFACE)
target_compile_options(rondo_flags INTERFACE
                       $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -ffp-contract=off>)
target_include_directories(rondo_flags INTERFACE ${CMAKE_SOURCE_DIR})
if(RONDO_HEADER_DIRS)
  target_include_directories(rondo_flags SYSTEM INTERFACE ${RONDO_HEADER_DIRS})
endif()
if(RONDO_FMT_VERSION LESS 90000 OR NOT RONDO_FMT_VERSION LESS 100000)
  target_compile_definitions(rondo_flags INTERFACE FMT_HEADER_ONLY=1)
endif()
# GCC's check of format strings takes an eighth of the compile time. clang-tidy checks them instead:
# .ci/tidy.py removes these definitions.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_definitions(rondo_flags INTERFACE FMT_CONSTEVAL= FMT_USE_CONSTEVAL=0)
endif()
# The linker drops everything that the libraries do not call.
target_compile_options(
  rondo_flags
  INTERFACE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:C,CXX>>:-ffunction-sections>)

if(RONDO_WERROR)
  target_compile_options(rondo_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
if(RONDO_SANITIZE)
  target_compile_options(rondo_flags INTERFACE -fsanitize=${RONDO_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(rondo_flags INTERFACE -fsanitize=${RONDO_SANITIZE})
  # Halves the compile time and loses little: a null pointer ends the program anyway, and GCC's ASan
  # checks as calls find the same errors as inline checks.
  if(RONDO_SANITIZE MATCHES undefined)
    target_compile_options(rondo_flags INTERFACE -fno-sanitize-recover=undefined
                                                 -fno-sanitize=null,object-size,vptr)
  endif()
  if(RONDO_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(rondo_flags INTERFACE
                           "SHELL:--param asan-instrumentation-with-call-threshold=0")
  endif()
  if(RONDO_SANITIZE MATCHES thread)
    # TSan models standalone fences conservatively; GCC warns about each of them.
    target_compile_options(rondo_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()
