#include "paceline/metrics/recorder.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "paceline/core/check.h"
#include "paceline/core/file.h"

namespace paceline {
namespace {

double wall_time_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The lines of steps up to `last_step`; what cannot be read goes too: only a torn last line can be so.
std::string lines_up_to(int64_t last_step, std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) continue;
    if (object["step"].get<int64_t>() <= last_step) kept.append(line).append("\n");
  }
  return kept;
}

std::filesystem::path lines_to_continue(const std::filesystem::path& run_folder, int64_t resumed_step) {
  CHECK_GE(resumed_step, 0);
  make_directories(run_folder);
  const std::filesystem::path path = run_folder / "metrics.jsonl";
  if (std::filesystem::exists(path)) {
    replace_file(path, resumed_step == 0 ? "" : lines_up_to(resumed_step, read_file(path)));
  }
  return path;
}

}  // namespace

Recorder::Recorder(const std::filesystem::path& run_folder, int64_t resumed_step)
    : lines_(lines_to_continue(run_folder, resumed_step)),
      events_(run_folder, wall_time_seconds(), resumed_step == 0 ? 0 : resumed_step + 1) {}

void Recorder::record(const std::string& kind, int64_t step, double epoch, double seconds, const Values& values) {
  write({{"kind", kind}, {"step", step}, {"epoch", epoch}, {"seconds", seconds}}, kind, values);
}

void Recorder::record_of(const std::string& kind, const std::string& which, int64_t step, double epoch, double seconds,
                         const Values& values) {
  write({{"kind", kind}, {"step", step}, {"epoch", epoch}, {"seconds", seconds}, {kind, which}}, kind + "/" + which,
        values);
}

void Recorder::write(nlohmann::ordered_json line, const std::string& tag, const Values& values) {
  for (const auto& [name, value] : values) line[name] = value;
  lines_.append(line.dump() + "\n");  // dump() writes null for what is not finite

  const double now = wall_time_seconds();
  const auto step = line["step"].get<int64_t>();
  for (const auto& [name, value] : values) events_.scalar(tag + "/" + name, step, static_cast<float>(value), now);

  const auto seconds = line["seconds"].get<double>();
  if (line["kind"] == "test" || seconds - flushed_seconds_ >= 1) {
    flush();
    flushed_seconds_ = seconds;
  }
}

void Recorder::flush() {
  lines_.flush();
  events_.flush();
}

}  // namespace paceline
