# uPlot's two files, as scripts/setup unpacks them from PyPI's wheel: UPlot_SCRIPT, UPlot_STYLE. Other bytes are refused.
find_file(UPlot_SCRIPT uPlot.iife.js PATHS "${QRL_DEPS}/uplot/uplot/static" NO_DEFAULT_PATH)
find_file(UPlot_STYLE uPlot.min.css PATHS "${QRL_DEPS}/uplot/uplot/static" NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(UPlot REQUIRED_VARS UPlot_SCRIPT UPlot_STYLE
  REASON_FAILURE_MESSAGE "run scripts/setup, which unpacks it under ${QRL_DEPS}")
set(UPlot_SCRIPT_SHA256 655bc8aa33781e8721c5af6b59f1699c03c9bda951aa74a6ab518ac20cc4326d)
set(UPlot_STYLE_SHA256 3f121cd4a997b634e07a887658850018e475c26f0bddd874109a8d382c19de87)
foreach(part SCRIPT STYLE)
  file(SHA256 "${UPlot_${part}}" found)
  if(NOT found STREQUAL UPlot_${part}_SHA256)
    message(FATAL_ERROR "${UPlot_${part}}: expected SHA-256 ${UPlot_${part}_SHA256}, got ${found}; remove ${QRL_DEPS}/uplot and run scripts/setup")
  endif()
endforeach()
