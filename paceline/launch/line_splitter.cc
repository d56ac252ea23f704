#include "paceline/launch/line_splitter.h"

namespace paceline {
namespace {

bool follows(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }  // within a UTF-8 character

// Where to cut so that no UTF-8 character is divided; bytes that are none are cut at the limit.
size_t place_to_cut(std::string_view line, size_t at_most) {
  for (size_t back = 0; back < 4 && back < at_most; ++back)
    if (!follows(line[at_most - back])) return at_most - back;
  return at_most;
}

}  // namespace

void LineSplitter::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find_first_of(options_.returns_end_lines ? "\r\n" : "\n");
    append(bytes.substr(0, end));
    if (end == std::string_view::npos) return;
    if (bytes[end] == '\n') {
      if (!returned_) emit(line_.size());
      returned_ = false;
    } else if (!line_.empty()) {
      emit(line_.size());
      returned_ = true;
    }
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::finish() {
  if (!line_.empty()) emit(line_.size());
}

void LineSplitter::append(std::string_view bytes) {
  if (bytes.empty()) return;
  returned_ = false;
  line_ += bytes;
  while (line_.size() > options_.longest_bytes) emit(place_to_cut(line_, options_.longest_bytes));
}

void LineSplitter::emit(size_t length) {
  sink_(std::string_view(line_).substr(0, length));
  line_.erase(0, length);
}

}  // namespace paceline
