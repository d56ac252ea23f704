// Weights as safetensors files: 8 bytes that give the length of a JSON header, the header, the tensors' bytes.
// https://huggingface.co/docs/safetensors; numbers are little-endian.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace paceline {

class Sha256;

using NamedTensors = std::map<std::string, torch::Tensor>;

struct SafetensorsFile {
  NamedTensors tensors;  // on the CPU
  std::map<std::string, std::string> metadata;
};

// Element types: F64, F32, F16, BF16, I64, I32, U8, BOOL. The same tensors and metadata give the same bytes: wider
// elements come first (so each tensor is aligned), then the order is that of the names. Flushed to the disk, but not
// renamed: where a crash must leave the old file, write beside it and rename. Throws FileError; REQUIRES: names and
// metadata are UTF-8, no tensor is called __metadata__. `hash`, if any, gets every byte of the file.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {}, Sha256* hash = nullptr);

// Believes nothing: a file that is cut off, too long, or whose header lies about it in any way is a DataError that
// names file, tensor, what was expected and what was found. Nothing is allocated before its size was checked against
// the file's.
SafetensorsFile read_safetensors(const std::filesystem::path& path);

// "F32": an element type as the format calls it; "torch's ComplexFloat" for those it does not know.
std::string dtype_name(torch::Dtype dtype);

}  // namespace paceline
