# Compiler settings and third-party packages that every target shares.
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
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)  # headers are half of a compilation
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

find_program(RONDO_CCACHE ccache)
if(RONDO_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${RONDO_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${RONDO_CCACHE})
endif()

find_package(Threads REQUIRED)
# Libraries and programs that need nothing but glibc: for wheels, bundles and other places far from
# their build machine, and beside other libraries' libstdc++. Programs find the libraries in ../lib.
if(RONDO_PORTABLE)
  set(OPENSSL_USE_STATIC_LIBS ON)
  add_link_options(-static-libgcc $<$<NOT:$<LINK_LANGUAGE:C>>:-static-libstdc++>)
  set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
endif()
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
# Static: a context switch needs no library of its own beside librondo.so.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.74 REQUIRED COMPONENTS context)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
find_package(pugixml REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
# InfiniBand and RoCE: the header's types alone. The library is looked for at run time.
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

# -ffp-contract=off: host and CUDA must give equal bits for one order of operations.
add_library(rondo_flags INTERFACE)
target_compile_options(rondo_flags INTERFACE
                       $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -ffp-contract=off>)
target_include_directories(rondo_flags INTERFACE ${CMAKE_SOURCE_DIR})
# Of what the libraries do not call, the linker keeps nothing.
target_compile_options(
  rondo_flags
  INTERFACE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:C,CXX>>:-ffunction-sections>)

# What runs once a process or a communicator, and not in its calls: compiled for size.
set(RONDO_NOT_IN_CALLS
    "^base/(env|fmt|output_file|printable)"
    ^topology/
    "^kernels/(check|sim)/"
    "^collectives/(communicator|model|watchdog)/"
    "^collectives/planner/(cost_fit|explain|function_lists|tune_file|[a-z]+_reasons)"
    "^collectives/gpu/(bind|channel_search|explain_devices|memory_exchange|reachability)"
    "^collectives/gpu/(team_connections|window_memory)"
    "^collectives/gpu/channels/(channel_orders|multicast_memory|p2p_reach|shared_)"
    ^transport/[^/]*.cc$
    "^transport/(auth|bootstrap|launch)/"
    "^transport/memory/(memory_handle|pinned_file|virtual_memory)"
    "^transport/shm/(fd_passing|host_group|memfd|unix_)"
    ^transport/socket/interfaces
    ^transport/tcp/tcp_network
    "^transport/(ucx|verbs)/[^/]*.cc$")
if(RONDO_WERROR)
  target_compile_options(rondo_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
if(RONDO_SANITIZE)
  target_compile_options(rondo_flags INTERFACE -fsanitize=${RONDO_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(rondo_flags INTERFACE -fsanitize=${RONDO_SANITIZE})
  # Half the time of compilation, and what is lost is small: a null pointer ends the program by
  # itself, and GCC's checks of ASan as calls find what those in line find.
  if(RONDO_SANITIZE MATCHES undefined)
    target_compile_options(rondo_flags INTERFACE -fno-sanitize-recover=undefined
                                                 -fno-sanitize=null,object-size,vptr)
  endif()
  if(RONDO_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(rondo_flags INTERFACE
                           "SHELL:--param asan-instrumentation-with-call-threshold=0")
  endif()
  if(RONDO_SANITIZE MATCHES thread)
    # Standalone fences are modelled conservatively by TSan; GCC warns about each of them.
    target_compile_options(rondo_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()

# rondo_layer(<folder> [DEPENDS lower...]): a static library of all sources below a folder.
function(rondo_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/kernels/cuda/")
  # What only some builds have stands alone in a unity build, so that the rest is equal in all.
  set(optional ${sources})
  list(FILTER optional INCLUDE REGEX "/base/gpu_none.cc$|/topology/(graph/)?hwloc_")
  set_source_files_properties(${optional} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(RONDO_PORTABLE)
    list(FILTER sources EXCLUDE REGEX "/topology/(graph/)?hwloc_(discovery|graph|load).cc$")
  else()
    list(FILTER sources EXCLUDE REGEX "/topology/hwloc_none.cc$")
  endif()
  if(NOT RONDO_GPU STREQUAL "none")
    list(FILTER sources EXCLUDE REGEX "/base/gpu_none.cc$")
  endif()
  if(RONDO_VERBS)
    list(FILTER sources EXCLUDE REGEX "/transport/verbs/absent.cc$")
  else()
    list(FILTER sources EXCLUDE REGEX "/transport/verbs/ibverbs/")
  endif()
  if(RONDO_UCX)
    list(FILTER sources EXCLUDE REGEX "/transport/ucx/absent.cc$")
  else()
    list(FILTER sources EXCLUDE REGEX "/transport/ucx/ucp/")
  endif()
  if(NOT sources)
    add_library(rondo_${name} INTERFACE)
    foreach(lower ${ARG_DEPENDS})
      target_link_libraries(rondo_${name} INTERFACE rondo_${lower})
    endforeach()
    return()
  endif()
  add_library(rondo_${name} STATIC ${sources})
  list(TRANSFORM RONDO_NOT_IN_CALLS REPLACE "^\\^" "^${CMAKE_SOURCE_DIR}/" OUTPUT_VARIABLE folders)
  foreach(folder ${folders})
    if(CMAKE_UNITY_BUILD)  # which takes no source with options of its own
      break()
    endif()
    set(small ${sources})
    list(FILTER small INCLUDE REGEX ${folder})
    set_source_files_properties(${small} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-Os>")
  endforeach()
  target_link_libraries(rondo_${name} PUBLIC rondo_flags Threads::Threads)
  foreach(lower ${ARG_DEPENDS})
    target_link_libraries(rondo_${name} PUBLIC rondo_${lower})
  endforeach()
  if(name STREQUAL "topology")
    # Static, as so little of it is needed.
    target_link_libraries(rondo_${name} PRIVATE pugixml::static)
    if(NOT RONDO_PORTABLE)
      target_link_libraries(rondo_${name} PRIVATE PkgConfig::HWLOC)
    endif()
  elseif(name STREQUAL "transport")
    target_link_libraries(rondo_${name} PRIVATE OpenSSL::Crypto)
  elseif(name STREQUAL "kernels")
    # Each is compiled by itself for every instruction set, also in a unity build.
    file(GLOB per_target CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/host/simd/*.cc)
    set_source_files_properties(${per_target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    # Vectors are values on the stack there, thousands of them: to watch those quadruples the time
    # of compilation. The memory that is reduced is watched, and sums that overflow are.
    if(RONDO_SANITIZE AND RONDO_FUZZ)
      set_source_files_properties(${per_target} PROPERTIES COMPILE_OPTIONS -fno-sanitize=all)
    elseif(RONDO_SANITIZE MATCHES address)
      set_source_files_properties(${per_target} PROPERTIES COMPILE_OPTIONS
        "-fno-sanitize=undefined;-fsanitize=signed-integer-overflow,shift;--param=asan-stack=0")
    endif()
    # Headers only: kernels/host/simd_target.h chooses the instruction set at run time.
    target_include_directories(rondo_${name} SYSTEM PRIVATE ${HWY_INCLUDE_DIRS})
    rondo_gpu_kernels(rondo_${name})
    target_link_libraries(rondo_${name} PUBLIC Boost::context)
  endif()
endfunction()
