# SPDX-License-Identifier: Apache-2.0
# A layer is a static library of all sources below a folder, in up to four parts. Each part is a
# separate unity build, so builds with and without GPUs share the objects of all other parts.
#
#   calls         what runs in calls
#   once          what runs once a process or a communicator: Release compiles it for size
#   engine...     collectives/gpu, in builds with GPUs: both kinds

# Sources that run once per process or communicator, and not in its calls.
set(RONDO_NOT_IN_CALLS
    "^base/(env|fmt|json|printable|text_file)"
    ^topology/
    "^kernels/(check|sim)/"
    "^collectives/(communicator|context|faults|model|status|trace|watchdog)/"
    "^collectives/planner/(cost_fit|explain|function_lists|tune_file|[a-z]+_reasons)"
    "^collectives/gpu/(agree/memory_exchange|rank/(agree_on_plan|bind|window_memory))"
    ^collectives/gpu/team/team_connections
    "^collectives/gpu/channels/(multicast_memory|shared_)"
    "^collectives/gpu/plan/(channel_orders|channel_search|explain_devices|gpu_plan|p2p_reach)"
    "^transport/(auth|bootstrap|launch|networks|status)/"
    "^transport/memory/(memory_handle|pinned_file|virtual_memory)"
    "^transport/shm/(host_group|memfd|unix_)"
    ^transport/socket/interfaces
    ^transport/tcp/tcp_network
    "^transport/(ucx|verbs)/[^/]*.cc$")
# Sources of collectives/gpu in a build without GPUs: absent.cc instead of the engine, and the plans
# that `rondo explain` and `rondo simulate` make for GPUs that are not present.
set(RONDO_GPU_WITHOUT_ENGINE
    "/collectives/gpu/(rank/absent|calls/pointers|plan/[a-z0-9_]+).cc$")

# Removes sources that only some builds have, so that the remaining objects are equal in all builds.
function(rondo_remove_absent list_name)
  set(kept ${${list_name}})
  set(optional ${kept})
  list(FILTER optional INCLUDE REGEX "/(base/gpu_none|gpu/rank/absent).cc$|/topology/.*hwloc_")
  set_source_files_properties(${optional} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(RONDO_PORTABLE)
    list(FILTER kept EXCLUDE REGEX "/topology/(graph/)?hwloc_(discovery|graph|load).cc$")
  else()
    list(FILTER kept EXCLUDE REGEX "/topology/graph/hwloc_none.cc$")
  endif()
  if(NOT RONDO_GPU STREQUAL "none")
    list(FILTER kept EXCLUDE REGEX "/base/gpu_none.cc$|/collectives/gpu/rank/absent.cc$")
  endif()
  if(RONDO_VERBS)
    list(FILTER kept EXCLUDE REGEX "/transport/verbs/absent.cc$")
  else()
    list(FILTER kept EXCLUDE REGEX "/transport/verbs/ibverbs/")
  endif()
  if(RONDO_UCX)
    list(FILTER kept EXCLUDE REGEX "/transport/ucx/absent.cc$")
  else()
    list(FILTER kept EXCLUDE REGEX "/transport/ucx/ucp/")
  endif()
  set(${list_name} ${kept} PARENT_SCOPE)
endfunction()

# rondo_part(<layer> <part> <list of sources> libraries...): objects of sources for calls and for
# once.
function(rondo_part layer part list_name)
  set(calls ${${list_name}})
  foreach(place ${RONDO_NOT_IN_CALLS})
    string(REGEX REPLACE "^\\^" "^${CMAKE_SOURCE_DIR}/" place ${place})
    list(FILTER calls EXCLUDE REGEX ${place})
  endforeach()
  set(once ${${list_name}})
  list(REMOVE_ITEM once ${calls} "")
  foreach(kind calls once)
    if(${kind})
      set(target rondo_${layer}_${part}${kind})
      add_library(${target} OBJECT ${${kind}})
      target_link_libraries(${target} PRIVATE ${ARGN})
      target_sources(rondo_${layer} PRIVATE $<TARGET_OBJECTS:${target}>)
      if(kind STREQUAL "once")
        target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>)
      endif()
    endif()
  endforeach()
endfunction()

# rondo_layer(<folder> [DEPENDS lower...])
function(rondo_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/kernels/cuda/")
  rondo_remove_absent(sources)
  set(engine ${sources})
  list(FILTER engine INCLUDE REGEX "/collectives/gpu/")
  list(FILTER engine EXCLUDE REGEX ${RONDO_GPU_WITHOUT_ENGINE})
  if(engine)
    list(REMOVE_ITEM sources ${engine})
  endif()

  set(libraries rondo_flags Threads::Threads)
  foreach(lower ${ARG_DEPENDS})
    list(APPEND libraries rondo_${lower})
  endforeach()
  set(packages "")
  if(name STREQUAL "topology")
    # Static, because only little of it is used.
    list(APPEND packages pugixml::static)
    if(NOT RONDO_PORTABLE)
      list(APPEND packages PkgConfig::HWLOC)
    endif()
  elseif(name STREQUAL "transport")
    list(APPEND packages OpenSSL::Crypto)
    # <linux/tcp.h> and <netinet/tcp.h> define the same names.
    set_source_files_properties(${CMAKE_SOURCE_DIR}/transport/status/tcp_traffic.cc
                                PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  elseif(name STREQUAL "kernels")
    list(APPEND libraries Boost::context)
  endif()

  add_library(rondo_${name} STATIC)
  target_link_libraries(rondo_${name} PUBLIC ${libraries} PRIVATE ${packages})
  rondo_part(${name} "" sources ${libraries} ${packages})
  if(engine AND NOT RONDO_GPU STREQUAL "none")
    rondo_part(${name} engine_ engine ${libraries})
  endif()
  if(name STREQUAL "collectives")
    target_compile_definitions(rondo_collectives_once PRIVATE RONDO_VERSION="${PROJECT_VERSION}")
  elseif(name STREQUAL "kernels")
    rondo_simd_kernels()
    rondo_gpu_kernels(rondo_kernels)
  endif()
endfunction()

# Each is compiled separately for every instruction set, also in a unity build.
function(rondo_simd_kernels)
  file(GLOB per_target CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/host/simd/*.cc)
  list(FILTER per_target EXCLUDE REGEX "/(reduce_kernels|simd_target).cc$")
  set_source_files_properties(${per_target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  # There, vectors are thousands of values on the stack; checking them takes four times as long to
  # compile. The reduced memory and overflowing sums are still checked.
  if(RONDO_SANITIZE AND RONDO_FUZZ)
    set_source_files_properties(${per_target} PROPERTIES COMPILE_OPTIONS -fno-sanitize=all)
  elseif(RONDO_SANITIZE MATCHES address)
    set_source_files_properties(${per_target} PROPERTIES COMPILE_OPTIONS
      "-fno-sanitize=undefined;-fsanitize=signed-integer-overflow,shift;--param=asan-stack=0")
  endif()
  # Header only: kernels/host/simd/simd_target.h chooses the instruction set at run time.
  target_include_directories(rondo_kernels_calls SYSTEM PRIVATE ${HWY_INCLUDE_DIRS})
endfunction()
