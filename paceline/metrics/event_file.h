// TensorBoard event files, written by hand: TFRecord framing around Event messages in protobuf's wire encoding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "paceline/metrics/append_file.h"

namespace paceline {

uint32_t crc32c(std::string_view bytes);  // the Castagnoli polynomial, as iSCSI and TFRecord use it

// One TFRecord: length, masked CRC of the length, data, masked CRC of the data; all little-endian.
std::string tf_record(std::string_view data);

// A new file events.out.tfevents.TIME.HOST.PID in `folder`. TensorBoard reads the files of a folder in the order of
// their names, so TIME is moved past that of every file already there.
class EventFile {
 public:
  // purge_step >= 0: TensorBoard drops the points of this step and later that stand in earlier files; -1: it drops
  // none.
  EventFile(const std::filesystem::path& folder, double wall_time_seconds, int64_t purge_step);

  void scalar(const std::string& tag, int64_t step, float value, double wall_time_seconds);
  void flush();  // throws FileError
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  AppendFile file_;
};

}  // namespace paceline
