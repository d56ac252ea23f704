#include "paceline/optim/lars.h"

#include <cmath>
#include <limits>

#include "paceline/kernels/lars.h"

namespace paceline {
namespace {

// lars_rate() with norms that stay on the device: to read them would wait for it.
torch::Tensor rate_on_device(const torch::Tensor& weights, const torch::Tensor& gradient, double rate,
                             const LarsOptions& o, double gradient_scale) {
  const auto norm = [](const torch::Tensor& x) { return torch::linalg_vector_norm(x, 2, {}, false, torch::kFloat64); };
  const torch::Tensor weight_norm = norm(weights);
  const torch::Tensor denominator =
      norm(gradient).mul_(gradient_scale).add_(weight_norm, o.weight_decay).add_(o.epsilon);
  const torch::Tensor adapted =
      weight_norm.mul(rate * o.eta).div_(denominator).clamp_max_(std::numeric_limits<float>::max());
  const torch::Tensor plain = (weight_norm == 0).logical_or_(weight_norm < o.epsilon).logical_or_(denominator == 0);
  return adapted.masked_fill_(plain, rate).to(weights.scalar_type());
}

void update_on_device(const torch::Tensor& weights, const torch::Tensor& gradient, const torch::Tensor& momentum,
                      const torch::Tensor& local_rate, double momentum_factor, double weight_decay,
                      double gradient_scale) {
  const torch::Tensor g = gradient.mul(gradient_scale).add_(weights, weight_decay);
  momentum.mul_(momentum_factor).addcmul_(g, local_rate);
  weights.sub_(momentum);
}

// One step on the CPU. A layer that falls to one thread as a whole gets its update as soon as its norms are known,
// while it is in the cache; those cut between threads wait for a second pass.
class CpuStep {
 public:
  CpuStep(const ChunkTable& table, const std::vector<Parameter>& parameters, const StateTensors& momentum,
          const LarsOptions& options, const StepCoefficients& coefficients, double momentum_factor)
      : table_(table),
        parameters_(parameters),
        momentum_(momentum),
        options_(options),
        coefficients_(coefficients),
        momentum_factor_(momentum_factor),
        norms_(table.chunks().size()),
        done_(table.chunks().size()) {}

  void run() {
    table_.for_each_run([&](std::span<const Chunk> run) {
      for_each_layer(run, [&](std::span<const Chunk> part) {
        const bool adapted = is_adapted(part);
        if (adapted) measure(part);
        if (!adapted || is_whole(part)) update(part, rate_of(part));
      });
    });
    std::vector<double> rates(parameters_.size());
    for_each_layer(table_.chunks(), [&](std::span<const Chunk> layer) {
      if (!done_[layer.front().index]) rates[layer.front().parameter] = rate_of(layer);
    });
    table_.for_each([&](const Chunk& chunk) {
      if (!done_[chunk.index]) update({&chunk, 1}, rates[chunk.parameter]);
    });
  }

 private:
  template <class Visit>
  static void for_each_layer(std::span<const Chunk> chunks, const Visit& visit) {
    for (size_t first = 0, last = 0; first < chunks.size(); first = last) {
      while (last < chunks.size() && chunks[last].parameter == chunks[first].parameter) ++last;
      visit(chunks.subspan(first, last - first));
    }
  }

  bool is_adapted(std::span<const Chunk> part) const { return parameters_[part.front().parameter].decayed; }
  bool is_whole(std::span<const Chunk> part) const {
    const int64_t end = part.back().begin + static_cast<int64_t>(part.back().count);
    return part.front().begin == 0 && end == parameters_[part.front().parameter].tensor.numel();
  }

  void measure(std::span<const Chunk> part) {
    for (const Chunk& chunk : part) norms_[chunk.index] = squared_norms(chunk.weights, chunk.gradient, chunk.count);
  }

  // The sums of chunks are added in the order of the table, whoever made them.
  double rate_of(std::span<const Chunk> layer) const {
    if (!is_adapted(layer)) return coefficients_.rate;
    SquaredNorms norms;
    for (const Chunk& chunk : layer) {
      norms.weights += norms_[chunk.index].weights;
      norms.gradient += norms_[chunk.index].gradient;
    }
    return lars_rate(coefficients_.rate, options_.eta, options_.epsilon, options_.weight_decay,
                     std::sqrt(norms.weights), coefficients_.gradient_scale * std::sqrt(norms.gradient));
  }

  void update(std::span<const Chunk> part, double rate) {
    const LarsCoefficients c = {.local_rate = static_cast<float>(rate),
                                .momentum = static_cast<float>(momentum_factor_),
                                .weight_decay = is_adapted(part) ? static_cast<float>(options_.weight_decay) : 0,
                                .gradient_scale = static_cast<float>(coefficients_.gradient_scale)};
    for (const Chunk& chunk : part) {
      lars_update(chunk.weights, chunk.gradient, momentum_.at(chunk), chunk.count, c);
      done_[chunk.index] = 1;
    }
  }

  const ChunkTable& table_;
  const std::vector<Parameter>& parameters_;
  const StateTensors& momentum_;
  const LarsOptions& options_;
  const StepCoefficients& coefficients_;
  const double momentum_factor_;
  std::vector<SquaredNorms> norms_;  // of each chunk
  std::vector<char> done_;           // each chunk; not bits: threads write them side by side
};

}  // namespace

Lars::Lars(std::vector<Parameter> parameters, LarsOptions options)
    : parameters_(std::move(parameters)),
      momentum_("momentum", parameters_),
      on_device_(parameters_, {&momentum_}),
      device_sums_(on_device_.scratch_per_chunk(2, torch::kFloat64)),
      device_rates_(on_device_.scratch_per_tensor(torch::kFloat32)),
      options_(options),
      last_rate_(on_device_.has_all() ? on_device_.zero(torch::kFloat64) : torch::zeros({}, torch::kFloat64)) {}

void Lars::prepare(const StepCoefficients& coefficients) {
  momentum_now_ = momentum_of(coefficients);
  on_device_.prepare([&](const DeviceTable& table) {
    lars_prepare_on_device(table, {.rate = coefficients.rate,
                                   .eta = options_.eta,
                                   .epsilon = options_.epsilon,
                                   .momentum = momentum_now_,
                                   .weight_decay = options_.weight_decay,
                                   .gradient_scale = coefficients.gradient_scale});
  });
}

void Lars::step(const StepCoefficients& coefficients) {
  const torch::NoGradGuard no_grad;
  if (!on_device_.is_capturing()) prepare(coefficients);
  on_device_.update(parameters_, coefficients, [&](const DeviceTable& table) {
    double* const last_rate =
        options_.momentum_correction && on_device_.has_all() ? last_rate_.data_ptr<double>() : nullptr;
    lars_update_on_device(table, device_sums_.data_ptr<double>(), device_rates_.data_ptr<float>(), last_rate);
  });
  if (on_device_.has_all()) return;

  const auto own = read_scaling(coefficients);
  if (!own) return;
  *last_rate_.data_ptr<double>() = own->rate;
  const double scale = own->gradient_scale;
  const ChunkTable table(parameters_);
  CpuStep(table, parameters_, momentum_, options_, *own, momentum_now_).run();
  for (const auto& [i, weights, gradient] : table.others()) {
    if (on_device_.contains(i)) continue;
    const bool adapted = parameters_[i].decayed;
    const torch::Tensor rate = adapted ? rate_on_device(weights, gradient, own->rate, options_, scale)
                                       : torch::full({}, own->rate, weights.options());
    update_on_device(weights, gradient, momentum_.of(i), rate, momentum_now_, adapted ? options_.weight_decay : 0,
                     scale);
  }
  write_halves(parameters_);
}

double Lars::momentum_of(const StepCoefficients& coefficients) const {
  if (!options_.momentum_correction || on_device_.has_all()) return coefficients.momentum;
  return coefficients.momentum * momentum_correction(coefficients.rate, *last_rate_.const_data_ptr<double>());
}

Optimizer::State Lars::state() const {
  State state;
  momentum_.add_to(state, parameters_);
  if (options_.momentum_correction) state.emplace("rate", last_rate_);
  return state;
}

}  // namespace paceline
