#include "paceline/train/batches.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"
#include "paceline/data/memory_dataset.h"
#include "paceline/data/synthetic.h"
#include "paceline/train/copied_batches.h"
#include "paceline/train/loaded_batches.h"
#include "paceline/train/resident_batches.h"

namespace paceline {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Augmentation kAll = {.crop_padding = 2, .flip = true, .cutout = 3};

BatchSource source(ImageShape shape, int64_t samples, LoaderOptions options, uint64_t cursor_samples = 0) {
  Normalisation normalisation;
  for (int64_t channel = 0; channel < shape.channels; ++channel) {
    normalisation.mean.push_back(0.45f + 0.03f * static_cast<float>(channel));
    normalisation.deviation.push_back(0.21f + 0.01f * static_cast<float>(channel));
  }
  return {std::make_shared<MemoryDataset>(make_synthetic(shape, 10, samples, 1, "train")), normalisation,
          std::move(options), cursor_samples};
}

// 0 and -0 are equal as numbers.
torch::Tensor bits_of(const torch::Tensor& images) {
  return images.contiguous().view(images.element_size() == 4 ? torch::kInt32 : torch::kInt16);
}

// Samples of all ranks until so many have been seen are the same, in the same batches.
void expect_same(Batches& batches, Batches& expected, uint64_t samples, const ImageFormat& format = {}) {
  for (uint64_t seen = 0; seen < samples;) {
    const TrainingBatch& a = batches.next();
    const TrainingBatch& b = expected.next();
    ASSERT_EQ(a.count, b.count);
    ASSERT_EQ(a.global_count, b.global_count);
    ASSERT_EQ(a.images.scalar_type(), format.dtype);
    ASSERT_EQ(a.images.sizes(), b.images.sizes());
    ASSERT_TRUE(a.images.is_contiguous(format.channels_last ? torch::MemoryFormat::ChannelsLast
                                                            : torch::MemoryFormat::Contiguous));
    ASSERT_TRUE(torch::equal(bits_of(a.images), bits_of(b.images.to(format.dtype)))) << "after " << seen << " samples";
    ASSERT_EQ(a.labels.scalar_type(), torch::kInt64);
    ASSERT_TRUE(torch::equal(a.labels, b.labels));
    seen += a.global_count;
  }
}

struct Case {
  const char* name;
  ImageShape shape = {3, 8, 8};
  int64_t samples = 23;
  LoaderOptions options;
  uint64_t cursor_samples = 0;
};

const std::vector<Case> kCases = {
    {"plain", {3, 8, 8}, 23, {.global_batch = 5, .shuffle = false}},
    {"crop", {1, 7, 5}, 23, {.global_batch = 5, .augmentation = {.crop_padding = 3}}},
    {"flip", {3, 8, 8}, 23, {.global_batch = 5, .augmentation = {.flip = true}}},
    {"cutout", {2, 5, 9}, 23, {.global_batch = 5, .augmentation = {.cutout = 4}}},
    {"all", {3, 8, 8}, 23, {.global_batch = 5, .seed = 3, .augmentation = kAll}},
    {"uneven_ranks", {3, 8, 8}, 23, {.global_batch = 7, .ranks = 3, .augmentation = kAll}},
    {"more_ranks_than_samples", {3, 8, 8}, 6, {.global_batch = 4, .ranks = 3, .augmentation = kAll}},
    {"phases",
     {3, 8, 8},
     23,
     {.global_batch = BatchPhases{.first = 4, .milestones = {0.5, 1}, .sizes = {3, 100}},
      .ranks = 2,
      .augmentation = kAll}},
    {"fill", {1, 6, 6}, 23, {.global_batch = 9, .ranks = 3, .fill = 4, .augmentation = kAll}},
    {"fill_phases",
     {1, 6, 6},
     23,
     {.global_batch = 6,
      .ranks = 2,
      .fill = BatchPhases{.first = 3, .milestones = {1}, .sizes = {6}},
      .augmentation = kAll}},
    {"resumed", {3, 8, 8}, 23, {.global_batch = 5, .ranks = 2, .augmentation = kAll}, 41},
};

class EveryCase : public testing::TestWithParam<Case> {
 protected:
  template <class Tested>
  void expect_loaded(const ImageFormat& format = {}) {
    const Case& c = GetParam();
    for (int rank = 0; rank < c.options.ranks; ++rank) {
      LoaderOptions options = c.options;
      options.rank = rank;
      options.threads = 2;
      const BatchSource source = paceline::source(c.shape, c.samples, options, c.cursor_samples);
      Tested batches(source, torch::kCPU, format);
      LoadedBatches expected(source);
      expect_same(batches, expected, 2 * static_cast<uint64_t>(c.samples) + 1, format);
    }
  }
};

TEST_P(EveryCase, ResidentBatchesAreTheLoaders) { expect_loaded<ResidentBatches>(); }

TEST_P(EveryCase, CopiedBatchesAreTheLoaders) { expect_loaded<CopiedBatches>(); }

TEST_P(EveryCase, FormatsAreTheLoadersNumbersRounded) {
  for (const ImageFormat format :
       {ImageFormat{torch::kFloat32, true}, ImageFormat{torch::kFloat16, false}, ImageFormat{torch::kBFloat16, true}}) {
    expect_loaded<ResidentBatches>(format);
    expect_loaded<CopiedBatches>(format);
  }
}

INSTANTIATE_TEST_SUITE_P(Batches, EveryCase, testing::ValuesIn(kCases), [](const auto& i) { return i.param.name; });

// A CUDA graph reads them there.
template <class Tested>
class FixedBatches : public testing::Test {};
using Fixed = testing::Types<ResidentBatches, CopiedBatches>;
TYPED_TEST_SUITE(FixedBatches, Fixed);

TYPED_TEST(FixedBatches, LieAtTheSamePlaceEveryTime) {
  TypeParam batches(source({1, 4, 4}, 11, {.global_batch = 4}), torch::kCPU, {});
  const void* const images = batches.next().images.data_ptr();
  const void* const labels = batches.next().labels.data_ptr();
  for (int i = 0; i < 20; ++i) {
    const TrainingBatch& batch = batches.next();
    EXPECT_EQ(batch.images.data_ptr(), images);
    EXPECT_EQ(batch.labels.data_ptr(), labels);
  }
}

TYPED_TEST(FixedBatches, MayBeAskedForInInferenceMode) {
  const BatchSource source = paceline::source({1, 4, 4}, 11, {.global_batch = 4, .augmentation = {.flip = true}});
  TypeParam batches(source, torch::kCPU, {torch::kFloat16, true});
  LoadedBatches expected(source);
  const torch::InferenceMode inference;
  expect_same(batches, expected, 33, {torch::kFloat16, true});
}

LabelledImages with_a_wrong_label(int64_t at) {
  LabelledImages images = make_synthetic({1, 2, 2}, 3, 9, 1, "train");
  images.labels[static_cast<size_t>(at)] = 3;
  return images;
}

BatchSource damaged() {
  return {
      std::make_shared<MemoryDataset>(with_a_wrong_label(5)), {{0.5f}, {0.5f}}, {.global_batch = 2, .shuffle = false}};
}

TEST(CopiedBatches, GivesTheBatchesBeforeAnError) {
  CopiedBatches batches(damaged(), torch::kCPU, {});
  EXPECT_EQ(batches.next().count, 2u);
  EXPECT_EQ(batches.next().count, 2u);
  for (int again = 0; again < 2; ++again)
    EXPECT_THAT([&] { batches.next(); }, ThrowsMessage<DataError>(HasSubstr("sample 5: expected")));
}

TEST(ResidentBatches, ReadsEverySampleAtTheBeginning) {
  EXPECT_THAT([] { ResidentBatches(damaged(), torch::kCPU, {}); },
              ThrowsMessage<DataError>(HasSubstr("sample 5: expected")));
}

TEST(LoadedBatches, AreTheLoadersOwnMemory) {
  LoadedBatches batches(source({1, 4, 4}, 12, {.global_batch = 4, .prefetch_batches = 1}));
  const void* const first = batches.next().images.data_ptr();
  EXPECT_NE(batches.next().images.data_ptr(), first);
  EXPECT_EQ(batches.next().images.data_ptr(), first);  // of two slots
}

TEST(MakeBatches, ACpuHasTheLoadersBatches) {
  const BatchSource source = paceline::source({1, 4, 4}, 12, {.global_batch = 4});
  const auto batches = make_batches(source, torch::kCPU, {torch::kFloat16, true}, "always");
  LoadedBatches expected(source);
  expect_same(*batches, expected, 24);
}

TEST(ResidentBytes, AreThoseOfPixelsAndLabels) {
  EXPECT_EQ(resident_bytes(*source({3, 8, 8}, 10, {}).dataset), 10u * (3 * 8 * 8 + 8));
}

TEST(IsKeptResident, NeverIsNever) { EXPECT_FALSE(is_kept_resident("never", 1, 1'000'000)); }

TEST(IsKeptResident, AutoTakesAQuarterAtMost) {
  EXPECT_TRUE(is_kept_resident("auto", 250, 1000));
  EXPECT_FALSE(is_kept_resident("auto", 251, 1000));
  EXPECT_FALSE(is_kept_resident("auto", 1, 0));
}

TEST(IsKeptResident, AlwaysTakesAllOrSaysWhatIsMissing) {
  EXPECT_TRUE(is_kept_resident("always", 1000, 1000));
  EXPECT_THAT([] { is_kept_resident("always", 3u << 20, (3u << 20) - (1u << 18)); },
              ThrowsMessage<RecipeError>(
                  AllOf(HasSubstr("data.resident"), HasSubstr("needs 3.0 MiB"), HasSubstr("2.8 MiB are free"))));
}

}  // namespace
}  // namespace paceline
