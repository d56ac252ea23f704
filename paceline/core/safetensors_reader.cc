#include "paceline/core/safetensors_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>

#include "paceline/core/error.h"

namespace paceline {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are read as they lie in memory");

constexpr size_t kMostDimensions = 64;  // more than torch computes with

const SafetensorsType* find_safetensors_type(std::string_view name) {
  const auto found = std::ranges::find_if(kSafetensorsTypes, [&](const auto& type) { return type.name == name; });
  return found == kSafetensorsTypes.end() ? nullptr : &*found;
}

// The header of a file being read. Every message begins with the file's name.
class HeaderReader {
 public:
  HeaderReader(const std::filesystem::path& path, std::ifstream& stream) : path_(path), stream_(stream) {
    std::error_code failure;
    if (!stream_) throw FileError(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
    file_bytes_ = std::filesystem::file_size(path, failure);
    if (failure) throw FileError(fmt::format("cannot read {}: {}", path.string(), failure.message()));
  }

  void read(std::vector<SafetensorsEntry>& entries, std::map<std::string, std::string>& texts) {
    const nlohmann::json header = read_header();
    for (const auto& [name, value] : header.items()) {
      if (name == kSafetensorsMetadata) {
        texts = metadata(value);
      } else {
        entries.push_back(entry(name, value));
      }
    }
    check_cover(entries);
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

  // torch.save() writes a zip, in early versions a pickle; both may hold code.
  void refuse_files_of_pytorch(uint64_t first_bytes) const {
    const bool zip = (first_bytes & 0xffffffff) == 0x04034b50;  // "PK", 3, 4
    const bool pickle = (first_bytes & 0xffff) == 0x0280;
    if (!zip && !pickle) return;
    refuse(
        "this is a PyTorch {}, not a safetensors file; one line of Python makes one of a state_dict: "
        "safetensors.torch.save_file(torch.load('{}', map_location='cpu', weights_only=True), 'weights.safetensors')",
        zip ? "zip" : "pickle", path_.filename().string());
  }

  nlohmann::json read_header() {
    uint64_t header_bytes = 0;
    if (file_bytes_ < sizeof header_bytes) {
      refuse("not a safetensors file: expected at least 8 bytes, found {}", file_bytes_);
    }
    read_bytes(&header_bytes, sizeof header_bytes, "the header's length");
    if (header_bytes > kMostSafetensorsHeaderBytes) {
      refuse_files_of_pytorch(header_bytes);
      refuse("not a safetensors file: its header would have {} bytes; at most {} are allowed", header_bytes,
             kMostSafetensorsHeaderBytes);
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
    if (!value.is_object()) refuse("{} is no object but {}", kSafetensorsMetadata, value.type_name());
    std::map<std::string, std::string> texts;
    for (const auto& [name, text] : value.items()) {
      if (!text.is_string()) refuse("{}: '{}' is no text but {}", kSafetensorsMetadata, name, text.type_name());
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

  SafetensorsEntry entry(const std::string& name, const nlohmann::json& value) const {
    if (!value.is_object()) refuse("tensor '{}' is described by no object but {}", name, value.type_name());
    const nlohmann::json& dtype = field(name, value, "dtype");
    const SafetensorsType* type = dtype.is_string() ? find_safetensors_type(dtype.get<std::string>()) : nullptr;
    if (!type) {
      std::vector<std::string> known;
      for (const SafetensorsType& each : kSafetensorsTypes) known.push_back(each.name);
      refuse("tensor '{}' has elements of type {}; known are {}", name,
             dtype.is_string() ? dtype.get<std::string>() : dtype.type_name(), fmt::join(known, ", "));
    }
    const std::vector<int64_t> shape = numbers(name, value, "shape");
    const std::vector<int64_t> offsets = numbers(name, value, "data_offsets");
    if (shape.size() > kMostDimensions)
      refuse("tensor '{}' has {} dimensions; at most {} are known", name, shape.size(), kMostDimensions);
    if (offsets.size() != 2) refuse("tensor '{}': expected 2 data_offsets, found {}", name, offsets.size());

    int64_t extent = type->bytes;  // torch multiplies sizes as if 0 were 1, too
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
    return {name, type->name, shape, static_cast<uint64_t>(offsets[0]), static_cast<uint64_t>(offsets[1])};
  }

  // The tensors lie one after the other and fill the file: nothing is shared, hidden, or missing.
  void check_cover(std::vector<SafetensorsEntry>& entries) const {
    std::ranges::sort(entries, {},
                      [](const SafetensorsEntry& entry) { return std::tuple(entry.begin, entry.end, entry.name); });
    uint64_t covered = 0;
    for (const SafetensorsEntry& entry : entries) {
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

  const std::filesystem::path& path_;
  std::ifstream& stream_;
  uint64_t file_bytes_ = 0;
  uint64_t data_bytes_ = 0;
};

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : path_(path), stream_(path, std::ios::binary) {
  HeaderReader(path_, stream_).read(entries_, metadata_);
}

void SafetensorsReader::read(const SafetensorsEntry& entry, void* into) {
  const uint64_t count = entry.end - entry.begin;
  stream_.read(static_cast<char*>(into), static_cast<std::streamsize>(count));
  if (static_cast<uint64_t>(stream_.gcount()) != count) {
    throw DataError(fmt::format("{}: expected {} bytes of tensor '{}', found {}; the file changed or could not be read",
                                path_.string(), count, entry.name, stream_.gcount()));
  }
  if (entry.type != "BOOL") return;
  const auto* bytes = static_cast<const uint8_t*>(into);
  const auto* other = std::find_if(bytes, bytes + count, [](uint8_t byte) { return byte > 1; });
  if (other != bytes + count) {
    throw DataError(
        fmt::format("{}: tensor '{}': expected BOOL bytes of 0 or 1, found {}", path_.string(), entry.name, *other));
  }
}

}  // namespace paceline
