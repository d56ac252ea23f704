// Group: the ranks that work together, as one of them sees it.
//
// Every rank calls the same collective operations in the same order; who does not is told so by name. Buffers belong to
// the caller and must stay until the call returns, or until the Work is done. One thread uses a group at a time;
// threads that communicate at the same time take split groups. A group of one rank runs the ordinary path.
//
// Every wait ends: with a PeerError when a rank died, differs, or has not come within the time-out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "paceline/comm/memory.h"
#include "paceline/comm/monitor.h"
#include "paceline/comm/operation.h"
#include "paceline/comm/shared_memory.h"
#include "paceline/comm/topology.h"
#include "paceline/comm/work.h"
#include "paceline/core/fast_clock.h"
#include "paceline/core/tensor_view.h"

namespace paceline {

// What all engines must say of a group.
struct GroupIdentity {
  int rank = 0;
  uint64_t generation = 0;
  std::string engine;            // "local", "shm", "gloo", "mpi", "shm+gloo", "shm+mpi"
  std::string name = "world";    // split groups: "world/0:1": the first split's colour 1
  std::vector<int> world_ranks;  // of its members, in their order
  Topology topology;
};

class Group {
 public:
  Group(GroupIdentity identity, std::shared_ptr<Monitor> monitor);
  virtual ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return identity_.rank; }
  int size() const { return static_cast<int>(identity_.world_ranks.size()); }
  // Counts the groups that this run has had: ranks of different generations never talk to each other.
  uint64_t generation() const { return identity_.generation; }
  const std::string& engine() const { return identity_.engine; }
  const std::string& name() const { return identity_.name; }
  const Topology& topology() const { return identity_.topology; }
  const std::vector<int>& world_ranks() const { return identity_.world_ranks; }

  // ---- memory ----
  // Memory that the engine moves best. The same sizes in the same order on every rank are quickest, but not required.
  virtual Memory allocate(size_t bytes);
  // Room for an algorithm, until its operation ends. The next call takes over the same room; it grows, never shrinks.
  virtual TensorView scratch(size_t count, DType dtype);
  // into[i] = into[i] op from[i]. f16 and bf16 are added in f32 and rounded.
  virtual void reduce_local(TensorView into, TensorView from, ReduceOp op);

  // ---- messages ----
  // Messages from one rank to another arrive in the order of their sends; counts and types of both ends are the same.
  [[nodiscard]] Work send(TensorView data, int to);
  [[nodiscard]] Work receive(TensorView data, int from);

  // ---- collective operations ----
  void barrier();                             // returns when every rank has called it
  void broadcast(TensorView data, int root);  // every rank's `data` becomes the root's
  // `all` becomes every rank's `mine`, in rank order. REQUIRES: all.count == size() * mine.count
  void all_gather(TensorView mine, TensorView all);
  // Rank r's from[s] becomes rank s's to[r]. One view per rank; lengths may differ between pairs, not between the
  // two ends of a pair.
  void all_to_all(std::span<const TensorView> from, std::span<const TensorView> to);

  // The engine's own all-reduce (MPI_Allreduce, gloo::allreduce), where it has one. Not counted as an operation: call
  // it within perform().
  virtual bool has_native_all_reduce() const { return false; }
  virtual void native_all_reduce(TensorView data, ReduceOp op);

  // Ranks that read each other's buffers; null where they cannot.
  virtual SharedMemory* shared_memory() { return nullptr; }

  // The ranks that gave the same colour, in the order of their keys, then of their ranks here. Every rank calls it.
  std::unique_ptr<Group> split(int color, int key);

  // ---- for engines that are made of others ----
  // A group of some of this one's ranks, whose identity is known; every rank of this group calls it. `members` are
  // ranks of this group, this one among them.
  virtual std::unique_ptr<Group> make_split(GroupIdentity identity, const std::vector<int>& members) = 0;
  // This group carries messages of `whole`: they are marked as part of its operations.
  void follow(const Group& whole) { whole_ = &whole; }

  // Runs `body` as one operation that all ranks do together: numbered, recorded, watched. Collectives that are built of
  // messages call this; operations within an operation are its parts and not counted.
  template <class Body>
  void perform(Verb verb, const TensorView& data, ReduceOp reduce, int peer, const Body& body) {
    if (inside_) return body();
    begin(verb, data, reduce, peer);
    try {
      body();
    } catch (Error& error) {
      if (fail(error.what())) error.set_told();
      throw;
    } catch (const std::exception& error) {
      fail(error.what());
      throw;
    }
    end();
  }

  Monitor& monitor() const { return *monitor_; }
  const std::shared_ptr<Monitor>& shared_monitor() const { return monitor_; }

 protected:
  // What an engine must do. All but these two and make_split have an answer here, made of messages.
  virtual Work start_send(TensorView data, int to) = 0;
  virtual Work start_receive(TensorView data, int from) = 0;
  virtual void do_barrier();
  virtual void do_broadcast(TensorView data, int root);
  virtual void do_all_gather(TensorView mine, TensorView all);
  virtual void do_all_to_all(std::span<const TensorView> from, std::span<const TensorView> to);

  // The operation under way, or the last one.
  const Operation& operation() const { return operation_; }
  // Marks the messages of this operation: code_of(operation) with group and generation; outside of operations the
  // same for all. Ranks in different operations do not understand each other's messages.
  uint64_t message_code() const;
  bool follows_another() const { return whole_ != nullptr; }

  // Engines whose ranks see each other's status give the cell to write to (null: one of its own).
  void set_status_cell(StatusCell* cell);
  StatusCell& status_cell() const { return *status_; }

 private:
  // Up to this size the ends of all-reduces are not timed: a look at the clock is 2 % of the quickest of them.
  static constexpr uint64_t kUntimedBytes = 4096;

  void begin(Verb verb, const TensorView& data, ReduceOp reduce, int peer) {
    if (monitor_->alarm().raised()) monitor_->alarm().fail();
    operation_ = {verb, data.dtype, reduce, peer, data.count, ++sequence_};
    operation_code_ = 0;
    inside_ = true;
    const int64_t now = clock_.now_ns();
    status_->begin(operation_, now);
    record_->begin(operation_, now);
  }
  void end() {
    inside_ = false;
    if (operation_.verb == Verb::all_reduce && operation_.bytes() <= kUntimedBytes) {
      status_->end_untimed();
      record_->end_untimed();
      return;
    }
    const int64_t now = clock_.now_ns();
    status_->end(now);
    record_->end(FlightRecord::State::done, now);
  }
  bool fail(const std::string& why);  // whether people were told

  GroupIdentity identity_;
  std::shared_ptr<Monitor> monitor_;
  std::shared_ptr<FlightLane> record_;
  uint64_t group_code_;
  mutable uint64_t operation_code_ = 0;  // 0: not asked for yet
  const Group* whole_ = nullptr;
  StatusCell own_status_;
  StatusCell* status_ = &own_status_;
  FastClock clock_;
  Operation operation_;
  bool inside_ = false;
  uint64_t sequence_ = 0;
  int splits_ = 0;
  Memory scratch_;
  std::vector<Work> works_;  // of a broadcast's sends: kept, so that the steady state allocates nothing
};

}  // namespace paceline
