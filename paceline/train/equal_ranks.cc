#include "paceline/train/equal_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "paceline/collectives/group_text.h"
#include "paceline/core/error.h"
#include "paceline/core/sha256.h"
#include "paceline/data/data_digest.h"
#include "paceline/train/assemble.h"

namespace paceline {
namespace {

std::string sha256_of(const std::string& text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.hex();
}

// In rank order; none where all are equal.
std::vector<std::string> texts_that_differ(Group& group, const std::string& own) {
  if (group.size() == 1) return {};
  const std::vector<std::string> hashes = gather_texts(group, sha256_of(own));
  if (std::ranges::count(hashes, hashes.front()) == group.size()) return {};
  return gather_texts(group, own);
}

// "rank 3 has another recipe than rank 0: ..."; ranks that differ in the same way share a sentence.
std::string sentences(const char* what, const std::map<std::string, std::vector<size_t>>& ranks_by_difference) {
  std::vector<std::string> parts;
  for (const auto& [difference, ranks] : ranks_by_difference)
    parts.push_back(fmt::format("rank{} {} {} another {} than rank 0: {}", ranks.size() == 1 ? "" : "s",
                                fmt::join(ranks, ", "), ranks.size() == 1 ? "has" : "have", what, difference));
  return fmt::format("{}", fmt::join(parts, "; "));
}

template <class Failure>
[[noreturn]] void fail(Failure failure, const Group& group) {
  if (group.rank() != 0) failure.set_told();
  throw failure;
}

std::string recipe_difference(const std::string& first, const std::string& other) {
  try {
    return fmt::format("{}", fmt::join(recipe_changes(parse_recipe(first, "rank 0"), parse_recipe(other, "it")), ", "));
  } catch (const RecipeError& failure) {
    return fmt::format("{} (do both run the same version of Paceline?)", failure.what());
  }
}

std::string size_text(const Dataset& data) {
  const ImageShape shape = data.shape();
  return fmt::format("{} images of {}x{}x{} in {} classes", data.size(), shape.channels, shape.height, shape.width,
                     data.classes());
}

// A line of sizes, a line of contents.
std::string data_text(const DatasetPair& data) {
  Sha256 hash;
  hash_samples(*data.train, hash);
  hash_samples(*data.test, hash);
  hash_normalisation(data.normalisation, hash);
  return fmt::format("{} to train, {} to test\n{}", size_text(*data.train), size_text(*data.test), hash.hex());
}

std::string data_difference(const std::string& first, const std::string& other) {
  const auto sizes = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  if (sizes(first) == sizes(other)) return "as many images, but other pixels or labels";
  return fmt::format("{}; rank 0: {}", sizes(other), sizes(first));
}

}  // namespace

void require_equal_recipes(const Recipe& recipe, Group& group) {
  Recipe common = recipe;
  const Recipe defaults;
  common.data.root = defaults.data.root;
  common.data.loader_threads = defaults.data.loader_threads;
  common.data.prefetch_batches = defaults.data.prefetch_batches;
  common.train.threads = defaults.train.threads;
  const std::vector<std::string> texts = texts_that_differ(group, print_recipe(common));
  std::map<std::string, std::vector<size_t>> ranks;
  for (size_t rank = 0; rank < texts.size(); ++rank)
    if (texts[rank] != texts[0]) ranks[recipe_difference(texts[0], texts[rank])].push_back(rank);
  if (ranks.empty()) return;
  fail(RecipeError(sentences("recipe", ranks) + "; give all ranks the same recipe and the same --set"), group);
}

void require_equal_data(const DatasetPair& data, Group& group) {
  const std::vector<std::string> texts = texts_that_differ(group, data_text(data));
  std::map<std::string, std::vector<size_t>> ranks;
  for (size_t rank = 0; rank < texts.size(); ++rank)
    if (texts[rank] != texts[0]) ranks[data_difference(texts[0], texts[rank])].push_back(rank);
  if (ranks.empty()) return;
  fail(DataError(sentences("data set", ranks) + "; give all ranks the same files (data.root may differ)"), group);
}

Recipe equal_recipe(Recipe recipe, Group& group) {
  require_equal_recipes(recipe, group);
  return recipe;
}

DatasetPair open_equal_data(const Recipe& recipe, const Catalog& catalog, Group& group) {
  DatasetPair data;
  {
    // A rank may be through much later than the others, as the first one of a host that decodes the images.
    const AtWork at_work(group.monitor(), Chore::data);
    data = open_data(recipe, catalog);
  }
  require_equal_data(data, group);
  return data;
}

}  // namespace paceline
