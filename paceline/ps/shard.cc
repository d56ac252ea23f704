#include "paceline/ps/shard.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <system_error>
#include <thread>

#include "paceline/core/check.h"
#include "paceline/kernels/progressive.h"

namespace paceline {
namespace {

using Kind = Decision::Kind;

const ServerUpdate& checked(const ServerUpdate& update) {
  check_update(update);
  return update;
}

bool uses_gradient(Kind kind) { return kind != Kind::drop && kind != Kind::step && kind != Kind::release; }

}  // namespace

Shard::Shard(const std::filesystem::path& file, const ShardMap& map, int shard, const ServerUpdate& update,
             std::span<const float> initial)
    : update_(checked(update)),
      map_(map),
      shard_(shard),
      runs_(update_runs(map, shard, update)),
      file_(file, map, shard, update, initial),
      staging_(file_) {
  if (!file_.under_way()) return;
  file_.undo_unfinished(ChunkWork(file_, update_, runs_).changed());
  carry_out();
}

Shard::~Shard() = default;

uint64_t Shard::executed() const { return file_.now().executed; }
uint64_t Shard::version() const { return file_.now().version; }
uint64_t Shard::count() const { return file_.count(); }

std::span<float> Shard::stage(int worker, uint64_t sequence) { return staging_.stage(worker, sequence); }
void Shard::staged(int worker, uint64_t sequence) { staging_.staged(worker, sequence); }
bool Shard::has_staged(int worker, uint64_t sequence) const { return staging_.has(worker, sequence); }
uint64_t Shard::finished(int worker) const { return staging_.finished(worker); }
void Shard::forget(int worker) { staging_.forget(worker); }

ShardReport Shard::execute(const Command& command, std::span<const SquaredNorms> whole) {
  check(command);
  prepare(command, whole);
  file_.begin();
  carry_out();
  return last_report();
}

void Shard::check(const Command& command) const {
  const ShardNumbers& now = file_.now();
  const Decision& decision = command.decision;
  CHECK_EQ(command.index, now.executed + 1);
  if (uses_gradient(decision.kind)) {
    CHECK_TRUE(has_staged(decision.worker, command.sequence), "push {} of worker {} is not staged", command.sequence,
               decision.worker);
  }
  if (is_step(decision.kind)) CHECK_EQ(decision.version, now.version + 1);
  if (decision.kind == Kind::step) CHECK_GT(now.samples, 0);
  if (decision.kind == Kind::accumulate || decision.kind == Kind::merge_mean) CHECK_GE(decision.samples, 1u);
  if (decision.kind == Kind::merge || decision.kind == Kind::merge_mean) {
    CHECK_TRUE(momentum_state(update_) >= 0, "{} has no momentum that gradients can be merged into", update_.optimizer);
  }
}

bool Shard::has_gradients(const Command& command) const {
  const Decision& decision = command.decision;
  if (decision.kind == Kind::step) return file_.now().samples > 0;
  if (!uses_gradient(decision.kind)) return true;
  if (!has_staged(decision.worker, command.sequence)) return false;
  if (decision.kind != Kind::merge_mean) return true;
  const auto of_version = [&](const ShardNumbers::Mean& mean) { return mean.version == decision.version; };
  const auto& means = file_.now().means;
  const bool kept = std::ranges::any_of(means, of_version);  // execute() refuses a version that is not
  return !kept || std::ranges::any_of(means, [&](const auto& mean) { return of_version(mean) && mean.samples > 0; });
}

ShardReport Shard::leave_out(const Command& command) {
  const Decision& decision = command.decision;
  CHECK_EQ(command.index, file_.now().executed + 1);
  if (is_step(decision.kind)) CHECK_EQ(decision.version, file_.now().version + 1);
  Command nothing = command;
  nothing.decision.kind = Kind::drop;
  nothing.decision.worker = std::max(decision.worker, 0);
  begin_numbers(nothing);
  if (is_step(decision.kind)) file_.next().version = decision.version;
  if (decision.kind == Kind::step) {
    file_.next().place = -1;
    end_round();
  }
  file_.begin();
  carry_out();
  return last_report();
}

void Shard::begin_numbers(const Command& command) {
  const Decision& decision = command.decision;
  const ShardNumbers& now = file_.now();
  ShardNumbers& next = file_.next();
  next = now;
  next.command = to_bytes(command);
  command_from(next.command);  // what is read after a restart must be readable: throws otherwise
  next.serial = now.serial + 1;
  next.executed = command.index;
  next.mean_norm2 = next.spread = 0;
  next.place = decision.kind == Kind::step || decision.kind == Kind::release ? -1 : staging_.place_of(decision.worker);
  std::ranges::copy(file_.rates_now(), file_.rates_next().begin());
}

// The mean stays where it is; the next round's takes the place of the oldest.
void Shard::end_round() {
  const ShardNumbers& now = file_.now();
  ShardNumbers& next = file_.next();
  next.means[now.mean] = {.version = now.version, .samples = now.samples};
  next.mean = (now.mean + 1) % (static_cast<uint64_t>(update_.history) + 1);
  next.means[next.mean] = {};
  next.samples = next.samples_squared = 0;
}

// What the numbers will be after the command; its work on the arrays follows from them.
void Shard::prepare(const Command& command, std::span<const SquaredNorms> whole) {
  begin_numbers(command);
  const Decision& decision = command.decision;
  const auto b = static_cast<double>(decision.samples);
  const ShardNumbers& now = file_.now();
  ShardNumbers& next = file_.next();
  if (decision.kind == Kind::accumulate) {
    next.samples += b;
    next.samples_squared += b * b;
  } else if (decision.kind == Kind::merge_mean) {
    const auto found = std::ranges::find_if(next.means, [&](const ShardNumbers::Mean& mean) {
      return mean.version == decision.version && mean.samples > 0;
    });
    CHECK_TRUE(found != std::end(next.means), "the mean of version {} is not kept; the newest is {}", decision.version,
               now.version);
    found->samples += b;
  } else if (is_step(decision.kind)) {
    next.version = decision.version;
    next.steps = now.steps + 1;
    next.rate = decision.rate;
    if (update_.optimizer == "lars") {
      std::vector<SquaredNorms> own;
      if (whole.empty() && map_.shards() == 1) whole = own = norms(command);
      CHECK_EQ(whole.size(), map_.tensors().size());
      for (size_t i = 0; i < whole.size(); ++i) {
        const double rate = map_.tensors()[i].decayed
                                ? lars_rate(decision.rate, update_.eta, update_.epsilon, update_.weight_decay,
                                            std::sqrt(whole[i].weights), std::sqrt(whole[i].gradient))
                                : decision.rate;
        file_.rates_next()[i] = static_cast<float>(rate);
      }
    }
  }
  if (decision.kind == Kind::step) end_round();
}

// Also after a restart: from here on everything comes from the file.
void Shard::carry_out() {
  ShardNumbers& next = file_.next();
  const Command command = command_from(next.command);
  const ChunkWork work(file_, update_, runs_);
  if (!work.idle()) change_chunks(work);
  if (command.decision.kind == Kind::accumulate && update_.noise) {
    double mean_norm2 = 0, spread = 0;
    for (const ChunkMark& mark : file_.marks()) {
      mean_norm2 += mark.mean_norm2;
      spread += mark.spread;
    }
    next.mean_norm2 = mean_norm2;
    next.spread = spread;
  }
  // Before the commit: whoever is killed in between comes here again, and does not need the gradient any more.
  if (next.place >= 0) staging_.finish(static_cast<int>(next.place), command.sequence);
  file_.commit();
}

void Shard::change_chunks(const ChunkWork& work) {
  const uint64_t serial = file_.next().serial;
  const auto change = [&](int thread, uint64_t begin, uint64_t end) {
    for (uint64_t chunk = begin; chunk < end; ++chunk) {
      if (file_.marks()[chunk].serial == serial) continue;  // done before a restart
      if (!work.changed().empty()) file_.keep(thread, chunk, work.changed());
      work(chunk);
      file_.sign(thread, chunk, serial);
    }
  };
  constexpr uint64_t kLeast = 64;  // chunks that a thread is worth
  const uint64_t chunks = file_.chunks();
  const uint64_t threads =
      std::clamp<uint64_t>(chunks / kLeast, 1, static_cast<uint64_t>(std::min(update_.threads, kMostUpdateThreads)));
  const auto begin = [&](uint64_t thread) { return chunks * thread / threads; };
  std::vector<std::thread> others;
  uint64_t started = 1;
  try {
    for (; started < threads; ++started) {
      others.emplace_back(change, static_cast<int>(started), begin(started), begin(started + 1));
    }
  } catch (const std::system_error&) {  // the system has no thread left: this one does the rest
  }
  change(0, 0, begin(1));
  change(0, begin(started), chunks);
  for (std::thread& other : others) other.join();
}

ShardReport Shard::last_report() const {
  const ShardNumbers& now = file_.now();
  ShardReport report = {.index = now.executed};
  if (now.executed == 0 || now.command == decltype(now.command){}) return report;
  if (command_from(now.command).decision.kind != Kind::accumulate) return report;
  report.noise = {.samples = now.samples,
                  .samples_squared = now.samples_squared,
                  .mean_norm2 = now.mean_norm2,
                  .spread = now.spread};
  return report;
}

std::vector<SquaredNorms> Shard::norms(const Command& command) const {
  const Decision& decision = command.decision;
  CHECK_TRUE(is_step(decision.kind), "norms are of steps");
  const float* gradient = file_.mean(file_.now().mean);
  if (decision.kind == Kind::apply) {
    CHECK_TRUE(has_staged(decision.worker, command.sequence), "push {} of worker {} is not staged", command.sequence,
               decision.worker);
    gradient = file_.staged(staging_.place_of(decision.worker));
  }
  std::vector<SquaredNorms> norms(map_.tensors().size());
  for (const ShardMap::Piece& piece : map_.pieces(shard_)) {
    norms[piece.tensor] = squared_norms(file_.weights() + piece.offset, gradient + piece.offset, piece.count);
  }
  return norms;
}

void Shard::read(uint64_t begin, std::span<float> into) const {
  CHECK_LE(begin, count());
  CHECK_LE(into.size(), count() - begin);
  if (into.empty()) return;
  if (update_.look_ahead) {
    look_ahead(into.data(), file_.weights() + begin, file_.state(momentum_state(update_)) + begin, into.size(),
               static_cast<float>(file_.now().rate));
  } else {
    std::memcpy(into.data(), file_.weights() + begin, into.size_bytes());
  }
}

void Shard::read_exchanged(int worker, uint64_t begin, std::span<float> into) const {
  CHECK_LE(begin, count());
  CHECK_LE(into.size(), count() - begin);
  const int place = staging_.place_of(worker);
  CHECK_TRUE(place >= 0, "worker {} has exchanged nothing", worker);
  if (!into.empty()) std::memcpy(into.data(), file_.staged(place) + begin, into.size_bytes());
}

std::span<const float> Shard::weights() const { return {file_.weights(), count()}; }

std::vector<Shard::State> Shard::states() {
  std::vector<State> states = {{"weights", {file_.weights(), count()}}};
  for (const std::string& name : state_names(update_)) {
    states.push_back({name, {file_.state(static_cast<int>(states.size()) - 1), count()}});
  }
  return states;
}

Shard::Counters Shard::counters() const {
  const ShardNumbers& now = file_.now();
  return {.executed = now.executed, .version = now.version, .steps = now.steps, .rate = now.rate};
}

void Shard::restore(const Counters& counters) {
  for (StagingMark& place : file_.places()) place.worker = -1;
  ShardNumbers& next = file_.next();
  next = {};
  next.serial = file_.now().serial + 1;
  next.executed = counters.executed;
  next.version = counters.version;
  next.steps = counters.steps;
  next.rate = counters.rate;
  next.place = -1;
  std::ranges::fill(file_.rates_next(), 0.0f);
  file_.commit();
}

}  // namespace paceline
