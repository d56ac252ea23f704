// Gives a target every file of a folder, once: the corpus without a fuzzer, in every build.
//
// usage: replay_TARGET FOLDER
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/fuzz.h"

int main(int count, char** words) {
  paceline::fuzz::require(count == 2, "usage: replay_TARGET FOLDER");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(words[1])) {
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(stream)), {});
    std::printf("%s\n", entry.path().filename().c_str());
    std::fflush(stdout);  // the last one is the guilty one
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    ++files;
  }
  paceline::fuzz::require(files > 0, "the folder has files");
}
