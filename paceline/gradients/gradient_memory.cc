#include "paceline/gradients/gradient_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <mutex>
#include <unordered_map>

namespace paceline {

class GradientMemory::Places : public std::enable_shared_from_this<GradientMemory::Places> {
 public:
  Places(Group& group, const std::vector<size_t>& bytes) : places_(bytes.size()) {
    constexpr size_t kAlignment = 256;
    size_t total = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      places_[i].bytes = bytes[i];
      places_[i].offset = total;
      total += (bytes[i] + kAlignment - 1) / kAlignment * kAlignment;
      smallest_ = std::min(smallest_, bytes[i]);
    }
    memory_ = group.allocate(std::max<size_t>(total, 1));
  }

  // Null where none is free.
  void* take(size_t bytes) {
    if (bytes < smallest_) return nullptr;
    for (Place& place : places_)
      if (place.bytes == bytes && !place.taken.exchange(true, std::memory_order_acquire)) return data() + place.offset;
    return nullptr;
  }

  void give_back(const void* taken) {
    for (Place& place : places_)
      if (data() + place.offset == taken) place.taken.store(false, std::memory_order_release);
  }

  bool holds(const void* address) const {
    const std::less<const void*> before;
    return !before(address, data()) && before(address, data() + memory_.bytes());
  }

 private:
  struct Place {
    size_t bytes = 0;
    size_t offset = 0;
    std::atomic<bool> taken{false};
  };
  std::byte* data() const { return static_cast<std::byte*>(memory_.data()); }

  Memory memory_;
  std::vector<Place> places_;
  size_t smallest_ = std::numeric_limits<size_t>::max();
};

namespace {

using Places = GradientMemory::Places;

thread_local Places* open_places =
    nullptr;  // libtorch asks its allocator from anywhere: there is nothing to hand it by

// libtorch's allocator, with our places in front of it. There is one in a process, as there is one of libtorch's.
class PlaceAllocator final : public c10::Allocator {
 public:
  static PlaceAllocator& installed() {
    static auto* const allocator = [] {
      auto* const made = new PlaceAllocator(*c10::GetCPUAllocator());  // libtorch keeps it for good
      c10::SetCPUAllocator(made);
      return made;
    }();
    return *allocator;
  }

  c10::DataPtr allocate(size_t bytes) override {
    void* const data = open_places != nullptr ? take(*open_places, bytes) : nullptr;
    if (data == nullptr) return libtorchs_.allocate(bytes);
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  // Null where none is free. Whoever has it keeps all places alive.
  void* take(Places& places, size_t bytes) {
    void* const data = places.take(bytes);
    if (data == nullptr) return nullptr;
    const std::lock_guard lock(mutex_);
    owners_.emplace(data, places.shared_from_this());
    return data;
  }

  static void release(void* data) {
    PlaceAllocator& self = installed();
    std::shared_ptr<Places> owner;
    {
      const std::lock_guard lock(self.mutex_);
      if (const auto found = self.owners_.find(data); found != self.owners_.end()) {
        owner = std::move(found->second);
        self.owners_.erase(found);
      }
    }
    if (!owner) return self.libtorchs_.raw_deallocate(data);
    owner->give_back(data);
  }

 private:
  explicit PlaceAllocator(c10::Allocator& libtorchs) : libtorchs_(libtorchs) {}

  c10::Allocator& libtorchs_;
  std::mutex mutex_;
  std::unordered_map<void*, std::shared_ptr<Places>> owners_;  // of places that are taken
};

}  // namespace

GradientMemory::GradientMemory(Group& group, const std::vector<size_t>& bytes)
    : places_(std::make_shared<Places>(group, bytes)) {
  PlaceAllocator::installed();
}

GradientMemory::~GradientMemory() { close(); }

void GradientMemory::open() { open_places = places_.get(); }

void GradientMemory::close() {
  if (open_places == places_.get()) open_places = nullptr;
}

bool GradientMemory::holds(const torch::Tensor& tensor) const { return places_->holds(tensor.const_data_ptr()); }

torch::Tensor GradientMemory::take(at::IntArrayRef sizes, at::IntArrayRef strides) {
  const auto bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * sizeof(float);
  void* const data = PlaceAllocator::installed().take(*places_, bytes);
  if (data == nullptr) return {};
  return torch::from_blob(data, sizes, strides, &PlaceAllocator::release, torch::kFloat32);
}

}  // namespace paceline
