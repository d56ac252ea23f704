// WorkerStatistics: what every worker last told of its batch statistics, kept in files beside the other state of a
// server, so that a killed coordinator has them when it is back: whoever evaluates a run whose workers have left would
// have none.
//
// They survive the process, not the machine: files are not flushed. One that cannot be written is left out.
#pragma once

#include <filesystem>
#include <map>
#include <vector>

namespace paceline {

class WorkerStatistics {
 public:
  explicit WorkerStatistics(std::filesystem::path folder);  // with what is there

  void set(int worker, std::vector<float> values);
  void erase(int worker);
  const std::map<int, std::vector<float>>& all() const { return values_; }

 private:
  std::filesystem::path file_of(int worker) const { return folder_ / std::to_string(worker); }

  std::filesystem::path folder_;
  std::map<int, std::vector<float>> values_;
};

}  // namespace paceline
