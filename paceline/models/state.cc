#include "paceline/models/state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/nearest.h"
#include "paceline/core/sha256.h"

namespace paceline {
namespace {

std::string shape_text(const torch::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes().vec(), ","));
}

std::string describe(const torch::Tensor& tensor) {
  return fmt::format("{} {}", dtype_name(tensor.scalar_type()), shape_text(tensor));
}

std::vector<std::string> differences(const NamedTensors& own, const NamedTensors& given) {
  std::vector<std::string> found, absent;
  for (const auto& [name, tensor] : own) {
    const auto match = given.find(name);
    if (match == given.end()) {
      absent.push_back(name);
      found.push_back(fmt::format("{} is missing", name));
    } else if (describe(tensor) != describe(match->second)) {
      found.push_back(fmt::format("{} is {}, the model has {}", name, describe(match->second), describe(tensor)));
    }
  }
  for (const auto& [name, tensor] : given) {
    if (!own.contains(name)) found.push_back(fmt::format("{} is unexpected{}", name, did_you_mean(name, absent)));
  }
  return found;
}

}  // namespace

NamedTensors state_of(const torch::nn::Module& module) {
  NamedTensors state;
  for (const auto& item : module.named_parameters()) state.emplace(item.key(), item.value().detach());
  for (const auto& item : module.named_buffers()) state.emplace(item.key(), item.value().detach());
  return state;
}

void load_state(torch::nn::Module& module, const NamedTensors& state, const std::string& source) {
  const NamedTensors own = state_of(module);
  const std::vector<std::string> wrong = differences(own, state);
  if (!wrong.empty()) {
    throw DataError(
        fmt::format("{} does not fit the model in {} of {} tensors (is it for another model, or another number of "
                    "classes or channels?): {}",
                    source, wrong.size(), own.size(), fmt::join(wrong, "; ")));
  }
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own) tensor.copy_(state.at(name));
}

std::string weights_sha256(const torch::nn::Module& module) {
  Sha256 hash;
  for (const auto& [name, tensor] : state_of(module)) {
    const std::string heading = fmt::format("{} {}\n", name, describe(tensor));
    hash.update(heading.data(), heading.size());
    const torch::Tensor elements = tensor.cpu().contiguous();
    hash.update(elements.data_ptr(), elements.nbytes());
  }
  return hash.hex();
}

}  // namespace paceline
