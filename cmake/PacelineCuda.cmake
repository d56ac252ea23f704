# The CUDA language, for kernels (*.cu). Only the compiler is needed here: what was built runs, without its GPU part, on a
# machine that has no GPU.
#
# CMAKE_CUDA_ARCHITECTURES: 90 (Hopper) unless told, e.g. -DCMAKE_CUDA_ARCHITECTURES="80;90".
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "Which GPUs kernels are compiled for")
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(PACELINE_NVCC nvcc HINTS /usr/local/cuda/bin)  # the toolkit leaves PATH alone
  if(NOT PACELINE_NVCC)
    message(FATAL_ERROR "PACELINE_CUDA needs nvcc, which was found neither in PATH nor in /usr/local/cuda/bin; run ./setup --cuda, "
                        "or set CUDACXX")
  endif()
  set(CMAKE_CUDA_COMPILER ${PACELINE_NVCC})
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # libtorch's: one runtime in a process, as it has one current device
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it of nvcc 13
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
find_package(CUDAToolkit REQUIRED)
list(APPEND CMAKE_BUILD_RPATH ${CUDAToolkit_LIBRARY_DIR})
