// For tests: ranks as threads of this process that talk through Gloo at 127.0.0.1.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <utility>

#include "paceline/comm/engine_gloo.h"

namespace paceline {

// Connections between all ranks of this process, over the loopback.
class LoopbackMesh {
 public:
  explicit LoopbackMesh(int ranks) : sockets_(ranks, std::vector<int>(ranks, -1)) {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    CHECK_TRUE(
        ::bind(listener, any, bytes) == 0 && ::listen(listener, 1) == 0 && ::getsockname(listener, any, &bytes) == 0,
        "no port on the loopback");
    for (int lower = 0; lower < ranks; ++lower) {
      for (int higher = lower + 1; higher < ranks; ++higher) {
        sockets_[higher][lower] = ::socket(AF_INET, SOCK_STREAM, 0);
        CHECK_EQ(::connect(sockets_[higher][lower], any, bytes), 0);
        sockets_[lower][higher] = ::accept(listener, nullptr, nullptr);
      }
    }
    ::close(listener);
  }
  ~LoopbackMesh() {
    for (int rank = 0; rank < static_cast<int>(sockets_.size()); ++rank) close_those_of(rank);
  }
  LoopbackMesh(const LoopbackMesh&) = delete;
  LoopbackMesh& operator=(const LoopbackMesh&) = delete;

  // Each rank closes its own ends, as ranks in processes do: when Gloo closes its duplicates, the other end hears of
  // it.
  std::unique_ptr<Group> make_group(const GroupIdentity& identity, std::shared_ptr<Monitor> monitor) {
    auto group = make_gloo_group(identity, std::move(monitor), "127.0.0.1", sockets_[identity.rank]);
    close_those_of(identity.rank);
    return group;
  }

 private:
  void close_those_of(int rank) {
    for (int& socket : sockets_[rank]) {
      if (socket >= 0) ::close(std::exchange(socket, -1));
    }
  }

  std::vector<std::vector<int>> sockets_;  // of each rank, with each
};

inline GroupIdentity identity_of(int rank, const Topology& topology, const std::string& name = "world") {
  GroupIdentity identity = {.rank = rank, .engine = "gloo", .name = name, .topology = topology};
  for (int i = 0; i < topology.ranks(); ++i) identity.world_ranks.push_back(i);
  return identity;
}

// Each rank owns its group: to let it go is to leave. The first exception of any rank, in rank order, is rethrown.
inline void run_gloo_ranks(int ranks, int64_t timeout_ms, const std::function<void(std::unique_ptr<Group>)>& body) {
  LoopbackMesh mesh(ranks);
  std::vector<std::exception_ptr> failures(ranks);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(mesh.make_group(identity_of(rank, Topology::one_host(ranks)), std::make_shared<Monitor>(timeout_ms)));
        } catch (...) {
          failures[rank] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace paceline
