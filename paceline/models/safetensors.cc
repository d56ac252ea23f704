#include "paceline/models/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "paceline/core/check.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"

namespace paceline {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

constexpr uint64_t kLargestHeader = 100'000'000;  // as the reference implementation
constexpr size_t kMostDimensions = 64;            // more than torch computes with
constexpr const char* kMetadata = "__metadata__";

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

// One tensor as the header describes it; offsets count from the end of the header.
struct Entry {
  std::string name;
  torch::Dtype dtype;
  std::vector<int64_t> shape;
  uint64_t begin, end;
};

// A file being read, for messages: every one begins with its name.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path), stream_(path, std::ios::binary) {
    std::error_code failure;
    if (!stream_) throw FileError(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
    file_bytes_ = std::filesystem::file_size(path, failure);
    if (failure) throw FileError(fmt::format("cannot read {}: {}", path.string(), failure.message()));
  }

  SafetensorsFile read() {
    SafetensorsFile file;
    const nlohmann::json header = read_header();
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        file.metadata = metadata(value);
      } else {
        entries.push_back(entry(name, value));
      }
    }
    check_cover(entries);
    for (const Entry& entry : entries) file.tensors.emplace(entry.name, read_tensor(entry));
    return file;
  }

 private:
  template <class... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    throw DataError(fmt::format("{}: {}", path_.string(), fmt::format(text, std::forward<Arguments>(arguments)...)));
  }

  void read_bytes(void* into, uint64_t bytes, std::string_view what) {
    stream_.read(static_cast<char*>(into), static_cast<std::streamsize>(bytes));
    if (static_cast<uint64_t>(stream_.gcount()) != bytes) {
      refuse("expected {} bytes of {}, found {}; the file changed or could not be read", bytes, what, stream_.gcount());
    }
  }

  nlohmann::json read_header() {
    uint64_t header_bytes = 0;
    if (file_bytes_ < sizeof header_bytes) {
      refuse("not a safetensors file: expected at least 8 bytes, found {}", file_bytes_);
    }
    read_bytes(&header_bytes, sizeof header_bytes, "the header's length");
    if (header_bytes > kLargestHeader) {
      refuse("not a safetensors file: its header would have {} bytes; at most {} are allowed", header_bytes,
             kLargestHeader);
    }
    if (header_bytes > file_bytes_ - sizeof header_bytes) {
      refuse("cut off: expected a header of {} bytes, found {}", header_bytes, file_bytes_ - sizeof header_bytes);
    }
    data_bytes_ = file_bytes_ - sizeof header_bytes - header_bytes;
    std::string text(header_bytes, '\0');
    read_bytes(text.data(), header_bytes, "the header");
    nlohmann::json header = parse(text);
    if (!header.is_object()) refuse("the header is no JSON object but {}", header.type_name());
    return header;
  }

  nlohmann::json parse(const std::string& text) const {
    // A key that comes twice would silently replace the first.
    std::vector<std::set<std::string>> keys;
    auto on_event = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
      if (event == nlohmann::json::parse_event_t::object_start) keys.emplace_back();
      if (event == nlohmann::json::parse_event_t::object_end) keys.pop_back();
      if (event == nlohmann::json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
        refuse("the header names '{}' twice", parsed.get<std::string>());
      }
      return true;
    };
    try {
      return nlohmann::json::parse(text, on_event);
    } catch (const nlohmann::json::exception& error) {
      refuse("the header is no JSON: {}", error.what());
    }
  }

  std::map<std::string, std::string> metadata(const nlohmann::json& value) const {
    if (!value.is_object()) refuse("{} is no object but {}", kMetadata, value.type_name());
    std::map<std::string, std::string> texts;
    for (const auto& [name, text] : value.items()) {
      if (!text.is_string()) refuse("{}: '{}' is no text but {}", kMetadata, name, text.type_name());
      texts.emplace(name, text.get<std::string>());
    }
    return texts;
  }

  const nlohmann::json& field(const std::string& tensor, const nlohmann::json& value, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end()) refuse("tensor '{}' has no {}", tensor, key);
    return *found;
  }

  // A list of whole numbers that fit int64_t.
  std::vector<int64_t> numbers(const std::string& tensor, const nlohmann::json& value, const char* key) const {
    const nlohmann::json& list = field(tensor, value, key);
    if (!list.is_array()) refuse("tensor '{}': {} is no list but {}", tensor, key, list.type_name());
    std::vector<int64_t> result;
    for (const nlohmann::json& number : list) {
      if (!number.is_number_unsigned() || number.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
        refuse("tensor '{}': {} holds {}; expected whole numbers from 0 to 2^63-1", tensor, key, number.type_name());
      }
      result.push_back(number.get<int64_t>());
    }
    return result;
  }

  Entry entry(const std::string& name, const nlohmann::json& value) const {
    if (!value.is_object()) refuse("tensor '{}' is described by no object but {}", name, value.type_name());
    const nlohmann::json& dtype = field(name, value, "dtype");
    const ElementType* type = dtype.is_string() ? find_type(dtype.get<std::string>()) : nullptr;
    if (!type) {
      std::vector<std::string> known;
      for (const ElementType& each : kElementTypes) known.push_back(each.name);
      refuse("tensor '{}' has elements of type {}; known are {}", name,
             dtype.is_string() ? dtype.get<std::string>() : dtype.type_name(), fmt::join(known, ", "));
    }
    const std::vector<int64_t> shape = numbers(name, value, "shape");
    const std::vector<int64_t> offsets = numbers(name, value, "data_offsets");
    if (shape.size() > kMostDimensions)
      refuse("tensor '{}' has {} dimensions; at most {} are known", name, shape.size(), kMostDimensions);
    if (offsets.size() != 2) refuse("tensor '{}': expected 2 data_offsets, found {}", name, offsets.size());

    int64_t extent =
        static_cast<int64_t>(torch::elementSize(type->dtype));  // torch multiplies sizes as if 0 were 1, too
    for (const int64_t size : shape) {
      if (__builtin_mul_overflow(extent, std::max<int64_t>(size, 1), &extent)) {
        refuse("tensor '{}': shape [{}] is larger than any memory", name, fmt::join(shape, ","));
      }
    }
    const int64_t bytes = std::ranges::count(shape, 0) > 0 ? 0 : extent;
    if (offsets[1] < offsets[0] || offsets[1] - offsets[0] != bytes) {
      refuse("tensor '{}': {} of shape [{}] take {} bytes, but its data_offsets are [{},{}]", name, type->name,
             fmt::join(shape, ","), bytes, offsets[0], offsets[1]);
    }
    return {name, type->dtype, shape, static_cast<uint64_t>(offsets[0]), static_cast<uint64_t>(offsets[1])};
  }

  // The tensors lie one after the other and fill the file: nothing is shared, hidden, or missing.
  void check_cover(std::vector<Entry>& entries) const {
    std::ranges::sort(entries, {}, [](const Entry& entry) { return std::tuple(entry.begin, entry.end, entry.name); });
    uint64_t covered = 0;
    for (const Entry& entry : entries) {
      if (entry.begin != covered) {
        refuse("tensor '{}' begins at byte {}, {} the end of the one before at {}", entry.name, entry.begin,
               entry.begin < covered ? "before" : "beyond", covered);
      }
      covered = entry.end;
      if (covered > data_bytes_) {
        refuse("cut off: tensor '{}' ends at byte {}, but only {} bytes follow the header", entry.name, covered,
               data_bytes_);
      }
    }
    if (covered != data_bytes_) refuse("too long: expected {} bytes of tensors, found {}", covered, data_bytes_);
  }

  torch::Tensor read_tensor(const Entry& entry) {
    torch::Tensor tensor = torch::empty(entry.shape, entry.dtype);
    read_bytes(tensor.data_ptr(), entry.end - entry.begin, fmt::format("tensor '{}'", entry.name));
    if (entry.dtype == torch::kBool) {
      const auto* bytes = static_cast<const uint8_t*>(tensor.data_ptr());
      const auto* other = std::find_if(bytes, bytes + tensor.numel(), [](uint8_t byte) { return byte > 1; });
      if (other != bytes + tensor.numel())
        refuse("tensor '{}': expected BOOL bytes of 0 or 1, found {}", entry.name, *other);
    }
    return tensor;
  }

  std::filesystem::path path_;
  std::ifstream stream_;
  uint64_t file_bytes_ = 0;
  uint64_t data_bytes_ = 0;
};

}  // namespace

std::string dtype_name(torch::Dtype dtype) {
  const ElementType* type = find_type(dtype);
  return type ? type->name : fmt::format("torch's {}", c10::toString(dtype));
}

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<std::pair<std::string, torch::Tensor>> ordered(tensors.begin(), tensors.end());
  std::ranges::stable_sort(ordered, std::greater{}, [](const auto& item) { return item.second.element_size(); });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : ordered) {
    CHECK_NE(name, std::string(kMetadata));
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
  CHECK_LE(header_bytes, kLargestHeader);

  DurableFile file(path);
  file.write(&header_bytes, sizeof header_bytes);
  file.write(text);
  for (const auto& [name, tensor] : ordered) {
    const torch::Tensor elements = tensor.cpu().contiguous();
    file.write(elements.data_ptr(), elements.nbytes());
  }
  file.finish();
}

SafetensorsFile read_safetensors(const std::filesystem::path& path) { return Reader(path).read(); }

}  // namespace paceline
