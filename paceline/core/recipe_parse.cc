// From TOML to a recipe. The only file that knows toml++.
//
// Every error of a recipe is reported at once, in the order of the file. Contradictions between keys are looked for
// only when each key alone is right.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "paceline/core/bytes.h"
#include "paceline/core/check.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/nearest.h"
#include "paceline/core/recipe_effects.h"
#include "paceline/core/recipe_keys.h"
#include "paceline/core/stored_recipe.h"

namespace paceline {
namespace {

constexpr std::string_view kSeeKeys = " (see 'paceline recipe keys')";

// Where a key or value stands. Sorts as a reader meets them: the file from top to bottom, then the command line.
struct Place {
  size_t override_number = 0;  // 0: in the file
  size_t line = 0, column = 0;
  std::string text;

  bool operator<(const Place& other) const {
    return std::tie(override_number, line, column) < std::tie(other.override_number, other.line, other.column);
  }
};

// What was found instead: `the text "one"`.
std::string in_words(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::boolean:
      return fmt::format("the boolean {}", node.ref<bool>());
    case toml::node_type::integer:
      return fmt::format("the integer {}", node.ref<int64_t>());
    case toml::node_type::floating_point: {
      const std::string number = print_number(node.ref<double>());
      const bool looks_whole = number.find_first_not_of("-0123456789") == std::string::npos;
      return fmt::format("the number {}{}", number, looks_whole ? ".0" : "");
    }
    case toml::node_type::string:
      return "the text " + print_text(node.ref<std::string>());
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

std::string_view expected(KeyType type) {
  constexpr std::string_view kTexts[] = {"true or false",  "an integer",        "a number",
                                         "text in quotes", "a list of numbers", "a size, such as 65536 or \"4MiB\""};
  return kTexts[static_cast<size_t>(type)];
}

std::optional<double> as_number(const toml::node& node) {
  if (node.is_floating_point()) return node.ref<double>();
  if (node.is_integer()) return static_cast<double>(node.ref<int64_t>());
  return std::nullopt;
}

class RecipeParser {
 public:
  explicit RecipeParser(std::string file_name) : file_name_(std::move(file_name)) {
    recipe_.title = std::filesystem::path(file_name_).stem().string();
  }

  void read_file(std::string_view toml) {
    const toml::table root = parse_toml(toml);
    for (const auto& [name, node] : root) {
      const Place place = place_of(name.source());
      if (const toml::table* keys = node.as_table()) {
        read_section(std::string(name.str()), *keys, place);
      } else if (find_section(name.str()) != nullptr) {
        complain(place, name.str(),
                 fmt::format("is a section, not a key: expected [{}], found {}", name.str(), in_words(node)));
      } else {
        const auto meant = sections_with_similar(std::string(name.str()));
        complain(place, name.str(), fmt::format("stands outside a section{}{}", meant, kSeeKeys));
      }
    }
  }

  // "section.key=value", as --set takes it.
  void read_override(const std::string& text) {
    ++override_number_;
    override_text_ = "--set " + text;
    const Place place = place_of({});
    const size_t equals = text.find('=');
    const std::string full_name = text.substr(0, equals);
    const size_t dot = full_name.find('.');
    if (equals == std::string::npos || dot == std::string::npos) {
      complain(place, "", "expected section.key=value, such as --set train.epochs=2");
      return;
    }
    const std::string section = full_name.substr(0, dot);
    const DeclaredKey* key = find_key(full_name);
    if (find_section(section) == nullptr) {
      complain_of_unknown_section(place, section);
    } else if (key == nullptr) {
      complain_of_unknown_key(place, section, full_name.substr(dot + 1));
    } else if (!overridden_.insert(full_name).second) {
      complain(place, full_name, "is set twice on the command line");
    } else if (text.substr(equals + 1) == "default") {  // as if the file had not said anything
      key->member.set(recipe_, key->default_value());
      recipe_.written.erase(full_name);
    } else if (const auto value = parse_override_value(text.substr(equals + 1), place, full_name)) {
      read_key(*key, *value->get("value"), place);
      replace_other_batch(full_name);
    }
  }

  Recipe finish(Effects effects) {
    throw_problems();
    leave_out_what_overrides_replace();
    settle_defaults();
    const std::vector<std::string> found = contradictions(recipe_, effects);
    if (!found.empty()) throw RecipeError(fmt::format("{}", fmt::join(found, "\n")));
    if (recipe_.batch.local != 0) recipe_.batch.global = 0;
    return std::move(recipe_);
  }

 private:
  // What the file says about the momentum, say, counts no more when the command line names an optimizer without.
  void leave_out_what_overrides_replace() {
    for (bool again = true; again;) {
      again = false;
      for (const DeclaredSection& section : declared_sections()) {
        for (const DeclaredKey& key : section.keys) {
          const std::string name = key.full_name();
          if (!recipe_.written.contains(name) || overridden_.contains(name)) continue;
          if (!is_replaced(key)) continue;
          key.member.set(recipe_, key.default_value());
          recipe_.written.erase(name);
          again = true;
        }
      }
    }
  }

  bool is_replaced(const DeclaredKey& key) const {
    if (key.full_name() == "optimizer.nesterov" && overridden_.contains("optimizer.name") &&
        is_known_and_not_sgd(recipe_.optimizer.name))
      return true;
    if (!key.applies.holds(recipe_)) return key.full_name() != "batch.global" && overridden_.contains(key.applies.key);
    const KeyWithoutEffect* const entry = refused_by_mode(key, recipe_);
    return entry != nullptr && overridden_.contains(std::string(entry->decides));
  }

  // Keys that nobody has given and whose default follows from others.
  void settle_defaults() {
    const auto given = [&](const char* key) { return recipe_.written.contains(key); };
    if (recipe_.train.precision == "f16" && !given("precision.loss_scaling"))
      recipe_.precision.loss_scaling = "dynamic";
    if (is_adaptive(recipe_.optimizer.name) && !given("optimizer.rate")) recipe_.optimizer.rate = kAdaptiveRate;
    if (recipe_.optimizer.name == "hybrid" && !given("schedule.decay_from")) recipe_.schedule.decay_from = "warmup_end";
  }

  // Those whose steps are about as long as the rate, whatever the gradient: 0.1 would tear a network apart.
  static constexpr double kAdaptiveRate = 0.001;
  static bool is_adaptive(const std::string& optimizer) {
    return optimizer == "adam" || optimizer == "adamw" || optimizer == "adabound" || optimizer == "rmsprop";
  }

  struct Problem {
    Place place;
    std::string text;
  };

  Place place_of(const toml::source_region& source) const {
    if (override_number_ > 0) return {override_number_, 0, 0, override_text_};
    const auto [line, column] = source.begin;
    return {0, line, column, fmt::format("{}:{}:{}", file_name_, line, column)};
  }

  void complain(const Place& place, std::string_view name, const std::string& what) {
    problems_.push_back({place, name.empty() ? fmt::format("{}: {}", place.text, what)
                                             : fmt::format("{}: {}: {}", place.text, name, what)});
  }

  void throw_problems() {
    if (problems_.empty()) return;
    std::ranges::stable_sort(problems_, [](const Problem& a, const Problem& b) { return a.place < b.place; });
    std::vector<std::string> lines;
    for (const Problem& problem : problems_) lines.push_back(problem.text);
    throw RecipeError(fmt::format("{}", fmt::join(lines, "\n")));
  }

  // A file that is no TOML has this one error only: nothing behind it can be trusted.
  toml::table parse_toml(std::string_view toml) const {
    try {
      return toml::parse(toml);
    } catch (const toml::parse_error& error) {
      const std::string_view what = error.description();
      const bool bare_word = what.find("could not determine value type") != std::string_view::npos;
      throw RecipeError(fmt::format("{}: not valid TOML: {}{}", place_of(error.source()).text,
                                    is_open_text(what) ? "the text is not closed: a quote is missing" : what,
                                    bare_word ? "; text needs quotes" : ""));
    }
  }

  // toml++ meets the end of the line, or of the file, within the text.
  static bool is_open_text(std::string_view what) {
    const auto says = [&](std::string_view words) { return what.find(words) != std::string_view::npos; };
    return says("string") && (says("control characters") || says("end-of-file") || says("line-break"));
  }

  void read_section(const std::string& section, const toml::table& keys, const Place& place) {
    if (find_section(section) == nullptr) {
      complain_of_unknown_section(place, section);
      return;
    }
    for (const auto& [name, node] : keys) {
      const Place key_place = place_of(name.source());
      if (const DeclaredKey* key = find_key(fmt::format("{}.{}", section, name.str()))) {
        read_key(*key, node, key_place);
      } else {
        complain_of_unknown_key(key_place, section, std::string(name.str()));
      }
    }
  }

  void complain_of_unknown_section(const Place& place, const std::string& name) {
    std::vector<std::string> known;
    for (const DeclaredSection& section : declared_sections()) known.push_back(section.name);
    complain(place, name, fmt::format("unknown section{}{}", did_you_mean(name, known), kSeeKeys));
  }

  // Meant is the same name in another section, or else a similar one here, or else a similar one elsewhere.
  void complain_of_unknown_key(const Place& place, const std::string& section, const std::string& name) {
    std::vector<std::string> here;
    for (const DeclaredKey& key : find_section(section)->keys) here.push_back(key.name);
    std::string meant = sections_with(name);
    if (meant.empty()) meant = did_you_mean(name, here);
    if (meant.empty()) meant = sections_with_similar(name);
    complain(place, fmt::format("{}.{}", section, name), fmt::format("unknown key{}{}", meant, kSeeKeys));
  }

  // "; did you mean 'train.seed'?": every section that has a key of this name.
  static std::string sections_with(const std::string& name) {
    std::vector<std::string> found;
    for (const DeclaredSection& section : declared_sections()) {
      for (const DeclaredKey& key : section.keys) {
        if (key.name == name) found.push_back(fmt::format("'{}'", key.full_name()));
      }
    }
    return found.empty() ? "" : fmt::format("; did you mean {}?", fmt::join(found, " or "));
  }

  // The same, or else every section that has a key of the most similar name.
  static std::string sections_with_similar(const std::string& name) {
    static const std::vector<std::string> all_names = [] {
      std::vector<std::string> names;
      for (const DeclaredSection& section : declared_sections())
        for (const DeclaredKey& key : section.keys) names.push_back(key.name);
      return names;
    }();
    if (std::string same = sections_with(name); !same.empty()) return same;
    const bool long_enough = name.size() > 4;  // shorter ones resemble something in every case
    const auto similar = long_enough ? nearest(name, all_names) : std::nullopt;
    return similar ? sections_with(*similar) : "";
  }

  void read_key(const DeclaredKey& key, const toml::node& node, const Place& place) {
    if (const auto value = value_of(key, node)) {
      key.member.set(recipe_, *value);
      recipe_.written[key.full_name()] = place.text;
    }
  }

  // Nothing when it was complained about.
  std::optional<RecipeValue> value_of(const DeclaredKey& key, const toml::node& node) {
    const KeyType type = key.type();
    if (type != KeyType::numbers) return single_value_of(key, type, node);
    const toml::array* elements = node.as_array();
    if (elements == nullptr) return wrong_type(key, type, node);
    std::vector<double> numbers;
    for (const toml::node& element : *elements) {
      const auto number = single_value_of(key, KeyType::number, element);
      if (!number) return std::nullopt;
      numbers.push_back(std::get<double>(*number));
    }
    return numbers;
  }

  std::optional<RecipeValue> single_value_of(const DeclaredKey& key, KeyType type, const toml::node& node) {
    std::optional<RecipeValue> value;
    if (key.number_word && node.is_string()) {
      if (node.ref<std::string>() != key.number_word->word) return wrong_type(key, type, node);
      return key.number_word->stands_for;
    }
    const bool is_natural = std::holds_alternative<uint64_t>(key.member.get(recipe_));
    if (type == KeyType::boolean && node.is_boolean()) value = node.ref<bool>();
    if (type == KeyType::text && node.is_string()) value = node.ref<std::string>();
    if (type == KeyType::number) {
      if (const auto number = as_number(node)) value = *number;
    }
    if ((type == KeyType::integer || type == KeyType::size) && node.is_integer()) value = node.ref<int64_t>();
    if (type == KeyType::size && node.is_string()) {
      const auto bytes = parse_bytes(node.ref<std::string>());
      if (!bytes) return wrong_type(key, type, node);
      value = *bytes;
    }
    if (!value) return wrong_type(key, type, node);
    if (const auto what = refusal(key, *value)) {
      complain(place_of(node.source()), key.full_name(), *what);
      return std::nullopt;
    }
    // Only now that it is known not to be negative.
    if (const auto* integer = std::get_if<int64_t>(&*value); integer != nullptr && is_natural) {
      return static_cast<uint64_t>(*integer);
    }
    return value;
  }

  std::nullopt_t wrong_type(const DeclaredKey& key, KeyType type, const toml::node& node) {
    complain(place_of(node.source()), key.full_name(),
             fmt::format("expected {}{}, found {}", expected(type),
                         key.number_word ? " or " + print_text(key.number_word->word) : "", in_words(node)));
    return std::nullopt;
  }

  // A table with the one key "value"; nothing when it was complained about.
  std::optional<toml::table> parse_override_value(const std::string& text, const Place& place,
                                                  const std::string& full_name) {
    if (text.find('\n') == std::string::npos) {
      try {
        return toml::parse("value = " + text);
      } catch (const toml::parse_error& error) {
        // Bare text: 4MiB, resnet18, ../data/mnist. What starts as a TOML value of another kind is a typing error in
        // one.
        if (!text.empty() && std::string_view("\"'[{").find(text.front()) == std::string_view::npos) {
          return toml::table{{"value", text}};
        }
        if (!text.empty()) {
          complain(place, full_name, fmt::format("not valid TOML: {}", error.description()));
          return std::nullopt;
        }
      }
    }
    complain(place, full_name, text.empty() ? "has no value" : "expected one value, found several lines");
    return std::nullopt;
  }

  // batch.global and batch.local say the same thing in two ways: on the command line, one replaces the file's other.
  void replace_other_batch(const std::string& full_name) {
    if (full_name == "batch.local" && recipe_.batch.local != 0 && !overridden_.contains("batch.global")) {
      recipe_.written.erase("batch.global");
    }
    if (full_name == "batch.global" && !overridden_.contains("batch.local")) {
      recipe_.written.erase("batch.local");
      recipe_.batch.local = 0;
    }
  }

  std::string file_name_;
  Recipe recipe_;
  std::vector<Problem> problems_;
  std::set<std::string> overridden_;
  size_t override_number_ = 0;
  std::string override_text_;
};

}  // namespace

Recipe parse_recipe(std::string_view toml, const std::string& file_name, const std::vector<std::string>& overrides) {
  RecipeParser parser(file_name);
  parser.read_file(toml);
  for (const std::string& text : overrides) parser.read_override(text);
  return parser.finish(Effects::required);
}

Recipe parse_stored_recipe(std::string_view toml, const std::string& file_name) {
  RecipeParser parser(file_name);
  parser.read_file(toml);
  return parser.finish(Effects::any);
}

Recipe read_stored_recipe(const std::filesystem::path& file) {
  return parse_stored_recipe(read_file(file), file.string());
}

}  // namespace paceline
