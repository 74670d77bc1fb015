# The CUDA toolkit's compiler, headers and static runtime: CudaTools_NVCC, CudaTools_ROOT, CudaTools_VERSION,
# CudaTools::runtime. CMake's own CUDA language is not used: it would compile trial programs at each fresh configure and
# make nvcc the linker of everything that the kernels are linked into.
find_program(CudaTools_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin" /usr/local/cuda/bin)
if(CudaTools_NVCC)
  get_filename_component(nvcc_file "${CudaTools_NVCC}" REALPATH)
  get_filename_component(nvcc_folder "${nvcc_file}" DIRECTORY)
  get_filename_component(CudaTools_ROOT "${nvcc_folder}" DIRECTORY)
  execute_process(COMMAND "${CudaTools_NVCC}" --version OUTPUT_VARIABLE nvcc_says ERROR_QUIET)
  string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" nvcc_release "${nvcc_says}")
  set(CudaTools_VERSION "${CMAKE_MATCH_1}")
endif()
find_path(CudaTools_INCLUDE_DIR cublasLt.h HINTS "${CudaTools_ROOT}/include" "${CudaTools_ROOT}/targets/x86_64-linux/include")
find_library(CudaTools_RUNTIME libcudart_static.a HINTS "${CudaTools_ROOT}/lib64" "${CudaTools_ROOT}/targets/x86_64-linux/lib")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudaTools
  REQUIRED_VARS CudaTools_NVCC CudaTools_INCLUDE_DIR CudaTools_RUNTIME VERSION_VAR CudaTools_VERSION
  REASON_FAILURE_MESSAGE "nvcc, cublasLt.h and libcudart_static.a of CUDA 13.0 or newer are needed")
if(CudaTools_FOUND AND NOT TARGET CudaTools::runtime)
  add_library(CudaTools::runtime STATIC IMPORTED)
  set_target_properties(CudaTools::runtime PROPERTIES
    IMPORTED_LOCATION "${CudaTools_RUNTIME}" INTERFACE_LINK_LIBRARIES "dl;rt;pthread")
endif()
