// RankPrinter: the lines of all ranks on standard output and standard error, whole, each behind its rank's number.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "paceline/launch/line_process.h"
#include "paceline/launch/outlet.h"

namespace paceline {

class RankPrinter {
 public:
  RankPrinter(PollLoop& loop, bool prefixes);

  void print(int rank, Stream stream, std::string_view line);    // "[3] line"
  void note(const std::string& from, std::string_view line);     // "[from] line", to standard error
  void message(std::string_view text) { errors_->write(text); }  // to standard error, as it is

  bool flushed() const { return output_->empty() && errors_->empty(); }
  bool full() const { return output_->full() || errors_->full(); }  // ranks should wait
  bool broken() const { return output_->broken(); }                 // nobody reads standard output any more

 private:
  void write(Stream stream, std::string_view label, int colour, std::string_view line);

  std::shared_ptr<Outlet> output_;
  std::shared_ptr<Outlet> errors_;  // the same where both streams are one file: their lines must not mix
  bool prefixes_;
  bool colours_[2];
};

}  // namespace paceline
