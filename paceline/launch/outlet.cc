#include "paceline/launch/outlet.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace paceline {

Outlet::Outlet(PollLoop& loop, int descriptor) : loop_(loop), descriptor_(descriptor) {
  struct stat status = {};
  const bool is_file = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  piece_bytes_ = is_file ? size_t{1} << 20 : PIPE_BUF;
}

void Outlet::write(std::string_view bytes) {
  if (broken_ || bytes.empty()) return;
  if (kept_.empty()) loop_.watch(descriptor_, POLLOUT, [this] { write_some(); });
  kept_ += bytes;
}

void Outlet::write_some() {
  const ssize_t written = ::write(descriptor_, kept_.data() + taken_, std::min(kept_.size() - taken_, piece_bytes_));
  if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
  broken_ = written < 0;
  taken_ = broken_ ? kept_.size() : taken_ + static_cast<size_t>(written);
  if (taken_ < kept_.size() && taken_ < kFullBytes) return;
  kept_.erase(0, taken_);
  taken_ = 0;
  if (kept_.empty()) loop_.forget(descriptor_);
}

}  // namespace paceline
