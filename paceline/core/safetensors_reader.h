// SafetensorsReader: which tensors a safetensors file holds, and their bytes, without libtorch.
// https://huggingface.co/docs/safetensors; models/safetensors.h makes torch's tensors of it.
//
// Believes nothing: a file that is cut off, too long, or whose header lies about it in any way is a DataError that
// names file, tensor, what was expected and what was found. Nothing is allocated before its size was checked against
// the file's.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace paceline {

struct SafetensorsType {
  const char* name;
  int64_t bytes;  // of one element
};
inline constexpr std::array<SafetensorsType, 8> kSafetensorsTypes = {
    {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4}, {"U8", 1}, {"BOOL", 1}}};

inline constexpr uint64_t kMostSafetensorsHeaderBytes = 100'000'000;  // as the reference implementation
inline constexpr const char* kSafetensorsMetadata = "__metadata__";   // what no tensor may be called

// One tensor as the header describes it; offsets count from the end of the header.
struct SafetensorsEntry {
  std::string name;
  std::string type;  // one of kSafetensorsTypes
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& path);  // throws FileError, DataError

  // In the order of their bytes: each begins where the one before ends, and the last ends with the file.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // The tensor's bytes. Throws DataError for a file that has changed, and for a BOOL that is neither 0 nor 1.
  // REQUIRES: room for entry.end - entry.begin bytes; the entries are read in their order, each once.
  void read(const SafetensorsEntry& entry, void* into);

 private:
  std::filesystem::path path_;
  std::ifstream stream_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace paceline
