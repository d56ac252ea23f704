#include "paceline/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "paceline/core/check.h"
#include "paceline/data/data_file.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr uint8_t kUnsignedByte = 8;
constexpr std::string_view kGrey = "-idx3-", kColour = "-idx4-";  // in names of files
constexpr uint64_t kMaxFileBytes = uint64_t{4} << 30;             // a hundred times MNIST
constexpr uint64_t kMaxDeflateRatio = 1032;                       // 258 bytes from two bits

// The uncompressed contents of a file, from the first byte to the last.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Returns the bytes filled: fewer than asked only at the end.
  virtual size_t read(std::span<uint8_t> out) = 0;
  // How many more bytes there can be, at the most.
  virtual uint64_t remaining_bound() const = 0;
};

class PlainSource : public ByteSource {
 public:
  explicit PlainSource(std::vector<uint8_t> contents) : contents_(std::move(contents)) {}

  size_t read(std::span<uint8_t> out) override {
    const size_t count = std::min(out.size(), contents_.size() - next_);
    std::copy_n(contents_.begin() + static_cast<ptrdiff_t>(next_), count, out.begin());
    next_ += count;
    return count;
  }

  uint64_t remaining_bound() const override { return contents_.size() - next_; }

 private:
  std::vector<uint8_t> contents_;
  size_t next_ = 0;
};

class GzipSource : public ByteSource {
 public:
  static bool recognises(std::span<const uint8_t> contents) {
    return contents.size() >= 2 && contents[0] == 0x1f && contents[1] == 0x8b;
  }

  GzipSource(fs::path path, std::vector<uint8_t> contents) : path_(std::move(path)), contents_(std::move(contents)) {
    constexpr int kGzipOnly = 16;
    CHECK_EQ(inflateInit2(&stream_, kGzipOnly + MAX_WBITS), Z_OK);
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  size_t read(std::span<uint8_t> out) override {
    size_t filled = 0;
    while (filled < out.size() && !ended_) {
      // zlib counts in 32 bits.
      const uInt given = static_cast<uInt>(std::min<size_t>(contents_.size() - next_, kPiece));
      const uInt wanted = static_cast<uInt>(std::min<size_t>(out.size() - filled, kPiece));
      stream_.next_in = contents_.data() + next_;
      stream_.avail_in = given;
      stream_.next_out = out.data() + filled;
      stream_.avail_out = wanted;
      const int code = inflate(&stream_, Z_NO_FLUSH);
      next_ += given - stream_.avail_in;
      filled += wanted - stream_.avail_out;
      if (code == Z_STREAM_END) {
        end_of_member();
      } else if (code == Z_BUF_ERROR || (code == Z_OK && next_ == contents_.size() && stream_.avail_out > 0)) {
        bad_data_file(path_, next_, "more compressed data", "the end of the file");
      } else if (code != Z_OK) {
        bad_data_file(path_, next_, "valid compressed data", stream_.msg != nullptr ? stream_.msg : "none");
      }
    }
    return filled;
  }

  uint64_t remaining_bound() const override {
    // What zlib has taken in but not given out yet is less than its window and one match.
    return (contents_.size() - next_) * kMaxDeflateRatio + (uint64_t{1} << MAX_WBITS) + kMaxDeflateRatio;
  }

 private:
  // A gzip file is one or more compressed members, and nothing else.
  void end_of_member() {
    const auto rest = std::span<const uint8_t>(contents_).subspan(next_);
    if (rest.empty()) {
      ended_ = true;
    } else if (recognises(rest)) {
      CHECK_EQ(inflateReset(&stream_), Z_OK);
    } else {
      bad_data_file(path_, next_, "the end of the file", fmt::format("{} more bytes", rest.size()));
    }
  }

  static constexpr size_t kPiece = size_t{1} << 30;
  fs::path path_;
  std::vector<uint8_t> contents_;
  z_stream stream_{};
  size_t next_ = 0;  // the first byte of contents_ that inflate has not taken
  bool ended_ = false;
};

std::unique_ptr<ByteSource> open_source(const fs::path& path) {
  std::vector<uint8_t> contents = read_data_file(path, kMaxFileBytes);
  if (GzipSource::recognises(contents)) return std::make_unique<GzipSource>(path, std::move(contents));
  return std::make_unique<PlainSource>(std::move(contents));
}

[[noreturn]] void refuse_colour(const fs::path& path) {
  throw DataError(fmt::format(
      "{}: images with colour (IDX of four dimensions) are not read, only grey ones (idx3); convert them to "
      "grey, or take a data set with colour (data.name: cifar10, cifar100, tiny_imagenet)",
      path.string()));
}

std::optional<fs::path> plain_or_gzip_if_there(const fs::path& root, const std::string& name) {
  std::error_code ignored;  // one that cannot be looked at counts as missing
  for (const fs::path& path : {root / name, root / (name + ".gz")})
    if (fs::exists(path, ignored)) return path;
  return std::nullopt;
}

fs::path plain_or_gzip(const fs::path& root, const std::string& name) {
  if (const auto path = plain_or_gzip_if_there(root, name)) return *path;
  if (const size_t grey = name.find(kGrey); grey != std::string::npos)
    if (const auto colour = plain_or_gzip_if_there(root, std::string(name).replace(grey, kGrey.size(), kColour)))
      refuse_colour(*colour);
  throw DataError(fmt::format("{}: there is neither {} nor {}.gz", root.string(), name, name));
}

// A single label that is damaged would else make hundreds of classes.
void require_every_class(const LabelledImages& train, const fs::path& labels) {
  std::vector<bool> seen(static_cast<size_t>(train.classes));
  for (const int64_t label : train.labels) seen[static_cast<size_t>(label)] = true;
  for (int64_t label = 1; label < train.classes; ++label)
    if (!seen[static_cast<size_t>(label)])
      throw DataError(
          fmt::format("{}: the labels go up to {}, but no image has label {}; where the file is damaged, fetch it "
                      "again; where it is "
                      "your own, number its classes from 0 on without a gap",
                      labels.string(), train.classes - 1, label));
}

void require_known_labels(const LabelledImages& test, int64_t classes, const fs::path& labels) {
  const auto wrong = std::ranges::find_if(test.labels, [&](int64_t label) { return label >= classes; });
  if (wrong == test.labels.end()) return;
  constexpr int64_t kHeaderBytes = 8;
  throw DataError(
      fmt::format("{}, byte {}: label {} is none of the training images' (they have 0 to {}); the files do "
                  "not belong together, or one is damaged",
                  labels.string(), kHeaderBytes + (wrong - test.labels.begin()), *wrong, classes - 1));
}

}  // namespace

IdxFile read_idx(const fs::path& path, size_t dimensions) {
  const std::unique_ptr<ByteSource> source = open_source(path);
  std::vector<uint8_t> header(4 + 4 * dimensions);
  if (const size_t found = source->read(header); found < header.size()) {
    bad_data_file(path, found, fmt::format("a header of {} bytes", header.size()), "the end of the file");
  }
  const std::vector<uint8_t> magic = {0, 0, kUnsignedByte, static_cast<uint8_t>(dimensions)};
  if (!std::equal(magic.begin(), magic.end(), header.begin())) {
    const bool is_idx = std::equal(magic.begin(), magic.begin() + 3, header.begin());
    if (is_idx && dimensions == 3 && header[3] == 4) refuse_colour(path);
    bad_data_file(path, 0,
                  fmt::format("{:02x} (IDX: unsigned bytes, {} dimensions)", fmt::join(magic, " "), dimensions),
                  fmt::format("{:02x}", fmt::join(header.begin(), header.begin() + 4, " ")));
  }

  IdxFile file;
  uint64_t expected = 1;
  bool overflow = false;
  for (size_t at = 4; at < header.size(); at += 4) {
    const uint64_t size = uint64_t{header[at]} << 24 | uint64_t{header[at + 1]} << 16 | uint64_t{header[at + 2]} << 8 |
                          uint64_t{header[at + 3]};
    if (size == 0) bad_data_file(path, at, "a size of 1 or more", "0");
    overflow |= __builtin_mul_overflow(expected, size, &expected);
    file.dimensions.push_back(size);
  }
  if (overflow || expected > source->remaining_bound()) {
    bad_data_file(path, header.size(),
                  fmt::format("{} bytes of data, as the header says", fmt::join(file.dimensions, " x ")),
                  fmt::format("{} at the most", source->remaining_bound()));
  }

  file.values.resize(expected);
  if (const size_t found = source->read(file.values); found < expected) {
    bad_data_file(path, header.size() + found, fmt::format("{} bytes of data", expected), fmt::format("{}", found));
  }
  // Also what makes zlib compare the checksum, which comes after the data.
  if (uint8_t extra = 0; source->read({&extra, 1}) != 0) {
    bad_data_file(path, header.size() + expected, "the end of the data", "more bytes");
  }
  return file;
}

LabelledImages read_idx_images(const fs::path& images, const fs::path& labels) {
  IdxFile pixels = read_idx(images, 3);
  const IdxFile names = read_idx(labels, 1);
  if (pixels.dimensions[0] != names.dimensions[0]) {
    throw DataError(fmt::format("{} holds {} images, {} holds {} labels: they do not belong together", images.string(),
                                pixels.dimensions[0], labels.string(), names.dimensions[0]));
  }
  return {.shape = {.channels = 1,
                    .height = static_cast<int64_t>(pixels.dimensions[1]),
                    .width = static_cast<int64_t>(pixels.dimensions[2])},
          .classes = std::ranges::max(names.values) + 1,
          .pixels = std::move(pixels.values),
          .labels = {names.values.begin(), names.values.end()}};
}

DatasetPair open_mnist_family(const DatasetOptions& options, Normalisation normalisation) {
  const auto labels_of = [&](const std::string& part) {
    return plain_or_gzip(options.root, part + "-labels-idx1-ubyte");
  };
  const auto read = [&](const std::string& part) {
    return read_idx_images(plain_or_gzip(options.root, part + "-images-idx3-ubyte"), labels_of(part));
  };
  LabelledImages train = read("train"), test = read("t10k");
  require_every_class(train, labels_of("train"));
  require_known_labels(test, train.classes, labels_of("t10k"));
  test.classes = train.classes;
  train = first_samples(std::move(train), options.train_samples, "training", options.root);
  test = first_samples(std::move(test), options.test_samples, "test", options.root);
  if (train.shape != test.shape) {
    throw DataError(fmt::format("{}: the training images are {}x{} pixels, the test images {}x{}",
                                options.root.string(), train.shape.height, train.shape.width, test.shape.height,
                                test.shape.width));
  }
  return {.train = std::make_shared<MemoryDataset>(std::move(train)),
          .test = std::make_shared<MemoryDataset>(std::move(test)),
          .normalisation = std::move(normalisation)};
}

}  // namespace paceline
