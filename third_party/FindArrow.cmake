# Arrow as scripts/setup --parquet unpacks it from PyPI's wheel of pyarrow: Arrow::Parquet, with its headers.
set(Arrow_ROOT_DIR "${QRL_DEPS}/arrow/pyarrow")
find_path(Arrow_INCLUDE_DIR parquet/arrow/reader.h PATHS "${Arrow_ROOT_DIR}/include" NO_DEFAULT_PATH)
foreach(part arrow parquet)
  find_file(Arrow_${part}_LIBRARY lib${part}.so.2600 PATHS "${Arrow_ROOT_DIR}" NO_DEFAULT_PATH)
endforeach()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Arrow
  REQUIRED_VARS Arrow_parquet_LIBRARY Arrow_arrow_LIBRARY Arrow_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run scripts/setup --parquet, which unpacks it under ${QRL_DEPS}")
if(Arrow_FOUND AND NOT TARGET Arrow::Parquet)
  add_library(Arrow::Arrow SHARED IMPORTED)
  set_target_properties(Arrow::Arrow PROPERTIES IMPORTED_LOCATION "${Arrow_arrow_LIBRARY}")
  add_library(Arrow::Parquet SHARED IMPORTED)
  set_target_properties(Arrow::Parquet PROPERTIES
    IMPORTED_LOCATION "${Arrow_parquet_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Arrow_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES Arrow::Arrow)
endif()
