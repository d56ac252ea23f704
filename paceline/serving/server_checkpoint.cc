#include "paceline/serving/server_checkpoint.h"

#include <fmt/format.h>

#include <cstring>

#include "paceline/core/error.h"
#include "paceline/models/safetensors.h"
#include "paceline/serving/server_state.h"

namespace paceline {
namespace {

constexpr const char* kLeases = "server.leases";
constexpr const char* kLast = "server.last";
constexpr const char* kPrefix = "server.";

std::vector<float> numbers_of(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.to(torch::kFloat32).contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

}  // namespace

CheckpointRef write_server_checkpoint(CheckpointStore& store, const Model& model, const ServerSnapshot& snapshot,
                                      const RunState& state, const std::string& recipe) {
  ServerState servers(snapshot.states);
  torch::Tensor leases = torch::empty({static_cast<int64_t>(snapshot.leases.size())}, torch::kUInt8);
  std::memcpy(leases.data_ptr(), snapshot.leases.data(), snapshot.leases.size());
  servers.add(kLeases, leases);
  servers.add(kLast, torch::tensor({static_cast<double>(snapshot.steps), snapshot.rate}, torch::kFloat64));
  const CheckpointRef written = store.write(model, servers, state, {}, {}, {.recipe = recipe});
  store.trust_newest();  // steps go on elsewhere; nothing here would learn that they failed
  return written;
}

ServerRestart ServerCheckpoint::of_shard(const ShardMap& map, int shard) const {
  ServerRestart part = {.steps = steps, .rate = rate, .updates = static_cast<uint64_t>(state.step)};
  for (const auto& [name, values] : states) {
    if (values.size() != map.total())
      throw DataError(
          fmt::format("the checkpoint's {} has {} elements, the model {}", name, values.size(), map.total()));
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(map.first(shard));
    part.states[name] = {begin, begin + static_cast<std::ptrdiff_t>(map.count(shard))};
  }
  return part;
}

ServerCheckpoint read_server_checkpoint(const CheckpointRef& checkpoint, Model& model) {
  load_weights(checkpoint, model);
  ServerCheckpoint found;
  found.state = load_run_state(checkpoint);
  for (const auto& [name, tensor] : read_safetensors(checkpoint.folder / "optimizer.safetensors").tensors) {
    if (name == kLeases) {
      found.leases =
          std::string(static_cast<const char*>(tensor.contiguous().data_ptr()), static_cast<size_t>(tensor.numel()));
    } else if (name == kLast) {
      found.steps = static_cast<uint64_t>(tensor[0].item<double>());
      found.rate = tensor[1].item<double>();
    } else if (name.starts_with(kPrefix)) {
      found.states[name.substr(std::strlen(kPrefix))] = numbers_of(tensor);
    }
  }
  if (found.leases.empty())
    throw DataError(fmt::format("{}: is not of a run on a parameter server: set sync.policy as it was",
                                checkpoint.folder.string()));
  return found;
}

}  // namespace paceline
