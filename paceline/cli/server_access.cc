#include "paceline/cli/server_access.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "paceline/core/file.h"
#include "paceline/ps/certificates.h"

namespace paceline {

void ServerAccess::add_options(CLI::App& command) {
  command
      .add_option("--run", name,
                  "The run's name: servers and workers of other runs are refused (default: the recipe's)")
      ->type_name("NAME");
  command
      .add_option("--certs", certs, "A folder with authority, certificate and key, made by 'paceline certs': talk TLS")
      ->type_name("DIR");
  command.add_flag("--insecure", insecure, "Talk in the clear, also beyond this machine");
}

std::string ServerAccess::run(const Recipe& recipe) const { return name.empty() ? recipe.title : name; }

TransportSecurity ServerAccess::security(Role role) const {
  TransportSecurity security = {.insecure = insecure};
  if (const char* token = std::getenv(kServerTokenVariable); token != nullptr) {
    if (*token == 0) throw UsageError(fmt::format("{} is empty: give it a secret, or unset it", kServerTokenVariable));
    security.token = token;
  }
  if (certs.empty()) return security;
  const CertificateFiles files = certificate_files(certs);
  security.authority_pem = read_file(files.authority);
  security.token_suffices = !security.token.empty();
  if (role == Role::server) {
    security.certificate_pem = read_file(files.server);
    security.key_pem = read_file(files.server_key);
  } else if (security.token.empty() || std::filesystem::exists(files.client)) {
    if (!std::filesystem::exists(files.client)) {
      throw FileError(fmt::format("{} is not there: a worker needs it and its key, or the servers' token in {}",
                                  files.client.string(), kServerTokenVariable));
    }
    security.certificate_pem = read_file(files.client);
    security.key_pem = read_file(files.client_key);
  }
  return security;
}

std::filesystem::path server_state_folder(const std::string& run) {
  return std::filesystem::path("/dev/shm") / ("paceline-server-" + std::to_string(::getuid()) + "-" + run);
}

}  // namespace paceline
