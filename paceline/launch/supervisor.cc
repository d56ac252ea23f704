#include "paceline/launch/supervisor.h"

#include <algorithm>
#include <csignal>

#include "paceline/core/check.h"

namespace paceline {

Supervisor::~Supervisor() {
  if (killing_) loop_.cancel(*killing_);
}

void Supervisor::start(const std::string& name, Task task) {
  CHECK_TRUE(!children_.contains(name), "'{}' was started already", name);
  Child& child = children_[name];
  child.task = std::move(task);
  try {
    launch(name, child);
  } catch (...) {
    children_.erase(name);
    throw;
  }
}

void Supervisor::launch(const std::string& name, Child& child) {
  child.process = std::make_unique<LineProcess>(
      loop_, child.task.order,
      LineProcess::Events{
          .line = [this, name](Stream stream, std::string_view line) { events_.line(name, stream, line); },
          .ended = [this, name](const Ending& ending) { on_end(name, ending); }});
}

void Supervisor::on_end(const std::string& name, const Ending& ending) {
  Child& child = children_.at(name);
  const bool final = std::ranges::find(child.task.final_codes, ending.code) != child.task.final_codes.end();
  if (stopping_ || !ending.failed() || (ending.signal == 0 && final) || child.task.restarts == 0) {
    child.over = true;
    events_.ended(name, ending);
    return;
  }
  --child.task.restarts;
  // Not here: this is a call of the process that would be replaced.
  loop_.after(0, [this, name, ending] {
    Child& failed = children_.at(name);
    std::optional<ProcessOrder> order;
    if (!stopping_) order = failed.task.again ? failed.task.again(ending) : failed.task.order;
    if (!order) {
      failed.over = true;
      events_.ended(name, ending);
      return;
    }
    failed.task.order = std::move(*order);
    launch(name, failed);
    events_.restarted(name, ending);
  });
}

bool Supervisor::running(const std::string& name) const {
  const auto found = children_.find(name);
  return found != children_.end() && !found->second.over;
}

int Supervisor::running() const {
  return static_cast<int>(std::ranges::count_if(children_, [](const auto& entry) { return !entry.second.over; }));
}

void Supervisor::signal_all(int signal) {
  for (const auto& [name, child] : children_)
    if (!child.over) child.process->signal(signal);
}

void Supervisor::stop_all(int64_t grace_ms) {
  if (stopping_) return;
  stopping_ = true;
  signal_all(SIGTERM);
  killing_ = loop_.after(grace_ms, [this] {
    killing_.reset();
    signal_all(SIGKILL);
  });
}

}  // namespace paceline
