# Install rules: the libraries with their public headers, the command, and what lets others find them (find_package, pkg-config). Nothing that
# is installed knows where it was installed to. Each library is an install component of its own name, too: cmake --install build --component core
include(CMakePackageConfigHelpers)

set(tinker_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tinker)
set(tinker_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH tinker_pc_to_include
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})

# tinker_install(NAME): the library tinker::NAME, its headers, its part of the CMake package and its pkg-config module.
function(tinker_install name)
  set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME ${name})
  get_target_property(file tinker-${name} OUTPUT_NAME)
  get_target_property(uses tinker-${name} TINKER_USES)
  get_target_property(links tinker-${name} TINKER_LINKS)
  if(BUILD_SHARED_LIBS)
    set(links)  # inside the library
  endif()
  set(modules)
  set(find "")
  foreach(used IN LISTS uses)
    get_target_property(module tinker-${used} OUTPUT_NAME)
    list(APPEND modules ${module})
    string(APPEND find "include(\"\${CMAKE_CURRENT_LIST_DIR}/tinker-${used}.cmake\")\n")
  endforeach()
  foreach(link IN LISTS links)  # PkgConfig::ZSTD, or PACKAGE::TARGET, whose pkg-config module has the package's name
    if(link MATCHES "^PkgConfig::(.+)")
      set(module ${${CMAKE_MATCH_1}_MODULE_NAME})
      string(APPEND find "find_dependency(PkgConfig)\n"
        "pkg_check_modules(${CMAKE_MATCH_1} REQUIRED IMPORTED_TARGET ${module})\n")
    else()
      string(REGEX REPLACE "::.*" "" package ${link})
      string(TOLOWER ${package} module)
      string(APPEND find "find_dependency(${package})\n")
    endif()
    list(APPEND modules ${module})
  endforeach()
  list(JOIN modules " " modules)

  install(TARGETS tinker-${name} EXPORT tinker-${name} FILE_SET HEADERS)
  install(EXPORT tinker-${name} NAMESPACE tinker:: FILE tinker-${name}-targets.cmake DESTINATION ${tinker_config_dir})
  configure_file(cmake/tinkerLibrary.cmake.in tinker-${name}.cmake @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/tinker-${name}.cmake DESTINATION ${tinker_config_dir})
  configure_file(cmake/tinker.pc.in ${file}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${file}.pc DESTINATION ${tinker_pc_dir})
endfunction()

foreach(name IN LISTS tinker_libraries)
  tinker_install(${name})
endforeach()

# The files of the package as a whole come with the library that every other one needs.
configure_package_config_file(
  cmake/tinkerConfig.cmake.in tinkerConfig.cmake
  INSTALL_DESTINATION ${tinker_config_dir}
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor release may break what the one before promised.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tinkerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/tinkerConfig.cmake ${PROJECT_BINARY_DIR}/tinkerConfigVersion.cmake
  DESTINATION ${tinker_config_dir} COMPONENT core)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT core)

if(TARGET tinker_cli)
  install(TARGETS tinker_cli COMPONENT cli)
endif()
