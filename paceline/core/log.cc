#include "paceline/core/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>

#include <cstdio>

#include "paceline/core/error.h"
#include "paceline/core/file.h"

namespace paceline {
namespace {

spdlog::level::level_enum spdlog_level(Log::Level level) {
  switch (level) {
    case Log::Level::debug:
      return spdlog::level::debug;
    case Log::Level::info:
      return spdlog::level::info;
    case Log::Level::warning:
      return spdlog::level::warn;
    case Log::Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string_view prefix(Log::Level level) {
  switch (level) {
    case Log::Level::warning:
      return "warning: ";
    case Log::Level::error:
      return "error: ";
    default:
      return "";
  }
}

}  // namespace

struct Log::File {
  explicit File(const std::string& path) : logger("file", std::make_shared<spdlog::sinks::basic_file_sink_mt>(path)) {}
  spdlog::logger logger;
};

Log::Log(Console console) : console_(std::move(console)) {}
Log::~Log() = default;

void Log::write_to(const std::filesystem::path& path) {
  make_private_file(path);
  try {
    file_ = std::make_unique<File>(path.string());
    file_->logger.set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    file_->logger.set_level(spdlog::level::debug);
    file_->logger.flush_on(spdlog::level::debug);  // a killed run keeps its last line
  } catch (const spdlog::spdlog_ex& failure) {
    throw FileError(fmt::format("cannot write the log {}: {}", path.string(), failure.what()));
  }
}

void Log::write(Level level, std::string_view text) {
  if (console_ && level >= level_) console_(fmt::format("{}{}", prefix(level), text));
  if (file_) file_->logger.log(spdlog_level(level), text);
}

Log::Console stderr_console() {
  return [](std::string_view line) { fmt::print(stderr, "{}\n", line); };
}

}  // namespace paceline
