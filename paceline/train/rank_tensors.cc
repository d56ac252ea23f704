#include "paceline/train/rank_tensors.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <nlohmann/json.hpp>

#include "paceline/collectives/group_text.h"

namespace paceline {
namespace {

TensorView bytes_of(const torch::Tensor& tensor) {
  CHECK_TRUE(tensor.is_cpu() && tensor.is_non_overlapping_and_dense(), "a tensor that is no run of bytes");
  return {tensor.data_ptr(), static_cast<size_t>(tensor.nbytes()), DType::u8};
}

// Some place of the same kind, on the CPU.
torch::Tensor room_for(const torch::Tensor& tensor) { return torch::empty_like(tensor, torch::kCPU); }

}  // namespace

std::vector<NamedTensors> gather_on_first(Group& group, const NamedTensors& mine) {
  std::vector<NamedTensors> all;
  if (group.rank() == 0) all.assign(static_cast<size_t>(group.size()), {});
  for (const auto& [name, tensor] : mine) {
    const torch::Tensor own = tensor.cpu();
    if (group.rank() != 0) {
      group.send(bytes_of(own), 0).wait();
      continue;
    }
    all[0][name] = own.clone();
    for (int rank = 1; rank < group.size(); ++rank) {
      torch::Tensor theirs = room_for(own);
      group.receive(bytes_of(theirs), rank).wait();
      all[static_cast<size_t>(rank)][name] = theirs;
    }
  }
  return all;
}

void scatter_from_first(Group& group, const std::vector<NamedTensors>& all, NamedTensors& mine) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : mine) {
    if (group.rank() == 0) {
      for (int rank = 1; rank < group.size(); ++rank)
        group.send(bytes_of(all[static_cast<size_t>(rank)].at(name)), rank).wait();
      tensor.copy_(all[0].at(name));
    } else {
      const torch::Tensor arrived = room_for(tensor);
      group.receive(bytes_of(arrived), 0).wait();
      tensor.copy_(arrived);
    }
  }
}

void broadcast_from_first(Group& group, NamedTensors& shared) {
  if (group.size() == 1) return;
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : shared) {
    const bool in_place = tensor.is_cpu() && tensor.is_non_overlapping_and_dense();
    const torch::Tensor carrier = in_place ? tensor : tensor.cpu().contiguous();
    group.broadcast(bytes_of(carrier), 0);
    if (!in_place) tensor.copy_(carrier);
  }
}

NamedTensors tensors_of_first(Group& group, const NamedTensors& mine) {
  nlohmann::json kinds = nlohmann::json::object();
  for (const auto& [name, tensor] : mine)
    kinds[name] = {{"type", static_cast<int>(tensor.scalar_type())}, {"sizes", tensor.sizes().vec()}};
  kinds = nlohmann::json::parse(broadcast_text(group, kinds.dump(), 0));
  NamedTensors all;
  for (const auto& [name, kind] : kinds.items()) {
    const auto type = static_cast<torch::ScalarType>(kind.at("type").get<int>());
    all[name] = group.rank() == 0 ? mine.at(name).detach().cpu().contiguous()
                                  : torch::empty(kind.at("sizes").get<std::vector<int64_t>>(), type);
  }
  broadcast_from_first(group, all);
  return all;
}

std::vector<NamedTensors> spread_evenly(const std::vector<NamedTensors>& owed, int ranks) {
  NamedTensors each;
  for (const auto& [name, tensor] : owed.at(0)) {
    torch::Tensor sum = tensor.to(torch::kFloat64);
    for (size_t rank = 1; rank < owed.size(); ++rank) sum += owed[rank].at(name);
    each[name] = (sum / ranks).to(tensor.scalar_type());
  }
  return std::vector<NamedTensors>(static_cast<size_t>(ranks), each);
}

}  // namespace paceline
