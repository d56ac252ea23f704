// How processes of a parameter server know each other: the run's name, certificates, a token. For `serve` and `train`.
#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>

#include "paceline/core/recipe.h"
#include "paceline/ps/transport.h"

namespace paceline {

// The token is never an argument, which everybody on the machine can read: it comes from the environment.
inline constexpr const char* kServerTokenVariable = "PACELINE_SERVER_TOKEN";

struct ServerAccess {
  std::string name;   // of the run
  std::string certs;  // a folder of `paceline certs`
  bool insecure = false;

  void add_options(CLI::App& command);
  std::string run(const Recipe& recipe) const;  // `name`, or the recipe's title
  enum class Role { server, client };
  // A client needs its certificate and key, or the token: authority.pem is enough then. Servers always have theirs.
  // Throws FileError for files that are missing, UsageError for an empty token.
  TransportSecurity security(Role role) const;
};

// Where a run's servers keep what survives them.
std::filesystem::path server_state_folder(const std::string& run);

}  // namespace paceline
