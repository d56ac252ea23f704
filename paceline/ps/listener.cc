#include "paceline/ps/listener.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "paceline/core/error.h"

namespace paceline {
namespace {

Descriptor open_socket(int family) {
  return Descriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool bound_and_listening(const Descriptor& socket, const sockaddr* address, socklen_t bytes) {
  return socket.number() >= 0 && ::bind(socket.number(), address, bytes) == 0 &&
         ::listen(socket.number(), SOMAXCONN) == 0;
}

void set_option(const Descriptor& socket, int level, int option, int value) {
  ::setsockopt(socket.number(), level, option, &value, sizeof(value));
}

[[noreturn]] void cannot_serve(const std::string& address, const std::string& why) {
  throw PeerError(fmt::format("cannot serve at {}: {}", address, why));
}

std::string why_not(int code) {
  if (code == EADDRINUSE) return "the port is in use; choose another, or 0 for any that is free";
  if (code == EADDRNOTAVAIL) return "the address is not one of this machine's";
  if (code == EACCES) return "not permitted; choose a port above 1023";
  return std::strerror(code);
}

Descriptor listen_at(const ResolvedAddress& at) {
  if (at.host == "0.0.0.0" || at.host == "::") {
    Descriptor both = open_socket(AF_INET6);
    set_option(both, SOL_SOCKET, SO_REUSEADDR, 1);
    set_option(both, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    const sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(at.port), .sin6_addr = in6addr_any};
    if (bound_and_listening(both, reinterpret_cast<const sockaddr*>(&any), sizeof(any))) return both;
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int failure = ::getaddrinfo(at.host.c_str(), std::to_string(at.port).c_str(), &hints, &found)) {
    cannot_serve(at.host, gai_strerror(failure));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  Descriptor socket = open_socket(found->ai_family);
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (!bound_and_listening(socket, found->ai_addr, found->ai_addrlen)) {
    cannot_serve(Endpoint{.host = at.host}.text(at.port), why_not(errno));
  }
  return socket;
}

Descriptor listen_at_path(const std::string& path) {
  sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof(at.sun_path)) cannot_serve("unix:" + path, "the path is too long for a socket");
  std::memcpy(at.sun_path, path.data(), path.size());
  struct stat left = {};
  if (::lstat(path.c_str(), &left) == 0 && S_ISSOCK(left.st_mode)) ::unlink(path.c_str());
  Descriptor socket = open_socket(AF_UNIX);
  if (!bound_and_listening(socket, reinterpret_cast<const sockaddr*>(&at), sizeof(at))) {
    cannot_serve("unix:" + path, std::strerror(errno));
  }
  return socket;
}

}  // namespace

Listener::Listener(const Endpoint& endpoint, const std::optional<ResolvedAddress>& at)
    : socket_(at ? listen_at(*at) : listen_at_path(endpoint.socket_path)) {
  path_ = endpoint.socket_path;
}

Listener::~Listener() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

uint16_t Listener::port() const { return own_end(socket_.number()).port; }

}  // namespace paceline
