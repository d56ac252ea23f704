#include "paceline/cli/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "paceline/core/nearest.h"
#include "paceline/core/recipe_keys.h"

namespace paceline {
namespace {

std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : full_name(*app.get_parent()) + " " + app.get_name();
}

bool is_option(const std::string& argument) { return argument.size() > 1 && argument.front() == '-'; }

// The key that an option of other programs would set: --epochs, --batch-size, --lr.
std::optional<std::string> recipe_key(std::string name) {
  static const std::map<std::string, std::string> kOtherNames = {
      {"lr", "optimizer.rate"},     {"learning_rate", "optimizer.rate"},  {"batch_size", "batch.global"},
      {"dataset", "data.name"},     {"workers", "data.loader_threads"},   {"num_workers", "data.loader_threads"},
      {"steps", "train.max_steps"}, {"warmup", "schedule.warmup_epochs"}, {"amp", "train.precision"},
      {"data_dir", "data.root"},    {"dtype", "train.precision"}};
  name.erase(0, name.find_first_not_of('-'));
  std::ranges::replace(name, '-', '_');
  if (const auto other = kOtherNames.find(name); other != kOtherNames.end()) return other->second;
  if (find_key(name) != nullptr) return name;
  if (find_key(name + ".name") != nullptr) return name + ".name";
  std::vector<std::string> names;
  for (const DeclaredSection& section : declared_sections())
    for (const DeclaredKey& key : section.keys) names.push_back(key.name);
  const bool long_enough = name.size() > 4;  // shorter ones resemble something in every case
  const bool exact = std::ranges::count(names, name) > 0;
  const auto meant = exact ? std::optional(name) : long_enough ? nearest(name, names) : std::nullopt;
  if (!meant || std::ranges::count(names, *meant) != 1) return std::nullopt;
  for (const DeclaredSection& section : declared_sections())
    for (const DeclaredKey& key : section.keys)
      if (key.name == *meant) return key.full_name();
  return std::nullopt;
}

std::string meant_instead(const CLI::App& command, const std::string& name, const std::string& value) {
  const bool takes_keys = command.get_option_no_throw("--set") != nullptr;
  if (const auto key = takes_keys ? recipe_key(name) : std::nullopt)
    return fmt::format("; did you mean '--set {}={}'?", *key, value.empty() ? "VALUE" : value);
  std::vector<std::string> own;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& long_name : option->get_lnames()) own.push_back("--" + long_name);
  return did_you_mean(name, own);
}

std::string unknown_argument(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App& command = command_of(app);
  const std::vector<std::string> unknown = app.remaining(true);
  const auto is_unknown = [&](const std::string& argument) { return std::ranges::count(unknown, argument) > 0; };
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (!is_option(arguments[i]) || !is_unknown(arguments[i])) continue;
    const size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals);
    std::string value = equals == std::string::npos ? "" : arguments[i].substr(equals + 1);
    if (equals == std::string::npos && i + 1 < arguments.size() && !is_option(arguments[i + 1]))
      value = arguments[i + 1];
    return fmt::format("'{}' has no option '{}'{}", full_name(command), name, meant_instead(command, name, value));
  }
  for (const std::string& argument : arguments)
    if (is_unknown(argument)) return fmt::format("'{}' does not expect '{}'", full_name(command), argument);
  return "arguments that are not expected";
}

}  // namespace

std::string HelpText::make_usage(const CLI::App* app, std::string name) const {
  std::string usage = CLI::Formatter::make_usage(app, name);
  std::string required;
  for (const CLI::Option* option : app->get_options())
    if (option->get_required() && option->nonpositional())
      required += fmt::format(" --{} {}", option->get_lnames().front(), option->get_type_name());
  const size_t options = usage.find(" [OPTIONS]");
  if (options != std::string::npos) usage.insert(options, required);
  return usage;
}

std::vector<std::string> with_help_as_option(std::vector<std::string> arguments) {
  if (arguments.size() < 2 || arguments[1] != "help") return arguments;
  arguments.erase(arguments.begin() + 1);
  arguments.emplace_back("--help");
  return arguments;
}

const CLI::App& command_of(const CLI::App& app) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  return commands.empty() ? app : command_of(*commands.back());
}

std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error,
                          const std::vector<std::string>& arguments) {
  const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  return fmt::format("{} (see '{} --help')", extra ? unknown_argument(app, arguments) : error.what(),
                     full_name(command_of(app)));
}

}  // namespace paceline
