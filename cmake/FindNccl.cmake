# Finds NCCL: Nccl_INCLUDE_DIR, Nccl_LIBRARY, Nccl_LIBRARY_DIR.
#
# The one that libtorch brings with it is taken where there is one: libtorch loads it anyway, and two in one process would be one
# too many.
file(GLOB Nccl_wheel ${Libtorch_ROOT}/../nvidia/nccl)
find_path(Nccl_INCLUDE_DIR nccl.h HINTS ${Nccl_wheel}/include ${CUDAToolkit_INCLUDE_DIRS} NO_CMAKE_SYSTEM_PATH
          DOC "The folder that holds nccl.h")
find_library(Nccl_LIBRARY NAMES libnccl.so.2 nccl HINTS ${Nccl_wheel}/lib ${CUDAToolkit_LIBRARY_DIR} NO_CMAKE_SYSTEM_PATH
             DOC "NCCL's library")
get_filename_component(Nccl_LIBRARY_DIR "${Nccl_LIBRARY}" DIRECTORY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Nccl REQUIRED_VARS Nccl_LIBRARY Nccl_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run ./setup --cuda, or set Nccl_INCLUDE_DIR and Nccl_LIBRARY")
mark_as_advanced(Nccl_INCLUDE_DIR Nccl_LIBRARY)
