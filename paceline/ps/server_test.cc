// Whole runs over real connections, on one shard and on several, under every policy.
#include "paceline/ps/server.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <latch>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "paceline/ps/state_names.h"
#include "paceline/ps/test_grpc_tsan.h"
#include "paceline/ps/test_run.h"

namespace paceline {
namespace {

using testing::FloatNear;
using testing::Pointwise;

TEST(ParameterServer, TrainsAsAPlainLoopDoesOnAnyNumberOfShards) {
  std::vector<std::vector<float>> ends;
  for (const int shards : {1, 3}) {
    const MemoryFolder folder;
    const ToyRun run = {.shards = shards, .folder = folder.path()};
    UsedSamples used;
    ends.push_back(train(run, &used));
    used.expect_once(run.samples());
    EXPECT_THAT(ends.back(), Pointwise(FloatNear(1e-5f), train_plainly(run)));
  }
  expect_same_bits(ends[0], ends[1]);
}

TEST(ParameterServer, ThreeWorkersAndThreeShardsComeCloseToAPlainLoop) {  // thirds are not exact
  const MemoryFolder folder;
  const ToyRun run = {.shards = 3, .workers = 3, .folder = folder.path()};
  EXPECT_THAT(train(run), Pointwise(FloatNear(1e-5f), train_plainly(run)));
}

TEST(ParameterServer, ASmallModelIsServedOnTheTransportsThread) {
  const MemoryFolder folder;
  const ToyRun run = {.workers = 3, .elements = 1'500, .steps = 40, .folder = folder.path()};
  UsedSamples used;
  EXPECT_THAT(train(run, &used), Pointwise(FloatNear(1e-4f), train_plainly(run)));
  used.expect_once(run.samples());
}

class EveryPolicy : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(EveryPolicy, RunsToItsEndAndUsesEverySampleOnce) {
  const auto& [policy, shards] = GetParam();
  const MemoryFolder folder;
  ToyRun run = {.policy = policy, .shards = shards, .workers = 3, .steps = 10, .folder = folder.path()};
  run.update.history = 4;
  run.update.noise = policy == "adaptive_k";
  UsedSamples used;
  const std::vector<float> end = train(run, &used);
  used.expect_once(run.samples());
  // The toy's gradients pull every weight towards 0.
  const auto squares = [](const std::vector<float>& of) {
    return std::inner_product(of.begin(), of.end(), of.begin(), 0.0);
  };
  EXPECT_LT(squares(end), 0.95 * squares(run.initial()));
}
INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy,
                         testing::Combine(testing::Values("asp", "ssp", "k_sync", "adaptive_k", "easgd", "drop_worker"),
                                          testing::Values(1, 2)),
                         [](const auto& of) {
                           return std::get<0>(of.param) + "_" + std::to_string(std::get<1>(of.param));
                         });

TEST(ParameterServer, SumsTheNormsOfLarsOverShards) {
  std::vector<std::vector<float>> ends;
  for (const int shards : {1, 3}) {
    const MemoryFolder folder;
    ToyRun run = {.shards = shards, .steps = 6, .folder = folder.path()};
    run.update = {.optimizer = "lars", .weight_decay = 0.01, .eta = 0.1};
    ends.push_back(train(run));
  }
  EXPECT_THAT(ends[1], Pointwise(FloatNear(1e-5f), ends[0]));
  EXPECT_THAT(ends[0], testing::Not(Pointwise(FloatNear(1e-5f), ToyRun{}.initial())));
}

TEST(ParameterServer, NormsOfManyTensorsTravelBetweenShards) {
  const MemoryFolder folder;
  ToyRun run = {.shards = 2, .steps = 2, .folder = folder.path(), .single_tensors = 6'000};
  run.update = {.optimizer = "lars", .eta = 0.1};
  EXPECT_NE(train(run), run.initial());
}

TEST(ParameterServer, GoesOnWhereTheJournalCannotBecomeASnapshot) {
  const MemoryFolder folder;
  const ToyRun run = {.elements = 2'000, .folder = folder.path()};
  ServerOptions options = run.server(0);
  std::filesystem::create_directories(options.state_folder / kJournalFolder / "coordinator.1.state.writing");
  std::filesystem::permissions(options.state_folder, static_cast<std::filesystem::perms>(0700));
  std::vector<std::string> lines;
  Log log([&](std::string_view line) { lines.emplace_back(line); });
  options.events_of_journal = 4;
  options.log = &log;
  {
    ParameterServer server(options, run.initial());
    std::vector<std::jthread> workers;
    for (int id = 0; id < run.workers; ++id) {
      workers.emplace_back([&, id] { EXPECT_NO_THROW(work(run, run.worker(id, {server.address()}))); });
    }
    EXPECT_NO_THROW(server.wait({}));
  }
  EXPECT_THAT(lines, testing::Contains(testing::HasSubstr("goes on without a snapshot")));
}

TEST(ParameterServer, KeepsTheStatisticsOfAsManyWorkersAsItHasPlaces) {
  const MemoryFolder folder;
  ToyRun run = {.policy = "asp", .workers = 1, .elements = 2'000, .folder = folder.path()};
  run.update.most_workers = 2;
  ToyServers servers(run);
  std::vector<float> parameters(run.elements);
  for (int id = 0; id < 5; ++id) {  // they leave, and what they told stays
    ServerWorker worker(run.worker(id, servers.addresses()));
    ASSERT_TRUE(worker.join(parameters));
    worker.send_statistics(std::vector<float>{static_cast<float>(id)});
    worker.leave();
  }
  ServerObserver observer(run.worker(0, servers.addresses()));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (observer.observe({}).statistics.size() < 2 && std::chrono::steady_clock::now() < until) {
  }
  EXPECT_EQ(observer.observe({}).statistics.size(), 2u);
}

TEST(ParameterServer, GradientsTravelInFewerBytes) {
  const MemoryFolder folders[3];
  const ToyRun plain = {.shards = 2, .folder = folders[0].path()};
  const std::vector<float> exact = train(plain);
  ToyRun half = plain;
  half.codec = "fp16";  // the toy's gradients are exact in it
  half.folder = folders[1].path();
  expect_same_bits(train(half), exact);
  ToyRun bytes = plain;
  bytes.codec = "int8";
  bytes.folder = folders[2].path();
  const std::vector<float> near = train(bytes);
  EXPECT_THAT(near, Pointwise(FloatNear(0.02f), exact));
  EXPECT_NE(near, exact);
}

TEST(ParameterServer, PartsOfAGradientMayLeaveEarlyAndInAnyOrder) {
  const MemoryFolder folders[2];
  const ToyRun run = {.shards = 3, .folder = folders[0].path()};
  const std::vector<float> whole = train(run);
  ToyRun parts = run;
  parts.folder = folders[1].path();
  const auto early = [&](ServerWorker& worker, const Assignment& assignment, std::span<const float> gradient) {
    if (assignment.lease.number % 3 == 0) {  // all of it, from the last to the first
      for (uint64_t end = run.elements; end > 0; end -= std::min<uint64_t>(end, 9'000)) {
        const uint64_t begin = end - std::min<uint64_t>(end, 9'000);
        worker.push_ready(gradient, begin, end - begin);
      }
    } else if (assignment.lease.number % 3 == 1) {
      worker.push_ready(gradient, 20'000, 3'333);
    }
  };
  expect_same_bits(train(parts, nullptr, early), whole);
}

TEST(ParameterServer, AWorkerThatDisappearsLeavesItsShareToOthers) {
  const MemoryFolder folder;
  const ToyRun run = {.shards = 2, .steps = 8, .lease_ns = 400'000'000, .folder = folder.path()};
  ToyServers servers(run);
  ServerObserver observer(run.worker(0, servers.addresses()));
  observer.observe({.weights = true});
  UsedSamples used;
  std::latch over(1);
  // This one takes part twice, and drops its connections in the middle of a push.
  std::thread dying([&] {
    WorkerOptions options = run.worker(0, servers.addresses());
    options.heartbeat_ms = 100'000;
    auto worker = std::make_unique<ServerWorker>(options);
    std::vector<float> parameters(run.elements), gradient(run.elements);
    auto assignment = worker->join(parameters);
    for (int i = 0; i < 2 && assignment; ++i) {
      run.gradient(assignment->lease, parameters, gradient);
      const BatchRange range = assignment->lease.range;
      assignment = worker->push(gradient, range.size(), run.rate, parameters);
      used.add(range);
    }
    worker->push_ready(gradient, 100, 20'000);
    const std::vector<float> kept = gradient;  // silent: a process that hangs looks like this
    over.wait();
  });
  work(run, run.worker(1, servers.addresses()), &used);
  over.count_down();
  dying.join();
  used.expect_once(run.samples());
  EXPECT_TRUE(observer.observe({.weights = true}).over);
}

TEST(ServerObserver, HearsNewsWithoutCommands) {
  const MemoryFolder folder;
  const ToyRun run = {.shards = 2, .steps = 2, .folder = folder.path()};
  ToyServers servers(run);
  ServerObserver observer(run.worker(0, servers.addresses()));
  const ServerSnapshot first = observer.observe({}), second = observer.observe({});
  EXPECT_TRUE(second.states.empty());
  EXPECT_FALSE(second.over);
  EXPECT_EQ(first.metrics, second.metrics);  // how many commands were carried out is among them
  EXPECT_EQ(observer.observe({.weights = true}).states.at("weights").size(), run.elements);
}

// A line for each of them would be longer than a message may be.
TEST(ServerObserver, NewsOfVeryManyWorkersLeaveOutTheSingleOnes) {
  constexpr int kWorkers = 500;
  const MemoryFolder folder;
  const ToyRun run = {.policy = "asp",
                      .workers = 1,
                      .elements = 2'000,
                      .steps = kWorkers + 10,
                      .share_samples = 1,
                      .folder = folder.path()};
  ToyServers servers(run);
  std::vector<float> parameters(run.elements);
  const std::vector<float> gradient(run.elements, 0.0f);
  ServerObserver observer(run.worker(0, servers.addresses()));
  const auto metrics = [&] { return nlohmann::json::parse(observer.observe({}).metrics); };
  for (int id = 0; id < kWorkers; ++id) {
    ServerWorker worker(run.worker(id, servers.addresses()));
    const auto assignment = worker.join(parameters);
    ASSERT_TRUE(assignment);
    ASSERT_TRUE(worker.push(gradient, assignment->lease.range.size(), run.rate, parameters));
    worker.leave();
    if (id == 0) {
      EXPECT_TRUE(metrics().contains("workers"));
    }
  }
  EXPECT_LT(observer.observe({}).metrics.size(), size_t{32} * 1024);
  const nlohmann::json many = metrics();
  EXPECT_FALSE(many.contains("workers"));
  EXPECT_EQ(many.at("total").at("applied"), kWorkers);
  EXPECT_EQ(many.at("shards").size(), 1u);
}

TEST(ServerObserver, SeesOneVersionOnAllShardsWhileTrainingGoesOn) {
  const MemoryFolder folder;
  ToyRun run = {.policy = "asp", .shards = 3, .steps = 60, .folder = folder.path()};
  run.update = {.optimizer = "sgd", .momentum = 0};
  ToyServers servers(run);
  std::vector<std::thread> workers;
  // Every gradient is the same everywhere: at one version all weights have moved alike.
  for (int id = 0; id < 2; ++id) {
    workers.emplace_back([&, id] {
      ServerWorker worker(run.worker(id, servers.addresses()));
      const std::vector<float> gradient(run.elements, 1.0f);
      std::vector<float> parameters(run.elements);
      worker.send_statistics(std::vector<float>{static_cast<float>(id), 2, 3});
      for (auto next = worker.join(parameters); next;) {
        next = worker.push(gradient, next->lease.range.size(), 0.25, parameters);
        worker.send_statistics(std::vector<float>{static_cast<float>(id), 2, 3});
      }
    });
  }
  ServerObserver observer(run.worker(7, servers.addresses()));
  const std::vector<float> initial = run.initial();
  ServerSnapshot seen;
  uint64_t last = 0, looks = 0;
  do {
    seen = observer.observe({.weights = true, .states = looks++ % 2 == 0});
    EXPECT_GE(seen.version, last);
    last = seen.version;
    std::vector<float> expected = initial;
    for (float& weight : expected) {
      for (uint64_t step = 0; step < seen.version; ++step) weight -= 0.25f;
    }
    ASSERT_EQ(seen.states.at("weights"), expected) << seen.version;
  } while (!seen.over);
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(last, 120u);
  EXPECT_GT(looks, 3u);
  const auto metrics = nlohmann::json::parse(seen.metrics);
  EXPECT_EQ(metrics.at("total").at("applied"), 120);
  EXPECT_EQ(metrics.at("shards").size(), 3u);
  ASSERT_FALSE(seen.statistics.empty());
  EXPECT_EQ(seen.statistics[0].size(), 3u);
}

// A coordinator that is killed near the end and started again: workers are back at once and finish the run, whoever
// looks at it may take longer to call.
TEST(ServerObserver, IsWaitedForByAServerThatWasStartedAgain) {
  const MemoryFolder folder;
  const ToyRun run = {.policy = "asp", .workers = 1, .steps = 4, .folder = folder.path()};
  {
    std::optional<ToyServers> killed(std::in_place, run);
    ServerObserver observer(run.worker(7, killed->addresses()));
    EXPECT_FALSE(observer.observe({}).over);
    killed.reset();  // before the observer could say that it leaves
  }
  ToyServers again(run);
  work(run, run.worker(0, again.addresses()));
  std::future<void> end = std::async(std::launch::async, [&] { again.wait(); });
  EXPECT_EQ(end.wait_for(std::chrono::milliseconds(500)), std::future_status::timeout) << "nobody was waited for";
  {
    ServerObserver observer(run.worker(7, again.addresses()));
    EXPECT_TRUE(observer.observe({}).over);
  }  // leaves
  EXPECT_EQ(end.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(ServerObserver, GetsTheOptimizersStatesForACheckpoint) {
  const MemoryFolder folder;
  const ToyRun run = {.shards = 2, .steps = 2, .folder = folder.path()};
  ToyServers servers(run);
  ServerObserver observer(run.worker(0, servers.addresses()));
  const ServerSnapshot before = observer.observe({.weights = true, .states = true});
  EXPECT_EQ(before.states.at("weights"), run.initial());
  ASSERT_EQ(before.states.size(), 2u);
  for (const auto& [name, values] : before.states) EXPECT_EQ(values.size(), run.elements) << name;
  EXPECT_FALSE(before.over);
}

}  // namespace
}  // namespace paceline
