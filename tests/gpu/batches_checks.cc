#include "batches_checks.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <algorithm>

#include "check_row.h"
#include "paceline/core/clock.h"
#include "paceline/data/memory_dataset.h"
#include "paceline/data/synthetic.h"
#include "paceline/precision/device_words.h"
#include "paceline/train/copied_batches.h"
#include "paceline/train/loaded_batches.h"
#include "paceline/train/resident_batches.h"

namespace paceline {
namespace {

const Augmentation kAll = {.crop_padding = 4, .flip = true, .cutout = 8};
const torch::Dtype kTypes[] = {torch::kFloat32, torch::kFloat16, torch::kBFloat16};

struct Row {
  std::string subject, check;
  int cases = 0, wrong = 0;

  void add(bool right) {
    ++cases;
    wrong += right ? 0 : 1;
  }
};

std::string name_of(ImageShape shape) { return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width); }

// torch::equal would take 0 and -0 for the same.
bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  const auto bits = [](const torch::Tensor& t) {
    return t.cpu().contiguous().view(t.element_size() == 2   ? torch::kInt16
                                     : t.element_size() == 4 ? torch::kInt32
                                                             : torch::kInt64);
  };
  return a.scalar_type() == b.scalar_type() && torch::equal(bits(a), bits(b));
}

BatchSource source(ImageShape shape, int64_t samples, LoaderOptions options) {
  Normalisation normalisation;
  for (int64_t channel = 0; channel < shape.channels; ++channel) {
    normalisation.mean.push_back(0.45f + 0.03f * static_cast<float>(channel));
    normalisation.deviation.push_back(0.21f + 0.01f * static_cast<float>(channel));
  }
  return {std::make_shared<MemoryDataset>(make_synthetic(shape, 10, samples, 1, "train")), normalisation,
          std::move(options)};
}

// ---- The kernel -----------------------------------------------------------------------------------------------------

// One batch on both: `offset` elements into its allocation.
struct KernelCase {
  static constexpr int64_t kSet = 13, kCount = 40;

  KernelCase(ImageShape shape, const Augmentation& augmentation) : shape(shape), cutout(augmentation.cutout) {
    torch::manual_seed(5);
    set_images = torch::randint(0, 256, {kSet * static_cast<int64_t>(shape.elements())}, torch::kUInt8);
    set_labels = torch::randint(0, 1000, {kSet}, torch::kInt64);
    tables = torch::randn({shape.channels, 256});
    const Transform transform(shape, normalisation(), augmentation);
    samples = torch::empty({kCount * static_cast<int64_t>(sizeof(AugmentedSample))}, torch::kUInt8);
    auto* sample = reinterpret_cast<AugmentedSample*>(samples.data_ptr<uint8_t>());
    for (int64_t i = 0; i < kCount; ++i) {
      const AugmentationDraw draw = transform.draw(RandomKey(3).with(static_cast<uint64_t>(i)));
      sample[i] = {.index = static_cast<uint32_t>(i * 7 % kSet),
                   .mirror = draw.mirror,
                   .shift_down = static_cast<int16_t>(draw.shift_down),
                   .shift_right = static_cast<int16_t>(draw.shift_right),
                   .cut_row = static_cast<int16_t>(draw.cut_row),
                   .cut_column = static_cast<int16_t>(draw.cut_column)};
    }
  }

  Normalisation normalisation() const {
    const auto channels = static_cast<size_t>(shape.channels);
    return {std::vector<float>(channels, 0.5f), std::vector<float>(channels, 0.25f)};
  }

  struct Output {
    torch::Tensor images, labels;
  };

  Output run(torch::Device device, torch::Dtype dtype, bool channels_last, int64_t offset) const {
    const torch::Tensor set = set_images.to(device), of_set = set_labels.to(device), table = tables.to(device),
                        draws = samples.to(device);
    const auto elements = kCount * static_cast<int64_t>(shape.elements());
    // What nobody writes is seen.
    const torch::Tensor memory =
        torch::full({elements + 2 * offset + 8}, 77, torch::TensorOptions(dtype).device(device));
    Output output = {memory, torch::full({kCount}, -1, torch::TensorOptions(torch::kInt64).device(device))};
    const AugmentedBatch batch = {
        .set_images = set.const_data_ptr<uint8_t>(),
        .set_labels = of_set.const_data_ptr<int64_t>(),
        .tables = table.const_data_ptr<float>(),
        .samples = reinterpret_cast<const AugmentedSample*>(draws.const_data_ptr<uint8_t>()),
        .count = kCount,
        .channels = shape.channels,
        .height = shape.height,
        .width = shape.width,
        .cutout = cutout,
        .images = static_cast<char*>(memory.data_ptr()) + offset * static_cast<int64_t>(memory.element_size()),
        .labels = output.labels.data_ptr<int64_t>(),
        .type = kernel_number(dtype).value(),
        .channels_last = channels_last};
    if (device.is_cpu()) {
      augment_reference(batch);
    } else {
      augment_on_device(batch, c10::cuda::getCurrentCUDAStream().stream());
    }
    return {output.images.cpu(), output.labels.cpu()};
  }

  ImageShape shape;
  int64_t cutout;
  torch::Tensor set_images, set_labels, tables, samples;
};

void check_kernel(Row& against_reference, Row& rounding, ImageShape shape) {
  const int64_t side = std::min(shape.height, shape.width);
  const std::vector<Augmentation> augmentations = {{},
                                                   {.crop_padding = std::min<int64_t>(4, side - 1)},
                                                   {.crop_padding = side - 1},
                                                   {.flip = true},
                                                   {.cutout = side / 2},
                                                   {.cutout = 1},
                                                   {.crop_padding = 2, .flip = true, .cutout = side / 2 + 1}};
  for (const Augmentation& augmentation : augmentations) {
    const KernelCase work(shape, augmentation);
    for (const bool channels_last : {false, true}) {
      for (const int64_t offset : {0, 1}) {
        const torch::Tensor f32 = work.run(torch::kCUDA, torch::kFloat32, channels_last, offset).images;
        for (const torch::Dtype dtype : kTypes) {
          const auto expected = work.run(torch::kCPU, dtype, channels_last, offset);
          const auto found = work.run(torch::kCUDA, dtype, channels_last, offset);
          against_reference.add(same_bits(found.images, expected.images) && same_bits(found.labels, expected.labels));
          if (dtype != torch::kFloat32) rounding.add(same_bits(found.images, f32.to(dtype)));
        }
      }
    }
  }
}

// ---- Batches --------------------------------------------------------------------------------------------------------

// Copies of batches, made late: before each, the device is kept busy, and the host goes on. What comes too early or is
// overwritten shows.
std::vector<TrainingBatch> late_copies(Batches& batches, int count, bool busy) {
  const torch::Tensor matrix = torch::ones({2048, 2048}, torch::kCUDA);
  torch::Tensor product = matrix;
  std::vector<TrainingBatch> copies;
  for (int i = 0; i < count; ++i) {
    const TrainingBatch& batch = batches.next();
    if (busy)
      for (int k = 0; k < 5; ++k) product = torch::mm(matrix, matrix);
    copies.push_back({batch.images.clone(), batch.labels.clone(), batch.count, batch.global_count});
  }
  torch::cuda::synchronize();
  return copies;
}

void check_same(Row& row, const std::vector<TrainingBatch>& found, Batches& expected, const ImageFormat& format) {
  for (const TrainingBatch& a : found) {
    const TrainingBatch& b = expected.next();
    const auto layout = format.channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous;
    row.add(a.count == b.count && a.global_count == b.global_count && a.images.is_contiguous(layout) &&
            same_bits(a.images, b.images.to(format.dtype)) && same_bits(a.labels, b.labels));
  }
}

template <class Tested>
void check_against_loader(Row& row, ImageShape shape, const LoaderOptions& options) {
  for (const torch::Dtype dtype : kTypes) {
    for (const bool channels_last : {false, true}) {
      for (const bool busy : {false, true}) {
        const ImageFormat format = {dtype, channels_last};
        const BatchSource from = source(shape, 203, options);
        Tested batches(from, torch::kCUDA, format);
        LoadedBatches expected(from);
        check_same(row, late_copies(batches, 40, busy), expected, format);
      }
    }
  }
}

// A graph that was captured on one batch reads those that follow.
template <class Tested>
void check_graph(Row& row) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  const BatchSource from = source({3, 32, 32}, 256, {.global_batch = 64, .augmentation = kAll});
  Tested batches(from, torch::kCUDA, {torch::kFloat16, true});
  LoadedBatches expected(from);
  const TrainingBatch first = batches.next();
  expected.next();
  torch::cuda::synchronize();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  const torch::Tensor images = first.images.clone(), labels = first.labels.clone();
  graph.capture_end();
  for (int i = 0; i < 20; ++i) {
    batches.next();
    graph.replay();
    const TrainingBatch& b = expected.next();
    row.add(same_bits(images, b.images.to(torch::kFloat16)) && same_bits(labels, b.labels));
  }
}

void check_choice(Row& row) {
  const BatchSource from = source({3, 32, 32}, 64, {.global_batch = 8});
  const auto is = [&](const char* resident, bool expected) {
    const auto batches = make_batches(from, torch::kCUDA, {}, resident);
    row.add((dynamic_cast<ResidentBatches*>(batches.get()) != nullptr) == expected);
    row.add(batches->next().images.is_cuda());
  };
  is("auto", true);
  is("always", true);
  is("never", false);
}

// ---- Speed ----------------------------------------------------------------------------------------------------------

template <class Tested>
void print_speed(const char* name, const BatchSource& from, int batches_timed) {
  Tested batches(from, torch::kCUDA, {torch::kFloat16, true});
  for (int i = 0; i < 10; ++i) batches.next();
  torch::cuda::synchronize();
  const SteadyClock clock;
  const int64_t from_ns = clock.now_ns();
  size_t images = 0;
  for (int i = 0; i < batches_timed; ++i) images += batches.next().count;
  const int64_t asked_ns = clock.now_ns();
  torch::cuda::synchronize();
  const double seconds = seconds_between(from_ns, clock.now_ns());
  fmt::print("{:<18}batch {:>5}: {:>12.0f} images/s; the host is busy for {:.1f} us per batch\n", name,
             from.options.global_batch.largest(), static_cast<double>(images) / seconds,
             1e6 * seconds_between(from_ns, asked_ns) / batches_timed);
}

// The kernel alone, on the same draws again and again.
void print_kernel_speed(int64_t count) {
  constexpr int64_t kSet = 50'000;
  constexpr int kLaunches = 200;
  const auto bytes = torch::TensorOptions(torch::kUInt8).device(torch::kCUDA);
  const torch::Tensor set = torch::randint(0, 256, {kSet * 3072}, bytes);
  const torch::Tensor labels = torch::zeros({kSet}, bytes.dtype(torch::kInt64)),
                      tables = torch::randn({3, 256}, bytes.dtype(torch::kFloat32));
  std::vector<AugmentedSample> samples(static_cast<size_t>(count));
  const RandomKey key(1);
  for (size_t i = 0; i < samples.size(); ++i) {
    const RandomKey own = key.with(i);
    samples[i] = {.index = static_cast<uint32_t>(own.below(0, kSet)),
                  .mirror = static_cast<uint32_t>(own.below(1, 2)),
                  .shift_down = static_cast<int16_t>(static_cast<int>(own.below(2, 9)) - 4),
                  .shift_right = static_cast<int16_t>(static_cast<int>(own.below(3, 9)) - 4),
                  .cut_row = static_cast<int16_t>(own.below(4, 32)),
                  .cut_column = static_cast<int16_t>(own.below(5, 32))};
  }
  const torch::Tensor draws =
      torch::from_blob(samples.data(), {count * static_cast<int64_t>(sizeof(AugmentedSample))}, torch::kUInt8)
          .to(torch::kCUDA);
  const torch::Tensor images = torch::empty({count * 3072}, bytes.dtype(torch::kFloat16)),
                      out_labels = torch::empty({count}, bytes.dtype(torch::kInt64));
  const AugmentedBatch batch = {.set_images = set.const_data_ptr<uint8_t>(),
                                .set_labels = labels.const_data_ptr<int64_t>(),
                                .tables = tables.const_data_ptr<float>(),
                                .samples = reinterpret_cast<const AugmentedSample*>(draws.const_data_ptr<uint8_t>()),
                                .count = count,
                                .channels = 3,
                                .height = 32,
                                .width = 32,
                                .cutout = 8,
                                .images = images.data_ptr(),
                                .labels = out_labels.data_ptr<int64_t>(),
                                .type = DeviceNumber::f16,
                                .channels_last = true};
  const auto stream = c10::cuda::getCurrentCUDAStream();
  for (int i = 0; i < 10; ++i) augment_on_device(batch, stream.stream());
  torch::cuda::synchronize();
  const SteadyClock clock;
  const int64_t from_ns = clock.now_ns();
  for (int i = 0; i < kLaunches; ++i) augment_on_device(batch, stream.stream());
  torch::cuda::synchronize();
  const double seconds = seconds_between(from_ns, clock.now_ns()) / kLaunches;
  fmt::print("{:<18}batch {:>5}: {:>12.0f} images/s; {:.1f} us\n", "augment kernel", count,
             static_cast<double>(count) / seconds, 1e6 * seconds);
}

}  // namespace

bool check_batches() {
  std::vector<Row> rows;
  for (const ImageShape shape : {ImageShape{1, 28, 28}, {3, 32, 32}, {3, 64, 64}, {3, 7, 5}, {4, 9, 8}, {1, 33, 31}}) {
    Row reference = {"augment " + name_of(shape), "against the reference"};
    Row rounding = {"augment " + name_of(shape), "halves are rounded f32"};
    check_kernel(reference, rounding, shape);
    rows.push_back(reference);
    rows.push_back(rounding);
  }
  const std::vector<std::pair<const char*, LoaderOptions>> cases = {
      {"plain", {.global_batch = 32}},
      {"all, uneven", {.global_batch = 30, .threads = 2, .augmentation = kAll}},
      {"last of 3 ranks, phases, fill",
       {.global_batch = BatchPhases{.first = 31, .milestones = {0.5, 1.5}, .sizes = {64, 20}},
        .rank = 2,
        .ranks = 3,
        .fill = 9,
        .augmentation = kAll}}};
  for (const auto& [name, options] : cases) {
    for (const ImageShape shape : {ImageShape{1, 28, 28}, {3, 32, 32}}) {
      check_against_loader<ResidentBatches>(rows.emplace_back(Row{"resident " + name_of(shape), name}), shape, options);
      check_against_loader<CopiedBatches>(rows.emplace_back(Row{"copied " + name_of(shape), name}), shape, options);
    }
  }
  check_graph<ResidentBatches>(rows.emplace_back(Row{"resident", "a graph reads them"}));
  check_graph<CopiedBatches>(rows.emplace_back(Row{"copied", "a graph reads them"}));
  check_choice(rows.emplace_back(Row{"make_batches", "data.resident"}));

  bool right = true;
  for (const Row& row : rows) {
    const bool failed = row.wrong > 0 || row.cases == 0;
    print_check(row.subject, row.check, row.cases, row.wrong, failed);
    right = right && !failed;
  }
  return right;
}

void time_batches() {
  fmt::print("\n");
  for (const int64_t count : {512, 8192}) print_kernel_speed(count);
  const BatchSource cifar = source({3, 32, 32}, 50'000, {.threads = 8, .augmentation = kAll});
  for (const uint64_t count : {512, 8192}) {
    BatchSource from = cifar;
    from.options.global_batch = count;
    print_speed<ResidentBatches>("resident", from, count == 512 ? 1000 : 100);
    print_speed<CopiedBatches>("copied", from, count == 512 ? 300 : 30);
  }
}

}  // namespace paceline
