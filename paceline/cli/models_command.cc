#include "paceline/cli/models_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "paceline/cli/at_least_one.h"
#include "paceline/core/number_text.h"
#include "paceline/models/model.h"

namespace paceline {
namespace {

struct ModelsArguments {
  int64_t classes = 1000;
  bool json = false;
};

void list_models(const ModelsArguments& arguments, const Registry<ModelInfo>& models) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::string& name : models.names()) {
    const ModelInfo& info = models.at(name);
    // Memory that is never touched costs nothing: even VGG-16 is only counted here.
    const auto model = make_model(models, name, {.classes = arguments.classes, .image_size = info.usual_input});
    rows.push_back({{"name", name},
                    {"parameters", parameter_count(*model)},
                    {"classes", arguments.classes},
                    {"smallest_input", info.smallest_input},
                    {"usual_input", info.usual_input},
                    {"summary", info.summary}});
  }
  if (arguments.json) {
    fmt::print("{}\n", rows.dump(2));
    return;
  }
  fmt::print("{:<14} {:>12}  {:>8}  {:>7}  {}\n", "model", "parameters", "smallest", "usual", "");
  for (const auto& row : rows) {
    fmt::print("{:<14} {:>12}  {:>5} px  {:>4} px  {}\n", row["name"].get<std::string>(),
               with_commas(row["parameters"].get<uint64_t>()), row["smallest_input"].get<int64_t>(),
               row["usual_input"].get<int64_t>(), row["summary"].get<std::string>());
  }
  fmt::print(
      "\nParameters at {} classes, 3 channels and the usual image; 'smallest' is the smallest image that a model "
      "takes.\n",
      arguments.classes);
}

}  // namespace

void add_models_command(CLI::App& app, const Catalog& catalog) {
  CLI::App* command = app.add_subcommand("models", "List the models that a recipe can name");
  const auto arguments = std::make_shared<ModelsArguments>();
  command->add_option("--classes", arguments->classes, "Count parameters for this many classes")
      ->capture_default_str()
      ->check(at_least_one);
  command->add_flag("--json", arguments->json, "Print the list as JSON");
  command->footer(
      "Examples:\n"
      "  paceline models\n"
      "  paceline models --classes 10 --json");
  command->callback([arguments, &catalog] { list_models(*arguments, catalog.models); });
}

}  // namespace paceline
