#include "paceline/ps/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "paceline/core/check.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/wire.h"

namespace paceline {
namespace {

constexpr size_t kRecordBytes = 112;  // kind and worker of four bytes, twelve values and a checksum of eight
constexpr size_t kSumBytes = 8;       // of these, or before a snapshot
constexpr std::string_view kStateMark = "paceline coordinator 1\n";

// FNV-1a; `seed` makes a record at another place, or of another file, a wrong one.
uint64_t checksum(uint64_t seed, std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325 ^ seed;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

uint64_t seed_of(uint64_t number, uint64_t record) { return number * 0x9e3779b97f4a7c15 + record; }

template <class Io, class T>
void fields(Io& io, T& event, uint32_t& kind) {
  io.values(kind, event.worker, event.time_ns, event.incarnation);
  io.values(event.push.sequence, event.push.version, event.push.samples, event.push.rate);
  io.values(event.noise.samples, event.noise.samples_squared, event.noise.mean_norm2, event.noise.spread);
  io.values(event.noise_version, event.noise_index);
}

std::string record_of(const CoordinatorEvent& event, uint64_t seed) {
  auto kind = static_cast<uint32_t>(event.kind);
  WireWriter writer;
  fields(writer, event, kind);
  std::string record = writer.take();
  record += wire_bytes(checksum(seed, record));
  CHECK_EQ(record.size(), kRecordBytes);
  return record;
}

// Nothing for bytes that are no record.
std::optional<CoordinatorEvent> event_from(std::string_view record, uint64_t seed) {
  const std::string_view bytes = record.substr(0, kRecordBytes - kSumBytes);
  if (record.substr(bytes.size()) != wire_bytes(checksum(seed, bytes))) return std::nullopt;
  CoordinatorEvent event;
  uint32_t kind = 0;
  WireReader reader(bytes);
  fields(reader, event, kind);
  if (kind > static_cast<uint32_t>(CoordinatorEvent::Kind::observe)) return std::nullopt;
  event.kind = static_cast<CoordinatorEvent::Kind>(kind);
  return event;
}

// The events of a journal. A part of a record at its end was being written.
std::vector<CoordinatorEvent> events_of(std::string_view bytes, uint64_t number, const std::filesystem::path& path) {
  std::vector<CoordinatorEvent> events;
  while (bytes.size() >= kRecordBytes) {
    const auto event = event_from(bytes.substr(0, kRecordBytes), seed_of(number, events.size()));
    if (!event) break;
    events.push_back(*event);
    bytes.remove_prefix(kRecordBytes);
  }
  if (bytes.size() >= kRecordBytes)
    throw FileError(fmt::format("the journal '{}' is damaged after {} events: start from a checkpoint", path.string(),
                                events.size()));
  return events;
}

// n of coordinator.n.state; nothing for other names.
std::optional<uint64_t> number_of(const std::string& name, std::string_view ending) {
  constexpr std::string_view kBeginning = "coordinator.";
  if (!name.starts_with(kBeginning) || !name.ends_with(ending) || name.size() <= kBeginning.size() + ending.size())
    return std::nullopt;
  uint64_t number = 0;
  const char* end = name.data() + name.size() - ending.size();
  const auto [stop, error] = std::from_chars(name.data() + kBeginning.size(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

[[noreturn]] void fail(const std::string& what, const std::filesystem::path& path) {
  throw FileError(fmt::format("cannot {} '{}': {}", what, path.string(), std::strerror(errno)));
}

int open_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_APPEND, 0600);
  if (descriptor < 0) fail("open", path);
  return descriptor;
}

}  // namespace

std::filesystem::path Journal::state_path(uint64_t number) const {
  return folder_ / fmt::format("coordinator.{}.state", number);
}
std::filesystem::path Journal::journal_path(uint64_t number) const {
  return folder_ / fmt::format("coordinator.{}.journal", number);
}

Journal::Journal(std::filesystem::path folder) : folder_(std::move(folder)) {
  make_directories(folder_);
  const std::filesystem::path lock = folder_ / "coordinator.lock";
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (lock_ < 0) fail("open", lock);
  try {
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0)
      throw FileError(
          fmt::format("the journal in '{}' is in use by another process: end it first, or choose another "
                      "folder for this run",
                      folder_.string()));
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (const auto number = number_of(entry.path().filename().string(), ".state"))
        number_ = std::max(number_, *number);
    open_journal();
    remove_older();
  } catch (...) {
    if (descriptor_ >= 0) ::close(descriptor_);
    ::close(lock_);
    throw;
  }
}

Journal::~Journal() {
  ::close(descriptor_);
  ::close(lock_);
}

void Journal::open_journal() {
  const std::filesystem::path path = journal_path(number_);
  descriptor_ = open_file(path);
  records_ = events_of(read_file(path), number_, path).size();
  if (::ftruncate(descriptor_, static_cast<off_t>(records_ * kRecordBytes)) != 0) fail("shorten", path);
}

// What a process did not come to that was killed after a snapshot.
void Journal::remove_older() const {
  std::vector<std::filesystem::path> old;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    for (const char* ending : {".state", ".journal"})
      if (const auto number = number_of(name, ending); number && *number < number_) old.push_back(entry.path());
  }
  for (const std::filesystem::path& path : old) {
    std::error_code ignored;  // they are in nobody's way
    std::filesystem::remove(path, ignored);
  }
}

JournalContents Journal::recover() const {
  JournalContents contents;
  if (number_ > 0) {
    const std::string text = read_file(state_path(number_));
    const size_t beginning = kStateMark.size() + kSumBytes;
    if (text.size() < beginning || !text.starts_with(kStateMark) ||
        text.substr(kStateMark.size(), kSumBytes) !=
            wire_bytes(checksum(number_, std::string_view(text).substr(beginning))))
      throw FileError(
          fmt::format("the snapshot '{}' is damaged: start from a checkpoint", state_path(number_).string()));
    contents.state = text.substr(beginning);
  }
  contents.events = events_of(read_file(journal_path(number_)), number_, journal_path(number_));
  return contents;
}

void Journal::append(const CoordinatorEvent& event) {
  const std::string record = record_of(event, seed_of(number_, records_));
  for (size_t written = 0; written < kRecordBytes;) {
    const ssize_t now = ::write(descriptor_, record.data() + written, kRecordBytes - written);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) {
      const int reason = now == 0 ? EIO : errno;
      // A part of a record must not stay in the way of the next one; where this fails too, recovery drops it.
      [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, static_cast<off_t>(records_ * kRecordBytes));
      errno = reason;
      fail("write to", journal_path(number_));
    }
    written += static_cast<size_t>(now);
  }
  ++records_;
}

void Journal::snapshot(const std::string& state) {
  const uint64_t next = number_ + 1;
  const std::string text = std::string(kStateMark) + wire_bytes(checksum(next, state)) + state;
  // The next journal first: where that fails, or the state does not get its name, nothing has changed.
  const int opened = open_file(journal_path(next));
  try {
    replace_file(state_path(next), text);  // from here on it counts, and the old journal does not
  } catch (const FileError&) {
    if (::unlink(state_path(next).c_str()) == 0 || !std::filesystem::is_regular_file(state_path(next))) {
      ::close(opened);
      ::unlink(journal_path(next).c_str());
      throw;
    }  // it has its name, and cannot lose it: only flushing failed
  }
  ::close(std::exchange(descriptor_, opened));
  number_ = next;
  records_ = 0;
  remove_older();
}

}  // namespace paceline
