# CUTLASS's headers, as scripts/setup unpacks them from PyPI's flashinfer-python wheel where nvcc is: Cutlass_INCLUDE_DIR.
find_path(Cutlass_INCLUDE_DIR cutlass/cutlass.h PATHS "${QRL_DEPS}/flashinfer/flashinfer/data/cutlass/include" NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Cutlass REQUIRED_VARS Cutlass_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run scripts/setup --tests, which unpacks it under ${QRL_DEPS}")
