#include "paceline/comm/gloo_connections.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace paceline {
namespace {

namespace tcp = gloo::transport::tcp;

// libtorch exports another version of Gloo under the same names: the first collective would crash.
void require_the_right_gloo() {
  Dl_info found{};
  const auto* const function = reinterpret_cast<const void*>(&tcp::CreateDevice);
  if (dladdr(function, &found) != 0 && std::string_view(found.dli_fname).find("libtorch") != std::string_view::npos)
    throw UsageError(fmt::format("this program takes Gloo from {}; link -lgloo before libtorch", found.dli_fname));
}

// Gloo writes with writev, which cannot ask to be spared the signal.
void ignore_broken_pipes() {
  struct sigaction now {};
  sigaction(SIGPIPE, nullptr, &now);
  if (now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

// One end of a connection that exists already. Gloo's own way is to listen and to take whatever connects first.
//
// The base class begins to listen as it is made. That ends here at once, and a connection that came in the meantime is
// noticed: then `untouched()` is false, and nothing of this transport may be used.
class AdoptedPair final : public tcp::Pair {
 public:
  AdoptedPair(tcp::Context* context, tcp::Device* device, int rank, int socket)
      : Pair(context, device, rank, std::chrono::milliseconds(0)) {
    const std::lock_guard lock(m_);
    untouched_ = state_ == LISTENING;
    if (!untouched_) return;
    if (::dup3(socket, fd_, O_CLOEXEC) < 0)  // closes the listener, which so leaves Gloo's loop
      throw PeerError(fmt::format("cannot hand a connection to Gloo: {}", std::strerror(errno)));
    handleConnected();
  }

  bool untouched() const { return untouched_; }

 private:
  bool untouched_ = false;
};

class AdoptingTransport final : public tcp::Context {
 public:
  using tcp::Context::Context;

  // Whether all were adopted; otherwise something connected before a listener was closed.
  bool adopt(const std::vector<int>& sockets) {
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      auto pair = std::make_unique<AdoptedPair>(this, device_.get(), peer, sockets[peer]);
      const bool untouched = pair->untouched();
      pairs_[peer] = std::move(pair);
      if (!untouched) return false;
    }
    return true;
  }
};

std::shared_ptr<tcp::Context> adopt(const std::shared_ptr<tcp::Device>& device, int rank,
                                    const std::vector<int>& sockets) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto transport = std::make_shared<AdoptingTransport>(device, rank, static_cast<int>(sockets.size()));
    if (transport->adopt(sockets)) return transport;
  }
  throw PeerError(fmt::format(
      "rank {}: another program connects to every port of this host as soon as it is opened; end it", rank));
}

}  // namespace

// They begin with the place in Gloo's source: "[/build/.../pair.cc:598] Connection closed by peer ...".
std::string text_of(const std::exception& error) {
  const std::string text = error.what();
  const size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

GlooConnections::GlooConnections(const GroupIdentity& identity, const std::string& address,
                                 const std::vector<int>& sockets)
    : gloo::Context(identity.rank, static_cast<int>(identity.world_ranks.size())) {
  require_the_right_gloo();
  ignore_broken_pipes();
  try {
    auto device = std::make_shared<tcp::Device>(tcp::CreateDeviceAttr(tcp::attr(address.c_str())));
    transportContext_ = adopt(device, rank, sockets);
    device_ = std::move(device);
  } catch (const PeerError&) {
    throw;
  } catch (const std::exception& error) {
    throw PeerError(fmt::format("rank {}: Gloo cannot work at {}: {}", rank, address, text_of(error)));
  }
}

void GlooConnections::require_intact(int peer, gloo::transport::UnboundBuffer& any) {
  constexpr uint64_t kSlotOfNobody = 0;
  static_cast<tcp::Pair&>(*getPair(peer)).tryRecv(&any, kSlotOfNobody, 0, 0);
}

}  // namespace paceline
