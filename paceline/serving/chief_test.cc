// The chief of a run whose server and workers are threads of the test.
#include "paceline/serving/chief.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <future>
#include <limits>
#include <mutex>
#include <thread>

#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"
#include "paceline/ps/server.h"
#include "paceline/ps/worker.h"
#include "paceline/serving/served_settings.h"
#include "paceline/serving/server_checkpoint.h"
#include "paceline/serving/worker_news.h"
#include "paceline/train/assemble.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRecipe = R"(
[model]
name = "small_cnn"
[data]
name = "synthetic"
train_samples = 64
test_samples = 32
classes = 4
channels = 1
image_size = 12
[batch]
global = 16
[train]
epochs = 2
[sync]
policy = "bsp"
)";

// What the run says, line by line.
class Lines {
 public:
  void add(std::string_view line) {
    const std::lock_guard lock(mutex_);
    text_ += line;
    text_ += '\n';
    changed_.notify_all();
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  // Whether a line has `part`, or gets it within the time.
  bool wait_for(std::string_view part, std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return text_.find(part) != std::string::npos; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
};

class ChiefTest : public ::testing::Test {
 protected:
  ChiefTest()
      : recipe_(parse_recipe(kRecipe, "small.toml")),
        data_(open_data(recipe_, Catalog())),
        flat_(build_model(recipe_, Catalog(), *data_.train)),
        plan_(server_plan(recipe_, flat_.model(), data_.train->size(), 1)),
        weights_(flat_.weights()) {}

  void start_server() {
    server_.emplace(ServerOptions{.map = plan_.map,
                                  .update = plan_.update,
                                  .coordinator = plan_.coordinator,
                                  .run = "small",
                                  .settings = settings_,
                                  .state_folder = folder_.path() / "state"},
                    weights_);
  }
  std::future<Summary> start_chief() {
    return std::async(std::launch::async, [this] {
      Chief chief(recipe_, {.workers = 1,
                            .servers = {server_->address()},
                            .run = "small",
                            .run_folder = {folder_.path() / "run"},
                            .log = &log_});
      return chief.run();
    });
  }
  // Pushes gradients of 0 for all samples, then does `last`, and leaves.
  void work(const std::function<void(ServerWorker&)>& first, const std::function<void(ServerWorker&)>& last) {
    ServerWorker worker({.servers = {server_->address()}, .map = plan_.map, .run = "small", .settings = settings_});
    std::vector<float> parameters(flat_.count());
    const std::vector<float> gradient(flat_.count(), 0.0f);
    std::optional<Assignment> next = worker.join(parameters);
    first(worker);
    while (next) next = worker.push(gradient, next->lease.range.size(), 0.1, parameters);
    last(worker);
    worker.leave();
  }
  std::vector<float> news(double samples, double loss_sum) const {
    return WorkerNews{.samples = samples, .steps = 1, .loss_sum = loss_sum, .statistics = flat_.statistics()}
        .to_numbers();
  }
  CheckpointStore checkpoints() const { return {folder_.path() / "run" / "checkpoints", 3}; }

  const MemoryFolder folder_;
  Lines lines_;
  Log log_{[this](std::string_view line) { lines_.add(line); }};
  Recipe recipe_;
  const DatasetPair data_;
  FlatModel flat_;
  const ServerPlan plan_;
  const std::string settings_ = served_settings(recipe_, data_);
  std::vector<float> weights_;
  std::optional<ParameterServer> server_;
};

TEST_F(ChiefTest, NewsThatAreNotFiniteSpoilNeitherCheckpointsNorWeights) {
  start_server();
  std::future<Summary> chief = start_chief();
  std::vector<float> odd = news(16, 16);
  std::ranges::fill(odd, std::numeric_limits<float>::quiet_NaN());
  const auto say = [&](ServerWorker& worker) { worker.send_statistics(odd); };
  work(say, say);
  const Summary summary = chief.get();
  EXPECT_EQ(summary.samples, 128);
  EXPECT_GE(summary.test_loss, 0);
  EXPECT_THAT(lines_.text(),
              HasSubstr("a worker's news of itself are left out of loss and batch statistics: number 0"));
  const auto newest = checkpoints().find_newest_intact().newest;
  ASSERT_TRUE(newest);
  EXPECT_EQ(read_server_checkpoint(*newest, flat_.model()).state.step, 8);
}

// A worker tells its last news after it has heard that the run is over. The chief's final evaluation waits for it.
TEST_F(ChiefTest, FinalEvaluationHasTheLastNewsOfWorkers) {
  start_server();
  std::future<Summary> chief = start_chief();
  bool evaluated_before = false;
  work([&](ServerWorker& worker) { worker.send_statistics(news(16, 48)); },
       [&](ServerWorker& worker) {
         evaluated_before = lines_.wait_for("epoch 2 ", std::chrono::milliseconds(700));
         worker.send_statistics(news(128, 256));
       });
  EXPECT_EQ(chief.get().train_loss, 2);
  EXPECT_FALSE(evaluated_before);
}

TEST_F(ChiefTest, WeightsThatAreNotFiniteEndTheRunWithoutACheckpoint) {
  weights_[7] = std::numeric_limits<float>::infinity();
  start_server();
  std::future<Summary> chief = start_chief();
  work([](ServerWorker&) {}, [](ServerWorker&) {});
  try {
    chief.get();
    FAIL() << "the run ended well";
  } catch (const TrainingError& error) {
    EXPECT_THAT(error.what(), HasSubstr("is not finite on the servers: the run diverged"));
  }
  EXPECT_TRUE(checkpoints().all().empty());
}

// The worker stays in the first epoch until the chief has done what is due there.
TEST_F(ChiefTest, EvaluatesRecordsAndKeepsCheckpointsWithinAnEpoch) {
  recipe_.train.eval_every_epochs = 0.75;  // all three at step 3, whenever the chief looks
  recipe_.train.log_every_steps = 3;
  recipe_.checkpoint.every_steps = 3;
  start_server();
  std::future<Summary> chief = start_chief();
  ServerWorker worker({.servers = {server_->address()}, .map = plan_.map, .run = "small", .settings = settings_});
  std::vector<float> parameters(flat_.count());
  const std::vector<float> gradient(flat_.count(), 0.0f);
  std::optional<Assignment> next = worker.join(parameters);
  worker.send_statistics(news(48, 96));
  for (int step = 0; step < 3; ++step) next = worker.push(gradient, next->lease.range.size(), 0.1, parameters);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (checkpoints().all().empty() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_EQ(checkpoints().all().size(), 1u);
  EXPECT_EQ(checkpoints().all().front().step, 3);
  EXPECT_THAT(lines_.text(), HasSubstr("epoch 0.75 "));
  EXPECT_THAT(read_file(folder_.path() / "run" / "metrics.jsonl"), HasSubstr("{\"kind\":\"train\",\"step\":3,"));
  while (next) next = worker.push(gradient, next->lease.range.size(), 0.1, parameters);
  worker.leave();
  EXPECT_EQ(chief.get().steps, 8);
}

TEST_F(ChiefTest, AStateThatCannotBeReadIsNamed) {
  start_server();
  std::future<Summary> chief = start_chief();
  work([](ServerWorker&) {}, [](ServerWorker&) {});
  chief.get();
  const CheckpointRef newest = checkpoints().all().back();
  replace_file(newest.folder / "state.json", "{\"step\": null}");
  try {
    read_server_checkpoint(newest, flat_.model());
    FAIL() << "it was read";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("state.json: "));
  }
}

}  // namespace
}  // namespace paceline
