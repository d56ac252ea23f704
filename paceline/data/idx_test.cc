#include "paceline/data/idx.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include "paceline/data/test_files.h"

namespace paceline {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Bytes idx(std::initializer_list<uint32_t> dimensions, const Bytes& values) {
  Bytes bytes = {0, 0, 8, static_cast<uint8_t>(dimensions.size())};
  for (const uint32_t size : dimensions) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(size >> shift));
  }
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

Bytes gzip(Bytes plain) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes compressed(deflateBound(&stream, plain.size()) + 64);
  stream.next_in = plain.data();
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = compressed.data();
  stream.avail_out = static_cast<uInt>(compressed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

Bytes counting(size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(i * 37);
  return bytes;
}

Bytes first(const Bytes& bytes, size_t count) { return {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count)}; }

TEST(Idx, ReadsPlainAndCompressedAlike) {
  const TestFolder folder;
  const Bytes file = idx({2, 3, 4}, counting(24));
  for (const Bytes& bytes : {file, gzip(file)}) {
    const IdxFile read = read_idx(write_bytes(folder.path() / "images", bytes), 3);
    EXPECT_THAT(read.dimensions, ElementsAre(2, 3, 4));
    EXPECT_EQ(read.values, counting(24));
  }
}

TEST(Idx, ReadsAGzipFileOfSeveralMembers) {
  const TestFolder folder;
  const Bytes file = idx({24}, counting(24));
  Bytes members = gzip(first(file, 10));
  const Bytes rest = gzip({file.begin() + 10, file.end()});
  members.insert(members.end(), rest.begin(), rest.end());
  EXPECT_EQ(read_idx(write_bytes(folder.path() / "labels.gz", members), 1).values, counting(24));
}

TEST(Idx, ReadsDataThatCompressesAsFarAsDeflateCan) {
  const TestFolder folder;
  const uint32_t size = 4'000'000;
  EXPECT_TRUE(read_idx(write_bytes(folder.path() / "zeros.gz", gzip(idx({size}, Bytes(size)))), 1).values ==
              Bytes(size));
}

TEST(Idx, RefusesAFileCutAtAnyByte) {
  const TestFolder folder;
  const Bytes file = idx({2, 3, 4}, counting(24));
  for (const Bytes& whole : {file, gzip(file)}) {
    for (size_t count = 0; count < whole.size(); ++count) {
      const auto path = write_bytes(folder.path() / "cut", first(whole, count));
      EXPECT_THAT(data_error([&] { read_idx(path, 3); }), AllOf(HasSubstr(path.string()), HasSubstr("byte")))
          << "after " << count << " of " << whole.size() << " bytes";
    }
  }
}

TEST(Idx, NamesTheByteWhereAPlainFileEnds) {
  const TestFolder folder;
  const auto path = write_bytes(folder.path() / "cut", first(idx({2, 3, 4}, counting(24)), 30));
  EXPECT_THAT(data_error([&] { read_idx(path, 3); }),
              AllOf(HasSubstr("byte 16: expected 2 x 3 x 4 bytes"), HasSubstr("found 14")));
}

TEST(Idx, RefusesBytesThatFollow) {
  const TestFolder folder;
  Bytes file = idx({3}, counting(3));
  Bytes compressed = gzip(file);
  compressed.push_back(0);
  EXPECT_THAT(data_error([&] { read_idx(write_bytes(folder.path() / "a.gz", compressed), 1); }),
              HasSubstr("1 more bytes"));
  file.push_back(0);
  EXPECT_THAT(data_error([&] { read_idx(write_bytes(folder.path() / "a", file), 1); }),
              HasSubstr("byte 11: expected the end"));
  EXPECT_THAT(data_error([&] { read_idx(write_bytes(folder.path() / "b.gz", gzip(file)), 1); }),
              HasSubstr("byte 11: expected the end"));
}

// In the header (but for its time and system, which mean nothing), in the data, in the checksum, in the length.
TEST(Idx, RefusesACompressedFileWithAnyByteOfItsDataChanged) {
  const TestFolder folder;
  const Bytes whole = gzip(idx({24}, counting(24)));
  for (size_t at = 10; at < whole.size(); ++at) {
    Bytes damaged = whole;
    damaged[at] ^= 0x55;
    const auto path = write_bytes(folder.path() / "damaged.gz", damaged);
    EXPECT_THAT(data_error([&] { read_idx(path, 1); }), HasSubstr(path.string())) << "byte " << at;
  }
}

TEST(Idx, RefusesAnotherKindOfFile) {
  const TestFolder folder;
  const auto labels = write_bytes(folder.path() / "labels", idx({24}, counting(24)));
  EXPECT_THAT(data_error([&] { read_idx(labels, 3); }),
              AllOf(HasSubstr("byte 0: expected 00 00 08 03"), HasSubstr("found 00 00 08 01")));
  const auto text = write_bytes(folder.path() / "text", Bytes(100, 'x'));
  EXPECT_THAT(data_error([&] { read_idx(text, 1); }), HasSubstr("found 78 78 78 78"));
}

// Three times 2^32-1 does not even fit 64 bits; the second fits and is 281 TB.
TEST(Idx, RefusesAbsurdSizesBeforeAllocatingThem) {
  const TestFolder folder;
  for (const Bytes& file : {idx({~0u, ~0u, ~0u}, counting(24)), idx({1u << 24, 1u << 12, 1u << 12}, counting(24))}) {
    for (const Bytes& bytes : {file, gzip(file)}) {
      const auto path = write_bytes(folder.path() / "absurd", bytes);
      EXPECT_THAT(data_error([&] { read_idx(path, 3); }), HasSubstr("byte 16: expected"));
    }
  }
}

TEST(Idx, RefusesAnEmptyDimension) {
  const TestFolder folder;
  const auto path = write_bytes(folder.path() / "empty", idx({2, 0, 4}, {}));
  EXPECT_THAT(data_error([&] { read_idx(path, 3); }), HasSubstr("byte 8: expected a size of 1 or more, found 0"));
}

TEST(Idx, RefusesWhatIsNotAFile) {
  const TestFolder folder;
  EXPECT_THAT(data_error([&] { read_idx(folder.path() / "none", 1); }), HasSubstr("no such file"));
  EXPECT_THAT(data_error([&] { read_idx(folder.path(), 1); }), HasSubstr("not a regular file"));
  EXPECT_THAT(data_error([&] { read_idx("/dev/zero", 1); }), HasSubstr("not a regular file"));
}

TEST(Idx, RefusesImagesAndLabelsOfDifferentNumber) {
  const TestFolder folder;
  const auto images = write_bytes(folder.path() / "images", idx({3, 1, 1}, {1, 2, 3}));
  const auto labels = write_bytes(folder.path() / "labels", idx({2}, {9, 1}));
  EXPECT_THAT(data_error([&] { read_idx_images(images, labels); }),
              AllOf(HasSubstr("3 images"), HasSubstr("2 labels")));
}

class MnistFamily : public testing::Test {
 protected:
  void SetUp() override {
    write_bytes(folder.path() / "train-images-idx3-ubyte", idx({3, 2, 2}, counting(12)));
    write_bytes(folder.path() / "train-labels-idx1-ubyte.gz", gzip(idx({3}, {2, 0, 1})));
    write_bytes(folder.path() / "t10k-images-idx3-ubyte.gz", gzip(idx({2, 2, 2}, counting(8))));
    write_bytes(folder.path() / "t10k-labels-idx1-ubyte", idx({2}, {1, 2}));
  }
  DatasetPair open(DatasetOptions options = {}) const {
    options.root = folder.path();
    return open_mnist_family(options, {.mean = {0.5f}, .deviation = {0.25f}});
  }
  TestFolder folder;
};

TEST_F(MnistFamily, OpensPlainAndCompressedFiles) {
  const DatasetPair data = open();
  EXPECT_EQ(data.train->size(), 3u);
  EXPECT_EQ(data.test->size(), 2u);
  EXPECT_EQ(data.train->shape(), (ImageShape{1, 2, 2}));
  EXPECT_EQ(data.train->classes(), 3);
  EXPECT_EQ(data.train->label(0), 2);
  EXPECT_EQ(data.test->label(1), 2);
  EXPECT_THAT(data.train->image(2, {}), ElementsAre(static_cast<uint8_t>(8 * 37), static_cast<uint8_t>(9 * 37),
                                                    static_cast<uint8_t>(10 * 37), static_cast<uint8_t>(11 * 37)));
}

TEST_F(MnistFamily, KeepsTheFirstSamplesAskedFor) {
  const DatasetPair data = open({.train_samples = 2, .test_samples = 1});
  EXPECT_EQ(data.train->size(), 2u);
  EXPECT_EQ(data.test->size(), 1u);
  EXPECT_EQ(data.train->label(1), 0);
}

TEST_F(MnistFamily, RefusesMoreSamplesThanThereAre) {
  EXPECT_EQ(open({.train_samples = 3}).train->size(), 3u);
  EXPECT_THAT(data_error([&] { open({.train_samples = 4}); }),
              AllOf(HasSubstr("4 training samples"), HasSubstr("holds 3")));
  EXPECT_THAT(data_error([&] { open({.test_samples = -1}); }), HasSubstr("-1 test samples"));
}

TEST_F(MnistFamily, RefusesTestImagesOfAnotherShape) {
  write_bytes(folder.path() / "t10k-images-idx3-ubyte.gz", gzip(idx({2, 2, 3}, counting(12))));
  EXPECT_THAT(data_error([&] { open(); }), AllOf(HasSubstr("2x2"), HasSubstr("2x3")));
}

// Letters of EMNIST: 26 classes from 1 on; three classes; and one.
TEST_F(MnistFamily, HasTheClassesOfItsTrainingLabels) {
  Bytes letters;
  for (uint8_t label = 1; label <= 26; ++label) letters.push_back(label);
  for (const auto& [labels, classes] : {std::pair<Bytes, int64_t>{letters, 27}, {{2, 0, 1}, 3}, {{0, 0}, 1}}) {
    const auto count = static_cast<uint32_t>(labels.size());
    write_bytes(folder.path() / "train-images-idx3-ubyte", idx({count, 2, 2}, counting(4 * count)));
    write_bytes(folder.path() / "train-labels-idx1-ubyte.gz", gzip(idx({count}, labels)));
    write_bytes(folder.path() / "t10k-labels-idx1-ubyte", idx({2}, {0, labels.back()}));
    const DatasetPair data = open({.train_samples = 1});  // of the file, not of the samples asked for
    EXPECT_EQ(data.train->classes(), classes);
    EXPECT_EQ(data.test->classes(), classes);
  }
}

TEST_F(MnistFamily, RefusesLabelsWithAGap) {
  write_bytes(folder.path() / "train-labels-idx1-ubyte.gz", gzip(idx({3}, {0, 1, 200})));
  EXPECT_THAT(data_error([&] { open(); }),
              AllOf(HasSubstr("train-labels-idx1-ubyte.gz: the labels go up to 200, but no image has label 2;"),
                    HasSubstr("number its classes from 0 on without a gap")));
}

TEST_F(MnistFamily, RefusesATestLabelThatTrainingDoesNotHave) {
  write_bytes(folder.path() / "t10k-labels-idx1-ubyte", idx({2}, {1, 3}));
  EXPECT_THAT(data_error([&] { open(); }),
              HasSubstr("t10k-labels-idx1-ubyte, byte 9: label 3 is none of the training images' (they have 0 to 2)"));
}

TEST_F(MnistFamily, SaysThatImagesWithColourAreNotRead) {
  const auto grey = folder.path() / "train-images-idx3-ubyte";
  write_bytes(grey, idx({1, 3, 1, 1}, {1, 2, 3}));  // four dimensions under the usual name
  EXPECT_THAT(data_error([&] { open(); }), HasSubstr("idx3-ubyte: images with colour (IDX of four dimensions)"));
  for (const char* const ending : {"", ".gz"}) {  // or under a name that says so
    std::filesystem::remove(grey);
    const auto colour = write_bytes(folder.path() / (std::string("train-images-idx4-ubyte") + ending), {});
    EXPECT_THAT(data_error([&] { open(); }), HasSubstr("convert them to grey, or take a data set with colour"));
    EXPECT_THAT(data_error([&] { open(); }), HasSubstr(colour.string()));
    std::filesystem::remove(colour);
  }
}

TEST_F(MnistFamily, NamesAMissingFile) {
  std::filesystem::remove(folder.path() / "train-labels-idx1-ubyte.gz");
  EXPECT_THAT(data_error([&] { open(); }), HasSubstr("neither train-labels-idx1-ubyte nor train-labels-idx1-ubyte.gz"));
}

}  // namespace
}  // namespace paceline
