#include "paceline/serving/last_seen.h"

#include <gtest/gtest.h>

#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

TEST(LastSeen, IsTheMostThatTheFolderTellsOf) {
  const TestFolder root;
  const RunFolder folder = {root.path()};
  EXPECT_EQ(last_seen_updates(folder), 0);
  replace_file(folder.metrics(), "{\"kind\":\"train\",\"step\":50}\n{\"kind\":\"train\",\"step\":100}\n{\"kind\":\"tr");
  EXPECT_EQ(last_seen_updates(folder), 100);
  note_last_seen(folder, 1347);
  EXPECT_EQ(last_seen_updates(folder), 1347);
  note_last_seen(folder, 70);  // it went on from a checkpoint
  EXPECT_EQ(last_seen_updates(folder), 100);
  replace_file(folder.root / "seen.json", "[]");
  EXPECT_EQ(last_seen_updates(folder), 100);
}

TEST(LastSeen, SaysHowMuchIsLost) {
  EXPECT_EQ(what_is_lost(1200, 1347), "the run had made at least 1,347 updates when last seen: at least 147 are lost");
  EXPECT_EQ(what_is_lost(1200, 1200), "no later update is known of");
  EXPECT_EQ(what_is_lost(1200, 0), "no later update is known of");
}

}  // namespace
}  // namespace paceline
