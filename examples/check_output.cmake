# Runs COMMAND, whose parts are set apart by "|", and compares its output with the regular expression EXPECTED; a failure of
# either fails the test.
string(REPLACE "|" ";" COMMAND "${COMMAND}")
execute_process(COMMAND ${COMMAND} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
message("${output}")
if(NOT status EQUAL 0)
  message(FATAL_ERROR "exit status ${status}")
endif()
if(NOT output MATCHES "${EXPECTED}")
  message(FATAL_ERROR "expected ${EXPECTED}")
endif()
