#include "paceline/ps/shard_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "paceline/core/check.h"
#include "paceline/core/sha256.h"

namespace paceline {
namespace {

constexpr char kMagic[16] = "paceline shard\n";
constexpr size_t kIdentityBytes = 512;

// The beginning of the file. Little-endian and of this compiler's layout, as all of it: it never leaves the machine.
struct ShardHeader {
  char magic[16];
  uint64_t format;
  char identity[kIdentityBytes];  // what the file is of, as a text
  char checksum[64];              // of all above
  std::atomic<uint64_t> phase;    // bit 0: which of the numbers hold; bit 1: a command is under way
  ShardNumbers numbers[2];
};
constexpr uint64_t kFormatOfShards = 1;
static_assert(std::atomic<uint64_t>::is_always_lock_free);

uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

std::string sha256_of(const void* data, size_t bytes) {
  Sha256 hash;
  hash.update(data, bytes);
  return hash.hex();
}

// Neither the compiler nor the page cache moves stores across.
void store(std::atomic<uint64_t>& mark, uint64_t value) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  mark.store(value, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace

ShardFile::ShardFile(const std::filesystem::path& path, const ShardMap& map, int shard, const ServerUpdate& update,
                     std::span<const float> initial)
    : count_(map.count(shard)),
      states_(state_names(update).size()),
      means_(static_cast<uint64_t>(update.history) + 1),
      places_(static_cast<uint64_t>(update.most_workers)),
      tensors_(map.tensors().size()) {
  lay_out();
  const std::string settings = settings_text(update);
  const std::string identity = fmt::format("shard {} of {}, {} elements, model {}, update {}", shard, map.shards(),
                                           count_, map.fingerprint(), sha256_of(settings.data(), settings.size()));
  CHECK_LT(identity.size(), kIdentityBytes);
  file_ = std::make_unique<MappedFile>(path, bytes_, reserved_bytes_, [&](std::span<std::byte> bytes) {
    memory_ = bytes.data();
    create(identity, initial);
  });
  memory_ = file_->bytes().data();
  verify(identity);
}

void ShardFile::lay_out() {
  constexpr uint64_t kLine = 64, kPage = 4096;
  places_at_ = round_up(sizeof(ShardHeader), kLine);
  rates_at_ = round_up(places_at_ + places_ * sizeof(StagingMark), kLine);
  marks_at_ = round_up(rates_at_ + 2 * tensors_ * sizeof(float), kLine);
  undo_at_ = round_up(marks_at_ + chunks() * sizeof(ChunkMark), kPage);
  arrays_at_ = round_up(undo_at_ + kMostUpdateThreads * sizeof(UndoSlot), kPage);
  // Five lines more than pages: arrays that are walked together must not meet in the same places of the caches.
  array_bytes_ = round_up(count_ * sizeof(float), kPage) + 5 * kLine;
  reserved_bytes_ = arrays_at_ + (1 + states_ + means_) * array_bytes_;
  bytes_ = reserved_bytes_ + places_ * array_bytes_;
}

void ShardFile::create(const std::string& identity, std::span<const float> initial) const {
  CHECK_EQ(initial.size(), count_);
  ShardHeader& header = *at<ShardHeader>(0);
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.format = kFormatOfShards;
  std::memcpy(header.identity, identity.data(), identity.size());
  std::memcpy(header.checksum, sha256_of(&header, offsetof(ShardHeader, checksum)).data(), sizeof(header.checksum));
  for (ShardNumbers& numbers : header.numbers) numbers.place = -1;
  for (StagingMark& place : places()) place.worker = -1;
  if (!initial.empty()) std::memcpy(weights(), initial.data(), initial.size_bytes());
}

void ShardFile::verify(const std::string& identity) const {
  const auto refuse = [&](const std::string& why) {
    throw FileError(fmt::format("{}: {}; remove it to begin anew", file_->path().string(), why));
  };
  const ShardHeader& header = *at<ShardHeader>(0);
  if (file_->bytes().size() < sizeof(ShardHeader) || std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    refuse("this is not the state of a parameter server");
  }
  if (header.format != kFormatOfShards)
    refuse(fmt::format("written in format {}, not {}", header.format, kFormatOfShards));
  if (std::memcmp(header.checksum, sha256_of(&header, offsetof(ShardHeader, checksum)).data(),
                  sizeof(header.checksum)) != 0) {
    refuse("its header is damaged");
  }
  const std::string theirs(header.identity, strnlen(header.identity, kIdentityBytes));
  if (theirs != identity) refuse(fmt::format("it is of another run: it has '{}', this is '{}'", theirs, identity));
  if (file_->bytes().size() != bytes_) refuse("it is cut off");
  const auto sound = [&](const ShardNumbers& numbers, bool may_be_none) {
    try {
      if (!may_be_none || numbers.command != decltype(numbers.command){}) command_from(numbers.command);
    } catch (const PeerError&) {
      return false;
    }
    return numbers.mean < means_ && numbers.place >= -1 && numbers.place < static_cast<int64_t>(places_);
  };
  if (header.phase > 3 || !sound(now(), true) || (under_way() && !sound(next(), false)))
    refuse("its numbers are damaged");
}

const ShardNumbers& ShardFile::now() const {
  const ShardHeader& header = *at<ShardHeader>(0);
  return header.numbers[header.phase.load(std::memory_order_acquire) & 1];
}

ShardNumbers& ShardFile::next() const {
  ShardHeader& header = *at<ShardHeader>(0);
  return header.numbers[1 - (header.phase.load(std::memory_order_acquire) & 1)];
}

std::span<float> ShardFile::rates_now() const {
  return {at<float>(rates_at_) + (at<ShardHeader>(0)->phase & 1) * tensors_, tensors_};
}

std::span<float> ShardFile::rates_next() const {
  return {at<float>(rates_at_) + (1 - (at<ShardHeader>(0)->phase & 1)) * tensors_, tensors_};
}

bool ShardFile::under_way() const { return (at<ShardHeader>(0)->phase.load(std::memory_order_acquire) & 2) != 0; }

void ShardFile::begin() {
  std::atomic<uint64_t>& phase = at<ShardHeader>(0)->phase;
  CHECK_TRUE(!under_way(), "a command is under way already");
  store(phase, phase | 2);
}

void ShardFile::commit() {
  std::atomic<uint64_t>& phase = at<ShardHeader>(0)->phase;
  store(phase, 1 - (phase & 1));
}

float* ShardFile::array(uint64_t index) const { return at<float>(arrays_at_ + index * array_bytes_); }

std::span<StagingMark> ShardFile::places() const { return {at<StagingMark>(places_at_), places_}; }

void ShardFile::reserve_place(int place) {
  StagingMark& mark = places()[static_cast<size_t>(place)];
  if (mark.reserved != 0) return;
  file_->reserve(reserved_bytes_ + static_cast<uint64_t>(place) * array_bytes_, array_bytes_);
  store(mark.reserved, 1);
}

std::span<ChunkMark> ShardFile::marks() const { return {at<ChunkMark>(marks_at_), chunks()}; }

UndoSlot& ShardFile::undo(int thread) const { return at<UndoSlot>(undo_at_)[thread]; }

void ShardFile::keep(int thread, uint64_t chunk, std::span<float* const> changed) const {
  UndoSlot& slot = undo(thread);
  const ChunkMark& mark = marks()[chunk];
  const uint64_t begin = chunk * kChunk, count = std::min(kChunk, count_ - begin);
  for (size_t i = 0; i < changed.size(); ++i) std::memcpy(slot.values[i], changed[i] + begin, count * sizeof(float));
  slot.serial = mark.serial;
  slot.mean_norm2 = mark.mean_norm2;
  slot.spread = mark.spread;
  store(slot.chunk, chunk + 1);
}

void ShardFile::sign(int thread, uint64_t chunk, uint64_t serial) const {
  store(marks()[chunk].serial, serial);
  store(undo(thread).chunk, 0);
}

void ShardFile::undo_unfinished(std::span<float* const> changed) const {
  for (int thread = 0; thread < kMostUpdateThreads; ++thread) {
    UndoSlot& slot = undo(thread);
    if (slot.chunk == 0) continue;
    const uint64_t chunk = slot.chunk - 1, begin = chunk * kChunk, count = std::min(kChunk, count_ - begin);
    CHECK_LT(chunk, chunks());
    for (size_t i = 0; i < changed.size(); ++i) std::memcpy(changed[i] + begin, slot.values[i], count * sizeof(float));
    ChunkMark& mark = marks()[chunk];
    mark.mean_norm2 = slot.mean_norm2;
    mark.spread = slot.spread;
    store(mark.serial, slot.serial);
    store(slot.chunk, 0);
  }
}

}  // namespace paceline
