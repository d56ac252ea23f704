// What tests/safetensors_test.py drives:
//   safetensors_tool rewrite FROM TO   reads a file and writes its tensors and metadata again
#include <cstdio>
#include <string>

#include "paceline/core/error.h"
#include "paceline/models/safetensors.h"

int main(int argc, char** argv) {
  if (argc != 4 || std::string(argv[1]) != "rewrite") {
    std::fprintf(stderr, "usage: safetensors_tool rewrite FROM TO\n");
    return 2;
  }
  try {
    const paceline::SafetensorsFile file = paceline::read_safetensors(argv[2]);
    paceline::write_safetensors(argv[3], file.tensors, file.metadata);
    return 0;
  } catch (const paceline::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
