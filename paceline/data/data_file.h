// The files of a data set: whole, in memory. Whatever is wrong with one is a DataError that names it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace paceline {

// The file's bytes. Throws DataError when it is missing, not a regular file, not readable, or larger than `max_bytes`:
// nothing is allocated then.
std::vector<uint8_t> read_data_file(const std::filesystem::path& path, uint64_t max_bytes);

// Throws the DataError "PATH, byte OFFSET: expected ..., found ..." with the advice to fetch the file again.
[[noreturn]] void bad_data_file(const std::filesystem::path& path, uint64_t offset, const std::string& expected,
                                const std::string& found);

}  // namespace paceline
