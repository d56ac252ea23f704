#include "host_device.h"

#include <ucontext.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "paceline/core/check.h"
#include "paceline/core/random.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace paceline::host_device {
namespace {

constexpr size_t kStackBytes = size_t{32} << 10;  // the address sanitizer clears all of it at every switch
constexpr unsigned kLanes = 32;

class Fiber;

struct Thread {
  enum class State { ready, at_barrier, in_shuffle, ended };
  State state = State::ready;
  uint3 index = {};
  uint64_t brought = 0, received = 0;  // in a shuffle
  Fiber* fiber = nullptr;              // that it waits on
};

// A stack of its own. Threads run on it one after the other, until one of them waits: then the fiber is that thread's
// until it goes on, and the others need another. So a kernel without barriers is a loop of calls. The address sanitizer
// must be told whenever the stack is another one.
class Fiber {
 public:
  using Next = std::function<Thread*()>;  // who begins next; null: nobody is left

  // Goes on with its thread, or begins threads, until one waits (returned) or nobody is left (null).
  Thread* run(const std::function<void()>& body, const Next& next) {
    body_ = &body;
    next_ = &next;
    if (thread_ == nullptr) {
      getcontext(&own_);
      own_.uc_stack.ss_sp = stack_.get();
      own_.uc_stack.ss_size = kStackBytes;
      makecontext(&own_, &Fiber::begin, 0);
    } else {
      threadIdx = thread_->index;
    }
    current = this;
    leave(&callers_stack_, stack_.get(), kStackBytes);
    swapcontext(&caller_, &own_);
    arrive(callers_stack_, nullptr, nullptr);
    if (error_) std::rethrow_exception(error_);
    return thread_;
  }

  void wait(Thread::State reason) {
    thread_->state = reason;
    void* own_stack = nullptr;
    leave(&own_stack, callers_bottom_, callers_bytes_);
    swapcontext(&own_, &caller_);
    arrive(own_stack, &callers_bottom_, &callers_bytes_);
  }

  Thread& thread() { return *thread_; }

  static Fiber* current;  // whose turn it is

 private:
  static void begin() {
    Fiber& self = *current;
    arrive(nullptr, &self.callers_bottom_, &self.callers_bytes_);
    self.run_threads();
    leave(nullptr, self.callers_bottom_, self.callers_bytes_);
    setcontext(&self.caller_);
  }

  void run_threads() {
    try {
      while ((thread_ = (*next_)()) != nullptr) {
        threadIdx = thread_->index;
        (*body_)();
        thread_->state = Thread::State::ended;
      }
    } catch (...) {
      error_ = std::current_exception();
    }
  }

#ifdef __SANITIZE_ADDRESS__
  static void leave(void** left, const void* bottom, size_t bytes) {
    __sanitizer_start_switch_fiber(left, bottom, bytes);
  }
  static void arrive(void* left, const void** bottom, size_t* bytes) {
    __sanitizer_finish_switch_fiber(left, bottom, bytes);
  }
#else
  static void leave(void**, const void*, size_t) {}
  static void arrive(void*, const void**, size_t*) {}
#endif

  std::unique_ptr<std::byte[]> stack_ = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  ucontext_t own_, caller_;
  const std::function<void()>* body_ = nullptr;
  const Next* next_ = nullptr;
  Thread* thread_ = nullptr;
  std::exception_ptr error_;
  void* callers_stack_ = nullptr;
  const void* callers_bottom_ = nullptr;
  size_t callers_bytes_ = 0;
};

Fiber* Fiber::current = nullptr;

std::vector<unsigned> order_of(unsigned count, uint64_t salt) {
  std::vector<unsigned> order(count);
  std::iota(order.begin(), order.end(), 0u);
  if (device().order == 0) return order;
  const Permutation shuffled(RandomKey(device().order).with(salt), count);
  for (unsigned& place : order) place = static_cast<unsigned>(shuffled(place));
  return order;
}

// The threads of one block, from its beginning to its end.
class Block {
 public:
  Block(const dim3& size, uint64_t salt) : threads_(size.x * size.y * size.z), salt_(salt) {
    for (unsigned i = 0; i < threads_.size(); ++i)
      threads_[i].index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
  }

  void run(const std::function<void()>& body) {
    size_t begun = 0;
    const std::vector<unsigned> order = order_of(static_cast<unsigned>(threads_.size()), salt_);
    const Fiber::Next next = [&] { return begun < order.size() ? &threads_[order[begun++]] : nullptr; };
    while (begun < order.size()) go_on(free_fiber(), body, next);
    for (uint64_t turn = 1; waiting_ > 0; ++turn) {
      CHECK_TRUE(release(), "threads of a block wait where the others never arrive");
      for (const unsigned number : order_of(static_cast<unsigned>(threads_.size()), salt_ + turn)) {
        Thread& thread = threads_[number];
        if (thread.state != Thread::State::ready) continue;
        --waiting_;
        go_on(*thread.fiber, body, next);
      }
    }
  }

 private:
  // Fibers serve every block; those of a block that failed go with the stacks of threads that will not go on.
  static std::vector<std::unique_ptr<Fiber>>& idle() {
    static std::vector<std::unique_ptr<Fiber>> all;
    return all;
  }

  Fiber& free_fiber() {
    if (idle().empty()) idle().push_back(std::make_unique<Fiber>());
    own_.push_back(std::move(idle().back()));
    idle().pop_back();
    return *own_.back();
  }

  void go_on(Fiber& fiber, const std::function<void()>& body, const Fiber::Next& next) {
    if (Thread* const thread = fiber.run(body, next)) {
      thread->fiber = &fiber;
      ++waiting_;
      return;
    }
    const auto place = std::ranges::find(own_, &fiber, &std::unique_ptr<Fiber>::get);
    idle().push_back(std::move(*place));
    own_.erase(place);
  }

  bool all_are(std::span<const Thread> threads, Thread::State state) const {
    return std::ranges::all_of(threads, [&](const Thread& thread) { return thread.state == state; });
  }

  // Lets go those that need not wait any longer; false: there are none.
  bool release() {
    bool released = false;
    if (all_are(threads_, Thread::State::at_barrier)) {
      for (Thread& thread : threads_) thread.state = Thread::State::ready;
      released = true;
    }
    const std::span<Thread> all(threads_);
    for (size_t first = 0; first < all.size(); first += kLanes) {
      const std::span<Thread> warp = all.subspan(first, std::min<size_t>(kLanes, all.size() - first));
      if (!all_are(warp, Thread::State::in_shuffle)) continue;
      std::vector<uint64_t> brought;
      for (const Thread& thread : warp) brought.push_back(thread.brought);
      for (size_t lane = 0; lane < warp.size(); ++lane) {
        const uint64_t from = lane + warp[lane].received;  // the distance, until here
        warp[lane].received = from < warp.size() ? brought[from] : brought[lane];
        warp[lane].state = Thread::State::ready;
      }
      released = true;
    }
    return released;
  }

  std::vector<Thread> threads_;
  uint64_t salt_;
  std::vector<std::unique_ptr<Fiber>> own_;  // in use
  size_t waiting_ = 0;
};

}  // namespace

HostDevice& device() {
  static HostDevice one;
  return one;
}

void run_grid(const dim3& blocks, const dim3& threads, const std::function<void()>& thread) {
  const unsigned count = threads.x * threads.y * threads.z;
  CHECK_TRUE(count > 0 && count <= 1024 && blocks.x * blocks.y * blocks.z > 0, "{} threads in a block", count);
  gridDim = blocks;
  blockDim = threads;
  for (const unsigned number : order_of(blocks.x * blocks.y * blocks.z, 0)) {
    blockIdx = {number % blocks.x, number / blocks.x % blocks.y, number / blocks.x / blocks.y};
    Block(threads, uint64_t{number} << 32).run(thread);
  }
}

void wait_for_block() { Fiber::current->wait(Thread::State::at_barrier); }

uint64_t shuffle_down(uint64_t own, unsigned distance) {
  Thread& self = Fiber::current->thread();
  self.brought = own;
  self.received = distance;
  Fiber::current->wait(Thread::State::in_shuffle);
  return self.received;
}

Launch::Launch(const dim3& blocks_, const dim3& threads_, size_t shared_bytes, CUstream_st*)
    : blocks(blocks_), threads(threads_) {
  CHECK_EQ(shared_bytes, size_t{0});
}

}  // namespace paceline::host_device
