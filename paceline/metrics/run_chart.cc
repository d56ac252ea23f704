#include "paceline/metrics/run_chart.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "paceline/core/file.h"
#include "paceline/metrics/line_chart.h"

namespace paceline {

std::string run_chart_svg(const std::filesystem::path& run_folder, const std::string& title) {
  Chart loss = {"Loss", "epoch", "loss", {{"train", {}}, {"test", {}}}, {}, /*x_from_zero=*/true};
  Chart accuracy = {"Accuracy", "epoch", "accuracy, %", {{"train", {}}, {"test", {}}}, {}, /*x_from_zero=*/true};

  std::istringstream lines(read_file(run_folder / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("epoch") || !record["epoch"].is_number()) continue;
    const auto kind = record.find("kind");
    if (kind == record.end() || (*kind != "train" && *kind != "test")) continue;
    const size_t series = *kind == "train" ? 0 : 1;
    const double epoch = record["epoch"].get<double>();
    const auto add = [&](const char* name, double scale, Chart& chart) {
      if (!record.contains(name)) return;
      const double value = record[name].is_number() ? record[name].get<double>() * scale : NAN;  // null: a gap
      chart.series[series].points.emplace_back(epoch, value);
    };
    add("loss", 1, loss);
    add("accuracy", 100, accuracy);
  }
  return line_chart_svg({loss, accuracy}, {}, title);
}

std::string chart_title(const Recipe& recipe) {
  return fmt::format("{}{}{} on {}", recipe.title, recipe.title.empty() ? "" : ": ", recipe.model.name,
                     recipe.data.name);
}

}  // namespace paceline
