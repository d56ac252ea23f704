#include "paceline/sync/time_rule.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace paceline {
namespace {

constexpr uint64_t kStepsOfFewest = 8;   // that are made of k_min gradients
constexpr uint64_t kVersionsToLate = 3;  // until a version's late gradients are in
constexpr double kNoiseWeight = 0.05;    // of the newest value in the running means
constexpr double kTimeWeight = 0.1;
constexpr double kTurnWeight = 0.2;
constexpr double kLeastSignal = 1 / 1000.0;  // of S²
constexpr int64_t kLeastTime_ns = 1;         // times are divided by

void follow(std::optional<double>& mean, double value, double weight) {
  mean = mean ? *mean + weight * (value - *mean) : value;
}

}  // namespace

int TimeRule::k(int party) const {
  const KBounds bounds = k_bounds(settings_, party);
  return std::clamp(chosen_, bounds.k_min, bounds.k_max);
}

void TimeRule::push(const SyncEvent& push, int64_t released_ns) {
  const double turn_ns = static_cast<double>(std::max(kLeastTime_ns, push.time_ns - released_ns));
  const auto [known, first] = turn_ns_.emplace(push.worker, turn_ns);
  if (!first) known->second += kTurnWeight * (turn_ns - known->second);

  const auto arrivals = arrivals_.find(push.version);
  if (arrivals == arrivals_.end()) return;  // later than late: it has been read
  arrivals->second.after_ns.push_back(std::max(kLeastTime_ns, push.time_ns - arrivals->second.start_ns));
}

void TimeRule::leave(const SyncEvent& leave) { turn_ns_.erase(leave.worker); }

void TimeRule::version(uint64_t version, int64_t time_ns, int party) {
  arrivals_[version].start_ns = time_ns;
  if (version >= kVersionsToLate) {
    const auto read = arrivals_.find(version - kVersionsToLate);
    const std::vector<int64_t>& after_ns = read->second.after_ns;
    for (size_t at = 0; at < after_ns.size(); ++at) {
      const double time = static_cast<double>(after_ns[at]);
      if (at == time_to_ns_.size())
        time_to_ns_.push_back(time);
      else
        time_to_ns_[at] += kTimeWeight * (time - time_to_ns_[at]);
    }
    arrivals_.erase(read);
  }
  chosen_ = version < kStepsOfFewest ? 0 : choose(party);
}

// A version counts once, with what is said of all its gradients: the last report, known as such when one of a later
// version comes.
bool TimeRule::noise(const SyncEvent& noise, const RoundSoFar& /*round*/) {
  if (noise.version < noise_version_) return false;
  if (noise.version > noise_version_) learn_noise();
  noise_version_ = noise.version;
  latest_noise_ = noise.noise;
  return false;
}

void TimeRule::learn_noise() {
  GradientSpread spread;
  if (!spread_of(latest_noise_, spread)) return;
  follow(variance_, spread.variance, kNoiseWeight);
  follow(signal_, latest_noise_.mean_norm2 - spread.variance / spread.effective_count, kNoiseWeight);
}

double TimeRule::kappa() const {
  if (!variance_ || *variance_ <= 0) return 0;  // nothing speaks for waiting
  return *variance_ / std::max(*signal_, *variance_ * kLeastSignal);
}

int TimeRule::choose(int party) const {
  const KBounds bounds = k_bounds(settings_, party);
  double per_ns = 0;  // r
  for (const auto& [worker, turn_ns] : turn_ns_) per_ns += 1 / turn_ns;
  const double gamma2 = settings_.momentum * settings_.momentum;
  const double noise = kappa();

  int best = bounds.k_min;
  double best_worth = 0;
  for (int k = bounds.k_min; k <= bounds.k_max && k <= static_cast<int>(time_to_ns_.size()); ++k) {
    const double time_ns = time_to_ns_[k - 1];
    const double n = std::max<double>(k, std::min<double>(party, per_ns * time_ns));
    const double n_eff = 1 / ((1 - gamma2) / k + gamma2 / n);
    const double worth = n_eff / ((n_eff + noise) * time_ns);
    if (worth > best_worth) {
      best = k;
      best_worth = worth;
    }
  }
  return best;
}

nlohmann::json TimeRule::save() const {
  nlohmann::json arrivals = nlohmann::json::array();
  for (const auto& [version, of] : arrivals_)
    arrivals.push_back({{"version", version}, {"start_ns", of.start_ns}, {"after_ns", of.after_ns}});
  // What is not finite has no place in JSON, and no use here: as good as no report.
  GradientSpread spread;
  const GradientNoise latest = spread_of(latest_noise_, spread) ? latest_noise_ : GradientNoise{};
  nlohmann::json state = {{"chosen", chosen_},
                          {"arrivals", arrivals},
                          {"time_to_ns", time_to_ns_},
                          {"turn_ns", turn_ns_},
                          {"noise_version", noise_version_},
                          {"noise", {latest.samples, latest.samples_squared, latest.mean_norm2, latest.spread}}};
  if (variance_) state["variance"] = *variance_;
  if (signal_) state["signal"] = *signal_;
  return state;
}

void TimeRule::load(const nlohmann::json& state) {
  chosen_ = state.at("chosen").get<int>();
  arrivals_.clear();
  for (const nlohmann::json& of : state.at("arrivals"))
    arrivals_[of.at("version").get<uint64_t>()] = {of.at("start_ns").get<int64_t>(),
                                                   of.at("after_ns").get<std::vector<int64_t>>()};
  time_to_ns_ = state.at("time_to_ns").get<std::vector<double>>();
  turn_ns_ = state.at("turn_ns").get<std::map<int, double>>();
  noise_version_ = state.at("noise_version").get<uint64_t>();
  const nlohmann::json& noise = state.at("noise");
  latest_noise_ = {noise.at(0).get<double>(), noise.at(1).get<double>(), noise.at(2).get<double>(),
                   noise.at(3).get<double>()};
  variance_.reset();
  signal_.reset();
  if (state.contains("variance")) variance_ = state.at("variance").get<double>();
  if (state.contains("signal")) signal_ = state.at("signal").get<double>();
}

}  // namespace paceline
