#include "paceline/ps/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList look_up(const std::string& host, uint16_t port, const addrinfo& hints, int& failure) {
  addrinfo* found = nullptr;
  failure = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  return {failure == 0 ? found : nullptr, &freeaddrinfo};
}

bool is_local(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

Endpoint end_of(int socket, decltype(&::getsockname) get) {
  sockaddr_storage storage = {};
  socklen_t bytes = sizeof(storage);
  Endpoint end = {.host = "unknown"};
  if (get(socket, reinterpret_cast<sockaddr*>(&storage), &bytes) != 0) return end;
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    end.host = inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    end.port = ntohs(v4.sin_port);
  } else if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
    end.host = mapped ? inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof(text))
                      : inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    end.port = ntohs(v6.sin6_port);
  }
  return end;
}

}  // namespace

Endpoint own_end(int socket) { return end_of(socket, &::getsockname); }
Endpoint other_end(int socket) { return end_of(socket, &::getpeername); }

std::string Endpoint::text(uint16_t with_port) const {
  if (!socket_path.empty()) return "unix:" + socket_path;
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, with_port)
                                             : fmt::format("[{}]:{}", host, with_port);
}

Endpoint parse_endpoint(const std::string& text) {
  Endpoint endpoint;
  if (text.starts_with("unix:")) {
    endpoint.socket_path = text.substr(5);
    if (endpoint.socket_path.empty()) throw UsageError("unix: wants the path of a socket, as in unix:/run/server.sock");
    return endpoint;
  }
  const size_t colon = text.rfind(':');
  const auto wrong = [&] {
    return UsageError(
        fmt::format("'{}' is no address of a server; write HOST:PORT, [ADDRESS]:PORT or unix:PATH", text));
  };
  if (colon == std::string::npos || colon == 0) throw wrong();
  endpoint.host = text.substr(0, colon);
  if (endpoint.host.front() == '[' && endpoint.host.back() == ']') {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  } else if (endpoint.host.find(':') != std::string::npos) {
    throw wrong();
  }
  const char* const end = text.data() + text.size();
  const auto [last, failure] = std::from_chars(text.data() + colon + 1, end, endpoint.port);
  if (failure != std::errc() || last != end || endpoint.host.empty()) throw wrong();
  return endpoint;
}

std::vector<ResolvedAddress> resolve(const Endpoint& endpoint) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  int failure = 0;
  const AddressList found = look_up(endpoint.host, endpoint.port, hints, failure);
  if (failure != 0) {
    throw PeerError(fmt::format("the name {} does not resolve: {}", endpoint.host,
                                failure == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(failure)));
  }
  std::vector<ResolvedAddress> addresses;
  for (const addrinfo* next = found.get(); next != nullptr; next = next->ai_next) {
    if (next->ai_family != AF_INET && next->ai_family != AF_INET6) continue;
    char text[NI_MAXHOST];
    if (getnameinfo(next->ai_addr, next->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    addresses.push_back({text, endpoint.port, next->ai_family == AF_INET6, is_local(next->ai_addr)});
  }
  if (addresses.empty()) throw PeerError(fmt::format("the name {} has no address", endpoint.host));
  // IPv4 first: a name such as localhost stands for both, and its server listens at the first.
  std::ranges::stable_partition(addresses, [](const ResolvedAddress& address) { return !address.ipv6; });
  return addresses;
}

}  // namespace paceline
