#include "paceline/comm/nccl_communicator.h"

#include <nccl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "paceline/comm/device_sharing.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

using Clock = std::chrono::steady_clock;

void check_cuda(const char* call, cudaError_t status) {
  CHECK_TRUE(status == cudaSuccess, "CUDA refused {}: {}", call, cudaGetErrorString(status));
}

// The device of this thread, until the end of a scope.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    check_cuda("cudaGetDevice", cudaGetDevice(&before_));
    check_cuda("cudaSetDevice", cudaSetDevice(device));
  }
  ~OnDevice() { cudaSetDevice(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f64:
      return ncclFloat64;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::u8:
      return ncclUint8;
  }
  detail::check_failed(__FILE__, __LINE__, "no such type");
}

ncclRedOp_t operator_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::min:
      return ncclMin;
  }
  detail::check_failed(__FILE__, __LINE__, "no such reduction");
}

cudaStream_t stream_of(const TensorView& data) {
  CHECK_TRUE(data.device == DeviceKind::cuda, "NCCL moves memory of CUDA devices only");
  return static_cast<cudaStream_t>(data.stream);
}

bool is_under_way(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

// Spins as long as it takes to queue an operation, then sleeps: connecting takes a second.
void nap(Clock::time_point since) {
  if (Clock::now() - since < std::chrono::milliseconds(2)) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
}

std::string pci_address(int device) {
  std::array<char, 32> text = {};
  check_cuda("cudaDeviceGetPCIBusId", cudaDeviceGetPCIBusId(text.data(), text.size(), device));
  return text.data();
}

std::vector<std::string> addresses_of_all(Group& group, int device) {
  constexpr size_t kBytes = 32;
  std::vector<uint8_t> mine(kBytes), all(kBytes * static_cast<size_t>(group.size()));
  const std::string address = pci_address(device);
  std::memcpy(mine.data(), address.data(), std::min(address.size(), kBytes - 1));
  group.all_gather(view(mine), view(all));
  std::vector<std::string> addresses;
  for (size_t begin = 0; begin < all.size(); begin += kBytes)
    addresses.emplace_back(reinterpret_cast<const char*>(all.data() + begin));
  return addresses;
}

ncclConfig_t config() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 0;  // parts of a communicator end on their own
  return config;
}

class NcclCommunicator : public DeviceCommunicator {
 public:
  NcclCommunicator(Group& group, int device, const ncclUniqueId& id, std::string remark)
      : DeviceCommunicator(group.rank(), group.size()),
        monitor_(group.shared_monitor()),
        name_(group.name()),
        device_(device),
        remark_(std::move(remark)) {
    const OnDevice on_device(device_);
    ncclConfig_t settings = config();
    run("ncclCommInitRankConfig", "connecting the devices",
        [&] { return ncclCommInitRankConfig(&communicator_, size(), id, rank(), &settings); });
    listen();
  }

  ~NcclCommunicator() override {
    listener_.reset();
    if (aborter_.joinable()) aborter_.join();
    const bool others_may_not_come = monitor_->alarm().raised() || std::uncaught_exceptions() > exceptions_;
    if (communicator_ != nullptr && !others_may_not_come) finish();
    abort();
  }

  void together(const std::function<void()>& body) override {
    CHECK_TRUE(!together_, "together() within together()");
    queue("a group of operations", [&] {
      const ncclResult_t begun = ncclGroupStart();
      if (begun != ncclSuccess) return begun;
      together_ = true;
      try {
        body();
      } catch (...) {
        together_ = false;
        ncclGroupEnd();
        throw;
      }
      together_ = false;
      return ncclGroupEnd();
    });
  }

  std::unique_ptr<DeviceCommunicator> split(int color, int key) override {
    const OnDevice on_device(device_);
    ncclConfig_t settings = config();
    part_ = nullptr;
    run("ncclCommSplit", "splitting", [&] {
      if (communicator_ == nullptr) refuse();
      return ncclCommSplit(communicator_, color, key, &part_, &settings);
    });
    CHECK_TRUE(part_ != nullptr, "NCCL gave no part of {}", name_);
    return std::unique_ptr<DeviceCommunicator>(new NcclCommunicator(*this, part_, color));
  }

  std::string remark() const override { return remark_; }

 protected:
  void do_all_reduce(const TensorView& data, ReduceOp op) override {
    queue(Operation{Verb::all_reduce, data.dtype, op, -1, data.count}, [&] {
      return ncclAllReduce(data.data, data.data, data.count, type_of(data.dtype), operator_of(op), communicator_,
                           stream_of(data));
    });
  }
  void do_reduce_scatter(const TensorView& all, const TensorView& mine, ReduceOp op) override {
    queue(Operation{Verb::reduce_scatter, all.dtype, op, -1, all.count}, [&] {
      return ncclReduceScatter(all.data, mine.data, mine.count, type_of(all.dtype), operator_of(op), communicator_,
                               stream_of(all));
    });
  }
  void do_all_gather(const TensorView& mine, const TensorView& all) override {
    queue(Operation{Verb::all_gather, all.dtype, ReduceOp::sum, -1, all.count}, [&] {
      return ncclAllGather(mine.data, all.data, mine.count, type_of(all.dtype), communicator_, stream_of(all));
    });
  }
  void do_broadcast(const TensorView& data, int root) override {
    queue(Operation{Verb::broadcast, data.dtype, ReduceOp::sum, root, data.count}, [&] {
      return ncclBroadcast(data.data, data.data, data.count, type_of(data.dtype), root, communicator_, stream_of(data));
    });
  }
  void do_send(const TensorView& data, int to) override {
    queue(Operation{Verb::send, data.dtype, ReduceOp::sum, to, data.count},
          [&] { return ncclSend(data.data, data.count, type_of(data.dtype), to, communicator_, stream_of(data)); });
  }
  void do_receive(const TensorView& data, int from) override {
    queue(Operation{Verb::receive, data.dtype, ReduceOp::sum, from, data.count},
          [&] { return ncclRecv(data.data, data.count, type_of(data.dtype), from, communicator_, stream_of(data)); });
  }

 private:
  // A part of `whole` that NCCL has made.
  NcclCommunicator(const NcclCommunicator& whole, ncclComm_t part, int color)
      : DeviceCommunicator(rank_in(part), size_of_part(part)),
        monitor_(whole.monitor_),
        name_(fmt::format("{}:{}", whole.name_, color)),
        device_(whole.device_),
        remark_(whole.remark_),
        communicator_(part) {
    listen();
  }

  // Each communicator is aborted on a thread of its own, so that all of this process are at the same time: NCCL frees
  // memory then, for which CUDA waits until every kernel on the device is through, also those of the others.
  void listen() {
    listener_.emplace(monitor_->alarm(), [this] {
      try {
        aborter_ = std::thread([this] { abort(); });
      } catch (const std::system_error&) {  // no more threads
        abort();
      }
    });
  }

  static int rank_in(ncclComm_t part) {
    int rank = 0;
    CHECK_TRUE(ncclCommUserRank(part, &rank) == ncclSuccess, "a part without a rank");
    return rank;
  }
  static int size_of_part(ncclComm_t part) {
    int size = 0;
    CHECK_TRUE(ncclCommCount(part, &size) == ncclSuccess, "a part without a size");
    return size;
  }

  void queue(const Operation& operation, const std::function<ncclResult_t()>& call) {
    if (together_) {  // the lock is held, and the end of the group is waited for
      const ncclResult_t result = call();
      CHECK_TRUE(is_under_way(result), "NCCL refused {}: {}", to_text(operation), ncclGetErrorString(result));
      return;
    }
    start(call, [&] { return to_text(operation); });
  }
  void queue(const char* what, const std::function<ncclResult_t()>& call) {
    start(call, [what] { return std::string(what); });
  }
  template <class What>
  void start(const std::function<ncclResult_t()>& call, const What& what) {
    ncclResult_t result = ncclSuccess;
    {
      const std::lock_guard lock(mutex_);
      if (communicator_ == nullptr) refuse();
      result = call();
    }
    if (!is_under_way(result)) fail(what(), explain(result));
    wait("queueing", what);
  }
  // Calls that make a communicator, or a part of this one.
  void run(const char* name, const char* what, const std::function<ncclResult_t()>& call) {
    ncclResult_t result = ncclSuccess;
    {
      const std::lock_guard lock(mutex_);
      result = call();
    }
    if (!is_under_way(result)) fail(what, explain(result));
    wait(name, [what] { return std::string(what); });
  }

  // Until NCCL has done on the host what it was asked for. The device may be far behind.
  template <class What>
  void wait(const char* call, const What& what) {
    const Clock::time_point since = Clock::now();
    for (;;) {
      ncclResult_t state = ncclSuccess;
      {
        const std::lock_guard lock(mutex_);
        if (communicator_ == nullptr) refuse();
        const ncclResult_t asked = ncclCommGetAsyncError(communicator_, &state);
        if (asked != ncclSuccess) state = asked;
      }
      if (state == ncclSuccess) return;
      if (state != ncclInProgress) fail(what(), explain(state));
      if (monitor_->alarm().raised()) {
        if (!listener_) abort();
        monitor_->alarm().fail();
      }
      if (monitor_->out_of_patience(
              std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since).count()))
        fail(what(), fmt::format("{} is not through after {} s", call, monitor_->timeout_ms() / 1000));
      nap(since);
    }
  }

  std::string explain(ncclResult_t result) const {
    const char* const last = ncclGetLastError(nullptr);
    const std::string detail = last != nullptr && *last != 0 ? fmt::format(" ({})", last) : "";
    return fmt::format("{}{}; NCCL_DEBUG=INFO says more", ncclGetErrorString(result), detail);
  }

  [[noreturn]] void refuse() const {
    if (monitor_->alarm().raised()) monitor_->alarm().fail();
    throw PeerError(fmt::format("NCCL's communicator of {} was given up after an error", name_));
  }
  // The alarm makes every communicator of this process give up, this one among them, and the other ranks hear of it.
  [[noreturn]] void fail(const std::string& what, const std::string& why) {
    const std::string text =
        fmt::format("rank {} of {} ({}): {} over NCCL failed: {}", rank(), size(), name_, what, why);
    monitor_->alarm().raise(text);
    if (!listener_) abort();  // it was not made yet
    monitor_->alarm().fail();
  }

  // Without the lock, as soon as nobody can use it any more: NCCL waits until all CUDA graphs that hold the
  // communicator are gone, and their owner lets go of them only when it hears of this.
  void abort() {
    ncclComm_t doomed = nullptr;
    {
      const std::lock_guard lock(mutex_);
      doomed = std::exchange(communicator_, nullptr);
    }
    if (doomed != nullptr) ncclCommAbort(doomed);
  }

  // Every rank has come here: what is queued will be done.
  void finish() {
    const Clock::time_point since = Clock::now();
    ncclResult_t state = ncclCommFinalize(communicator_);
    while (state == ncclInProgress && !monitor_->alarm().raised() &&
           Clock::now() - since < std::chrono::milliseconds(monitor_->timeout_ms())) {
      nap(since);
      if (ncclCommGetAsyncError(communicator_, &state) != ncclSuccess) return;
    }
    if (state == ncclSuccess && ncclCommDestroy(communicator_) == ncclSuccess) communicator_ = nullptr;
  }

  const int exceptions_ = std::uncaught_exceptions();
  const std::shared_ptr<Monitor> monitor_;
  const std::string name_;
  const int device_;
  const std::string remark_;
  std::mutex mutex_;                   // around calls into NCCL: the alarm comes on a thread of its own
  ncclComm_t communicator_ = nullptr;  // null: given up
  ncclComm_t part_ = nullptr;          // where NCCL puts the next part, in its own time
  bool together_ = false;
  std::thread aborter_;
  std::optional<Alarm::Listener> listener_;
};

// NCCL reads its variables once for the whole process: what suits a group of one host may not suit a larger group.
bool is_largest_of_process(Group& group) {
  size_t most = 0;
  group.monitor().each_group([&](const WatchedGroup& watched) { most = std::max(most, watched.world_ranks.size()); });
  return group.world_ranks().size() >= most;
}

}  // namespace

std::unique_ptr<DeviceCommunicator> make_nccl_communicator(Group& group, int device) {
  std::string remark;
  const bool share_devices = ranks_share_devices(group.topology(), addresses_of_all(group, device));
  if (share_devices) remark = "several ranks share a GPU, and NCCL goes over sockets: slow, for trying things out";
  if (share_devices || is_largest_of_process(group)) {
    const int world_rank = group.world_ranks()[static_cast<size_t>(group.rank())];
    for (const auto& [name, value] : environment_for_nccl(group.topology(), world_rank, share_devices))
      setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
  }
  // The first byte: whether rank 0 has got an identifier. Without one, all of them end here and say why.
  std::array<uint8_t, 1 + NCCL_UNIQUE_ID_BYTES> told = {};
  ncclUniqueId id = {};
  std::string why = "rank 0 got no identifier from NCCL";
  if (group.rank() == 0) {
    const ncclResult_t result = ncclGetUniqueId(&id);
    told[0] = result == ncclSuccess ? 1 : 0;
    if (result != ncclSuccess) why += fmt::format(": {} ({})", ncclGetErrorString(result), ncclGetLastError(nullptr));
    std::memcpy(told.data() + 1, id.internal, NCCL_UNIQUE_ID_BYTES);
  }
  group.broadcast(view(std::span<uint8_t>(told)), 0);
  if (told[0] == 0) throw PeerError(why);
  std::memcpy(id.internal, told.data() + 1, NCCL_UNIQUE_ID_BYTES);
  return std::make_unique<NcclCommunicator>(group, device, id, std::move(remark));
}

}  // namespace paceline
