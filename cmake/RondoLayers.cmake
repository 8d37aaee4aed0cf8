# SPDX-License-Identifier: Apache-2.0
# A layer is a static library of all sources below a folder, in up to four parts. Each part is a
# separate unity build, so builds with and without GPUs share the objects of all other parts.
#
#   calls         what runs in calls
#   once          what runs once a process or a communicator: Release compiles it for size
#   engine...     collectives/gpu, in builds with GPUs: both kinds

# Sources that run once per process or communicator, and not in its calls: a row for each folder, of
# all its own sources, or of those that the row names (base/env.cc, ...).
set(RONDO_ONCE
    "base: env env_table env_unused fmt json printable text_file variables"
    topology topology/channels topology/graph
    transport/auth transport/bootstrap transport/launch transport/networks transport/status
    "transport/memory: memory_handle pinned_file virtual_memory"
    "transport/shm: host_group memfd unix_meeting unix_socket"
    "transport/socket: interfaces"
    "transport/tcp: tcp_network"
    transport/ucx transport/verbs
    kernels/sim
    collectives/communicator collectives/context collectives/faults collectives/model
    collectives/status collectives/trace collectives/watchdog
    "collectives/planner: device_reasons explain function_lists host_costs host_reasons tune_file"
    "collectives/gpu/agree: process_meeting"
    "collectives/gpu/channels: multicast_memory shared_connections"
    "collectives/gpu/plan: channel_orders explain_devices gpu_plan"
    "collectives/gpu/rank: agree_on_plan bind_processes binding window_memory")
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

# The sources that the rows of RONDO_ONCE mark. Fails on a row whose folder or source is not there.
function(rondo_once_sources list_name)
  set(found "")
  foreach(row ${RONDO_ONCE})
    string(REGEX MATCH "^([^:]+):?(.*)$" row "${row}")
    set(folder ${CMAKE_SOURCE_DIR}/${CMAKE_MATCH_1})
    separate_arguments(names UNIX_COMMAND "${CMAKE_MATCH_2}")
    list(TRANSFORM names REPLACE "(.+)" "${folder}/\\1.cc")
    file(GLOB sources ${folder}/*.cc)
    foreach(source ${names})
      if(NOT source IN_LIST sources)
        message(FATAL_ERROR "${source} is not there: mend RONDO_ONCE in cmake/RondoLayers.cmake")
      endif()
    endforeach()
    if(NOT sources)
      message(FATAL_ERROR "${folder} holds no source: mend RONDO_ONCE in cmake/RondoLayers.cmake")
    endif()
    if(names)
      set(sources ${names})
    endif()
    list(APPEND found ${sources})
  endforeach()
  set(${list_name} ${found} PARENT_SCOPE)
endfunction()

# rondo_part(<layer> <part> <list of sources> libraries...): objects of sources for calls and for
# once.
function(rondo_part layer part list_name)
  rondo_once_sources(marked)
  set(calls ${${list_name}})
  list(REMOVE_ITEM calls ${marked})
  set(once ${${list_name}})
  list(REMOVE_ITEM once ${calls} "")
  foreach(kind calls once)
    if(${kind})
      set(target rondo_${layer}_${part}${kind})
      add_library(${target} OBJECT ${${kind}})
      target_link_libraries(${target} PRIVATE ${ARGN})
      target_sources(rondo_${layer} PRIVATE $<TARGET_OBJECTS:${target}>)
      if(kind STREQUAL "once")
        target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os> $<$<CONFIG:Checked>:-O1>)
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
    list(APPEND packages ${rondo_pugixml})
    if(NOT RONDO_PORTABLE)
      list(APPEND packages rondo_hwloc)
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
  target_include_directories(rondo_kernels_calls SYSTEM PRIVATE ${RONDO_HIGHWAY_HEADERS})
endfunction()
