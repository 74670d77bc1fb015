# FlashInfer's headers, as scripts/setup --peers unpacks them from the wheel that CUTLASS's are in: Flashinfer_INCLUDE_DIR.
find_path(Flashinfer_INCLUDE_DIR flashinfer/attention/prefill.cuh PATHS "${QRL_DEPS}/flashinfer/flashinfer/data/include" NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Flashinfer REQUIRED_VARS Flashinfer_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run scripts/setup --peers, which unpacks them under ${QRL_DEPS}")
