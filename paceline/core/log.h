// Log: one line per event, to the console and to a run's log.txt. A value that `main` owns; there is no global logger.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

namespace paceline {

class Log {
 public:
  enum class Level { debug, info, warning, error };
  // Writes one line, without its newline, where people look.
  using Console = std::function<void(std::string_view line)>;

  explicit Log(Console console);  // level info; pass nullptr for none
  ~Log();

  // Also write to this file, with times and levels; an existing file is continued. Throws FileError.
  void write_to(const std::filesystem::path& file);

  void set_level(Level level) { level_ = level; }  // of the console; the file gets everything

  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) {
    write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    write(Level::info, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) {
    write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) {
    write(Level::error, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void write(Level level, std::string_view text);

  struct File;
  Console console_;
  Level level_ = Level::info;
  std::unique_ptr<File> file_;
};

// Prints to standard error.
Log::Console stderr_console();

}  // namespace paceline
