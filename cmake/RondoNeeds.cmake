# SPDX-License-Identifier: Apache-2.0
# Finds the third-party packages, of the system or of the prefixes that CMAKE_PREFIX_PATH names, and
# fetches none. What is missing is named at once, by the rows of packages.txt.
#
# Afterwards there are OpenSSL::Crypto, Boost::context, rondo_hwloc, ${rondo_pugixml} and folders of
# headers: RONDO_HIGHWAY_HEADERS, RONDO_HEADER_DIRS (of what all sources may include).
set(rondo_missing "")
macro(rondo_needs row found)
  if(NOT ${found})
    list(APPEND rondo_missing "${row}")
  endif()
endmacro()

# rondo_find_headers(<row> <variable> <header>): the folder of a package of headers.
macro(rondo_find_headers row variable header)
  find_path(${variable} ${header})
  mark_as_advanced(${variable})
  rondo_needs("${row}" ${variable})
endmacro()

if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11)
   OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14))
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} is version ${CMAKE_CXX_COMPILER_VERSION}: GCC 11 or "
                      "Clang 14 or a newer one is needed; name it: -DCMAKE_CXX_COMPILER=g++-11")
endif()
find_package(Threads REQUIRED)
if(RONDO_PORTABLE)
  set(OPENSSL_USE_STATIC_LIBS ON)
endif()
find_package(OpenSSL QUIET COMPONENTS Crypto)
rondo_needs("OpenSSL" OPENSSL_FOUND)

# Static, so that a context switch needs no library beside librondo.so; shared where the system has
# nothing else.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.74 QUIET CONFIG COMPONENTS context)
if(NOT TARGET Boost::context AND NOT RONDO_PORTABLE)
  set(Boost_USE_STATIC_LIBS OFF)
  find_package(Boost 1.74 QUIET CONFIG COMPONENTS context)
endif()
rondo_needs("Boost.Context" "TARGET;Boost::context")

find_package(pugixml QUIET)
rondo_needs("pugixml" pugixml_FOUND)
set(rondo_pugixml pugixml::pugixml)
if(TARGET pugixml::static)  # little of it is used
  set(rondo_pugixml pugixml::static)
elseif(NOT TARGET pugixml::pugixml)
  set(rondo_pugixml pugixml)
endif()

rondo_find_headers("hwloc" RONDO_HWLOC_HEADERS hwloc.h)
find_library(RONDO_HWLOC_LIBRARY hwloc)
mark_as_advanced(RONDO_HWLOC_LIBRARY)
if(RONDO_HWLOC_HEADERS)
  rondo_needs("hwloc" RONDO_HWLOC_LIBRARY)
endif()
add_library(rondo_hwloc INTERFACE)

# Headers alone. fmt's code is compiled by base/fmt.cc.
rondo_find_headers("Highway" RONDO_HIGHWAY_HEADERS hwy/highway.h)
rondo_find_headers("fmt" RONDO_FMT_HEADERS fmt/format.h)
rondo_find_headers("CLI11" RONDO_CLI11_HEADERS CLI/CLI.hpp)
rondo_find_headers("nlohmann-json" RONDO_JSON_HEADERS nlohmann/json.hpp)

# Ends the configuration: prints the head of packages.txt and the rows of what is missing. CMake
# wraps no line that begins with a space.
function(rondo_name_missing)
  file(STRINGS ${CMAKE_SOURCE_DIR}/cmake/packages.txt rows REGEX "\\|")
  set(text "")
  foreach(row IN LISTS rows)
    string(REGEX REPLACE " *\\|.*" "" name "${row}")
    if(name STREQUAL "needed" OR name IN_LIST rondo_missing)
      string(APPEND text "  ${row}\n")
    endif()
  endforeach()
  list(JOIN rondo_missing ", " names)
  message(FATAL_ERROR "  not found: ${names}\n${text}"
          "  .ci/install.sh installs them. Where you may install nothing, build them into a folder "
          "and name it:\n  -DCMAKE_PREFIX_PATH=FOLDER. Nothing was fetched.")
endfunction()
if(rondo_missing)
  list(REMOVE_DUPLICATES rondo_missing)
  rondo_name_missing()
endif()

target_include_directories(rondo_hwloc SYSTEM INTERFACE ${RONDO_HWLOC_HEADERS})
target_link_libraries(rondo_hwloc INTERFACE ${RONDO_HWLOC_LIBRARY})
set(RONDO_HEADER_DIRS ${RONDO_FMT_HEADERS} ${RONDO_CLI11_HEADERS} ${RONDO_JSON_HEADERS})

# What base/fmt.cc compiles differs between versions of fmt. With others than 9 every source has the
# code of what it uses, which takes longer to compile.
foreach(header base core)
  if(EXISTS ${RONDO_FMT_HEADERS}/fmt/${header}.h)
    file(STRINGS ${RONDO_FMT_HEADERS}/fmt/${header}.h RONDO_FMT_VERSION
         REGEX "^#define FMT_VERSION [0-9]+")
  endif()
  if(RONDO_FMT_VERSION)
    break()
  endif()
endforeach()
string(REGEX REPLACE "[^0-9]" "" RONDO_FMT_VERSION "${RONDO_FMT_VERSION}")
