// What a death at any moment and a full disk leave of checkpoints: the calls
// that change the file system are counted here, and from a chosen one on the
// process is dead or the disk full.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"
#include "paceline/models/initialise.h"
#include "paceline/optim/sgd.h"
#include "paceline/train/checkpoint.h"

namespace paceline {
namespace {

constexpr int kDead = 42;

struct Fault {
  enum class Kind { none, death, full_disk } kind = Kind::none;
  int from = 0;  // the number of the call
  int calls = 0;

  bool strikes(Kind by) { return kind == by && ++calls >= from; }
};
Fault fault;

// Returns -1 where the call must fail.
int before_change() {
  if (fault.strikes(Fault::Kind::death)) ::_exit(kDead);
  return 0;
}
int before_growth() {
  if (fault.strikes(Fault::Kind::full_disk)) {
    errno = ENOSPC;
    return -1;
  }
  return before_change();
}

}  // namespace
}  // namespace paceline

// They take the place of the C library's.
extern "C" {
ssize_t write(int descriptor, const void* data, size_t bytes) {
  if (paceline::before_growth() != 0) return -1;
  return ::syscall(SYS_write, descriptor, data, bytes);
}
int mkdir(const char* path, mode_t mode) noexcept {
  if (paceline::before_growth() != 0) return -1;
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int fsync(int descriptor) {
  if (paceline::before_growth() != 0) return -1;
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}
int rename(const char* from, const char* to) noexcept {
  paceline::before_change();
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  paceline::before_change();
  return static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
}
}

namespace paceline {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::IsEmpty;

class CheckpointFaults : public ::testing::Test {
 protected:
  CheckpointFaults() { initialise(*model_, "kaiming", 1); }

  void write(CheckpointStore& store, int64_t step) {
    RunState state;
    state.step = step;
    store.write(*model_, optimizer_, state, {}, {}, {.recipe = "[train]\n"});
    store.trust_newest();
  }

  // Step 1 was removed for 2, of which a file is damaged where `damaged` says
  // so.
  void begin(bool damaged) {
    std::filesystem::remove_all(folder_);
    CheckpointStore store(folder_, 1);
    for (const int64_t step : {1, 2}) write(store, step);
    if (!damaged) return;
    write(store, 3);
    std::filesystem::remove(folder_ / "step-00000003" / "state.json");
    CheckpointStore(folder_, 2).write(*model_, optimizer_, {.step = 2});
  }

  // A run goes on, and makes two checkpoints.
  void go_on() {
    CheckpointStore store(folder_, 1);
    store.set_aside(store.find_newest_intact().damaged);
    for (const int64_t step : {4, 5}) write(store, step);
  }

  void expect_nothing_lost(bool damaged, int call) {
    CheckpointStore store(folder_, 1);
    const CheckpointStore::Search search = store.find_newest_intact();
    ASSERT_TRUE(search.newest) << "call " << call;
    EXPECT_THAT(search.newest->step, AnyOf(Eq(2), Eq(4), Eq(5))) << "call " << call;
    store.set_aside(search.damaged);
    write(store, 6);
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    if (damaged) {
      EXPECT_THAT(names, ElementsAre("damaged-step-00000003", "step-00000006")) << "call " << call;
    } else {
      EXPECT_THAT(search.damaged, IsEmpty()) << "call " << call;
      EXPECT_THAT(names, ElementsAre("step-00000006")) << "call " << call;
    }
  }

  const MemoryFolder test_folder_;
  const std::filesystem::path folder_ = test_folder_.path() / "run" / "checkpoints";
  std::shared_ptr<Model> model_ =
      make_model(builtin_models(), "small_cnn", {.classes = 3, .channels = 1, .image_size = 8});
  Sgd optimizer_{parameters_of(*model_), {}};
};

TEST_F(CheckpointFaults, ADeathAtAnyMomentLosesNoCheckpoint) {
  for (const bool damaged : {false, true}) {
    int status = -1;
    for (int call = 1; status != 0; ++call) {
      begin(damaged);
      const pid_t child = ::fork();
      if (child == 0) {
        fault = {.kind = Fault::Kind::death, .from = call};
        go_on();
        ::_exit(0);
      }
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status) && (status == 0 || WEXITSTATUS(status) == kDead)) << "call " << call;
      if (status == 0) EXPECT_GT(call, 40) << "calls are not counted";
      expect_nothing_lost(damaged, call);
    }
  }
}

TEST_F(CheckpointFaults, AFullDiskLosesNoCheckpoint) {
  for (const bool damaged : {false, true}) {
    bool full = true;
    for (int call = 1; full; ++call) {
      begin(damaged);
      full = false;
      fault = {.kind = Fault::Kind::full_disk, .from = call};
      try {
        go_on();
      } catch (const FileError& error) {
        full = true;
        EXPECT_THAT(error.what(), ::testing::HasSubstr("No space left on device; free some space"));
      }
      fault = {};
      if (!full) EXPECT_GT(call, 20) << "calls are not counted";
      for (const auto& entry : std::filesystem::directory_iterator(folder_))
        EXPECT_FALSE(entry.path().filename().string().starts_with(".writing")) << "call " << call;
      expect_nothing_lost(damaged, call);
    }
  }
}

}  // namespace
}  // namespace paceline
