// What a recipe may not say: values outside their range, keys without effect, keys that contradict each other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/nearest.h"
#include "paceline/core/recipe_effects.h"
#include "paceline/core/recipe_keys.h"

namespace paceline {
namespace {

// "is 32 at r.toml:3:1": what a key is and where that was said, as the reason for refusing another one.
std::string is(const Recipe& recipe, const std::string& full_name) {
  const DeclaredKey& key = *find_key(full_name);
  const auto place = recipe.written.find(full_name);
  const std::string said = place == recipe.written.end() ? "by default" : "at " + place->second;
  return fmt::format("is {} {}", print_value(key, key.member.get(recipe)), said);
}
std::string it_is(const Recipe& recipe, const std::string& full_name) { return "it " + is(recipe, full_name); }

class Contradictions {
 public:
  explicit Contradictions(const Recipe& recipe) : recipe_(recipe) {}

  std::vector<std::string> find(Effects effects) {
    check_batch();
    check_batch_phases();
    check_precision();
    check_codec();
    check_optimizer();
    check_found_rate();
    if (effects == Effects::required) check_every_key_has_an_effect();
    check_length();
    check_milestones();
    return std::move(found_);
  }

 private:
  template <class... Args>
  void refuse(std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
    found_.push_back(recipe_.where(key) + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

  bool given(const std::string& key) const { return recipe_.written.contains(key); }
  bool is_override(const std::string& key) const {
    const auto place = recipe_.written.find(key);
    return place != recipe_.written.end() && place->second.starts_with("--set");
  }

  void check_batch() {
    if (!given("batch.global") || recipe_.batch.local == 0) return;
    refuse("batch.local", "contradicts batch.global ({}); give one of the two", it_is(recipe_, "batch.global"));
  }

  void check_batch_phases() {
    const Recipe::Batch& batch = recipe_.batch;
    if (batch.milestones.size() != batch.sizes.size()) {
      refuse(given("batch.sizes") ? "batch.sizes" : "batch.milestones",
             "{} in batch.milestones, {} in batch.sizes: give one size for each milestone", batch.milestones.size(),
             batch.sizes.size());
      return;
    }
    for (size_t i = 1; i < batch.milestones.size(); ++i) {
      if (batch.milestones[i] > batch.milestones[i - 1]) continue;
      refuse("batch.milestones", "{} follows {}: each must be greater than the one before",
             print_number(batch.milestones[i]), print_number(batch.milestones[i - 1]));
      return;
    }
    if (!batch.fills.empty() && batch.fills.size() != batch.milestones.size()) {
      refuse("batch.fills", "{} in batch.milestones, {} in batch.fills: give one for each milestone, or none",
             batch.milestones.size(), batch.fills.size());
      return;
    }
    if (!are_whole("batch.sizes", batch.sizes) || !are_whole("batch.fills", batch.fills)) return;
    if (batch.local == Recipe::Batch::kLargestThatFits) {
      if (recipe_.train.device != "cuda")
        refuse("batch.local", "\"auto\" looks for the largest batch that fits into a GPU's memory: give a number");
      if (batch.micro > 0)
        refuse("batch.micro", "bounds what is computed at a time, so any batch.local fits: give it a number ({})",
               it_is(recipe_, "batch.local"));
      if (!batch.milestones.empty())
        refuse("batch.milestones", "\"auto\" is the batch of a whole run ({})", it_is(recipe_, "batch.local"));
    }
    if (batch.fill > 0 && batch.local != 0)
      refuse("batch.fill", "applies only with batch.global: with batch.local every rank has its share ({})",
             it_is(recipe_, "batch.local"));
    if (!batch.milestones.empty() && recipe_.train.epochs > 0 && batch.milestones.back() >= recipe_.train.epochs)
      refuse("batch.milestones", "{} is not below train.epochs ({}); for a shorter run set train.max_steps",
             print_number(batch.milestones.back()), it_is(recipe_, "train.epochs"));
  }

  bool are_whole(std::string_view key, const std::vector<double>& samples) {
    for (const double count : samples) {
      if (count == std::floor(count)) continue;
      refuse(key, "{} is no whole number of samples", print_number(count));
      return false;
    }
    return true;
  }

  void check_precision() {
    const Recipe::Precision& precision = recipe_.precision;
    if (recipe_.train.precision == "f16" && recipe_.train.device == "cpu")
      refuse("train.precision",
             "\"f16\" needs train.device = \"cuda\": processors have no fast arithmetic for it; use \"bf16\" or "
             "\"f32\" ({})",
             it_is(recipe_, "train.device"));
    if (precision.loss_scaling == "dynamic" && precision.floor > precision.loss_scale)
      refuse("precision.floor", "{} is above precision.loss_scale ({})", print_number(precision.floor),
             it_is(recipe_, "precision.loss_scale"));
  }

  void check_codec() {
    const Recipe::Comm& comm = recipe_.comm;
    const bool sparse = comm.codec == "topk" || comm.codec == "threshold";
    if (sparse && comm.momentum_correction && recipe_.optimizer.nesterov)
      refuse("optimizer.nesterov",
             "does not go with comm.codec = \"{}\", which gathers the momentum itself; leave nesterov out or set "
             "comm.momentum_correction = false",
             comm.codec);
    if (sparse && comm.momentum_correction && recipe_.schedule.momentum == "noise_scale")
      refuse("schedule.momentum",
             "\"noise_scale\" does not go with comm.codec = \"{}\", which gathers a momentum that stays the same; "
             "leave it "
             "out or set comm.momentum_correction = false",
             comm.codec);
    if (sparse && comm.momentum_correction && !comm.error_feedback)
      refuse("comm.momentum_correction", "needs comm.error_feedback ({})", it_is(recipe_, "comm.error_feedback"));
  }

  void check_optimizer() {
    const Recipe::Optimizer& optimizer = recipe_.optimizer;
    const bool hybrid = optimizer.name == "hybrid";
    if (!is_known_and_not_sgd(recipe_.optimizer.name)) return;
    if (optimizer.nesterov && given("optimizer.nesterov"))
      refuse("optimizer.nesterov", "applies only with optimizer.name = \"sgd\" ({})", it_is(recipe_, "optimizer.name"));
    if (optimizer.epsilon == 0 && optimizer.name != "lars")
      refuse("optimizer.epsilon", "0 is allowed only with \"lars\"; {} would divide by 0 where all gradients are 0",
             print_text(optimizer.name));
    const bool sparse = recipe_.comm.codec == "topk" || recipe_.comm.codec == "threshold";
    if (sparse && recipe_.comm.momentum_correction)
      refuse("optimizer.name",
             "{} does not go with comm.codec = \"{}\", which gathers the momentum of \"sgd\"; set "
             "comm.momentum_correction = false",
             print_text(optimizer.name), recipe_.comm.codec);
    if (optimizer.momentum_correction && optimizer.momentum == 0)
      refuse("optimizer.momentum_correction", "applies only with optimizer.momentum > 0 ({})",
             it_is(recipe_, "optimizer.momentum"));
    if (hybrid && recipe_.schedule.warmup_epochs > 0)
      refuse("schedule.warmup_epochs", "does not go with optimizer.name = \"hybrid\", which warms up by itself");
    if (hybrid && recipe_.train.epochs > 0 && optimizer.hybrid_epochs >= recipe_.train.epochs)
      refuse("optimizer.hybrid_epochs", "{} is not below train.epochs ({}); for a shorter run set train.max_steps",
             print_number(optimizer.hybrid_epochs), it_is(recipe_, "train.epochs"));
  }

  // Workers of a parameter server have rules of their own.
  void check_found_rate() {
    if (recipe_.sync.policy != "allreduce" || recipe_.sync.rate != "barzilai_borwein") return;
    if (is_known_and_not_sgd(recipe_.optimizer.name))
      refuse("sync.rate", "finds rates for steps along the gradient: it needs optimizer.name = \"sgd\" ({})",
             it_is(recipe_, "optimizer.name"));
    if (recipe_.precision.loss_scaling != "none")
      refuse("sync.rate", "compares gradients as they are: it does not go with precision.loss_scaling ({})",
             it_is(recipe_, "precision.loss_scaling"));
    if (recipe_.comm.codec != "none")
      refuse("sync.rate", "compares gradients as they are: it needs comm.codec = \"none\" ({})",
             it_is(recipe_, "comm.codec"));
  }

  void check_every_key_has_an_effect() {
    for (const DeclaredSection& section : declared_sections()) {
      for (const DeclaredKey& key : section.keys) {
        const std::string name = key.full_name();
        if (!key.applies.holds(recipe_)) {
          if (given(name) && name != "batch.global")
            refuse(name, "applies only with {} ({})", key.applies.text(), it_is(recipe_, key.applies.key));
        } else if (const KeyWithoutEffect* const entry = refused_by_mode(key, recipe_)) {
          const std::string decides(entry->decides);
          refuse(name, "has no effect {}: {} ({} {})", entry->where, entry->reason, decides, is(recipe_, decides));
        }
      }
    }
  }

  void check_length() {
    const double epochs = recipe_.train.epochs;
    const std::string& schedule = recipe_.schedule.name;
    if (epochs == 0 && recipe_.train.max_steps == 0) {
      refuse("train.epochs",
             "0 means until train.max_steps, which is 0 too: nothing would be trained; set one of them");
    }
    if (epochs == 0 && (schedule == "polynomial" || schedule == "cosine")) {
      refuse("schedule.name", "{} ends at train.epochs, which must be > 0 ({})", print_text(schedule),
             it_is(recipe_, "train.epochs"));
    }
    if (epochs > 0 && recipe_.schedule.warmup_epochs >= epochs) {
      const bool shortened = is_override("train.epochs") && !is_override("schedule.warmup_epochs");
      refuse("schedule.warmup_epochs", "{} is not below train.epochs ({}); {}",
             print_number(recipe_.schedule.warmup_epochs), it_is(recipe_, "train.epochs"),
             shortened ? "for a short try add --set schedule.warmup_epochs=0, for the beginning of the whole run take "
                         "--set train.max_steps=N instead"
                       : "for a shorter run set train.max_steps");
    }
    const bool warms_up = recipe_.schedule.warmup_epochs > 0 || recipe_.optimizer.name == "hybrid";
    if (recipe_.schedule.decay_from == "warmup_end" && !warms_up) {
      refuse("schedule.decay_from", "\"warmup_end\" applies only with schedule.warmup_epochs > 0 ({})",
             it_is(recipe_, "schedule.warmup_epochs"));
    }
  }

  void check_milestones() {
    if (recipe_.schedule.name != "step" && recipe_.schedule.name != "polynomial") return;
    const std::vector<double>& milestones = recipe_.schedule.milestones;
    const std::vector<double>& rates = recipe_.schedule.rates;
    const double epochs = recipe_.train.epochs;
    if (recipe_.schedule.name == "polynomial" && milestones.size() != rates.size()) {
      refuse(given("schedule.rates") ? "schedule.rates" : "schedule.milestones",
             "{} in schedule.milestones, {} in schedule.rates: give one rate for each milestone", milestones.size(),
             rates.size());
      return;
    }
    if (recipe_.schedule.name == "polynomial" && milestones.empty()) return;
    if (milestones.empty()) {
      const std::string key = given("schedule.milestones") ? "schedule.milestones" : "schedule.name";
      refuse(key, "\"step\" needs at least one epoch in schedule.milestones");
      return;
    }
    for (size_t i = 1; i < milestones.size(); ++i) {
      if (milestones[i] > milestones[i - 1]) continue;
      refuse("schedule.milestones", "{} follows {}: each must be greater than the one before",
             print_number(milestones[i]), print_number(milestones[i - 1]));
      return;
    }
    if (recipe_.optimizer.name == "hybrid" && milestones.front() < recipe_.optimizer.hybrid_epochs) {
      refuse("schedule.milestones", "{} lies inside the warm-up, optimizer.hybrid_epochs ({})",
             print_number(milestones.front()), it_is(recipe_, "optimizer.hybrid_epochs"));
    }
    if (milestones.front() < recipe_.schedule.warmup_epochs) {
      refuse("schedule.milestones", "{} lies inside the warm-up, schedule.warmup_epochs ({})",
             print_number(milestones.front()), it_is(recipe_, "schedule.warmup_epochs"));
    }
    if (epochs > 0 && milestones.back() >= epochs) {
      refuse("schedule.milestones", "{} is not below train.epochs ({}); for a shorter run set train.max_steps",
             print_number(milestones.back()), it_is(recipe_, "train.epochs"));
    }
  }

  const Recipe& recipe_;
  std::vector<std::string> found_;
};

}  // namespace

std::optional<std::string> refusal(const DeclaredKey& key, const RecipeValue& value) {
  if (const auto* word = std::get_if<std::string>(&value)) {
    if (key.words.empty() || std::ranges::count(key.words, *word) > 0) return std::nullopt;
    return fmt::format("{} is not allowed{} (allowed: {})", print_text(*word), did_you_mean(*word, key.words),
                       key.allowed());
  }
  double number = 0;
  if (const auto* real = std::get_if<double>(&value)) {
    number = *real;
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    number = static_cast<double>(*integer);  // rounds beyond 2^53, where no bound lies
  } else if (const auto* natural = std::get_if<uint64_t>(&value)) {
    number = static_cast<double>(*natural);
  } else {
    return std::nullopt;
  }
  if (std::isfinite(number) && key.range.contains(number)) return std::nullopt;
  const std::string hint = key.hint.empty() ? "" : "; " + key.hint;
  const std::string what = std::isfinite(number) ? "out of range" : "not a finite number";
  // A number as it was given: -1 stands for "auto" in one key.
  const std::string given = number == -1 ? "-1" : print_value(key, value);
  return fmt::format("{} is {} (allowed: {}){}", given, what, key.allowed(), hint);
}

bool is_known_and_not_sgd(const std::string& optimizer) {
  const std::vector<std::string> not_sgd = {"lars", "adam", "adamw", "rmsprop", "adabound", "hybrid"};
  return std::ranges::count(not_sgd, optimizer) > 0;
}

std::vector<std::string> contradictions(const Recipe& recipe, Effects effects) {
  return Contradictions(recipe).find(effects);
}

}  // namespace paceline
