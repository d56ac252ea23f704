#include "paceline/ps/worker_statistics.h"

#include <fstream>

#include "paceline/ps/numbered_files.h"

namespace paceline {

WorkerStatistics::WorkerStatistics(std::filesystem::path folder) : folder_(std::move(folder)) {
  for (const auto& [worker, path] : numbered_files(folder_)) {
    std::vector<float> values(std::filesystem::file_size(path) / sizeof(float));
    std::ifstream file(path, std::ios::binary);
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
