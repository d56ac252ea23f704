// The two families of errors, and the exit code of each.
//
// The world failed: a subclass of Error below. Its text says what happened, where, and what to do next; `main` prints
// it as one line and exits with its code. We failed: InternalError, thrown by the macros of check.h.
#pragma once

#include <stdexcept>
#include <string>

namespace paceline {

// docs/errors.md explains these to users.
enum class ExitCode {
  success = 0,
  unexpected = 1,    // an exception that is none of ours
  usage = 2,         // the command line
  recipe = 3,        // the recipe
  data = 4,          // a data set, a weights file
  file = 5,          // the file system: missing, full, not permitted
  training = 6,      // the run itself: the loss is not finite
  peer = 7,          // another rank
  internal = 70,     // a bug in Paceline
  interrupted = 130  // Ctrl-C, after the checkpoint was written
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), exit_code_(code) {}
  ExitCode exit_code() const { return exit_code_; }

  // Whoever has already told people of it says so; main then need not.
  bool told() const { return told_; }
  void set_told() { told_ = true; }

 private:
  ExitCode exit_code_;
  bool told_ = false;
};

class UsageError : public Error {
 public:
  explicit UsageError(const std::string& what) : Error(ExitCode::usage, what) {}
};

class RecipeError : public Error {
 public:
  explicit RecipeError(const std::string& what) : Error(ExitCode::recipe, what) {}
};

class DataError : public Error {
 public:
  explicit DataError(const std::string& what) : Error(ExitCode::data, what) {}
};

class FileError : public Error {
 public:
  explicit FileError(const std::string& what) : Error(ExitCode::file, what) {}
};

class TrainingError : public Error {
 public:
  explicit TrainingError(const std::string& what) : Error(ExitCode::training, what) {}
};

class PeerError : public Error {
 public:
  explicit PeerError(const std::string& what) : Error(ExitCode::peer, what) {}
};

class InternalError : public Error {
 public:
  explicit InternalError(const std::string& what) : Error(ExitCode::internal, what) {}
};

}  // namespace paceline
