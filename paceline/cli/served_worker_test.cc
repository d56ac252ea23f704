#include "paceline/cli/served_worker.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace paceline {
namespace {

Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found != variables.end() ? std::optional<std::string>(found->second) : std::nullopt;
  };
}

// Four ranks on two hosts, two on each.
std::map<std::string, std::string> rank_of_a_launcher(int rank) {
  return {{"RANK", std::to_string(rank)},           {"WORLD_SIZE", "4"},         {"LOCAL_WORLD_SIZE", "2"},
          {"LOCAL_RANK", std::to_string(rank % 2)}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}};
}

int place_of(const std::map<std::string, std::string>& variables) {
  const Environment environment = environment_of(variables);
  const Recipe recipe = parse_recipe("sync.policy = \"bsp\"", "r.toml");
  return worker_loop_options(recipe, {}, worker_seat(environment).value(), environment).place;
}

TEST(ServedWorker, WorkersOfAChiefTakePlacesByTheirNumbers) {
  for (int worker = 0; worker < 4; ++worker) EXPECT_EQ(place_of({{"PACELINE_WORKER", std::to_string(worker)}}), worker);
}

TEST(ServedWorker, RanksOfALauncherTakePlacesByTheirLocalRanks) {
  for (int rank = 1; rank < 4; ++rank) {
    EXPECT_EQ(worker_seat(environment_of(rank_of_a_launcher(rank))).value().worker, rank);
    EXPECT_EQ(place_of(rank_of_a_launcher(rank)), rank % 2);
  }
}

TEST(ServedWorker, TheFirstRankIsTheChiefAndItsWorkerHasTheFirstPlace) {
  EXPECT_FALSE(worker_seat(environment_of(rank_of_a_launcher(0))));
  auto worker = rank_of_a_launcher(0);
  worker["PACELINE_WORKER"] = "0";
  EXPECT_EQ(place_of(worker), 0);
}

TEST(ServedWorker, AProcessThatNobodyStartedHasNoSeat) { EXPECT_FALSE(worker_seat(environment_of({}))); }

}  // namespace
}  // namespace paceline
