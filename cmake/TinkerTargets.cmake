# tinker_target(NAME): what every target of the project has in common.
function(tinker_target name)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_compile_options(${name} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion $<$<BOOL:${TINKER_WERROR}>:-Werror>
    # False alarms of g++ 12: the flag of an empty std::optional inside an aggregate (maybe-uninitialized), and
    # "text" + std::string (restrict).
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-restrict>
    # Sources that are compiled as one look like headers to the compiler, and see each other's constants.
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wno-subobject-linkage;-Wno-shadow>
    # The compiler collects its garbage later: a tenth of its time against memory that machines have.
    $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-expand=300;--param=ggc-min-heapsize=1000000>)
endfunction()

# tinker_layer(NAME [HEADERS ...] SOURCES ... [ALONE ...] DEPENDS ... [PRIVATE_DEPENDS ...]): one folder of src/ as a static library, `tinker_NAME`.
# ALONE are the sources that use a name for themselves that another source of the folder uses, too: builds that compile several sources as one
# (CMAKE_UNITY_BUILD) leave them out.
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
