#include "paceline/ps/worker_statistics.h"

#include <charconv>
#include <fstream>

#include "paceline/core/file.h"

namespace paceline {

WorkerStatistics::WorkerStatistics(std::filesystem::path folder) : folder_(std::move(folder)) {
  make_directories(folder_);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    int worker = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), worker);
    if (failure != std::errc() || end != name.data() + name.size()) continue;  // one that was being written
    std::vector<float> values(entry.file_size() / sizeof(float));
    std::ifstream file(entry.path(), std::ios::binary);
    if (file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float))))
      values_[worker] = std::move(values);
  }
}

void WorkerStatistics::set(int worker, std::vector<float> values) {
  const std::filesystem::path beside = file_of(worker).string() + ".writing";
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  file.close();
  std::error_code ignored;
  if (file) std::filesystem::rename(beside, file_of(worker), ignored);
  values_[worker] = std::move(values);
}

void WorkerStatistics::erase(int worker) {
  std::error_code ignored;
  std::filesystem::remove(file_of(worker), ignored);
  values_.erase(worker);
}

}  // namespace paceline
