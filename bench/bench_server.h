// What the programs that measure a parameter server have in common: a server that is asynchronous and has samples
// enough, its state in memory, certificates.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/ps/certificates.h"
#include "paceline/ps/server.h"

namespace paceline {

// A folder with a new name, gone with all that is in it when this ends.
class BenchFolder {
 public:
  explicit BenchFolder(const std::filesystem::path& parent) {
    std::string name = parent / "server-bench-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw FileError("cannot create " + name);
    path_ = name;
  }
  ~BenchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// `certificates`: a folder of 'paceline certs'; empty: plaintext, on a link that is nobody else's.
inline TransportSecurity bench_security(const std::filesystem::path& certificates, bool server) {
  if (certificates.empty()) return {.insecure = true};
  const CertificateFiles files = certificate_files(certificates);
  return {.authority_pem = read_file(files.authority),
          .certificate_pem = read_file(server ? files.server : files.client),
          .key_pem = read_file(server ? files.server_key : files.client_key)};
}

inline constexpr const char* kBenchRun = "bench";
inline ShardMap bench_map(uint64_t elements) { return {{{"w", elements, true}}, 1}; }

inline ServerOptions bench_server(uint64_t elements, int workers, const std::filesystem::path& state_folder) {
  ServerOptions options = {.map = bench_map(elements)};
  options.update.most_workers = workers;
  options.coordinator.policy = "asp";
  options.coordinator.sync.workers = workers;
  options.coordinator.plan = {
      .data_size = 1'000'000'000, .total_samples = 1'000'000'000, .global_batch = 1, .workers = 1};
  options.run = kBenchRun;
  options.state_folder = state_folder;
  return options;
}

}  // namespace paceline
