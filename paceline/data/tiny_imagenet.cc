#include "paceline/data/tiny_imagenet.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "paceline/core/error.h"
#include "paceline/core/sha256.h"
#include "paceline/data/data_file.h"
#include "paceline/data/jpeg.h"
#include "paceline/data/memory_dataset.h"
#include "paceline/data/packed_images.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPackedName = "paceline.images";
constexpr uint64_t kLargestTextBytes = 16 << 20;

struct LabelledFiles {
  std::vector<fs::path> files;  // relative to the data set's folder
  std::vector<int64_t> labels;
};

[[noreturn]] void incomplete(const fs::path& where, size_t expected, const std::string& what, size_t found) {
  throw DataError(
      fmt::format("{}: expected {} {}, found {}; tiny_imagenet is the published set, as it was unpacked: if "
                  "this is it, unpack it again",
                  where.string(), expected, what, found));
}

// Lines without their ends, which are of two characters where the file went through Windows. Empty ones are left out.
std::vector<std::string> read_lines(const fs::path& file) {
  const std::vector<uint8_t> bytes = read_data_file(file, kLargestTextBytes);
  std::istringstream text(std::string(bytes.begin(), bytes.end()));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> read_classes(const fs::path& root, size_t expected) {
  std::vector<std::string> names = read_lines(root / "wnids.txt");
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  if (names.size() != expected) incomplete(root / "wnids.txt", expected, "different classes", names.size());
  return names;
}

LabelledFiles list_train(const fs::path& root, const std::vector<std::string>& classes, size_t per_class) {
  std::vector<std::vector<fs::path>> files(classes.size());
  for (size_t label = 0; label < classes.size(); ++label) {
    const fs::path folder = fs::path("train") / classes[label] / "images";
    std::error_code failure;
    for (const fs::directory_entry& entry : fs::directory_iterator(root / folder, failure)) {
      const fs::path name = entry.path().filename();
      if (name.extension() == ".JPEG" && !name.string().starts_with('.')) files[label].push_back(folder / name);
    }
    if (failure) throw DataError(fmt::format("{}: cannot be read: {}", (root / folder).string(), failure.message()));
    if (files[label].size() != per_class) {
      incomplete(root / folder, per_class, "files *.JPEG", files[label].size());
    }
    std::ranges::sort(files[label], {}, [](const fs::path& file) { return file.native(); });
  }
  LabelledFiles list;
  for (size_t i = 0; i < per_class; ++i) {
    for (size_t label = 0; label < classes.size(); ++label) {
      list.files.push_back(std::move(files[label][i]));
      list.labels.push_back(static_cast<int64_t>(label));
    }
  }
  return list;
}

LabelledFiles list_test(const fs::path& root, const std::vector<std::string>& classes, size_t expected) {
  const fs::path annotations = root / "val" / "val_annotations.txt";
  const std::vector<std::string> lines = read_lines(annotations);
  if (lines.size() != expected) incomplete(annotations, expected, "lines", lines.size());
  LabelledFiles list;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::istringstream line(lines[i]);  // file, class, and a box that nobody needs here
    std::string file, name;
    line >> file >> name;
    const auto found = std::ranges::lower_bound(classes, name);
    if (found == classes.end() || *found != name) {
      throw DataError(fmt::format("{}, line {}: expected a file and a class of wnids.txt, found '{}'; fetch it again",
                                  annotations.string(), i + 1, lines[i]));
    }
    list.files.push_back(fs::path("val") / "images" / file);
    list.labels.push_back(found - classes.begin());
  }
  return list;
}

// Of names, sizes and times: the files themselves are read only to be decoded.
std::string fingerprint_of(const fs::path& root, const std::vector<fs::path>& files) {
  Sha256 sha;
  for (const fs::path& file : files) {
    struct stat status = {};
    if (::stat((root / file).c_str(), &status) != 0) {
      throw DataError(fmt::format("{}: there is no such file", (root / file).string()));
    }
    const std::string line =
        fmt::format("{} {} {}.{:09}\n", file.string(), status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    sha.update(line.data(), line.size());
  }
  return sha.hex();
}

// In the order in which they are tried.
std::vector<fs::path> packed_places(const fs::path& root) {
  std::vector<fs::path> places = {root / kPackedName};
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (cache != nullptr && fs::path(cache).is_absolute()) {
    folder = cache;
  } else if (home != nullptr && fs::path(home).is_absolute()) {
    folder = fs::path(home) / ".cache";
  } else {
    return places;
  }
  std::error_code failure;
  const fs::path where = fs::canonical(root, failure);
  Sha256 sha;  // several copies of the data set have a file each
  sha.update(where.c_str(), where.native().size());
  places.push_back(folder / "paceline" / fmt::format("tiny-imagenet-200-{}.images", sha.hex().substr(0, 16)));
  return places;
}

}  // namespace

DatasetPair open_tiny_imagenet(const DatasetOptions& options, const TinyImagenetSize& size) {
  fs::path root = options.root;
  std::error_code ignored;  // a folder that cannot be looked at counts as missing
  if (fs::is_directory(root / "tiny-imagenet-200", ignored)) root /= "tiny-imagenet-200";
  const std::vector<std::string> classes = read_classes(root, size.classes);
  LabelledFiles train = list_train(root, classes, size.train_images_per_class);
  LabelledFiles test = list_test(root, classes, size.test_images);
  const size_t train_samples = count_of_first(train.labels.size(), options.train_samples, "training", root);
  const size_t test_samples = count_of_first(test.labels.size(), options.test_samples, "test", root);

  // The file holds all images, whichever are asked for: runs with other numbers of samples share it.
  const size_t test_begins = train.files.size();
  std::vector<fs::path> files = std::move(train.files);
  files.insert(files.end(), test.files.begin(), test.files.end());
  const auto images = open_packed_images(
      packed_places(root),
      {.shape = kTinyImagenetShape, .count = files.size(), .fingerprint = fingerprint_of(root, files)},
      [&](size_t index, std::span<uint8_t> pixels) { decode_jpeg(root / files[index], kTinyImagenetShape, pixels); });

  train.labels.resize(train_samples);
  test.labels.resize(test_samples);
  const auto count = static_cast<int64_t>(classes.size());
  return {.train = std::make_shared<PackedDataset>(images, 0, std::move(train.labels), count),
          .test = std::make_shared<PackedDataset>(images, test_begins, std::move(test.labels), count),
          .normalisation = {.mean = {0.4802f, 0.4481f, 0.3975f}, .deviation = {0.2764f, 0.2689f, 0.2816f}}};
}

}  // namespace paceline
