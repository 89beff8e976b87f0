# tinker_target(NAME): what every target of the project has in common.
function(tinker_target name)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_compile_options(${name} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion $<$<BOOL:${TINKER_WERROR}>:-Werror>
    # False alarms of g++ 12: the flag of an empty std::optional inside an aggregate (maybe-uninitialized), and
    # "text" + std::string (restrict).
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-restrict>
    # Sources that are compiled as one look like headers to the compiler, and see each other's constants.
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${TINKER_COMBINE_SOURCES}>>:-Wno-subobject-linkage;-Wno-shadow>
    # The compiler collects its garbage later: a tenth of its time against memory that machines have.
    $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-expand=300;--param=ggc-min-heapsize=1000000>)
endfunction()

# tinker_layer(NAME [HEADERS ...] SOURCES ... [ALONE ...] DEPENDS ... [PRIVATE_DEPENDS ...]): one folder of src/ as a static library, `tinker_NAME`.
# ALONE are the sources that use a name for themselves that another source of the folder uses, too: builds that compile several sources as one
# (TINKER_COMBINE_SOURCES) leave them out.
# HEADERS are the public headers that the folder implements, from include/tinker; they are installed with the library that holds the layer.
# Includes are written from the roots: "tinker/result.h" (public), "wire/json_writer.h" (internal).
function(tinker_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;SOURCES;ALONE;DEPENDS;PRIVATE_DEPENDS")
  add_library(tinker_${name} STATIC ${arg_SOURCES})
  set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_include_directories(tinker_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(tinker_${name} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_PRIVATE_DEPENDS})
  list(TRANSFORM arg_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/tinker/)
  set_target_properties(tinker_${name} PROPERTIES
    TINKER_HEADERS "${arg_HEADERS}" TINKER_PRIVATE_DEPENDS "${arg_PRIVATE_DEPENDS}")
  tinker_target(tinker_${name})
endfunction()

# tinker_combine_sources(DIRECTORY NUMBER): every target in and below the directory compiles up to NUMBER of its sources as one. It is CMake's unity
# build, with the same properties to leave something out, but the files it makes name their sources by relative paths: CMake 3.25 writes absolute
# ones, with which a compiler cache finds nothing that another checkout has compiled.
function(tinker_combine_sources directory number)
  get_property(children DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  foreach(child IN LISTS children)
    tinker_combine_sources(${child} ${number})
  endforeach()

  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(wanted ${target} UNITY_BUILD)
    get_target_property(sources ${target} SOURCES)
    if(wanted STREQUAL "OFF" OR NOT sources)
      continue()
    endif()
    set(kept "")
    set(combined "")
    foreach(source IN LISTS sources)
      tinker_stands_alone(alone ${directory} ${source})
      if(alone)
        list(APPEND kept ${source})
      else()
        list(APPEND combined ${source})
      endif()
    endforeach()
    list(LENGTH combined left)
    set(part 0)
    while(left GREATER 1)
      set(batch "")
      foreach(index RANGE 1 ${number})
        list(POP_FRONT combined source)
        list(APPEND batch ${source})
      endforeach()
      list(LENGTH combined left)
      tinker_write_combined(file ${directory} ${target} ${part} ${batch})
      list(APPEND kept ${file})
      math(EXPR part "${part} + 1")
    endwhile()
    set_target_properties(${target} PROPERTIES SOURCES "${kept};${combined}")
  endforeach()
endfunction()

# Whether a source is compiled by itself: it is no C++, or has options of its own, or asks for it.
function(tinker_stands_alone result directory source)
  set(${result} ON PARENT_SCOPE)
  if(NOT source MATCHES "^[^$]*\\.cc$")
    return()
  endif()
  cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${directory})
  foreach(property IN ITEMS SKIP_UNITY_BUILD_INCLUSION COMPILE_OPTIONS COMPILE_DEFINITIONS COMPILE_FLAGS INCLUDE_DIRECTORIES GENERATED)
    get_source_file_property(value ${source} DIRECTORY ${directory} ${property})
    if(value)
      return()
    endif()
  endforeach()
  set(${result} OFF PARENT_SCOPE)
endfunction()

# Writes the file that includes the sources, and gives its name.
function(tinker_write_combined result directory target part)
  get_property(binary_directory DIRECTORY ${directory} PROPERTY BINARY_DIR)
  set(folder ${binary_directory}/${target}.combined)
  set(text "")
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${directory})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${folder})
    string(APPEND text "#include \"${source}\"\n")
  endforeach()
  file(CONFIGURE OUTPUT ${folder}/${part}.cc CONTENT "${text}" @ONLY)
  set(${result} ${folder}/${part}.cc PARENT_SCOPE)
endfunction()
