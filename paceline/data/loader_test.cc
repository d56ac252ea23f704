#include "paceline/data/loader.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <optional>

#include "paceline/core/error.h"
#include "paceline/data/synthetic.h"
#include "paceline/data/test_files.h"

// Every allocation of this program is counted, on all threads.
std::atomic<int64_t> allocations = 0;

void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  ++allocations;
  const size_t unit = static_cast<size_t>(alignment);
  if (void* memory = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Normalisation kGrey = {.mean = {0.5f}, .deviation = {0.25f}};
const Augmentation kAugmented = {.crop_padding = 1, .flip = true, .cutout = 2};

std::shared_ptr<const Dataset> grey_images(int64_t samples) {
  return std::make_shared<MemoryDataset>(make_synthetic({1, 6, 5}, 10, samples, 1, "train"));
}

// A data set of one-pixel images whose label is the index; `on_read` runs at every image().
class WatchedDataset : public Dataset {
 public:
  WatchedDataset(size_t size, std::function<void(size_t index)> on_read) : size_(size), on_read_(std::move(on_read)) {}
  size_t size() const override { return size_; }
  ImageShape shape() const override { return {1, 1, 1}; }
  int64_t classes() const override { return static_cast<int64_t>(size_); }
  std::span<const uint8_t> image(size_t index, std::span<uint8_t> scratch) const override {
    on_read_(index);
    scratch[0] = static_cast<uint8_t>(index);
    return scratch.first(1);
  }
  int64_t label(size_t index) const override { return static_cast<int64_t>(index); }

 private:
  size_t size_;
  std::function<void(size_t)> on_read_;
};

struct Sample {
  int64_t label;
  std::vector<float> pixels;
  bool operator==(const Sample&) const = default;
};

void append(const Loader& loader, const Batch& batch, std::vector<Sample>& samples) {
  const size_t elements = loader.shape().elements();
  for (size_t i = 0; i < batch.count; ++i) {
    const float* image = batch.images + i * elements;
    samples.push_back({batch.labels[i], {image, image + elements}});
  }
}

std::vector<Sample> first_samples_of(Loader& loader, size_t count) {
  std::vector<Sample> samples;
  while (samples.size() < count) append(loader, loader.next(), samples);
  samples.resize(count);
  return samples;
}

std::vector<int64_t> labels(const Batch& batch) { return {batch.labels, batch.labels + batch.count}; }

TEST(Loader, KeepsAShortLastBatchAndStartsTheNextEpoch) {
  Loader loader(std::make_shared<WatchedDataset>(5, [](size_t) {}), kGrey, {.global_batch = 2, .shuffle = false});
  const std::vector<std::vector<int64_t>> expected = {{0, 1}, {2, 3}, {4}, {0, 1}, {2, 3}, {4}, {0, 1}};
  for (size_t i = 0; i < expected.size(); ++i) {
    const Batch& batch = loader.next();
    EXPECT_EQ(labels(batch), expected[i]);
    EXPECT_EQ(batch.epoch, i / 3);
    EXPECT_EQ(batch.position, i % 3 * 2);
    EXPECT_EQ(batch.global_count, expected[i].size());
    EXPECT_FLOAT_EQ(batch.images[0], (static_cast<float>(expected[i][0]) / 255.0f - 0.5f) / 0.25f);
  }
}

TEST(Loader, HandsOutFixedAlignedMemory) {
  Loader loader(grey_images(10), kGrey, {.global_batch = 3, .prefetch_batches = 2});
  EXPECT_EQ(loader.slots(), 3);
  EXPECT_EQ(loader.slot_capacity(), 3u);
  EXPECT_EQ(loader.shape(), (ImageShape{1, 6, 5}));
  for (int i = 0; i < 10; ++i) {
    const Batch& batch = loader.next();
    EXPECT_EQ(batch.slot, i % 3);
    EXPECT_EQ(batch.images, loader.slot_images(batch.slot));
    EXPECT_EQ(batch.labels, loader.slot_labels(batch.slot));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(batch.images) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(batch.labels) % 64, 0u);
  }
}

TEST(Loader, ItsSlotsAreNoLargerThanTheData) {
  Loader loader(grey_images(10), kGrey, {.global_batch = 1'000'000'000, .rank = 2, .ranks = 3});
  EXPECT_EQ(loader.slot_capacity(), 4u);
  EXPECT_EQ(loader.next().count, 3u);
}

TEST(Loader, TheSameForAnyNumberOfThreads) {
  const auto data = grey_images(50);
  const LoaderOptions options{.global_batch = 3, .augmentation = kAugmented};
  Loader one(data, kGrey, options);
  const auto expected = first_samples_of(one, 200);
  for (const int threads : {2, 3, 8}) {
    for (const int prefetch : {1, 2, 7}) {
      LoaderOptions more = options;
      more.threads = threads;
      more.prefetch_batches = prefetch;
      Loader loader(data, kGrey, more);
      EXPECT_EQ(first_samples_of(loader, 200), expected);
    }
  }
}

// The thread that has batch 0 waits in it until another one is at the end of batch 1.
TEST(Loader, KeepsTheOrderWhenALaterBatchIsDoneFirst) {
  std::atomic<bool> later_done = false;
  const auto data = std::make_shared<WatchedDataset>(6, [&](size_t index) {
    if (index == 0) later_done.wait(false);
    if (index == 3) {
      later_done = true;
      later_done.notify_all();
    }
  });
  Loader loader(data, kGrey, {.global_batch = 2, .threads = 2, .shuffle = false});
  EXPECT_THAT(labels(loader.next()), ElementsAre(0, 1));
  EXPECT_THAT(labels(loader.next()), ElementsAre(2, 3));
  EXPECT_THAT(labels(loader.next()), ElementsAre(4, 5));
}

TEST(Loader, RanksTogetherGiveWhatOneRankGives) {
  const auto data = grey_images(23);
  LoaderOptions options{.global_batch = 7, .augmentation = kAugmented};
  Loader alone(data, kGrey, options);
  const size_t batches = 3 * 4;  // three epochs: 7, 7, 7, 2
  std::vector<Sample> expected;
  for (size_t i = 0; i < batches; ++i) append(alone, alone.next(), expected);

  for (const int ranks : {1, 2, 3, 4}) {
    std::vector<std::unique_ptr<Loader>> loaders;
    for (int rank = 0; rank < ranks; ++rank) {
      options.rank = rank;
      options.ranks = ranks;
      loaders.push_back(std::make_unique<Loader>(data, kGrey, options));
    }
    std::vector<Sample> together;
    for (size_t i = 0; i < batches; ++i) {
      for (const auto& loader : loaders) {
        const Batch& batch = loader->next();
        EXPECT_EQ(batch.global_count, i % 4 == 3 ? 2u : 7u);
        append(*loader, batch, together);
      }
    }
    EXPECT_EQ(together, expected) << ranks << " ranks";
  }
}

TEST(Loader, FollowsABatchSchedule) {
  const BatchSchedule phases = BatchPhases{.first = 2, .milestones = {0.5, 1}, .sizes = {3, 100}};
  Loader loader(std::make_shared<WatchedDataset>(9, [](size_t) {}), kGrey,
                {.global_batch = phases, .threads = 2, .shuffle = false});
  EXPECT_EQ(loader.slot_capacity(), 9u);
  const std::vector<std::vector<int64_t>> expected = {{0, 1}, {2, 3}, {4, 5}, {6, 7, 8}, {0, 1, 2, 3, 4, 5, 6, 7, 8}};
  for (const auto& batch : expected) EXPECT_EQ(labels(loader.next()), batch);
}

TEST(Loader, ARankTakesItsFillBeforeTheNextGetsAny) {
  const auto data = std::make_shared<WatchedDataset>(11, [](size_t) {});
  const BatchSchedule phases = BatchPhases{.first = 4, .milestones = {0.5}, .sizes = {5}};  // 4, 4, then the last 3
  const std::vector<std::vector<size_t>> counts = {{4, 4, 3}, {0, 0, 0}, {0, 0, 0}};
  for (int rank = 0; rank < 3; ++rank) {
    Loader loader(data, kGrey, {.global_batch = phases, .rank = rank, .ranks = 3, .fill = 4});
    EXPECT_EQ(loader.slot_capacity(), 4u);
    for (const size_t count : counts[static_cast<size_t>(rank)]) EXPECT_EQ(loader.next().count, count);
    const Batch& halved = loader.next();  // 5 samples are one too many for one rank
    EXPECT_EQ(halved.global_count, 5u);
    EXPECT_EQ(halved.count, rank == 0 ? 3u : rank == 1 ? 2u : 0u);
  }
}

// Mikami, Exp. 2: the batch stays and half of the ranks take twice as much of it.
TEST(Loader, TheFillFollowsItsOwnSchedule) {
  const auto data = std::make_shared<WatchedDataset>(8, [](size_t) {});
  const BatchSchedule fill = BatchPhases{.first = 2, .milestones = {1.5}, .sizes = {4}};
  for (int rank = 0; rank < 2; ++rank) {
    Loader loader(data, kGrey, {.global_batch = 4, .rank = rank, .ranks = 2, .fill = fill});
    EXPECT_EQ(loader.slot_capacity(), 4u);
    const std::vector<size_t> counts =
        rank == 0 ? std::vector<size_t>{2, 2, 2, 4, 4} : std::vector<size_t>{2, 2, 2, 0, 0};
    for (const size_t count : counts) EXPECT_EQ(loader.next().count, count) << rank;
  }
}

// Two ranks, then four from the middle of an epoch: together the samples, and the very pixels, of one rank alone.
TEST(Loader, RanksThatChangeUnderAScheduleGiveWhatOneRankGives) {
  const auto data = grey_images(23);
  LoaderOptions options{.global_batch = BatchPhases{.first = 5, .milestones = {0.5, 1}, .sizes = {3, 8}}, .fill = 2};
  options.augmentation = kAugmented;
  Loader alone(data, kGrey, options);
  const auto expected = first_samples_of(alone, 3 * 23);

  std::vector<Sample> together;
  uint64_t cursor = 0;
  for (const int ranks : {2, 4}) {
    std::vector<std::unique_ptr<Loader>> loaders;
    for (int rank = 0; rank < ranks; ++rank) {
      options.rank = rank;
      options.ranks = ranks;
      loaders.push_back(std::make_unique<Loader>(data, kGrey, options, cursor));
    }
    for (const uint64_t until = ranks == 2 ? 10 : 3 * 23; cursor < until;) {
      for (const auto& loader : loaders) append(*loader, loader->next(), together);
      cursor = together.size();
    }
  }
  EXPECT_EQ(together, expected);
}

TEST(Loader, ResumesFromAnyCursor) {
  const auto data = grey_images(11);
  const LoaderOptions options{.global_batch = 4, .augmentation = kAugmented};
  Loader whole(data, kGrey, options);
  const auto expected = first_samples_of(whole, 44);
  for (size_t cursor = 0; cursor < 30; ++cursor) {
    Loader resumed(data, kGrey, options, cursor);
    EXPECT_EQ(first_samples_of(resumed, 44 - cursor),
              std::vector<Sample>(expected.begin() + static_cast<ptrdiff_t>(cursor), expected.end()));
  }
}

TEST(Loader, AugmentsASampleAnewInEveryEpoch) {
  Loader loader(grey_images(1), kGrey, {.global_batch = 1, .augmentation = kAugmented});
  const auto epochs = first_samples_of(loader, 10);
  EXPECT_TRUE(std::ranges::any_of(epochs, [&](const Sample& sample) { return sample != epochs[0]; }));
}

TEST(Loader, AllocatesNothingPerBatch) {
  Loader loader(grey_images(100), kGrey, {.global_batch = 8, .threads = 3, .augmentation = kAugmented});
  for (int i = 0; i < 20; ++i) loader.next();  // every thread has started
  const int64_t before = allocations;
  for (int i = 0; i < 1000; ++i) loader.next();
  EXPECT_EQ(allocations - before, 0);
  EXPECT_GT(before, 0);  // the counter counts
}

TEST(Loader, HoldsAsManyBatchesAsItIsAskedTo) {
  const auto data = std::make_shared<WatchedDataset>(100, [](size_t) {});
  Loader loader(data, kGrey,
                {.global_batch = 2, .threads = 2, .prefetch_batches = 1, .held_batches = 3, .shuffle = false});
  EXPECT_EQ(loader.slots(), 4);
  std::vector<const Batch*> held;
  for (int64_t i = 0; i < 40; ++i) {
    held.push_back(&loader.next());
    if (held.size() > 3) held.erase(held.begin());
    for (size_t k = 0; k < held.size(); ++k) {
      const int64_t number = i + 1 - static_cast<int64_t>(held.size() - k);
      EXPECT_THAT(labels(*held[k]), ElementsAre(2 * number, 2 * number + 1));
    }
  }
}

TEST(Loader, FillsTheMemoryItIsGiven) {
  int live = 0;
  std::vector<const void*> given;
  {
    Loader loader(grey_images(10), kGrey, {.global_batch = 3, .prefetch_batches = 1, .allocate = [&](size_t bytes) {
                                             ++live;
                                             given.push_back(std::malloc(bytes));
                                             return std::shared_ptr<void>(const_cast<void*>(given.back()),
                                                                          [&](void* memory) {
                                                                            --live;
                                                                            std::free(memory);
                                                                          });
                                           }});
    EXPECT_EQ(live, 4);
    for (int slot = 0; slot < 2; ++slot) {
      EXPECT_THAT(given, testing::Contains(loader.slot_images(slot)));
      EXPECT_THAT(given, testing::Contains(loader.slot_labels(slot)));
    }
    EXPECT_EQ(loader.next().images, loader.slot_images(0));
  }
  EXPECT_EQ(live, 0);
}

TEST(Loader, PassesOnAnErrorInPlaceOfItsBatch) {
  for (const int threads : {1, 3}) {
    const auto data = std::make_shared<WatchedDataset>(8, [](size_t index) {
      if (index == 5) throw DataError("sample 5 is damaged");
    });
    Loader loader(data, kGrey, {.global_batch = 2, .threads = threads, .shuffle = false});
    EXPECT_THAT(labels(loader.next()), ElementsAre(0, 1));
    EXPECT_THAT(labels(loader.next()), ElementsAre(2, 3));
    for (int again = 0; again < 2; ++again) {
      EXPECT_THAT(data_error([&] { loader.next(); }), HasSubstr("sample 5 is damaged"));
    }
  }
}

TEST(Loader, RefusesALabelThatTheDataSetDoesNotHave) {
  LabelledImages images = make_synthetic({1, 2, 2}, 3, 3, 1, "train");
  images.labels[1] = 3;
  Loader loader(std::make_shared<MemoryDataset>(images), kGrey, {.global_batch = 3, .shuffle = false});
  EXPECT_THAT(data_error([&] { loader.next(); }), HasSubstr("sample 1: expected"));
}

TEST(Loader, RefusesEmptyData) {
  EXPECT_THAT(data_error([] { Loader(grey_images(0), kGrey, {}); }), HasSubstr("no samples"));
}

TEST(Loader, CanBeDestroyedAtAnyTime) {
  for (const int threads : {1, 4}) {
    for (int batches = 0; batches < 6; ++batches) {
      Loader loader(grey_images(20), kGrey, {.global_batch = 4, .threads = threads, .prefetch_batches = 2});
      for (int i = 0; i < batches; ++i) EXPECT_EQ(loader.next().count, 4u);
    }
  }
}

TEST(Loader, PreparesBatchesAheadAndCanBeDestroyedWhenFull) {
  std::atomic<int> reads = 0;
  const auto data = std::make_shared<WatchedDataset>(100, [&](size_t) {
    ++reads;
    reads.notify_all();
  });
  std::optional<Loader> loader(std::in_place, data, kGrey, LoaderOptions{.global_batch = 2, .prefetch_batches = 3});
  const int all_slots = 2 * loader->slots();
  for (int seen = 0; (seen = reads) < all_slots;) reads.wait(seen);
  loader.reset();
  EXPECT_EQ(reads, all_slots);  // and no more: nobody took a batch
}

TEST(Loader, MeasuresHowLongItsCallerWaited) {
  const auto slow = std::make_shared<WatchedDataset>(4, [](size_t index) {
    for (uint64_t i = 0; i < 1000; ++i) index ^= RandomKey(i).bits(index);
  });
  Loader loader(slow, kGrey, {.global_batch = 1, .prefetch_batches = 1});
  for (int i = 0; i < 200; ++i) loader.next();
  EXPECT_GT(loader.waited_ns(), 0);
}

}  // namespace
}  // namespace paceline
