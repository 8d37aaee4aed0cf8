# SPDX-License-Identifier: Apache-2.0
# cmake --install: the libraries, headers, find_package(rondo) with rondo::rondo (and rondo::nccl,
# the drop-in), rondo.pc, the command with nccl-tests' program names, its manual pages and
# completions, examples, topology files. Components: runtime, dev, tools; cuda in place of runtime
# for the libnccl.so.2 of a build with CUDA. RondoPackages makes Debian packages of them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

option(RONDO_INSTALL_NCCL "Install NCCL's headers and libnccl.so.2 (another package may)" ON)
set(nccl_component runtime)
if(RONDO_GPU STREQUAL "cuda")
  set(nccl_component cuda)
endif()

set_target_properties(rondo_shared PROPERTIES EXPORT_NAME rondo)
set_target_properties(nccl_shared PROPERTIES EXPORT_NAME nccl)
install(TARGETS rondo_shared EXPORT rondoTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
set(headers rondo.h launch_env.h)
if(RONDO_INSTALL_NCCL)
  install(TARGETS nccl_shared EXPORT rondoTargets
          LIBRARY DESTINATION ${RONDO_NCCL_LIBDIR} COMPONENT ${nccl_component}
                  NAMELINK_COMPONENT dev)
  # Beside libnccl.so.2: what redirects a program's own copy of NCCL.
  install(TARGETS rondo_audit LIBRARY DESTINATION ${RONDO_NCCL_LIBDIR}
                                      COMPONENT ${nccl_component})
  # And what shows NVIDIA's own library to rondo ps.
  if(NOT RONDO_GPU STREQUAL "cuda")
    install(TARGETS rondo_watch rondo_watch_mpi LIBRARY DESTINATION ${RONDO_NCCL_LIBDIR}
                                                COMPONENT runtime)
  endif()
  list(APPEND headers nccl.h nccl_device.h nccl_device_code.h nccl_device_copies.h
       nccl_device_lsa.h)
endif()
foreach(header ${headers})
  install(FILES ${CMAKE_SOURCE_DIR}/api/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          COMPONENT dev)
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)
install(EXPORT rondoTargets NAMESPACE rondo:: DESTINATION ${package_dir} COMPONENT dev)
file(WRITE ${CMAKE_BINARY_DIR}/rondoConfig.cmake
     "include(\${CMAKE_CURRENT_LIST_DIR}/rondoTargets.cmake)\n")
# librondo.so.1 is the binary interface of every version 0.x: functions are added, none changes or
# goes. So a newer 0.x serves who asks for an older one.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/rondoConfigVersion.cmake
                                 COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/rondoConfig.cmake ${CMAKE_BINARY_DIR}/rondoConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT dev)
file(RELATIVE_PATH RONDO_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_SOURCE_DIR}/cmake/rondo.pc.in ${CMAKE_BINARY_DIR}/rondo.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/rondo.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT dev)
set(data ${CMAKE_INSTALL_DATADIR}/rondo)
install(FILES ${CMAKE_SOURCE_DIR}/api/examples/hello_allreduce.c
              ${CMAKE_SOURCE_DIR}/api/examples/moe.cc ${CMAKE_SOURCE_DIR}/api/examples/moe.h
              ${CMAKE_SOURCE_DIR}/api/examples/survive.cc
        DESTINATION ${data}/examples COMPONENT dev)

install(TARGETS rondo RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
file(GLOB topologies CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/topology/*.xml)
install(FILES ${topologies} DESTINATION ${data}/topologies COMPONENT tools)
# Programs under nccl-tests' names; a manual page a command and completions, written by the command
# itself.
install(CODE "
  set(rondo ${CMAKE_CROSSCOMPILING_EMULATOR} \"$<TARGET_FILE:rondo>\")
  set(bin \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
  set(man \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1\")
  foreach(collective ${RONDO_PERF_COLLECTIVES})
    execute_process(COMMAND \${CMAKE_COMMAND} -E create_symlink rondo \${bin}/\${collective}_perf)
  endforeach()
  execute_process(COMMAND \${rondo} --man OUTPUT_VARIABLE page COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE \${man}/rondo.1 \"\${page}\")
  execute_process(COMMAND \${rondo} --list-options OUTPUT_VARIABLE list)
  string(REGEX MATCHALL \"[a-z]+\\t\" names \"\${list}\")
  foreach(name \${names})
    string(STRIP \"\${name}\" name)
    execute_process(COMMAND \${rondo} \${name} --man OUTPUT_VARIABLE page
                    COMMAND_ERROR_IS_FATAL ANY)
    file(WRITE \${man}/rondo-\${name}.1 \"\${page}\")
  endforeach()
  set(data \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
  set(places bash bash-completion/completions/rondo
             fish fish/vendor_completions.d/rondo.fish zsh zsh/vendor-completions/_rondo)
  while(places)
    list(POP_FRONT places shell place)
    execute_process(COMMAND \${rondo} completion \${shell} OUTPUT_VARIABLE script
                    COMMAND_ERROR_IS_FATAL ANY)
    file(WRITE \${data}/\${place} \"\${script}\")
  endwhile()
" COMPONENT tools)

include(RondoPackages)
