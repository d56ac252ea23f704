#include "paceline/rendezvous/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "paceline/core/error.h"

namespace paceline {
namespace {

constexpr int64_t kAttemptMs = 3000;  // for each of a name's addresses: the first may lead nowhere

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Null (and `why_not`) where trying again may help: the name server did not answer.
Addresses resolve(const std::string& host, uint16_t port, int flags, std::string& why_not) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), fmt::format("{}", port).c_str(), &hints, &found);
  if (failure == 0) return {found, &::freeaddrinfo};
  why_not = fmt::format("host \"{}\" does not resolve ({}); check its spelling, or give its address instead", host,
                        ::gai_strerror(failure));
  if (failure != EAI_AGAIN) throw PeerError(why_not);
  return {nullptr, &::freeaddrinfo};
}

// May fail when the other end is gone already: that is noticed later.
void set_option(const Descriptor& socket, int level, int option, int value) {
  ::setsockopt(socket.number(), level, option, &value, sizeof value);
}

// Messages leave at once, and a host that vanished without a word (power, cable) is noticed within ten seconds.
void tune(const Descriptor& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

Descriptor open_socket(const addrinfo& address) {
  Descriptor socket(
      ::socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
  return socket;
}

// After a call that failed. Trying again would not help before this process closes something.
void require_room_for_sockets() {
  if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
    throw PeerError(
        fmt::format("cannot take another connection: {}; raise the limit with ulimit -n", std::strerror(errno)));
}

[[noreturn]] void fail_to_listen(const std::string& host, uint16_t port, int code) {
  if (code == EADDRINUSE)
    throw PeerError(
        fmt::format("port {} at {} is in use by another program; choose another with PACELINE_PORT", port, host));
  if (code == EADDRNOTAVAIL)
    throw PeerError(fmt::format("cannot listen at {}: it is not an address of this machine", host));
  if (code == EACCES)
    throw PeerError(fmt::format("not permitted to listen at port {}; choose one above 1023 with PACELINE_PORT", port));
  throw PeerError(fmt::format("cannot listen at {}: {}", address_text(host, port), std::strerror(code)));
}

int poll_one(const Descriptor& socket, short events, const Deadline& deadline) {
  for (;;) {
    pollfd event{socket.number(), events, 0};
    const int ready = ::poll(&event, 1, deadline.poll_ms());
    if (ready > 0) return ready;
    if (ready == 0 && deadline.passed()) return 0;
    if (ready < 0) CHECK_EQ(errno, EINTR);
  }
}

// "::ffff:10.0.0.1" is how a socket of both families sees an IPv4 address.
std::string without_mapping(std::string host) {
  constexpr std::string_view kMapped = "::ffff:";
  const bool mapped = host.starts_with(kMapped) && host.find('.') != std::string::npos;
  return mapped ? host.substr(kMapped.size()) : host;
}

SocketAddress address_of(const Descriptor& socket, decltype(&::getsockname) get) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof storage;
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "0";
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (get(socket.number(), address, &bytes) != 0) return {"unknown", 0};  // the other end is gone already
  ::getnameinfo(address, bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return {without_mapping(host), static_cast<uint16_t>(std::stoi(port))};
}

// Connecting to a free port of one's own host can pick that very port for this end and so meet itself.
bool met_itself(const Descriptor& socket) { return local_address_of(socket).text() == peer_address_of(socket).text(); }

bool connected(const Descriptor& socket, const addrinfo& address, const Deadline& deadline, std::string& why_not) {
  int failure = ::connect(socket.number(), address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (failure == EINPROGRESS) {
    failure = ETIMEDOUT;
    socklen_t bytes = sizeof failure;
    if (poll_one(socket, POLLOUT, deadline) > 0) ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &failure, &bytes);
  }
  if (failure == 0 && met_itself(socket)) failure = ECONNREFUSED;
  if (failure != 0) why_not = std::strerror(failure);
  return failure == 0;
}

bool would_wait(int code) { return code == EAGAIN || code == EWOULDBLOCK || code == EINTR; }

bool bound_and_listening(const Descriptor& socket, const sockaddr* address, socklen_t bytes) {
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  return ::bind(socket.number(), address, bytes) == 0 && ::listen(socket.number(), SOMAXCONN) == 0;
}

// One socket for both families; IPv4 alone where the kernel has no IPv6.
Descriptor listen_everywhere(uint16_t port) {
  Descriptor both(::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  set_option(both, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  const sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_any};
  if (bound_and_listening(both, reinterpret_cast<const sockaddr*>(&any), sizeof any)) return both;
  return listen_at("0.0.0.0", port);
}

}  // namespace

std::string address_text(const std::string& host, uint16_t port) {
  const bool colons = host.find(':') != std::string::npos;
  return colons ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Descriptor listen_at(const std::string& host, uint16_t port) {
  if (host.empty()) return listen_everywhere(port);
  std::string why_not;
  const Addresses addresses = resolve(host, port, AI_PASSIVE, why_not);
  if (addresses == nullptr) throw PeerError(why_not);
  int failure = 0;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    Descriptor socket = open_socket(*address);
    if (socket.number() >= 0) {
      if (bound_and_listening(socket, address->ai_addr, address->ai_addrlen)) return socket;
    }
    if (failure == 0) failure = errno;
  }
  fail_to_listen(host, port, failure);
}

std::optional<Descriptor> accept_from(const Descriptor& listener) {
  Descriptor socket(::accept4(listener.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.number() >= 0) {
    tune(socket);
    return socket;
  }
  require_room_for_sockets();
  return {};
}

std::optional<Descriptor> try_to_connect(const std::string& host, uint16_t port, const Deadline& deadline,
                                         std::string& why_not) {
  const Addresses addresses = resolve(host, port, 0, why_not);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    Descriptor socket = open_socket(*address);
    if (socket.number() < 0) {
      require_room_for_sockets();
      why_not = std::strerror(errno);
    } else if (connected(socket, *address, deadline.or_in(kAttemptMs), why_not)) {
      tune(socket);
      return socket;
    }
  }
  return {};
}

bool is_loopback(const std::string& numeric_host) { return numeric_host.starts_with("127.") || numeric_host == "::1"; }
SocketAddress local_address_of(const Descriptor& socket) { return address_of(socket, ::getsockname); }
SocketAddress peer_address_of(const Descriptor& socket) { return address_of(socket, ::getpeername); }

bool network_failed() {
  return errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH || errno == EHOSTDOWN || errno == ENETDOWN;
}

Transfer read_some(const Descriptor& socket, std::string& into, size_t most_bytes) {
  char room[kReadBytes];
  const ssize_t got = ::recv(socket.number(), room, std::min(most_bytes, sizeof room), 0);
  if (got > 0) {
    into.append(room, static_cast<size_t>(got));
    return Transfer::some;
  }
  if (got == 0) errno = 0;  // the other end closed in order
  return got < 0 && would_wait(errno) ? Transfer::none : Transfer::closed;
}

Transfer write_some(const Descriptor& socket, std::span<const std::string_view> pieces, size_t& sent) {
  std::array<iovec, 64> parts;
  CHECK_LE(pieces.size(), parts.size());
  std::ranges::transform(pieces, parts.begin(), [](std::string_view piece) {
    return iovec{const_cast<char*>(piece.data()), piece.size()};  // the kernel only reads it
  });
  const msghdr message{.msg_iov = parts.data(), .msg_iovlen = pieces.size()};
  const ssize_t taken = ::sendmsg(socket.number(), &message, MSG_NOSIGNAL);
  if (taken < 0) return would_wait(errno) ? Transfer::none : Transfer::closed;
  sent = static_cast<size_t>(taken);
  return Transfer::some;
}

void wait_without_limit(const Descriptor& socket) {
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 0);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
}

bool wait_to_read(const Descriptor& socket, const Deadline& deadline) { return poll_one(socket, POLLIN, deadline) > 0; }

bool write_all(const Descriptor& socket, std::string_view bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    size_t sent = 0;
    const Transfer transfer = write_some(socket, {&bytes, 1}, sent);
    if (transfer == Transfer::closed) return false;
    bytes.remove_prefix(sent);
    if (transfer == Transfer::none && poll_one(socket, POLLOUT, deadline) == 0) return false;
  }
  return true;
}

}  // namespace paceline
