#include "paceline/comm/engine_mixed.h"

#include <algorithm>

namespace paceline {
namespace {

class MixedGroup final : public Group {
 public:
  MixedGroup(GroupIdentity identity, std::unique_ptr<Group> host, std::unique_ptr<Group> network)
      : Group(std::move(identity), network->shared_monitor()), host_(std::move(host)), network_(std::move(network)) {
    CHECK_EQ(network_->size(), size());
    CHECK_EQ(network_->rank(), rank());
    CHECK_EQ(static_cast<size_t>(host_->size()), neighbours().size());
    CHECK_EQ(neighbours()[host_->rank()], rank());
    host_->follow(*this);
    network_->follow(*this);
  }

  Memory allocate(size_t bytes) override { return host_->allocate(bytes); }

  bool has_native_all_reduce() const override { return network_->has_native_all_reduce(); }
  void native_all_reduce(TensorView data, ReduceOp op) override { network_->native_all_reduce(data, op); }

  SharedMemory* shared_memory() override { return topology().hosts() == 1 ? host_->shared_memory() : nullptr; }

  // To split either part takes all of its ranks. Colours cross hosts, so this rank cannot know whether another one of
  // its host needs the host's split or the network's: every rank makes both, host first, and keeps what its new group
  // needs. All members of that group decide the same, because they decide by its topology.
  std::unique_ptr<Group> make_split(GroupIdentity identity, const std::vector<int>& members) override {
    const bool one_host = identity.topology.hosts() == 1;
    const bool one_per_host = identity.topology.ranks_per_host() == 1;
    std::vector<int> members_here;
    for (const int member : members)
      if (is_near(member)) members_here.push_back(place_on_host(member));
    auto host = host_->make_split(one_host ? carried_by(*host_, identity) : on_host(identity), members_here);
    auto network =
        network_->make_split(one_per_host ? carried_by(*network_, identity) : between_hosts(identity), members);
    if (one_host) return host;
    if (one_per_host) return network;
    return std::make_unique<MixedGroup>(std::move(identity), std::move(host), std::move(network));
  }

 protected:
  Work start_send(TensorView data, int to) override {
    return is_near(to) ? host_->send(data, place_on_host(to)) : network_->send(data, to);
  }
  Work start_receive(TensorView data, int from) override {
    return is_near(from) ? host_->receive(data, place_on_host(from)) : network_->receive(data, from);
  }

 private:
  // The ranks of this host, in the order of the host's group.
  const std::vector<int>& neighbours() const { return topology().ranks_of(topology().host_of(rank())); }
  bool is_near(int peer) const { return topology().host_of(peer) == topology().host_of(rank()); }
  int place_on_host(int peer) const {
    return static_cast<int>(std::ranges::lower_bound(neighbours(), peer) - neighbours().begin());
  }

  // The same group, carried by one part alone.
  static GroupIdentity carried_by(const Group& part, GroupIdentity identity) {
    identity.engine = part.engine();
    return identity;
  }

  // The parts of a new mixed group have names of their own: the watchdog tells groups apart by them.
  GroupIdentity between_hosts(const GroupIdentity& whole) const {
    GroupIdentity identity = carried_by(*network_, whole);
    identity.name = whole.name + "@network";
    return identity;
  }
  GroupIdentity on_host(const GroupIdentity& whole) const {
    const std::vector<int>& ranks = whole.topology.ranks_of(whole.topology.host_of(whole.rank));
    GroupIdentity identity = carried_by(*host_, whole);
    identity.world_ranks.clear();
    for (const int rank : ranks) identity.world_ranks.push_back(whole.world_ranks[rank]);
    identity.rank = static_cast<int>(std::ranges::lower_bound(ranks, whole.rank) - ranks.begin());
    identity.topology = whole.topology.of(ranks);
    identity.name = fmt::format("{}@{}", whole.name, identity.world_ranks[0]);
    return identity;
  }

  std::unique_ptr<Group> host_;
  std::unique_ptr<Group> network_;
};

}  // namespace

std::unique_ptr<Group> make_mixed_group(GroupIdentity identity, std::unique_ptr<Group> host,
                                        std::unique_ptr<Group> network) {
  return std::make_unique<MixedGroup>(std::move(identity), std::move(host), std::move(network));
}

}  // namespace paceline
