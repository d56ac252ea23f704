# paceline_folder(NAME [TORCH] [ONE_THREAD] DEPENDS folder... LIBRARIES target... WITHOUT file...)
#
# One folder of paceline/ with the folders in it: its *.cc (with PACELINE_CUDA its *.cu, too) become the library paceline_NAME, each x_test.cc a
# test program of its own, known to ctest as NAME/x. Sources are found, not listed: to add an algorithm is to add a file.
# TORCH: the folder lies below the libtorch line; everything else must build without it.
# ONE_THREAD: the folder has no threads and no locks, so the thread sanitizer has nothing to find in its tests.
# WITHOUT: files that this build leaves out.
function(paceline_folder name)
  cmake_parse_arguments(folder "TORCH;ONE_THREAD" "" "DEPENDS;LIBRARIES;WITHOUT" ${ARGN})
  if(folder_TORCH AND NOT PACELINE_LEARNING)
    return()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*_test.cc)
  list(REMOVE_ITEM sources ${tests})
  list(TRANSFORM folder_WITHOUT PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${name}/)
  list(REMOVE_ITEM sources ${folder_WITHOUT})
  list(REMOVE_ITEM tests ${folder_WITHOUT})
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  if(PACELINE_CUDA)
    file(GLOB device_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cu)
    list(APPEND sources ${device_sources})
  endif()

  set(library paceline_${name})
  set(dependencies ${folder_LIBRARIES} Threads::Threads)
  foreach(dependency ${folder_DEPENDS})
    list(APPEND dependencies paceline_${dependency})
  endforeach()
  if(folder_TORCH)
    list(APPEND dependencies Libtorch::torch)
  endif()
  if(sources)
    add_library(${library} STATIC ${sources})
    if(NOT name IN_LIST PACELINE_FILE_BY_FILE)
      set_target_properties(${library} PROPERTIES UNITY_BUILD ${PACELINE_UNITY})
    endif()
    target_link_libraries(${library} PUBLIC ${dependencies})
    paceline_compile_options(${library} PUBLIC)
    if(folder_TORCH)
      paceline_precompile_torch(${library})
    endif()
  else()
    add_library(${library} INTERFACE)
    target_link_libraries(${library} INTERFACE ${dependencies})
    target_include_directories(${library} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  endif()
  set_property(GLOBAL APPEND PROPERTY PACELINE_LIBRARIES ${library})

  if(PACELINE_TESTS AND NOT (folder_ONE_THREAD AND PACELINE_SANITIZE STREQUAL "thread"))
    foreach(test ${tests})
      get_filename_component(stem ${test} NAME_WE)
      string(REGEX REPLACE "_test$" "" subject ${stem})
      paceline_test(${name}/${subject} SOURCES ${test} LIBRARIES ${library} $<$<BOOL:${folder_TORCH}>:Libtorch::torch>)
      if(folder_TORCH)
        paceline_precompile_torch(${name}_${stem} TEST)
      else()
        paceline_precompile_gmock(${name}_${stem})
      endif()
    endforeach()
  endif()
endfunction()

# A GoogleTest program named FOLDER/SUBJECT for ctest.
function(paceline_test label)
  cmake_parse_arguments(test "" "" "SOURCES;LIBRARIES" ${ARGN})
  string(REPLACE "/" "_" target ${label})
  set(target ${target}_test)
  add_executable(${target} ${test_SOURCES})
  target_link_libraries(${target} PRIVATE ${test_LIBRARIES} GTest::gmock GTest::gtest_main)
  paceline_compile_options(${target} PRIVATE)
  paceline_test_options(${target})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(${target} PRIVATE PACELINE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${label} COMMAND ${target})
  get_filename_component(folder ${label} DIRECTORY)
  set_tests_properties(${label} PROPERTIES LABELS "${folder}" TIMEOUT 300
                       ENVIRONMENT "GOMP_SPINCOUNT=1000;ASAN_OPTIONS=intercept_send=0")
  # Tests share the cores: see paceline/core/process_tuning.h. The address sanitizer looks at what was sent after it has been sent,
  # when an answer to it may have come and the memory may rightly be gone.
endfunction()

function(paceline_compile_options target scope)
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_compile_features(${target} ${scope} cxx_std_20)
  # Contraction to fused multiply-add would make the bits depend on the processor that was compiled for; without it, a
  # GPU's are those of the CPU.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-missing-field-initializers;-ffp-contract=off>
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-unknown-pragmas>  # "GCC ivdep"
    $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra,-fPIC,-ffp-contract=off>)
  if(PACELINE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${PACELINE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_compile_definitions(${target} PRIVATE PACELINE_SANITIZED)
    target_link_options(${target} ${scope} -fsanitize=${PACELINE_SANITIZE})
  endif()
endfunction()

# What is tested are the libraries, which are optimised as their preset says; tests themselves take half of the build's time,
# and less of it so. What they have of our headers (the linker may take it for the libraries', too) has the same bits at any level.
function(paceline_test_options target)
  if(PACELINE_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# libtorch's headers cost 20 s and more in each file that includes them, gmock 5 to 10 s: compiled once, shared by every
# target with the same flags. Not torch/torch.h: templates that a precompiled header mentions are instantiated in every file
# that uses it, and those of all of torch's modules, optimizers and loaders take 3 s.
# paceline_precompile_torch(TARGET [TEST]): TEST: it has paceline_test_options().
function(paceline_precompile_torch target)
  set(header paceline_torch_header)
  if("TEST" IN_LIST ARGN)
    set(header paceline_torch_test_header)
  endif()
  if(NOT TARGET ${header})
    paceline_precompiled_header(${header}
      "<torch/autograd.h>;<torch/cuda.h>;<torch/nn/module.h>;<torch/types.h>;<torch/utils.h>" Libtorch::torch Threads::Threads)
    if("TEST" IN_LIST ARGN)
      paceline_test_options(${header})
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${header})
endfunction()

function(paceline_precompile_gmock target)
  if(NOT TARGET paceline_gmock_header)
    paceline_precompiled_header(paceline_gmock_header <gmock/gmock.h> GTest::gmock Threads::Threads)
    paceline_test_options(paceline_gmock_header)
  endif()
  target_precompile_headers(${target} REUSE_FROM paceline_gmock_header)
endfunction()

function(paceline_precompiled_header name headers)
  if(TARGET ${name})
    return()
  endif()
  if(NOT EXISTS ${CMAKE_BINARY_DIR}/${name}.cc)  # written again, it would be compiled again
    file(WRITE ${CMAKE_BINARY_DIR}/${name}.cc "")
  endif()
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE ${ARGN})
  paceline_compile_options(${name} PRIVATE)
  target_precompile_headers(${name} PRIVATE ${headers})
endfunction()
