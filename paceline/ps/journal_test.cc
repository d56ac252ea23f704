#include "paceline/ps/journal.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <memory>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

constexpr size_t kRecordBytes = 112;

// Events that differ in everything.
CoordinatorEvent event_number(uint64_t i) {
  const double real = static_cast<double>(i);
  return {.kind = static_cast<CoordinatorEvent::Kind>(i % 5),
          .time_ns = static_cast<int64_t>(i) - 3,
          .worker = static_cast<int>(i) - 1,
          .incarnation = ~i,
          .push = {.sequence = i, .version = 2 * i, .samples = 3 * i, .rate = 0.1 * real},
          .noise = {.samples = real, .samples_squared = -real, .mean_norm2 = 1e300 * real, .spread = real / 3},
          .noise_version = 5 * i,
          .noise_index = 7 * i};
}

std::vector<CoordinatorEvent> events_up_to(uint64_t end, uint64_t begin = 0) {
  std::vector<CoordinatorEvent> events;
  for (uint64_t i = begin; i < end; ++i) events.push_back(event_number(i));
  return events;
}

JournalContents contents_of(const std::filesystem::path& folder) { return Journal(folder).recover(); }

TEST(Journal, GoesOnWhereASnapshotCannotBeWritten) {
  for (const char* in_the_way : {"coordinator.1.state.writing", "coordinator.1.state", "coordinator.1.journal"}) {
    const TestFolder folder;
    {
      Journal journal(folder.path());
      journal.append(event_number(0));
      std::filesystem::create_directories(folder.path() / in_the_way / "full");
      EXPECT_THROW(journal.snapshot("state"), FileError) << in_the_way;
      journal.append(event_number(1));
      EXPECT_EQ(journal.appended(), 2u);
      std::filesystem::remove_all(folder.path() / in_the_way);
    }
    EXPECT_EQ(contents_of(folder.path()).events, events_up_to(2)) << in_the_way;
    EXPECT_FALSE(contents_of(folder.path()).state);
    Journal journal(folder.path());
    journal.snapshot("state");  // and can be made later
    journal.append(event_number(2));
    EXPECT_EQ(journal.recover().state, "state");
    EXPECT_EQ(journal.recover().events, events_up_to(3, 2));
  }
}

TEST(JournalTest, GivesBackWhatWasAppended) {
  const TestFolder folder;
  {
    Journal journal(folder.path() / "new");
    EXPECT_FALSE(journal.recover().state);
    EXPECT_TRUE(journal.recover().events.empty());
    for (const CoordinatorEvent& event : events_up_to(10)) journal.append(event);
    EXPECT_EQ(journal.recover().events, events_up_to(10));
  }
  Journal again(folder.path() / "new");
  EXPECT_EQ(again.appended(), 10u);
  again.append(event_number(10));
  EXPECT_EQ(again.recover().events, events_up_to(11));
}

TEST(JournalTest, KeepsNumbersThatAreNotFinite) {
  const TestFolder folder;
  Journal journal(folder.path());
  CoordinatorEvent event = event_number(1);
  event.noise.spread = std::numeric_limits<double>::infinity();
  event.noise.mean_norm2 = std::numeric_limits<double>::quiet_NaN();
  journal.append(event);
  EXPECT_EQ(journal.recover().events.at(0).noise.spread, event.noise.spread);
  EXPECT_NE(journal.recover().events.at(0).noise.mean_norm2, journal.recover().events.at(0).noise.mean_norm2);
}

TEST(JournalTest, ASnapshotTakesThePlaceOfWhatWasBefore) {
  const TestFolder folder;
  {
    Journal journal(folder.path());
    for (uint64_t snapshot = 1; snapshot < 12; ++snapshot) {
      journal.append(event_number(snapshot));
      journal.snapshot("state " + std::to_string(snapshot));
      EXPECT_EQ(journal.appended(), 0u);
      EXPECT_TRUE(journal.recover().events.empty());
    }
    for (const CoordinatorEvent& event : events_up_to(3)) journal.append(event);
  }
  EXPECT_EQ(contents_of(folder.path()).state, "state 11");
  EXPECT_EQ(contents_of(folder.path()).events, events_up_to(3));
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  EXPECT_EQ(files, 3u);  // state, journal, lock
}

TEST(JournalTest, ATornTailIsDroppedWhereverItIsTorn) {
  const TestFolder folder;
  std::string whole;
  {
    Journal journal(folder.path());
    journal.snapshot("state");
    for (const CoordinatorEvent& event : events_up_to(3)) journal.append(event);
    whole = read_file(folder.path() / "coordinator.1.journal");
  }
  ASSERT_EQ(whole.size(), 3 * kRecordBytes);
  for (size_t size = 0; size <= whole.size(); ++size) {
    std::ofstream(folder.path() / "coordinator.1.journal", std::ios::binary) << whole.substr(0, size);
    Journal journal(folder.path());
    const uint64_t left = size / kRecordBytes;
    ASSERT_EQ(journal.recover().state, "state");
    ASSERT_EQ(journal.recover().events, events_up_to(left)) << size;
    journal.append(event_number(left));  // goes where the torn one was
    ASSERT_EQ(journal.recover().events, events_up_to(left + 1)) << size;
  }
}

TEST(JournalTest, DamageIsNotTakenForATornTail) {
  const TestFolder folder;
  {
    Journal journal(folder.path());
    journal.snapshot("state");
    for (const CoordinatorEvent& event : events_up_to(3)) journal.append(event);
  }
  const std::filesystem::path path = folder.path() / "coordinator.1.journal";
  const std::string whole = read_file(path);
  for (size_t byte = 0; byte < whole.size(); ++byte) {
    std::string damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 0x10);
    std::ofstream(path, std::ios::binary) << damaged;
    EXPECT_THROW(Journal(folder.path()), FileError) << byte;
  }
  std::string swapped = whole.substr(kRecordBytes, kRecordBytes) + whole.substr(0, kRecordBytes);
  std::ofstream(path, std::ios::binary) << swapped;
  EXPECT_THROW(Journal(folder.path()), FileError);
  std::ofstream(path, std::ios::binary) << whole;
  std::ofstream(folder.path() / "coordinator.1.state", std::ios::binary | std::ios::app) << "!";
  EXPECT_THROW(contents_of(folder.path()), FileError);
  std::ofstream(folder.path() / "coordinator.1.state", std::ios::binary) << "";
  EXPECT_THROW(contents_of(folder.path()), FileError);
}

// Killed after the snapshot's rename, before its journal was made, or before the old files were removed.
TEST(JournalTest, ASnapshotCountsFromItsRenameOn) {
  const TestFolder folder;
  std::string old_journal;
  {
    Journal journal(folder.path());
    for (const CoordinatorEvent& event : events_up_to(4)) journal.append(event);
    old_journal = read_file(folder.path() / "coordinator.0.journal");
    journal.snapshot("state of four");
  }
  std::filesystem::remove(folder.path() / "coordinator.1.journal");
  std::ofstream(folder.path() / "coordinator.0.journal", std::ios::binary) << old_journal;
  EXPECT_EQ(contents_of(folder.path()).state, "state of four");
  EXPECT_TRUE(contents_of(folder.path()).events.empty());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "coordinator.0.journal"));
}

TEST(JournalTest, BelongsToOneProcess) {
  const TestFolder folder;
  auto first = std::make_unique<Journal>(folder.path());
  EXPECT_THROW(Journal(folder.path()), FileError);
  first.reset();
  EXPECT_NO_THROW(Journal(folder.path()));
}

// A child appends and takes snapshots, and tells after each event through a pipe; it is killed in the middle.
TEST(JournalTest, NothingIsLostWhenTheProcessIsKilled) {
  for (int round = 0; round < 10; ++round) {
    const TestFolder folder;
    int pipes[2];
    ASSERT_EQ(::pipe(pipes), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Journal journal(folder.path());
      for (uint64_t i = 0;; ++i) {
        journal.append(event_number(i));
        const char said = 1;
        if (::write(pipes[1], &said, 1) != 1) ::_exit(1);
        if (i % 7 == 6) journal.snapshot(std::to_string(i + 1));
      }
    }
    ::close(pipes[1]);
    uint64_t said = 0;
    char byte;
    while (said < 20 + 17 * static_cast<uint64_t>(round) && ::read(pipes[0], &byte, 1) == 1) ++said;
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    while (::read(pipes[0], &byte, 1) == 1) ++said;
    ::close(pipes[0]);

    const JournalContents contents = contents_of(folder.path());
    const uint64_t in_state = contents.state ? std::stoull(*contents.state) : 0;
    const uint64_t there = in_state + contents.events.size();
    EXPECT_GE(there, said);
    EXPECT_LE(there, said + 1);  // appended, not yet told
    EXPECT_EQ(contents.events, events_up_to(there, in_state));
  }
}

}  // namespace
}  // namespace paceline
