#include "paceline/optim/device_parameters.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cstring>

#include "paceline/core/check.h"
#include "paceline/optim/gradient_norm.h"
#include "paceline/precision/device_words.h"

namespace paceline {
namespace {

bool is_taken(const Parameter& parameter, const torch::Device& device) {
  const torch::Tensor& weights = parameter.tensor;
  return weights.device() == device && weights.scalar_type() == torch::kFloat32 &&
         weights.unsafeGetTensorImpl()->is_non_overlapping_and_dense();
}

const float* scalar_on(const torch::Device& device, const torch::Tensor& value, const char* what) {
  if (!value.defined()) return nullptr;
  CHECK_TRUE(value.device() == device && value.scalar_type() == torch::kFloat32 && value.numel() == 1,
             "{} must be one float on {}", what, device.str());
  return value.const_data_ptr<float>();
}

// Single-precision gradients in place of those of a type that kernels have no number for.
torch::Tensor gradient_for(const Parameter& parameter) {
  torch::Tensor gradient = gradient_of(parameter);
  if (!gradient.defined()) return gradient;
  if (!kernel_number(gradient.scalar_type())) gradient = gradient.to(torch::kFloat32);
  return with_layout_of(parameter.tensor, gradient);
}

}  // namespace

DeviceParameters::DeviceParameters(const std::vector<Parameter>& parameters,
                                   const std::vector<const StateTensors*>& states)
    : parameter_count_(parameters.size()) {
  if (!device_kernels_are_built()) return;
  const auto first = std::ranges::find_if(parameters, [](const Parameter& p) { return p.tensor.is_cuda(); });
  if (first == parameters.end()) return;
  device_ = first->tensor.device();

  std::vector<int32_t> chunks;  // DeviceChunk after DeviceChunk
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!is_taken(parameters[i], device_)) continue;
    Member member = {.parameter = i, .tensor = {}, .states = {}};
    member.tensor.count = parameters[i].tensor.numel();
    member.tensor.decayed = parameters[i].decayed;
    member.tensor.first_chunk = chunk_count_;
    for (size_t k = 0; k < states.size(); ++k) {
      member.states.push_back(states[k]->of(i));
      CHECK_TRUE(member.states.back().strides() == parameters[i].tensor.strides(), "{}", parameters[i].name);
    }
    for (int64_t begin = 0; begin < member.tensor.count; begin += kDeviceChunkElements, ++chunk_count_) {
      chunks.push_back(static_cast<int32_t>(members_.size()));
      chunks.push_back(static_cast<int32_t>(begin / kDeviceChunkElements));
    }
    members_.push_back(std::move(member));
  }
  if (members_.empty()) return;
  static_assert(sizeof(DeviceChunk) == 2 * sizeof(int32_t));
  chunks_ = torch::tensor(chunks, torch::kInt32).to(device_);
  tensors_ = on_device(static_cast<int64_t>(members_.size() * sizeof(DeviceTensor)), torch::kUInt8);
  coefficients_ = on_device(kDeviceCoefficientBytes, torch::kUInt8);
}

bool DeviceParameters::contains(size_t parameter) const {
  return std::ranges::binary_search(members_, parameter, {}, &Member::parameter);
}

bool DeviceParameters::is_capturing() const {
  return !members_.empty() && paceline::is_capturing(kernel_stream(device_));
}

DeviceTable DeviceParameters::table() const {
  return {.tensors = reinterpret_cast<DeviceTensor*>(tensors_.data_ptr<uint8_t>()),
          .chunks = reinterpret_cast<const DeviceChunk*>(chunks_.const_data_ptr<int32_t>()),
          .coefficients = coefficients_.data_ptr<uint8_t>(),
          .tensor_count = static_cast<uint32_t>(members_.size()),
          .chunk_count = chunk_count_,
          .found_inf = nullptr,
          .inverse_scale = nullptr,
          .stream = kernel_stream(device_)};
}

void DeviceParameters::prepare(const std::function<void(const DeviceTable&)>& write) const {
  if (members_.empty()) return;
  CHECK_TRUE(!is_capturing(), "coefficients would be captured; prepare() comes before the replay");
  const c10::DeviceGuard guard(device_);
  write(table());
}

void DeviceParameters::update(const std::vector<Parameter>& parameters, const StepCoefficients& coefficients,
                              const std::function<void(const DeviceTable&)>& launch, ChunkTable::Members members) {
  if (members_.empty()) return;
  const c10::DeviceGuard guard(device_);
  DeviceTable table = this->table();
  table.found_inf = scalar_on(device_, coefficients.found_inf, "found_inf");
  table.inverse_scale = scalar_on(device_, coefficients.inverse_scale, "inverse_scale");

  std::vector<DeviceTensor> now;
  std::vector<torch::Tensor>
      laid_out;  // gradients that had to be copied live until the launch; the allocator does the rest
  now.reserve(members_.size());
  for (const Member& member : members_) {
    const Parameter& parameter = parameters[member.parameter];
    DeviceTensor tensor = member.tensor;
    tensor.weights = parameter.tensor.data_ptr<float>();
    for (size_t k = 0; k < member.states.size(); ++k) tensor.states[k] = member.states[k].data_ptr<float>();
    const bool with_gradient = members == ChunkTable::Members::with_gradient;
    if (const torch::Tensor gradient = with_gradient ? gradient_for(parameter) : torch::Tensor(); gradient.defined()) {
      CHECK_TRUE(gradient.device() == device_, "the gradient of {} is on {}", parameter.name, gradient.device().str());
      tensor.gradient = gradient.const_data_ptr();
      tensor.gradient_type = kernel_number(gradient.scalar_type()).value();
      laid_out.push_back(gradient);
    }
    if (const torch::Tensor& half = parameter.half; half.defined()) {
      CHECK_TRUE(half.device() == device_ && half.strides() == parameter.tensor.strides() && half.element_size() == 2,
                 "the half copy of {} is laid out in another way", parameter.name);
      tensor.half_weights = half.data_ptr();
      tensor.half_type = kernel_number(half.scalar_type()).value();
    }
    tensor.aligned = is_aligned(tensor);
    now.push_back(tensor);
  }
  const bool capturing = is_capturing();
  captured_ = captured_ || capturing;
  const bool same =
      now.size() == written_.size() && std::memcmp(now.data(), written_.data(), now.size() * sizeof(DeviceTensor)) == 0;
  if (!same || captured_) write_tensors(table, now);
  written_ = std::move(now);
  launch(table);
}

torch::Tensor DeviceParameters::scratch_per_chunk(int64_t numbers, torch::Dtype dtype) const {
  return members_.empty() ? torch::Tensor() : on_device(numbers * chunk_count_, dtype);
}

torch::Tensor DeviceParameters::scratch_per_tensor(torch::Dtype dtype) const {
  return members_.empty() ? torch::Tensor() : on_device(static_cast<int64_t>(members_.size()), dtype);
}

torch::Tensor DeviceParameters::zero(torch::Dtype dtype) const {
  return members_.empty() ? torch::Tensor() : torch::zeros({}, torch::TensorOptions(dtype).device(device_));
}

torch::Tensor DeviceParameters::on_device(int64_t count, torch::Dtype dtype) const {
  return torch::empty({count}, torch::TensorOptions(dtype).device(device_));
}

}  // namespace paceline
