#include "paceline/ps/transport_grpc_handshakes.h"

#include <fmt/format.h>
#include <grpc/support/log.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace paceline {
namespace {

constexpr std::string_view kServersFile = "chttp2_server.cc";  // handshakes of clients are told by connect()
constexpr std::string_view kFailed = "Handshaking failed: ";
constexpr auto kSilence = static_cast<gpr_log_severity>(GPR_LOG_SEVERITY_ERROR + 1);

bool wants_lines_of_grpc() { return std::getenv("GRPC_VERBOSITY") != nullptr; }

std::mutex watch_mutex;
std::vector<RefusalLog*> watchers;

void read_line(gpr_log_func_args* line) {
  const std::string_view text = line->message;
  if (!std::string_view(line->file).ends_with(kServersFile) || !text.starts_with(kFailed)) return;
  const std::string why = "the TLS handshake failed: " + handshake_failure(text.substr(kFailed.size()));
  const std::lock_guard lock(watch_mutex);
  for (RefusalLog* const refusals : watchers) refusals->add("a client", why);
}

}  // namespace

HandshakeWatch::HandshakeWatch(RefusalLog& refusals) : refusals_(refusals) {
  if (wants_lines_of_grpc()) return;
  const std::lock_guard lock(watch_mutex);
  watchers.push_back(&refusals_);
  gpr_set_log_function(&read_line);
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);
}

HandshakeWatch::~HandshakeWatch() {
  const std::lock_guard lock(watch_mutex);
  std::erase(watchers, &refusals_);
  if (watchers.empty() && !wants_lines_of_grpc()) gpr_set_log_verbosity(kSilence);
}

std::string handshake_failure(std::string_view line) {
  // "UNKNOWN:Ssl handshake failed: SSL_ERROR_SSL: error:0A0000C7:SSL routines::REASON {file:...}"
  constexpr std::string_view kRoutines = "SSL routines::";
  std::string_view reason = line.substr(0, line.find(" {"));
  if (const size_t at = reason.find(kRoutines); at != std::string_view::npos)
    reason.remove_prefix(at + kRoutines.size());
  return std::string(reason.substr(0, 200));
}

void quiet_grpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!wants_lines_of_grpc()) gpr_set_log_verbosity(kSilence);
  });
}

}  // namespace paceline
