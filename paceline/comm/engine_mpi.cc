#include "paceline/comm/engine_mpi.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <exception>

#include "paceline/comm/naps.h"

namespace paceline {
namespace {

std::string text_of(int error) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  return text;
}

void require(int error, const char* what) {
  if (error != MPI_SUCCESS) throw PeerError(fmt::format("{} failed: {}", what, text_of(error)));
}

// ---- reductions that MPI does not have: 16-bit floating-point numbers -----------------------------------------------

template <DType kDType, ReduceOp kOp>
void reduce_halves(void* from, void* into, int* count, MPI_Datatype*) {
  const auto elements = static_cast<size_t>(*count);
  reduce_into({into, elements, kDType}, {from, elements, kDType}, kOp);
}

MPI_Datatype datatype_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
    case DType::f16:
    case DType::bf16:
      return MPI_UINT16_T;
    case DType::u8:
      return MPI_UINT8_T;
  }
  return MPI_DATATYPE_NULL;
}

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
// ---- what a group and its splits share ------------------------------------------------------------------------------

class Communicator {
 public:
  Communicator(const Topology& topology, int rank, MpiOptions options) : blocking_waits_(options.blocking_waits) {
    require(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    int found = 0;
    int* bound = nullptr;
    MPI_Comm_get_attr(comm_, MPI_TAG_UB, &bound, &found);
    if (found != 0) tags_ = static_cast<uint64_t>(*bound) + 1;
    const auto ranks_here = topology.ranks_of(topology.host_of(rank)).size();
    crowded_ = static_cast<long>(ranks_here) > sysconf(_SC_NPROCESSORS_ONLN);
    MPI_User_function* const functions[2][3] = {
        {reduce_halves<DType::f16, ReduceOp::sum>, reduce_halves<DType::f16, ReduceOp::max>,
         reduce_halves<DType::f16, ReduceOp::min>},
        {reduce_halves<DType::bf16, ReduceOp::sum>, reduce_halves<DType::bf16, ReduceOp::max>,
         reduce_halves<DType::bf16, ReduceOp::min>}};
    for (int type = 0; type < 2; ++type)
      for (int op = 0; op < 3; ++op)
        require(MPI_Op_create(functions[type][op], /*commute=*/1, &half_ops_[type][op]), "MPI_Op_create");
  }
  ~Communicator() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) return;
    for (auto& ops : half_ops_)
      for (MPI_Op& op : ops) MPI_Op_free(&op);
    MPI_Comm_free(&comm_);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  MPI_Comm comm() const { return comm_; }
  int tag_of(uint64_t code) const { return static_cast<int>(code % tags_); }
  bool crowded() const { return crowded_; }  // more ranks than cores on this host
  bool blocking_waits() const { return blocking_waits_; }

  MPI_Op op_of(DType dtype, ReduceOp op) const {
    if (is_half(dtype)) return half_ops_[dtype == DType::bf16][static_cast<int>(op)];
    return op == ReduceOp::sum ? MPI_SUM : op == ReduceOp::max ? MPI_MAX : MPI_MIN;
  }

 private:
  bool blocking_waits_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  uint64_t tags_ = 32768;  // what every MPI has
  bool crowded_ = false;
  MPI_Op half_ops_[2][3];
};

// A message that is under way; one of more than kLargestPiece bytes is a chain of them.
struct Flight {
  MPI_Request request = MPI_REQUEST_NULL;
  uint64_t ticket = 0;  // 0: nothing is under way
  size_t next = 0;      // the next piece's place + 1; 0: none
  size_t bytes = 0;
  int peer = 0;
  bool receiving = false;
};

// The linter wants a request and its wait in one function.
// NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker)
class MpiGroup final : public Group, private Work::Engine {
 public:
  // `called[r]`: what rank r of this group is called in the communicator, which all splits share.
  MpiGroup(GroupIdentity identity, std::shared_ptr<Monitor> monitor, std::shared_ptr<const Communicator> communicator,
           std::vector<int> called)
      : Group(std::move(identity), std::move(monitor)),
        communicator_(std::move(communicator)),
        called_(std::move(called)) {
    int ranks = 0;
    MPI_Comm_size(communicator_->comm(), &ranks);
    has_native_ = size() == ranks && std::ranges::is_sorted(called_);
  }

  // MPI's takes a communicator of exactly the ranks that take part; to make one for every split costs too much.
  bool has_native_all_reduce() const override { return has_native_; }

  void native_all_reduce(TensorView data, ReduceOp op) override {
    CHECK_TRUE(has_native_all_reduce(), "no all-reduce of MPI's over some of its ranks");
    for (size_t begin = 0; begin < data.count; begin += INT_MAX) {
      const TensorView piece = data.slice(begin, std::min<size_t>(INT_MAX, data.count - begin));
      const int error = MPI_Allreduce(MPI_IN_PLACE, piece.data, static_cast<int>(piece.count), datatype_of(piece.dtype),
                                      communicator_->op_of(piece.dtype, op), communicator_->comm());
      if (error != MPI_SUCCESS)
        fail(fmt::format("rank {}: MPI_Allreduce of {} bytes{} failed: {}", world_ranks()[rank()], data.bytes(),
                         within(), text_of(error)));
    }
  }

 protected:
  Work start_send(TensorView data, int to) override { return start(data, to, false); }
  Work start_receive(TensorView data, int from) override { return start(data, from, true); }

  std::unique_ptr<Group> make_split(GroupIdentity identity, const std::vector<int>& members) override {
    std::vector<int> called;
    for (const int member : members) called.push_back(called_[member]);
    return std::make_unique<MpiGroup>(std::move(identity), shared_monitor(), communicator_, std::move(called));
  }

 private:
  static constexpr size_t kLargestPiece = size_t{1} << 30;  // MPI counts in int
  static constexpr uint64_t kFlights = uint64_t{1} << 24;   // tickets: serial number, then place

  Work start(TensorView data, int peer, bool receiving) {
    uint64_t first = 0;
    size_t previous = 0;
    size_t offset = 0;
    do {
      const size_t bytes = std::min(kLargestPiece, data.bytes() - offset);
      const size_t place = launch(static_cast<std::byte*>(data.data) + offset, bytes, peer, receiving);
      if (first == 0) {
        first = flights_[place].ticket;
      } else {
        flights_[previous].next = place + 1;
      }
      previous = place;
      offset += bytes;
    } while (offset < data.bytes());
    return {this, first};
  }

  size_t launch(void* data, size_t bytes, int peer, bool receiving) {
    if (idle_.empty()) {
      idle_.push_back(flights_.size());
      flights_.emplace_back();
    }
    const size_t place = idle_.back();
    Flight& flight = flights_[place];
    flight = {.ticket = ++serial_ * kFlights + place, .bytes = bytes, .peer = peer, .receiving = receiving};
    const int count = static_cast<int>(bytes);
    const int tag = communicator_->tag_of(message_code());
    const int error =
        receiving ? MPI_Irecv(data, count, MPI_BYTE, called_[peer], tag, communicator_->comm(), &flight.request)
                  : MPI_Isend(data, count, MPI_BYTE, called_[peer], tag, communicator_->comm(), &flight.request);
    if (error != MPI_SUCCESS) fail(fmt::format("{} failed: {}", describe(flight), text_of(error)));
    idle_.pop_back();
    return place;
  }

  void finish(uint64_t ticket) override {
    Flight* const first = find(ticket);
    if (first == nullptr) return;
    for (Flight* flight = first; flight != nullptr; flight = next(*flight)) wait_for(*flight);
    release(first);
  }

  bool poll(uint64_t ticket) override {
    Flight* const first = find(ticket);
    for (Flight* flight = first; flight != nullptr; flight = next(*flight))
      if (!is_complete(*flight)) return false;
    release(first);
    return true;
  }

  Flight* find(uint64_t ticket) {
    Flight& flight = flights_[ticket % kFlights];
    return flight.ticket == ticket ? &flight : nullptr;
  }
  Flight* next(const Flight& flight) { return flight.next == 0 ? nullptr : &flights_[flight.next - 1]; }

  void release(Flight* flight) {
    while (flight != nullptr) {
      flight->ticket = 0;
      idle_.push_back(static_cast<size_t>(flight - flights_.data()));
      flight = next(*flight);
    }
  }

  void wait_for(Flight& flight) {
    if (communicator_->blocking_waits()) return wait_inside_mpi(flight);
    Naps naps(flight.bytes, communicator_->crowded());
    while (!is_complete(flight)) {
      if (monitor().alarm().raised()) fail({});
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(naps.pause());
      if (waited >= give_up_after() && monitor().out_of_patience(waited.count()))
        fail(fmt::format("{} did not finish in {:.1f} s", describe(flight), 1e-3 * monitor().timeout_ms()));
    }
  }

  // Later than the time-out: the watchdog, which can say why, goes first.
  std::chrono::milliseconds give_up_after() const {
    const int64_t timeout_ms = monitor().timeout_ms();
    return std::chrono::milliseconds(timeout_ms + std::min<int64_t>(2 * timeout_ms, 2000));
  }

  void wait_inside_mpi(Flight& flight) {
    if (flight.request == MPI_REQUEST_NULL) return;
    MPI_Status status;
    require_success(flight, MPI_Wait(&flight.request, &status));
    require_size(flight, status);
  }

  bool is_complete(Flight& flight) {
    if (flight.request == MPI_REQUEST_NULL) return true;
    int complete = 0;
    MPI_Status status;
    require_success(flight, MPI_Test(&flight.request, &complete, &status));
    if (complete != 0) require_size(flight, status);
    return complete != 0;
  }

  void require_success(const Flight& flight, int error) {
    if (error != MPI_SUCCESS) fail(fmt::format("{} failed: {}", describe(flight), text_of(error)));
  }

  void require_size(const Flight& flight, const MPI_Status& status) {
    if (!flight.receiving) return;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (static_cast<size_t>(bytes) != flight.bytes)
      fail(fmt::format("{}: it sent {} bytes; all ranks must call the same operations with the same sizes",
                       describe(flight), bytes));
  }

  // Takes back the receives that nobody has answered, so that MPI touches no buffer of a caller that is leaving.
  [[noreturn]] void fail(const std::string& text) {
    for (Flight& flight : flights_) {
      if (!flight.receiving || flight.request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&flight.request);
      MPI_Request_free(&flight.request);
    }
    if (monitor().alarm().raised()) monitor().alarm().fail();
    throw PeerError(text);
  }

  std::string within() const {
    const StatusCell::Reading status = status_cell().read();
    return status.busy ? " in " + to_text(status.operation) : "";
  }
  std::string describe(const Flight& flight) const {
    return fmt::format("rank {}: {} of {} bytes {} rank {}{}", world_ranks()[rank()],
                       flight.receiving ? "receive" : "send", flight.bytes, flight.receiving ? "from" : "to",
                       world_ranks()[flight.peer], within());
  }

  std::shared_ptr<const Communicator> communicator_;
  std::vector<int> called_;
  bool has_native_ = false;
  std::vector<Flight> flights_;
  std::vector<size_t> idle_;  // places in flights_
  uint64_t serial_ = 0;
};
// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

// The thread that communicates need not be the one that started MPI. The simulator has no threads.
void require_threads() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_SERIALIZED)
    throw UsageError("this MPI serves only one thread (no MPI_THREAD_SERIALIZED); choose the engine gloo or shm");
}

}  // namespace

MpiLibrary::MpiLibrary() : initialised_here_(false) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised != 0) return;
  int provided = MPI_THREAD_SINGLE;
  require(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  initialised_here_ = true;
}

// Not while an error is on its way out: MPI_Finalize waits for all ranks.
MpiLibrary::~MpiLibrary() {
  if (initialised_here_ && std::uncaught_exceptions() == 0) MPI_Finalize();
}

int MpiLibrary::rank() const {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int MpiLibrary::size() const {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

std::string MpiLibrary::broadcast_text(const std::string& text) const {
  auto length = static_cast<int64_t>(text.size());
  require(MPI_Bcast(&length, 1, MPI_INT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
  std::string result = text;
  result.resize(static_cast<size_t>(length));
  require(MPI_Bcast(result.data(), static_cast<int>(length), MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
  return result;
}

void MpiLibrary::abort(int exit_code) const {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::abort();
}

std::unique_ptr<Group> make_mpi_group(GroupIdentity identity, std::shared_ptr<Monitor> monitor, MpiOptions options) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (!options.blocking_waits) require_threads();
  CHECK_EQ(identity.rank, rank);
  CHECK_EQ(identity.world_ranks.size(), static_cast<size_t>(size));
  auto communicator = std::make_shared<const Communicator>(identity.topology, identity.rank, options);
  std::vector<int> called(identity.world_ranks.size());
  for (size_t i = 0; i < called.size(); ++i) called[i] = static_cast<int>(i);
  return std::make_unique<MpiGroup>(std::move(identity), std::move(monitor), std::move(communicator),
                                    std::move(called));
}

}  // namespace paceline
