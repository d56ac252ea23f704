#include "paceline/ps/whole_norms.h"

#include <fmt/format.h>

#include <fstream>

#include "paceline/core/check.h"
#include "paceline/ps/protocol.h"

namespace paceline {

WholeNorms::WholeNorms(std::filesystem::path file, int shards) : file_(std::move(file)), shards_(shards) {
  std::ifstream in(file_, std::ios::binary);
  uint64_t size = 0;
  if (!in.read(reinterpret_cast<char*>(&index_), sizeof(index_))) {
    index_ = 0;
    return;
  }
  in.read(reinterpret_cast<char*>(&size), sizeof(size));
  if (in && size <= kMostNorms) {
    sum_.resize(size);
    in.read(reinterpret_cast<char*>(sum_.data()), static_cast<std::streamsize>(size * sizeof(SquaredNorms)));
  }
  if (!in || size > kMostNorms) {
    throw FileError(fmt::format("{} is damaged; remove the server's state folder to begin anew", file_.string()));
  }
}

bool WholeNorms::add(int shard, uint64_t index, std::vector<SquaredNorms> part) {
  if (index == index_) return true;
  CHECK_GT(index, index_);
  if (index > next_) {
    next_ = index;
    parts_.clear();
  } else if (index < next_) {
    return false;
  }
  if (!parts_.empty() && parts_.begin()->second.size() != part.size()) throw PeerError("norms of different models");
  parts_[shard] = std::move(part);
  if (parts_.size() < static_cast<size_t>(shards_)) return false;
  std::vector<SquaredNorms> sum(parts_.begin()->second.size());
  for (const auto& [from, norms] : parts_) {
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i].weights += norms[i].weights;
      sum[i].gradient += norms[i].gradient;
    }
  }
  parts_.clear();
  sum_ = std::move(sum);
  index_ = index;
  write();
  return true;
}

void WholeNorms::write() const {
  const std::filesystem::path beside = file_.string() + ".new";
  std::ofstream out(beside, std::ios::binary | std::ios::trunc);
  const uint64_t size = sum_.size();
  out.write(reinterpret_cast<const char*>(&index_), sizeof(index_));
  out.write(reinterpret_cast<const char*>(&size), sizeof(size));
  out.write(reinterpret_cast<const char*>(sum_.data()), static_cast<std::streamsize>(size * sizeof(SquaredNorms)));
  out.close();
  std::error_code failure;
  if (out) std::filesystem::rename(beside, file_, failure);
  if (!out || failure) {
    throw FileError(fmt::format("cannot write {}; is there room on its device?", file_.string()));
  }
}

}  // namespace paceline
