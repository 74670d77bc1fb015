# LibTorch as scripts/setup unpacks it from PyPI's wheel: LibTorch::LibTorch, CPU part only. The wheel's own TorchConfig
# demands a CUDA toolkit, while a CPU program needs just libtorch_cpu.so and libc10.so; libtorch_cpu.so finds its own
# needs (libgomp, cudart, cupti) through its rpath.
set(LibTorch_ROOT_DIR "${QRL_DEPS}/libtorch")
find_path(LibTorch_INCLUDE_DIR torch/csrc/api/include/torch/torch.h PATHS "${LibTorch_ROOT_DIR}/torch/include" NO_DEFAULT_PATH)
foreach(part torch_cpu c10)
  find_library(LibTorch_${part}_LIBRARY ${part} PATHS "${LibTorch_ROOT_DIR}/torch/lib" NO_DEFAULT_PATH)
endforeach()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY LibTorch_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run scripts/setup, which unpacks it under ${QRL_DEPS}")
if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::c10 SHARED IMPORTED)
  set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION "${LibTorch_c10_LIBRARY}")
  add_library(LibTorch::LibTorch SHARED IMPORTED)
  set_target_properties(LibTorch::LibTorch PROPERTIES
    IMPORTED_LOCATION "${LibTorch_torch_cpu_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIR};${LibTorch_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES LibTorch::c10
    INTERFACE_LINK_OPTIONS "-Wl,-rpath-link,${LibTorch_ROOT_DIR}/nvidia/cu13/lib")
endif()
