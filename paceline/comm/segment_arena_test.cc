#include "paceline/comm/segment_arena.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace paceline {
namespace {

bool exists(const std::string& name) { return std::filesystem::exists("/dev/shm/" + name); }

// As in two containers that share /dev/shm: there the process numbers are the same, too.
TEST(SegmentArena, TwoRunsOfOneNameKeepTheirOwnFiles) {
  const auto first = SegmentArena::create("torch-run-29500", 1, 4096);
  const Memory kept = first->allocate(1 << 16);
  const std::string control = first->name() + ".control", segment = first->name() + ".0.0";
  {
    const auto second = SegmentArena::create("torch-run-29500", 1, 4096);
    const Memory own = second->allocate(1 << 16);
    EXPECT_NE(second->name(), first->name());
    static_cast<char*>(second->control())[0] = 2;
    EXPECT_EQ(static_cast<char*>(first->control())[0], 0);
  }
  EXPECT_TRUE(exists(control));
  EXPECT_TRUE(exists(segment));
}

}  // namespace
}  // namespace paceline
