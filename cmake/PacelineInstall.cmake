# make install, and what find_package(Paceline) finds afterwards.
include(CMakePackageConfigHelpers)
if(NOT PACELINE_LEARNING)
  return()
endif()

# Targets for users: Paceline::paceline, and Paceline::command_line for a main() that is the program's own.
get_property(libraries GLOBAL PROPERTY PACELINE_LIBRARIES)
list(REMOVE_ITEM libraries paceline_cli)
set_target_properties(paceline_cli PROPERTIES EXPORT_NAME command_line)
add_library(Paceline::command_line ALIAS paceline_cli)
add_library(paceline_everything INTERFACE)
target_link_libraries(paceline_everything INTERFACE ${libraries})
set_target_properties(paceline_everything PROPERTIES EXPORT_NAME paceline)
add_library(Paceline::paceline ALIAS paceline_everything)

install(TARGETS paceline_everything paceline_cli ${libraries} EXPORT PacelineTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS paceline RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/paceline DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "cli" EXCLUDE PATTERN "test_*" EXCLUDE)

set(destination ${CMAKE_INSTALL_LIBDIR}/cmake/Paceline)
install(EXPORT PacelineTargets NAMESPACE Paceline:: DESTINATION ${destination})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/PacelineConfig.cmake.in ${CMAKE_BINARY_DIR}/PacelineConfig.cmake
                              INSTALL_DESTINATION ${destination})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/PacelineConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/PacelineConfig.cmake ${CMAKE_BINARY_DIR}/PacelineConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindLibtorch.cmake DESTINATION ${destination})
# The installed program finds libtorch where the build found it.
set_target_properties(paceline PROPERTIES INSTALL_RPATH "${Libtorch_ROOT}/lib;${CUDAToolkit_LIBRARY_DIR};${Nccl_LIBRARY_DIR}")
