#include "paceline/collectives/stored_profile.h"

#include <gmock/gmock.h>

#include "paceline/collectives/platforms.h"
#include "paceline/core/test_folder.h"
#include "paceline/core/version.h"

namespace paceline {
namespace {

Profile profile_of_this_host() {
  return {{kVersion, "shm", 4, "4x1", "2x2", {hardware_text()}},
          {{"ring", DType::f32, 1024, 4e-6}, {"ring", DType::f32, 16384, 16e-6}, {"direct", DType::f32, 1024, 1e-6}}};
}

class StoredProfileTest : public ::testing::Test {
 protected:
  std::optional<Profile> find(const Cluster& cluster, Grid grid = {2, 2}) {
    return stored_profile(cluster, grid, folder_.path(), [](const std::string& text) { ADD_FAILURE() << text; });
  }
  void store(const Profile& profile) { store_profile(folder_.path() / profile_name("shm", "4x1"), profile); }
  TestFolder folder_;
};

TEST_F(StoredProfileTest, IsFoundByEngineRanksLayoutAndGrid) {
  store(profile_of_this_host());
  EXPECT_EQ(find(platform("shm", 4)), profile_of_this_host());
  EXPECT_EQ(find(platform("shm", 4), {4, 1}), std::nullopt);
  EXPECT_EQ(find(platform("shm", 2)), std::nullopt);
  EXPECT_EQ(find(platform("mpi", 4)), std::nullopt);
  EXPECT_EQ(find(platform("shm+gloo", 5, 4), {5, 1}), std::nullopt);
}

TEST_F(StoredProfileTest, OfAnotherHostOrVersionDoesNotCount) {
  Profile other = profile_of_this_host();
  other.fingerprint.hosts = {"elsewhere, AMD EPYC, 2 cores"};
  store(other);
  EXPECT_EQ(find(platform("shm", 4)), std::nullopt);
  other = profile_of_this_host();
  other.fingerprint.version = "0.0.1";
  store(other);
  EXPECT_EQ(find(platform("shm", 4)), std::nullopt);
}

TEST(MeasuredTimes, AreThereForWhatWasMeasuredAtThatSize) {
  EXPECT_EQ(measured_times(profile_of_this_host(), 1024), (Measured{{"direct", 1e-6}, {"ring", 4e-6}}));
  const Measured between = measured_times(profile_of_this_host(), 4096);
  ASSERT_EQ(between.size(), 1u);
  EXPECT_NEAR(between.at("ring"), 8e-6, 1e-18);
  EXPECT_TRUE(measured_times(profile_of_this_host(), 1000).empty());
  EXPECT_TRUE(measured_times(profile_of_this_host(), 1 << 20).empty());
}

}  // namespace
}  // namespace paceline
