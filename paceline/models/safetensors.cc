#include "paceline/models/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <vector>

#include "paceline/core/check.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/safetensors_reader.h"

namespace paceline {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

struct ElementType {
  const char* name;
  torch::Dtype dtype;
};
constexpr std::array<ElementType, 8> kElementTypes = {{{"F64", torch::kFloat64},
                                                       {"F32", torch::kFloat32},
                                                       {"F16", torch::kFloat16},
                                                       {"BF16", torch::kBFloat16},
                                                       {"I64", torch::kInt64},
                                                       {"I32", torch::kInt32},
                                                       {"U8", torch::kUInt8},
                                                       {"BOOL", torch::kBool}}};

const ElementType* find_type(std::string_view name) {
  const auto found = std::ranges::find_if(kElementTypes, [&](const ElementType& type) { return type.name == name; });
  return found == kElementTypes.end() ? nullptr : &*found;
}

const ElementType* find_type(torch::Dtype dtype) {
  const auto found = std::ranges::find(kElementTypes, dtype, &ElementType::dtype);
  return found == kElementTypes.end() ? nullptr : &*found;
}

torch::Tensor read_tensor(SafetensorsReader& reader, const SafetensorsEntry& entry) {
  const ElementType* type = find_type(entry.type);
  CHECK_TRUE(type, "tensor '{}' has elements of type {}", entry.name, entry.type);
  torch::Tensor tensor = torch::empty(entry.shape, type->dtype);
  CHECK_EQ(tensor.nbytes(), entry.end - entry.begin);
  reader.read(entry, tensor.data_ptr());
  return tensor;
}

}  // namespace

std::string dtype_name(torch::Dtype dtype) {
  const ElementType* type = find_type(dtype);
  return type ? type->name : fmt::format("torch's {}", c10::toString(dtype));
}

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata, Sha256* hash) {
  std::vector<std::pair<std::string, torch::Tensor>> ordered(tensors.begin(), tensors.end());
  std::ranges::stable_sort(ordered, std::greater{}, [](const auto& item) { return item.second.element_size(); });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kSafetensorsMetadata] = metadata;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : ordered) {
    CHECK_NE(name, std::string(kSafetensorsMetadata));
    CHECK_TRUE(find_type(tensor.scalar_type()), "tensor '{}' has {} elements, which safetensors files do not hold here",
               name, dtype_name(tensor.scalar_type()));
    header[name] = {{"dtype", dtype_name(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, offset + tensor.nbytes()}}};
    offset += tensor.nbytes();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    CHECK_TRUE(false, "names and metadata of {} must be UTF-8: {}", path.string(), error.what());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the tensors are aligned
  const uint64_t header_bytes = text.size();
  CHECK_LE(header_bytes, kMostSafetensorsHeaderBytes);

  DurableFile file(path, hash);
  file.write(&header_bytes, sizeof header_bytes);
  file.write(text);
  for (const auto& [name, tensor] : ordered) {
    const torch::Tensor elements = tensor.cpu().contiguous();
    file.write(elements.data_ptr(), elements.nbytes());
  }
  file.finish();
}

SafetensorsFile read_safetensors(const std::filesystem::path& path) {
  SafetensorsReader reader(path);
  SafetensorsFile file{.metadata = reader.metadata()};
  for (const SafetensorsEntry& entry : reader.entries()) file.tensors.emplace(entry.name, read_tensor(reader, entry));
  return file;
}

}  // namespace paceline
