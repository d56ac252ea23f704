#include "paceline/data/packed_images.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "paceline/core/check.h"
#include "paceline/core/file.h"
#include "paceline/core/usable_cores.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;  // higher when the same source would give other bytes, or the file another layout
constexpr size_t kHeaderBytes = 4096;
constexpr size_t kBlockBytes = 32 << 20;  // decoded, then written

// What the file must begin with. Everything that could make it the wrong file is in here.
std::string header_of(const PackedContents& contents) {
  std::string header = fmt::format(
      "paceline images\nversion {}\nchannels {}\nheight {}\nwidth {}\ncount {}\nsource {}\n", kVersion,
      contents.shape.channels, contents.shape.height, contents.shape.width, contents.count, contents.fingerprint);
  CHECK_LE(header.size(), kHeaderBytes);
  header.resize(kHeaderBytes, '\0');
  return header;
}

size_t file_bytes(const PackedContents& contents) { return kHeaderBytes + contents.count * contents.shape.elements(); }

// Holds others off while a file in the folder is made. The folder itself is locked, so that no lock file stays behind.
// A file system that cannot lock folders costs only work: everybody then makes a file, and each is good.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (descriptor_ >= 0 && !held_) {
      if (::flock(descriptor_, LOCK_EX) == 0) {
        held_ = true;
      } else if (errno != EINTR) {
        break;
      }
    }
  }
  ~FolderLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool held() const { return held_; }

 private:
  int descriptor_;
  bool held_ = false;
};

// Decodes images first … first + count - 1 on all cores. Of several that cannot be decoded, the first one's exception:
// images are taken up in order, so it does not depend on the threads.
void decode_block(size_t first, std::span<uint8_t> pixels, size_t image_bytes, const DecodeImage& decode) {
  const size_t count = pixels.size() / image_bytes;
  std::atomic<size_t> next = 0;
  std::mutex mutex;  // of the following
  size_t failed = count;
  std::exception_ptr failure;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        decode(first + i, pixels.subspan(i * image_bytes, image_bytes));
      } catch (...) {
        next = count;
        const std::scoped_lock lock(mutex);
        if (i < failed) {
          failed = i;
          failure = std::current_exception();
        }
      }
    }
  };
  {
    const size_t threads = std::min<size_t>(static_cast<size_t>(cores_of(usable_cores())), count);
    std::vector<std::jthread> others;
    for (size_t i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

// What a process that was killed left behind.
void remove_unfinished(const fs::path& place, const std::string& suffix) {
  std::error_code ignored;
  const std::string beginning = place.filename().string() + suffix;
  for (const fs::directory_entry& entry : fs::directory_iterator(place.parent_path(), ignored)) {
    if (entry.path().filename().string().starts_with(beginning)) fs::remove(entry.path(), ignored);
  }
}

// REQUIRES: the folder of `place` exists.
std::shared_ptr<const PackedImages> write_packed_images(const fs::path& place, const PackedContents& contents,
                                                        const DecodeImage& decode, bool alone) {
  const std::string suffix = ".writing-";
  if (alone) remove_unfinished(place, suffix);
  std::error_code unknown;
  const fs::space_info space = fs::space(place.parent_path(), unknown);
  if (!unknown && space.available < file_bytes(contents)) {
    throw FileError(fmt::format("{} has room for {} MB only", place.parent_path().string(), space.available >> 20));
  }

  static std::atomic<int> writers = 0;
  const fs::path beside = fmt::format("{}{}{}-{}", place.string(), suffix, ::getpid(), writers++);
  DurableFile file(beside, nullptr, Readers::as_umask);  // a data set may be of all users
  file.write(header_of(contents));
  const size_t image_bytes = contents.shape.elements();
  const size_t images_per_block = std::max<size_t>(1, kBlockBytes / image_bytes);
  std::vector<uint8_t> block(std::min(images_per_block, contents.count) * image_bytes);
  for (size_t first = 0; first < contents.count; first += images_per_block) {
    const size_t count = std::min(images_per_block, contents.count - first);
    const std::span<uint8_t> pixels = std::span(block).first(count * image_bytes);
    decode_block(first, pixels, image_bytes, decode);
    file.write(pixels.data(), pixels.size());
  }
  file.finish();
  // Mapped before it has its name: what others rename to that name afterwards does not matter.
  std::shared_ptr<const PackedImages> images = PackedImages::map(beside, contents);
  try {
    if (!images) throw FileError(fmt::format("cannot map {}", beside.string()));
    rename_path(beside, place);
  } catch (const FileError&) {
    ::unlink(beside.c_str());
    throw;
  }
  return images;
}

std::shared_ptr<const PackedImages> map_first(const std::vector<fs::path>& places, const PackedContents& contents) {
  for (const fs::path& place : places) {
    if (auto images = PackedImages::map(place, contents)) return images;
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<const PackedImages> PackedImages::map(const fs::path& file, const PackedContents& contents) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  const std::string expected = header_of(contents);
  std::string header(kHeaderBytes, '\0');
  struct stat status = {};
  const size_t bytes = file_bytes(contents);
  void* memory = MAP_FAILED;
  if (::fstat(descriptor, &status) == 0 && static_cast<uint64_t>(status.st_size) == bytes &&
      ::pread(descriptor, header.data(), kHeaderBytes, 0) == static_cast<ssize_t>(kHeaderBytes) && header == expected) {
    memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  }
  ::close(descriptor);
  if (memory == MAP_FAILED) return nullptr;
  ::posix_madvise(memory, bytes, POSIX_MADV_WILLNEED);  // a first epoch in random order would wait for every image
  return std::shared_ptr<const PackedImages>(new PackedImages(contents, memory, bytes));
}

PackedImages::~PackedImages() { ::munmap(memory_, bytes_); }

std::span<const uint8_t> PackedImages::image(size_t index) const {
  CHECK_LT(index, contents_.count);
  const size_t image_bytes = contents_.shape.elements();
  return {static_cast<const uint8_t*>(memory_) + kHeaderBytes + index * image_bytes, image_bytes};
}

std::shared_ptr<const PackedImages> open_packed_images(const std::vector<fs::path>& places,
                                                       const PackedContents& contents, const DecodeImage& decode) {
  CHECK_GT(places.size(), 0u);
  if (auto images = map_first(places, contents)) return images;
  std::vector<std::string> refusals;
  for (const fs::path& place : places) {
    try {
      make_directories(place.parent_path(), Readers::as_umask);
      const FolderLock lock(place.parent_path());
      if (auto images = map_first(places, contents)) return images;  // made while this one waited
      return write_packed_images(place, contents, decode, lock.held());
    } catch (const FileError& error) {
      refusals.push_back(error.what());
    }
  }
  throw FileError(
      fmt::format("there is no place for {} MB of decoded images: {}; name a folder with room for them in "
                  "the variable XDG_CACHE_HOME",
                  file_bytes(contents) >> 20, fmt::join(refusals, "; ")));
}

PackedDataset::PackedDataset(std::shared_ptr<const PackedImages> images, size_t first, std::vector<int64_t> labels,
                             int64_t classes)
    : images_(std::move(images)), first_(first), labels_(std::move(labels)), classes_(classes) {
  CHECK_LE(first_ + labels_.size(), images_->count());
}

std::span<const uint8_t> PackedDataset::image(size_t index, std::span<uint8_t>) const {
  CHECK_LT(index, size());
  return images_->image(first_ + index);
}

int64_t PackedDataset::label(size_t index) const {
  CHECK_LT(index, size());
  return labels_[index];
}

}  // namespace paceline
