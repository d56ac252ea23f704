// The version of Paceline. CMakeLists.txt reads it from here.
#pragma once

namespace paceline {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace paceline
