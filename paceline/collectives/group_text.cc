#include "paceline/collectives/group_text.h"

#include <algorithm>

namespace paceline {
namespace {

TensorView letters(std::string& text) { return {text.data(), text.size(), DType::u8}; }

}  // namespace

std::string broadcast_text(Group& group, const std::string& text, int root) {
  auto length = static_cast<int64_t>(text.size());
  group.broadcast({&length, 1, DType::i64}, root);
  std::string received = text;
  received.resize(static_cast<size_t>(length));
  group.broadcast(letters(received), root);
  return received;
}

std::vector<std::string> gather_texts(Group& group, const std::string& text) {
  auto length = static_cast<int64_t>(text.size());
  std::vector<int64_t> lengths(group.size());
  group.all_gather({&length, 1, DType::i64}, view(lengths));
  const auto longest = static_cast<size_t>(std::ranges::max(lengths));
  std::string mine = text;
  mine.resize(longest);
  std::string all(longest * lengths.size(), '\0');
  group.all_gather(letters(mine), letters(all));
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < lengths.size(); ++rank)
    texts.push_back(all.substr(rank * longest, static_cast<size_t>(lengths[rank])));
  return texts;
}

}  // namespace paceline
