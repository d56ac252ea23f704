# Finds libtorch and makes the target Libtorch::torch.
#
# TorchConfig.cmake, which the wheel ships, insists on the CUDA toolkit; this needs the headers and libtorch_cpu only.
# Looked for in: the CMake or environment variable PACELINE_TORCH, then .venv as ./setup makes it.
if(NOT PACELINE_TORCH AND DEFINED ENV{PACELINE_TORCH})
  set(PACELINE_TORCH $ENV{PACELINE_TORCH} CACHE PATH "The folder that holds libtorch's include/ and lib/")
endif()
file(GLOB Libtorch_venv ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
find_path(Libtorch_ROOT include/torch/csrc/api/include/torch/torch.h
          HINTS ${PACELINE_TORCH} ${Libtorch_venv} NO_DEFAULT_PATH
          DOC "The folder that holds libtorch's include/ and lib/")

set(Libtorch_version_header ${Libtorch_ROOT}/include/torch/headeronly/version.h)
if(Libtorch_ROOT AND EXISTS ${Libtorch_version_header})
  file(STRINGS ${Libtorch_version_header} Libtorch_version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX MATCHALL "[0-9]+" Libtorch_VERSION "${Libtorch_version_lines}")
  string(REPLACE ";" "." Libtorch_VERSION "${Libtorch_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libtorch REQUIRED_VARS Libtorch_ROOT VERSION_VAR Libtorch_VERSION
  REASON_FAILURE_MESSAGE "run ./setup, or set PACELINE_TORCH to the folder that holds libtorch's include/ and lib/")

if(Libtorch_FOUND AND NOT TARGET Libtorch::torch)
  set(Libtorch_libraries ${Libtorch_ROOT}/lib/libtorch_cpu.so ${Libtorch_ROOT}/lib/libc10.so)
  if(PACELINE_CUDA)
    # torch_cuda registers its operators when it is loaded and is named by no symbol: as-needed would drop it.
    set(Libtorch_libraries -Wl,--no-as-needed ${Libtorch_ROOT}/lib/libtorch_cuda.so ${Libtorch_ROOT}/lib/libc10_cuda.so
        -Wl,--as-needed -Wl,--allow-shlib-undefined ${Libtorch_libraries})
  endif()
  add_library(Libtorch::torch INTERFACE IMPORTED)
  # After all other include folders: the wheel ships its own fmt, pybind11 and google/ headers, which would shadow the system's.
  target_compile_options(Libtorch::torch INTERFACE
    -idirafter${Libtorch_ROOT}/include -idirafter${Libtorch_ROOT}/include/torch/csrc/api/include)
  # at::parallel_for is a template and runs on one thread in code that was compiled without OpenMP. The runtime is libtorch's own: two
  # of them in one process would start twice the threads.
  file(GLOB Libtorch_openmp ${Libtorch_ROOT}/lib/libgomp*.so*)
  if(Libtorch_openmp)
    target_compile_options(Libtorch::torch INTERFACE -fopenmp)
    list(APPEND Libtorch_libraries ${Libtorch_openmp})
  endif()
  target_link_libraries(Libtorch::torch INTERFACE ${Libtorch_libraries})
  target_link_options(Libtorch::torch INTERFACE -Wl,-rpath,${Libtorch_ROOT}/lib)
  if(PACELINE_CUDA)
    target_compile_definitions(Libtorch::torch INTERFACE PACELINE_CUDA)
  endif()
endif()
mark_as_advanced(Libtorch_ROOT)
