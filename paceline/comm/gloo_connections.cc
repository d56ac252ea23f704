#include "paceline/comm/gloo_connections.h"

#include <dlfcn.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>

namespace paceline {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// The store as Gloo wants it, for one group and until a deadline.
class Meeting : public gloo::rendezvous::Store {
 public:
  Meeting(paceline::Store& store, const GroupIdentity& identity, int64_t timeout_ms)
      : store_(store),
        rank_(identity.rank),
        prefix_(fmt::format("gloo/{}/{}/", identity.name, identity.generation)),
        deadline_(Clock::now() + Milliseconds(timeout_ms)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set(prefix_ + key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {  // "3" or "rank_3"
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline_ - Clock::now());
    try {
      const std::string value = store_.get(prefix_ + key, std::max<int64_t>(left.count(), 0));
      return {value.begin(), value.end()};
    } catch (const PeerError& error) {
      throw PeerError(fmt::format("rank {}: rank {} did not come to be connected: {}", rank_,
                                  key.substr(key.find('_') + 1), error.what()));
    }
  }
  void wait(const std::vector<std::string>&) override {}  // get() waits

 private:
  paceline::Store& store_;
  int rank_;
  std::string prefix_;
  Clock::time_point deadline_;
};

// libtorch exports another version of Gloo under the same names: the first collective would crash.
void require_the_right_gloo() {
  Dl_info found{};
  const auto* const function = reinterpret_cast<const void*>(&gloo::transport::tcp::CreateDevice);
  if (dladdr(function, &found) != 0 && std::string_view(found.dli_fname).find("libtorch") != std::string_view::npos)
    throw UsageError(fmt::format("this program takes Gloo from {}; link -lgloo before libtorch", found.dli_fname));
}

// Asked here because Gloo goes on with a look-up that failed, and loses memory when it cannot bind.
void require_own_address(const std::string& address) {
  const addrinfo hints = {.ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.c_str(), nullptr, &hints, &found);
  if (error != 0)
    throw PeerError(fmt::format("the address '{}' of this host does not resolve: {}", address, gai_strerror(error)));
  bool bound = false;
  for (const addrinfo* place = found; place != nullptr && !bound; place = place->ai_next) {
    const int descriptor = socket(place->ai_family, place->ai_socktype, place->ai_protocol);
    bound = descriptor >= 0 && bind(descriptor, place->ai_addr, place->ai_addrlen) == 0;
    if (descriptor >= 0) close(descriptor);
  }
  freeaddrinfo(found);
  if (!bound)
    throw PeerError(fmt::format("{} is no address of this host; give one where other hosts reach it", address));
}

// Gloo writes with writev, which cannot ask to be spared the signal.
void ignore_broken_pipes() {
  struct sigaction now {};
  sigaction(SIGPIPE, nullptr, &now);
  if (now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

// They begin with the place in Gloo's source: "[/build/.../pair.cc:598] Connection closed by peer ...".
std::string text_of(const std::exception& error) {
  const std::string text = error.what();
  const size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

void GlooConnections::require_intact(int peer, gloo::transport::UnboundBuffer& any) {
  constexpr uint64_t kSlotOfNobody = 0;
  static_cast<gloo::transport::tcp::Pair&>(*getPair(peer)).tryRecv(&any, kSlotOfNobody, 0, 0);
}

std::shared_ptr<GlooConnections> connect_with_gloo(const GroupIdentity& identity, Store& store,
                                                   const std::string& address, int64_t timeout_ms) {
  require_the_right_gloo();
  require_own_address(address);
  ignore_broken_pipes();
  Meeting meeting(store, identity, timeout_ms);
  try {
    auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
    auto connections = std::make_shared<GlooConnections>(identity.rank, static_cast<int>(identity.world_ranks.size()));
    connections->setTimeout(Milliseconds(std::max<int64_t>(timeout_ms / 5, 1)));  // Gloo takes five times as long
    connections->connectFullMesh(meeting, device);
    return connections;
  } catch (const PeerError&) {
    throw;
  } catch (const std::exception& error) {
    throw PeerError(fmt::format("rank {}: cannot connect with the others over TCP: {}; can all of them reach {}?",
                                identity.rank, text_of(error), address));
  }
}

}  // namespace paceline
