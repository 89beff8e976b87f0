# Install rules: the library with its public headers, the command, and what lets others find them
# (find_package, pkg-config). Nothing that is installed knows where it was installed to.
include(CMakePackageConfigHelpers)

set(tinker_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tinker)
set(tinker_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS tinker_client EXPORT tinkerTargets FILE_SET HEADERS)
if(TARGET tinker_cli)
  install(TARGETS tinker_cli)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT tinkerTargets NAMESPACE tinker:: DESTINATION ${tinker_config_dir})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/tinkerConfig.cmake.in ${PROJECT_BINARY_DIR}/tinkerConfig.cmake
  INSTALL_DESTINATION ${tinker_config_dir}
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor release may break what the one before promised.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tinkerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/tinkerConfig.cmake ${PROJECT_BINARY_DIR}/tinkerConfigVersion.cmake
  DESTINATION ${tinker_config_dir})

# A static library brings its dependencies along, even without `pkg-config --static`: there is no
# other way to link it. A shared one has them inside.
if(BUILD_SHARED_LIBS)
  set(tinker_pc_requires "")
else()
  set(tinker_pc_requires "Requires: simdjson openssl libnghttp2 zlib libzstd")
endif()
file(RELATIVE_PATH tinker_pc_to_include
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(${PROJECT_SOURCE_DIR}/cmake/tinker.pc.in ${PROJECT_BINARY_DIR}/tinker.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tinker.pc DESTINATION ${tinker_pc_dir})
