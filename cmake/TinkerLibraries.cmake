# The installed libraries: which layers each one holds, and which libraries it stands on. No layer is in two of them, so that a program may link
# any set of them. docs/adr/0008 says why they are cut like this.

# tinker_library(NAME LAYERS ... [USES ...] [FILE ...]): the library tinker::NAME, made of the objects of its layers. It brings along the libraries
# that it uses, which are declared before it. FILE names the file and the pkg-config module; default: tinker-NAME.
function(tinker_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FILE" "LAYERS;USES")
  if(NOT arg_FILE)
    set(arg_FILE tinker-${name})
  endif()
  set(target tinker-${name})
  add_library(${target})
  add_library(tinker::${name} ALIAS ${target})
  set(links)
  foreach(layer IN LISTS arg_LAYERS)
    get_target_property(headers tinker_${layer} TINKER_HEADERS)
    get_target_property(depends tinker_${layer} TINKER_PRIVATE_DEPENDS)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:tinker_${layer}>)
    target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${headers})
    list(APPEND links ${depends})
  endforeach()
  list(REMOVE_DUPLICATES links)
  list(REMOVE_ITEM links Boost::headers)  # nothing to link
  list(TRANSFORM arg_USES PREPEND tinker- OUTPUT_VARIABLE used_targets)
  target_link_libraries(${target} PUBLIC ${used_targets} Threads::Threads PRIVATE ${links})
  tinker_target(${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name} OUTPUT_NAME ${arg_FILE} LINKER_LANGUAGE CXX INSTALL_RPATH "$ORIGIN"
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    TINKER_USES "${arg_USES}" TINKER_LINKS "${links}")
  set(tinker_libraries ${tinker_libraries} ${name} PARENT_SCOPE)
endfunction()

set(tinker_libraries)
tinker_library(core LAYERS base async types formats loss)                          # what every other library stands on
tinker_library(net LAYERS http transport wire tokenizer jinja render USES core)           # what clients and servers share
tinker_library(client FILE tinker LAYERS api telemetry session client USES net)    # the SDK
tinker_library(engine LAYERS engine USES core)
tinker_library(server LAYERS server USES net engine)                               # the embedded server
