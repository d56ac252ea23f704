#include "paceline/comm/segment_arena.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "paceline/core/error.h"
#include "paceline/core/hmac.h"

namespace paceline {
namespace {

const std::filesystem::path kFolder = "/dev/shm";
constexpr const char* kPrefix = "paceline-";
constexpr const char* kControl = ".control";

[[noreturn]] void fail(const std::string& what, const std::filesystem::path& path, int error) {
  throw FileError(fmt::format("{} {}: {}", what, path.string(), std::strerror(error)));
}

[[noreturn]] void fail_full(size_t bytes) {
  struct statvfs space = {};
  statvfs(kFolder.c_str(), &space);
  throw FileError(fmt::format(
      "{} is full: {:.0f} MB of shared memory were asked for, {:.0f} MB are free; remove what others left there, make "
      "it "
      "larger (mount -o remount,size=..., docker run --shm-size=...), or use another engine (gloo, mpi)",
      kFolder.string(), static_cast<double>(bytes) / 1e6, static_cast<double>(space.f_bavail * space.f_frsize) / 1e6));
}

// A new file of that many zero bytes. They are reserved at once: a full file system is an error here, not a signal at
// the first touch.
int make_file(const std::filesystem::path& path, size_t bytes) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) fail("cannot create", path, errno);
  if (const int error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes)); error != 0) {
    ::close(descriptor);
    ::unlink(path.c_str());
    if (error == ENOSPC || error == EFBIG) fail_full(bytes);
    fail("cannot reserve shared memory in", path, error);
  }
  return descriptor;
}

constexpr size_t kLargePage = 2 << 20;

// Address space for a mapping that begins at a multiple of kLargePage.
std::byte* reserve_aligned(size_t bytes) {
  void* const room = ::mmap(nullptr, bytes + kLargePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(room);
  const size_t before = (kLargePage - reinterpret_cast<uintptr_t>(begin) % kLargePage) % kLargePage;
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t used = (bytes + page - 1) / page * page;
  const size_t after = (bytes + kLargePage + page - 1) / page * page - before - used;
  if (before > 0) ::munmap(begin, before);
  if (after > 0) ::munmap(begin + before + used, after);
  return begin + before;
}

// /dev/shm has small pages by default, on which sums of long buffers take 1.4 times as long. Since Linux 6.1 a process
// may ask for large ones; where that is not granted, small ones do.
void ask_for_large_pages(std::byte* data, size_t bytes) {
#ifndef MADV_COLLAPSE
  constexpr int MADV_COLLAPSE = 25;
#endif
  ::madvise(data, bytes / kLargePage * kLargePage, MADV_COLLAPSE);
}

std::byte* map_file(int descriptor, size_t bytes, const std::filesystem::path& path) {
  std::byte* const wanted = bytes >= kLargePage ? reserve_aligned(bytes) : nullptr;
  const int flags = MAP_SHARED | MAP_POPULATE | (wanted != nullptr ? MAP_FIXED : 0);
  void* const data = ::mmap(wanted, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (data == MAP_FAILED) fail("cannot map", path, errno);
  if (wanted != nullptr) ask_for_large_pages(wanted, bytes);
  return static_cast<std::byte*>(data);
}

size_t size_of_file(int descriptor) {
  struct stat status = {};
  ::fstat(descriptor, &status);
  return static_cast<size_t>(status.st_size);
}

void remove_files_of(const std::string& name) {
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(kFolder, ignored)) {
    const std::string found = file.path().filename().string();
    if (found.starts_with(name + ".")) ::unlink(file.path().c_str());
  }
}

std::string letters_and_digits(const std::string& job) {
  std::string clean;
  for (const char letter : job.substr(0, 64)) clean += std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
  return clean;
}

size_t rounded(size_t bytes) {  // to an eighth of a power of two, so that few sizes are given out
  const size_t step = std::max<size_t>(64 * 1024, std::bit_ceil(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

}  // namespace

// The file gets its name after the lock is held, so that nobody takes it for a dead run's.
std::shared_ptr<SegmentArena> SegmentArena::create(const std::string& job, int ranks, size_t control_bytes) {
  const std::string name = fmt::format("{}{}-{}", kPrefix, letters_and_digits(job), random_hex(8));
  const std::filesystem::path unnamed = kFolder / fmt::format(".{}.new", name);
  const int descriptor = make_file(unnamed, control_bytes);
  ::flock(descriptor, LOCK_SH);
  const std::filesystem::path path = kFolder / (name + kControl);
  if (::renameat2(AT_FDCWD, unnamed.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0) {
    const int error = errno;
    ::close(descriptor);
    ::unlink(unnamed.c_str());
    fail("cannot create", path, error);
  }
  return std::shared_ptr<SegmentArena>(new SegmentArena(name, 0, ranks, descriptor));
}

std::shared_ptr<SegmentArena> SegmentArena::open(const std::string& name, int rank, int ranks) {
  const std::filesystem::path path = kFolder / (name + kControl);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) fail("cannot open", path, errno);
  ::flock(descriptor, LOCK_SH);
  return std::shared_ptr<SegmentArena>(new SegmentArena(name, rank, ranks, descriptor));
}

SegmentArena::SegmentArena(std::string name, int rank, int ranks, int control_descriptor)
    : name_(std::move(name)),
      rank_(static_cast<uint32_t>(rank)),
      ranks_(static_cast<uint32_t>(ranks)),
      control_descriptor_(control_descriptor),
      control_bytes_(size_of_file(control_descriptor)),
      control_(map_file(control_descriptor, control_bytes_, kFolder / (name_ + kControl))),
      own_(std::make_unique<Segment[]>(kMostSegments)),
      mapped_(std::make_unique<std::atomic<std::atomic<std::byte*>*>[]>(ranks_)) {}

SegmentArena::~SegmentArena() {
  for (uint32_t number = 0; number < own_count_.load(); ++number) ::munmap(own_[number].begin, own_[number].bytes);
  for (const Segment& segment : foreign_) ::munmap(segment.begin, segment.bytes);
  ::munmap(control_, control_bytes_);
  if (::flock(control_descriptor_, LOCK_EX | LOCK_NB) == 0) remove_files_of(name_);  // nobody else holds it: the last
  ::close(control_descriptor_);
}

Memory SegmentArena::allocate(size_t bytes) {
  if (bytes == 0) return {};
  release_retired();
  const std::lock_guard lock(mutex_);
  const size_t size = rounded(bytes);
  uint32_t number = 0;
  if (const auto unused = unused_.find(size); unused != unused_.end()) {
    number = unused->second;
    unused_.erase(unused);
    std::memset(own_[number].begin, 0, bytes);
  } else {
    number = make_segment(size);
  }
  return {own_[number].begin, bytes, [weak = weak_from_this(), this, number, size] {
            const std::shared_ptr<Arena> alive = weak.lock();
            if (!alive) return;
            const std::lock_guard guard(mutex_);
            unused_.emplace(size, number);
          }};
}

uint32_t SegmentArena::make_segment(size_t bytes) {
  const uint32_t number = own_count_.load(std::memory_order_relaxed);
  CHECK_LT(number, kMostSegments);
  const std::filesystem::path path = kFolder / fmt::format("{}.{}.{}", name_, rank_, number);
  const int descriptor = make_file(path, bytes);
  own_[number] = {map_file(descriptor, bytes, path), bytes};
  ::close(descriptor);
  own_count_.store(number + 1, std::memory_order_release);
  return number;
}

std::optional<Address> SegmentArena::address_of(const void* data, size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(data);
  const uint32_t count = own_count_.load(std::memory_order_acquire);
  for (uint32_t number = 0; number < count; ++number) {
    const Segment& segment = own_[number];
    if (begin >= segment.begin && begin + bytes <= segment.begin + segment.bytes)
      return Address{rank_, number, static_cast<uint64_t>(begin - segment.begin)};
  }
  return std::nullopt;
}

void* SegmentArena::resolve(Address address) {
  if (address.owner == rank_) return own_[address.segment].begin + address.offset;
  CHECK_LT(address.owner, ranks_);
  CHECK_LT(address.segment, kMostSegments);
  const std::atomic<std::byte*>* const table = mapped_[address.owner].load(std::memory_order_acquire);
  std::byte* begin = table != nullptr ? table[address.segment].load(std::memory_order_acquire) : nullptr;
  if (begin == nullptr) begin = map_segment_of(address.owner, address.segment);
  return begin + address.offset;
}

std::byte* SegmentArena::map_segment_of(uint32_t owner, uint32_t number) {
  const std::lock_guard lock(mutex_);
  if (mapped_[owner].load() == nullptr) {
    mapped_tables_.push_back(std::make_unique<std::atomic<std::byte*>[]>(kMostSegments));
    mapped_[owner].store(mapped_tables_.back().get(), std::memory_order_release);
  }
  std::atomic<std::byte*>& place = mapped_[owner].load()[number];
  if (place.load() != nullptr) return place.load();
  const std::filesystem::path path = kFolder / fmt::format("{}.{}.{}", name_, owner, number);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) fail("cannot open another rank's", path, errno);
  const size_t bytes = size_of_file(descriptor);
  std::byte* const begin = map_file(descriptor, bytes, path);
  ::close(descriptor);
  foreign_.push_back({begin, bytes});
  place.store(begin, std::memory_order_release);
  return begin;
}

int remove_stale_segments() {
  int removed = 0;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(kFolder, ignored)) {
    const std::string found = file.path().filename().string();
    if (!found.starts_with(kPrefix) || !found.ends_with(kControl)) continue;
    const int descriptor = ::open(file.path().c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) continue;  // another user's, or gone already
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
      remove_files_of(found.substr(0, found.size() - std::strlen(kControl)));
      ++removed;
    }
    ::close(descriptor);
  }
  return removed;
}

}  // namespace paceline
