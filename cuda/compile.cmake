# Runs the compiler command after "--". Writes its output (ptxas's figures) to FIGURES, and prints it on failure. A
# kernel with a stack frame also fails, and OBJECT is removed: such a kernel keeps a register array that is indexed at
# run time in local memory, which ptxas does not report as a spill.
# usage: cmake -DFIGURES=FILE -DOBJECT=FILE -P compile.cmake -- COMMAND ...
set(command "")
set(seen OFF)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(seen)
    list(APPEND command "${CMAKE_ARGV${i}}")
  elseif("${CMAKE_ARGV${i}}" STREQUAL "--")
    set(seen ON)
  endif()
endforeach()
execute_process(COMMAND ${command} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
file(WRITE "${FIGURES}" "${said}")
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${said}")
endif()
if(said MATCHES "[1-9][0-9]* bytes stack frame")
  file(REMOVE "${OBJECT}")
  message(FATAL_ERROR "${said}\nexpected kernels without a stack frame, got ${CMAKE_MATCH_0}: "
    "index register arrays by constants (#pragma unroll), or use fewer registers")
endif()
