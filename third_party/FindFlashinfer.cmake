# FlashInfer's headers and CUTLASS's, as scripts/setup unpacks them from PyPI's flashinfer-python wheel where nvcc is:
# Flashinfer_INCLUDE_DIR, Flashinfer_CUTLASS_INCLUDE_DIR.
set(Flashinfer_data "${QRL_DEPS}/flashinfer/flashinfer/data")
find_path(Flashinfer_INCLUDE_DIR flashinfer/attention/prefill.cuh PATHS "${Flashinfer_data}/include" NO_DEFAULT_PATH)
find_path(Flashinfer_CUTLASS_INCLUDE_DIR cutlass/cutlass.h PATHS "${Flashinfer_data}/cutlass/include" NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Flashinfer REQUIRED_VARS Flashinfer_INCLUDE_DIR Flashinfer_CUTLASS_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run scripts/setup --tests, which unpacks it under ${QRL_DEPS}")
