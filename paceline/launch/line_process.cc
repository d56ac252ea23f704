#include "paceline/launch/line_process.h"

#include <poll.h>

#include <cerrno>
#include <string>
#include <utility>

namespace paceline {
namespace {

constexpr size_t kReadBytes = 64 << 10;
// A process that was left behind may write without end: after this much the end of its parent is reported all the same.
constexpr int kReadsOfADrain = 64;

}  // namespace

LineProcess::LineProcess(PollLoop& loop, const ProcessOrder& order, Events events, Options options)
    : loop_(loop),
      events_(std::move(events)),
      options_(options),
      child_(order),
      sources_{Source{&child_.output(),
                      LineSplitter([this](auto line) { events_.line(Stream::output, line); }, options.lines)},
               Source{&child_.errors(),
                      LineSplitter([this](auto line) { events_.line(Stream::errors, line); }, options.lines)}} {
  if (child_.input().number() >= 0) input_.emplace(loop_, child_.input().number());
  for (Source& source : sources_) {
    if (!source.open()) continue;  // inherited
    loop_.watch(source.descriptor->number(), POLLIN, [this, &source] {
      read_some(source);
      finish_if_silent();
    });
  }
  loop_.watch(child_.end_descriptor(), POLLIN, [this] { on_end(); });
}

LineProcess::~LineProcess() {
  loop_.cancel(linger_);
  loop_.forget(child_.end_descriptor());
  for (Source& source : sources_)
    if (source.open()) loop_.forget(source.descriptor->number());
}

void LineProcess::pause(bool paused) {
  for (Source& source : sources_)
    if (source.open()) loop_.pause(source.descriptor->number(), paused);
}

void LineProcess::write(std::string_view bytes) {
  if (input_) input_->write(bytes);
}

bool LineProcess::read_some(Source& source) {
  if (!source.open()) return false;
  char bytes[kReadBytes];
  const ssize_t count = ::read(source.descriptor->number(), bytes, sizeof bytes);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count > 0) {
    source.lines.feed({bytes, static_cast<size_t>(count)});
    return true;
  }
  close(source);
  return false;
}

void LineProcess::drain(Source& source) {
  for (int reads = 0; reads < kReadsOfADrain && read_some(source); ++reads) {
  }
}

void LineProcess::close(Source& source) {
  if (!source.open()) return;
  loop_.forget(source.descriptor->number());
  *source.descriptor = Descriptor();
  source.lines.finish();
}

void LineProcess::on_end() {
  const std::optional<Ending> ending = child_.ending();
  if (!ending || ended_) return;
  ended_ = true;
  loop_.forget(child_.end_descriptor());
  linger_ = loop_.after(options_.linger_ms, [this] { finish(); });  // first: a line may make its reader throw
  for (Source& source : sources_) drain(source);
  finish_if_silent();
  events_.ended(*ending);
}

void LineProcess::finish_if_silent() {
  if (ended_ && !sources_[0].open() && !sources_[1].open()) finish();
}

void LineProcess::finish() {
  if (std::exchange(gone_, true)) return;
  loop_.cancel(linger_);
  child_.signal(SIGKILL);
  for (Source& source : sources_) {
    drain(source);
    close(source);
  }
  input_.reset();
  child_.input() = Descriptor();
  child_.reap();
}

}  // namespace paceline
