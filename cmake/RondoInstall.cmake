# cmake --install: both libraries, nccl.h, rondo.h and launch_env.h, find_package(rondo) with
# rondo::rondo (and rondo::nccl, the drop-in), rondo.pc.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(rondo_shared PROPERTIES EXPORT_NAME rondo)
set_target_properties(nccl_shared PROPERTIES EXPORT_NAME nccl)
install(TARGETS rondo_audit LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS rondo_shared nccl_shared EXPORT rondoTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${CMAKE_SOURCE_DIR}/api/nccl.h ${CMAKE_SOURCE_DIR}/api/rondo.h
              ${CMAKE_SOURCE_DIR}/api/launch_env.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

install(FILES ${CMAKE_SOURCE_DIR}/api/examples/hello_allreduce.c
              ${CMAKE_SOURCE_DIR}/api/examples/survive.cc
        DESTINATION ${CMAKE_INSTALL_DATADIR}/rondo/examples)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)
install(EXPORT rondoTargets NAMESPACE rondo:: DESTINATION ${package_dir})
file(WRITE ${CMAKE_BINARY_DIR}/rondoConfig.cmake
     "include(\${CMAKE_CURRENT_LIST_DIR}/rondoTargets.cmake)\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/rondoConfigVersion.cmake
                                 COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/rondoConfig.cmake ${CMAKE_BINARY_DIR}/rondoConfigVersion.cmake
        DESTINATION ${package_dir})

configure_file(${CMAKE_SOURCE_DIR}/cmake/rondo.pc.in ${CMAKE_BINARY_DIR}/rondo.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/rondo.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
