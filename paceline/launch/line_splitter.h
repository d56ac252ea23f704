// LineSplitter: bytes as they come to whole lines. Holds at most one line, and at most `longest_bytes` of it.
//
// '\n', '\r' and "\r\n" end a line: what a progress bar draws over itself becomes lines. A '\r' with nothing before it
// is dropped. On request only '\n' does, and '\r' is a letter. A longer line comes in pieces, cut between UTF-8
// characters where there are any.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace paceline {

class LineSplitter {
 public:
  using Sink = std::function<void(std::string_view line)>;  // without its end

  struct Options {
    size_t longest_bytes = 64 << 10;
    bool returns_end_lines = true;
  };

  LineSplitter(Sink sink, Options options) : sink_(std::move(sink)), options_(options) {}
  explicit LineSplitter(Sink sink) : LineSplitter(std::move(sink), Options{}) {}

  void feed(std::string_view bytes);
  void finish();  // the last line may have no end

 private:
  void append(std::string_view bytes);
  void emit(size_t length);

  Sink sink_;
  Options options_;
  std::string line_;
  bool returned_ = false;  // the last line ended with '\r': a '\n' now belongs to it
};

}  // namespace paceline
