// Servers that are killed: whatever the moment, the numbers are those of one that was not.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>

#include "paceline/core/random.h"
#include "paceline/core/test_folder.h"
#include "paceline/ps/shard.h"
#include "paceline/ps/test_server.h"

namespace paceline {
namespace {

using Kind = Decision::Kind;

bool same(const GradientNoise& a, const GradientNoise& b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

// One shard, a list of commands, and pushes that are cheap to make.
class Script {
 public:
  Script(uint64_t count, size_t commands, ServerUpdate update)
      : map_({{"w", count - 1000, true}, {"b", 1000, false}}, 1),
        update_(std::move(update)),
        commands_(random_commands(count, commands, update_)),
        numbers_(test_push(0, 0, 0, count + kShift)) {}

  std::unique_ptr<Shard> open(const std::filesystem::path& path) const {
    return std::make_unique<Shard>(path, map_, 0, update_, std::span(numbers_).first(map_.total()));
  }
  const std::vector<Command>& commands() const { return commands_; }

  // The gradient of a command; not again where it is there already.
  void stage(Shard& shard, const Command& command) const {
    const int worker = command.decision.worker;
    if (!has_push(command) || shard.has_staged(worker, command.sequence)) return;
    const std::span<float> place = shard.stage(worker, command.sequence);
    const uint64_t shift = (command.sequence * 31 + static_cast<uint64_t>(worker) * 7) % kShift;
    std::memcpy(place.data(), numbers_.data() + shift, place.size_bytes());
    shard.staged(worker, command.sequence);
  }

  void expect_same(Shard& shard, Shard& expected) const {
    EXPECT_EQ(shard.counters(), expected.counters());
    for (size_t i = 0; i < expected.states().size(); ++i) {
      const std::span<float> ours = shard.states()[i].values, theirs = expected.states()[i].values;
      EXPECT_EQ(std::memcmp(ours.data(), theirs.data(), theirs.size_bytes()), 0) << shard.states()[i].name;
    }
    EXPECT_TRUE(same(shard.last_report().noise, expected.last_report().noise));
  }

 private:
  static constexpr uint64_t kShift = 1000;
  ShardMap map_;
  ServerUpdate update_;
  std::vector<Command> commands_;
  std::vector<float> numbers_;
};

// When a server is killed: so many nanoseconds after it begins to open its file, or to stage or carry out its n-th
// command. The system's clock sends the signal: a process that waits for its moment would often be late.
struct Death {
  enum class Moment { none, open, stage, execute } moment = Moment::none;
  int command = 0;
  int64_t delay_ns = 0;

  void at(Moment now, int commands_so_far) const {
    if (moment != now || command != commands_so_far) return;
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    timer_t timer;
    const itimerspec when = {.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = delay_ns}};
    if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || ::timer_settime(timer, 0, &when, nullptr) != 0) {
      ::_exit(3);
    }
  }
};

// What a server promises: the command is done, with this report.
struct Promise {
  uint64_t index;
  GradientNoise noise;
};

void serve(const Script& script, const std::filesystem::path& path, int pipe, const Death& death) {
  death.at(Death::Moment::open, 0);
  const auto shard = script.open(path);
  int commands = 0;
  for (uint64_t index = shard->executed(); index < script.commands().size(); ++index, ++commands) {
    const Command& command = script.commands()[index];
    death.at(Death::Moment::stage, commands);
    script.stage(*shard, command);
    death.at(Death::Moment::execute, commands);
    const Promise promise = {command.index, shard->execute(command).noise};
    if (::write(pipe, &promise, sizeof(promise)) != sizeof(promise)) ::_exit(2);
  }
}

// A server that is never killed, as far as it is needed.
class Undisturbed {
 public:
  Undisturbed(const Script& script, const std::filesystem::path& path) : script_(script), shard_(script.open(path)) {}
  Shard& at(uint64_t index) {
    while (shard_->executed() < index) {
      const Command& command = script_.commands()[shard_->executed()];
      script_.stage(*shard_, command);
      noises_.push_back(shard_->execute(command).noise);
    }
    return *shard_;
  }
  const GradientNoise& noise(uint64_t index) const { return noises_[index - 1]; }

 private:
  const Script& script_;
  std::unique_ptr<Shard> shard_;
  std::vector<GradientNoise> noises_;
};

class ShardCrashTest : public testing::TestWithParam<ServerUpdate> {};

TEST_P(ShardCrashTest, KillsAtAnyMomentLoseNothing) {
#ifdef __SANITIZE_THREAD__
  constexpr uint64_t kCount = 400'000;  // everything takes 20 times as long
#else
  constexpr uint64_t kCount = 4'000'000;
#endif
  constexpr int kKills = 18;
  const Script script(kCount, 70, GetParam());
  const MemoryFolder folder;
  const auto path = folder.path() / "killed";
  Undisturbed undisturbed(script, folder.path() / "undisturbed");

  int finished_by_the_next = 0;
  uint64_t promised = 0;
  std::vector<Promise> promises;
  for (int turn = 0; turn <= kKills; ++turn) {  // the last one may end
    const RandomKey key = RandomKey(5).with(static_cast<uint64_t>(turn));
    Death death;
    if (turn < kKills) {
      death.moment = turn % 6 == 2   ? Death::Moment::open  // and goes on with what the one before has left
                     : turn % 6 == 0 ? Death::Moment::stage
                                     : Death::Moment::execute;
      death.command = death.moment == Death::Moment::open ? 0 : static_cast<int>(key.below(0, 4));
      death.delay_ns = 1000 + static_cast<int64_t>(key.below(1, uint64_t{1} << (14 + key.below(2, 8))));
    }
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      serve(script, path, ends[1], death);
      ::_exit(0);
    }
    ::close(ends[1]);
    Promise promise;
    while (::read(ends[0], &promise, sizeof(promise)) == sizeof(promise)) {
      EXPECT_GT(promise.index, promised);
      promised = promise.index;
      promises.push_back(promise);
    }
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(turn < kKills ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0) << status;
    if (turn % 3 == 1 && turn < kKills) continue;  // the next server finds what this one has left
    const auto shard = script.open(path);
    ASSERT_GE(shard->executed(), promised);
    if (shard->executed() > promised) ++finished_by_the_next;
    promised = shard->executed();
    script.expect_same(*shard, undisturbed.at(promised));
  }
  EXPECT_EQ(promised, script.commands().size());
  for (const Promise& made : promises) EXPECT_TRUE(same(made.noise, undisturbed.noise(made.index))) << made.index;
  EXPECT_GE(finished_by_the_next, 2);  // many were killed within a command
}

ServerUpdate crash_update(const std::string& optimizer, int threads) {
  return {
      .optimizer = optimizer, .weight_decay = 0.01, .noise = true, .history = 1, .most_workers = 3, .threads = threads};
}
INSTANTIATE_TEST_SUITE_P(Updates, ShardCrashTest,
                         testing::Values(crash_update("progressive", 1), crash_update("adam", 2)),
                         [](const auto& update) { return update.param.optimizer; });

// A page that cannot be written kills a server in the middle of a chunk, at a place that the test chooses.
TEST(ShardCrash, AChunkThatWasHalfDoneIsDoneAgain) {
  const ServerUpdate update = crash_update("adam", 1);
  constexpr uint64_t kCount = 20'000;
  const Script script(kCount, 150, update);
  const MemoryFolder folder;
  const auto path = folder.path() / "killed";
  const auto undisturbed = script.open(folder.path() / "undisturbed");
  int deaths = 0;
  for (const Command& command : script.commands()) {
    const pid_t child = ::fork();
    if (child == 0) {
      const rlimit none = {};
      ::setrlimit(RLIMIT_CORE, &none);
      ::signal(SIGSEGV, SIG_DFL);
      const auto shard = script.open(path);
      script.stage(*shard, command);
      // Weights, both moments, two means and the staged gradients lie one behind the other.
      const auto states = shard->states();
      const auto stride =
          reinterpret_cast<uintptr_t>(states[1].values.data()) - reinterpret_cast<uintptr_t>(states[0].values.data());
      const RandomKey key = RandomKey(3).with(command.index);
      const uintptr_t array = reinterpret_cast<uintptr_t>(states[0].values.data()) + key.below(0, 8) * stride;
      const uintptr_t page = (array + key.below(1, kCount * sizeof(float))) & ~uintptr_t{4095};
      if (::mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ) != 0) ::_exit(3);
      shard->execute(command);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
      EXPECT_EQ(WTERMSIG(status), SIGSEGV);
      ++deaths;
    } else {
      EXPECT_EQ(WEXITSTATUS(status), 0);  // a page that this command does not change
    }
    script.stage(*undisturbed, command);
    undisturbed->execute(command);
    const auto shard = script.open(path);
    ASSERT_EQ(shard->executed(), command.index);
    script.expect_same(*shard, *undisturbed);
    EXPECT_EQ(shard->finished(0), undisturbed->finished(0));
    EXPECT_FALSE(has_push(command) && shard->has_staged(command.decision.worker, command.sequence));
  }
  EXPECT_GE(deaths, 20);
}

}  // namespace
}  // namespace paceline
