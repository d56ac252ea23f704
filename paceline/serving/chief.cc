#include "paceline/serving/chief.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "paceline/comm/engine_local.h"
#include "paceline/core/file.h"
#include "paceline/core/number_text.h"
#include "paceline/models/state.h"
#include "paceline/schedule/from_recipe.h"
#include "paceline/serving/last_seen.h"
#include "paceline/serving/served_settings.h"
#include "paceline/serving/server_checkpoint.h"
#include "paceline/serving/server_state.h"
#include "paceline/train/assemble.h"
#include "paceline/train/divergence.h"
#include "paceline/train/finite_model.h"

namespace paceline {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(200);
constexpr int64_t kLastWordsNs = 10'000'000'000;  // of a worker that is alive; a busy machine takes its time
constexpr double kNoteEverySeconds = 1;  // how far the run is, in a file

}  // namespace

Chief::Chief(Recipe recipe, ChiefOptions options)
    : recipe_(std::move(recipe)),
      options_(std::move(options)),
      alone_(make_local_group()),
      device_(open_device(recipe_, *alone_)),
      data_(open_data(recipe_, options_.catalog)),
      flat_(placed_on(device_, build_model(recipe_, options_.catalog, *data_.train))),
      plan_(server_plan(recipe_, flat_.model(), data_.train->size(), options_.workers)),
      batch_(batch_schedule(recipe_, options_.workers, data_.train->size())),
      length_(run_length(recipe_.train, batch_, data_.train->size())),
      evaluator_(data_, recipe_, *alone_, device_, options_.stop),
      checkpoints_(options_.run_folder.checkpoints(), recipe_.checkpoint.keep, options_.log),
      book_(recipe_, state_, data_, length_,
            {.folder = options_.run_folder, .log = options_.log, .progress = options_.progress}) {
  if (options_.from) state_ = read_server_checkpoint(*options_.from, flat_.model()).state;
  statistics_count_ = flat_.statistics().size();
  recorded_step_ = state_.step;
  if (options_.goes_on) {  // times and best results are those of the last checkpoint; the rest is the servers' to say
    const CheckpointStore::Search search = checkpoints_.find_newest_intact();
    checkpoints_.set_aside(search.damaged);
    if (search.newest) state_ = read_server_checkpoint(*search.newest, flat_.model()).state;
    recorded_step_ = last_seen_updates(options_.run_folder);
  }
  first_seconds_ = state_.train_seconds;
  state_.seed = recipe_.train.seed;
}

Chief::~Chief() = default;

Summary Chief::run() {
  if (options_.log) {
    options_.log->info("training {} ({} parameters) on {}: {} images, {:.4g} epoch{}; {}: {} worker{}, {} server{}",
                       recipe_.model.name, with_commas(flat_.count()), recipe_.data.name,
                       with_commas(data_.train->size()), length_.epochs, length_.epochs == 1 ? "" : "s",
                       recipe_.sync.policy, options_.workers, options_.workers == 1 ? "" : "s", options_.servers.size(),
                       options_.servers.size() == 1 ? "" : "s");
    if (const std::string remark = plan_remark(recipe_); !remark.empty()) options_.log->info("{}", remark);
  }
  observer_ = std::make_unique<ServerObserver>(WorkerOptions{.servers = options_.servers,
                                                             .map = plan_.map,
                                                             .run = options_.run,
                                                             .settings = served_settings(recipe_, data_),
                                                             .security = options_.security,
                                                             .patience_ms = options_.patience_ms,
                                                             .stop = options_.servers_gone,
                                                             .log = options_.log});
  begun_ns_ = clock_.now_ns();
  book_.pause();
  if (options_.may_begin) {
    check_state_of_servers();
    options_.may_begin();
  }
  make_directories(options_.run_folder.root);
  replace_file(options_.run_folder.recipe(), print_recipe(recipe_));
  book_.open(recorded_step_);
  while (ending_.empty()) {
    const double epoch_before = book_.epoch();
    const int64_t step_before = state_.step;
    look(/*weights=*/false);
    const bool to_come = state_.cursor_samples < plan_.coordinator.plan.total_samples;  // the last line has all news
    if (to_come && state_.step - recorded_step_ >= recipe_.train.log_every_steps) record();
    do_what_is_due(step_before, epoch_before);
    show_progress();
    if (book_.reached_target()) {
      ending_ = "target";
    } else if (seen_.over) {
      ending_ = recipe_.train.max_steps > 0 && book_.epoch() < length_.epochs ? "max_steps" : "epochs";
    } else if (options_.stop.stop_requested()) {
      ending_ = "interrupted";
    } else {
      std::this_thread::sleep_for(kLookEvery);
    }
  }
  if (seen_.over) wait_for_last_words();
  if (evaluating_) end_evaluation();
  if (state_.step > recorded_step_) record();
  if (ending_ != "target") {
    look(/*weights=*/true);
    begin_evaluation();
    end_evaluation();
  }
  if (ending_ != "interrupted") {
    if (state_.test_loss < 0) require_finite_weights();  // then their name tells more
    book_.require_finite_test();
  }
  write_checkpoint();
  show_progress();
  book_.end_progress();
  return summarise();
}

// A checkpoint comes after the evaluation of its time, whose results it holds; and before the next one: where an epoch
// is shorter than an evaluation, another is always due.
void Chief::do_what_is_due(int64_t step_before, double epoch_before) {
  const bool evaluated = evaluating_ && evaluation_is_done();
  if (evaluated) end_evaluation();
  if (seen_.over) return;  // what is done at the end is due then
  evaluation_due_ |= passes_multiple(epoch_before, book_.epoch(), recipe_.train.eval_every_epochs);
  checkpoint_due_ |= checkpoint_is_due(recipe_.checkpoint, {step_before, epoch_before}, {state_.step, book_.epoch()});
  if (evaluating_) return;
  if (checkpoint_due_ && (evaluated || !evaluation_due_)) {
    checkpoint_due_ = false;
    write_checkpoint();
  } else if (evaluation_due_) {
    evaluation_due_ = false;
    look(/*weights=*/true);
    if (!seen_.over) begin_evaluation();
  }
}

// Servers keep their state when they are stopped: a new run must not go on with it unseen, nor a run that goes on with
// servers that began anew.
void Chief::check_state_of_servers() {
  const uint64_t kept = state_.cursor_samples;
  look(/*weights=*/false);
  if (options_.goes_on) {
    if (seen_.used_samples >= kept) return;
    throw UsageError(fmt::format(
        "the servers have used {} samples of this run, its newest checkpoint {}: they have lost their state "
        "and begun anew; stop them, and start them with 'paceline serve --checkpoint {}'",
        seen_.used_samples, kept, checkpoints_.find_newest_intact().newest->folder.string()));
  }
  const bool begun = options_.workers_elsewhere ? has_pushed(seen_.metrics, 0) : seen_.used_samples > 0;
  if (!begun) return;
  throw UsageError(
      fmt::format("the servers are in the middle of a run (update {}, {} samples used): look after it again with "
                  "--resume and its --out, or stop the servers and begin anew with 'paceline serve --fresh'",
                  seen_.first_update + seen_.version, seen_.used_samples));
}

// Workers tell what they have seen of batch statistics now and then, and once more before they leave: without that the
// last evaluation would depend on who was quicker. One that died is not waited for.
void Chief::wait_for_last_words() {
  const int64_t until_ns = clock_.now_ns() + kLastWordsNs;
  while (connected_workers(seen_.metrics) > 0 && clock_.now_ns() < until_ns) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    look(/*weights=*/false);
  }
}

void Chief::look(bool weights) {
  take(observer_->observe({.weights = weights, .states = false}));
  if (weights) load_weights();
}

void Chief::take(ServerSnapshot snapshot) {
  const uint64_t before = state_.cursor_samples;
  const int64_t now_ns = clock_.now_ns();
  seen_ = std::move(snapshot);
  if (seen_.over && !over_ns_) over_ns_ = now_ns;
  state_.cursor_samples = seen_.used_samples;
  state_.step = step();
  state_.train_seconds = first_seconds_ + seconds_between(begun_ns_, over_ns_.value_or(now_ns));
  options_.looked(seen_.used_samples);
  if (book_.is_open() && state_.train_seconds - noted_seconds_ >= kNoteEverySeconds && state_.step > 0) {
    note_last_seen(options_.run_folder, state_.step);
    noted_seconds_ = state_.train_seconds;
  }
  book_.note_samples(state_.cursor_samples - before);
  news_.clear();
  for (const std::vector<float>& numbers : seen_.statistics) {
    if (const std::string why = WorkerNews::why_no_news(numbers, statistics_count_); !why.empty()) {
      if (options_.log && !odd_news_told_)
        options_.log->warning("a worker's news of itself are left out of loss and batch statistics: {}", why);
      odd_news_told_ = true;
      continue;
    }
    news_.push_back(WorkerNews::from_numbers(numbers));
  }
  window_.see(news_);
  if (window_.sums().samples <= 0) return;
  state_.train_loss = window_.sums().mean_loss();
  state_.train_accuracy = window_.sums().accuracy();
}

int64_t Chief::step() const {
  if (!updates_alone(recipe_)) return static_cast<int64_t>(seen_.first_update + seen_.version);
  const uint64_t each = own_batch(recipe_, options_.workers);
  return static_cast<int64_t>((seen_.used_samples + each - 1) / each);
}

// No line while no worker has told anything new: it would tell of the window before.
void Chief::record() {
  if (window_.sums().samples <= 0) return;
  Recorder::Values values = {{"loss", state_.train_loss},
                             {"accuracy", state_.train_accuracy},
                             {"images_per_second", book_.samples_per_second()}};
  for (const auto& [name, value] : figures_of(seen_.metrics)) values.emplace_back(name, value);
  book_.record("train", values);
  for (const WorkerNews& news : news_) {
    const NewsWindow::Sums sums = window_.of_worker(news.worker);
    book_.record_of("worker", std::to_string(news.worker),
                    {{"loss", sums.samples > 0 ? sums.mean_loss() : NAN},
                     {"samples", news.samples},
                     {"steps", news.steps},
                     {"rate", news.rate},
                     {"compute_ms", news.compute_ms},
                     {"push_ms", news.push_ms},
                     {"wait_ms", news.wait_ms},
                     {"pull_ms", news.pull_ms}});
  }
  for (const auto& [shard, values_of_shard] : figures_of_shards(seen_.metrics))
    book_.record_of("shard", shard, values_of_shard);
  window_.close();
  recorded_step_ = state_.step;
}

void Chief::load_weights() {
  flat_.load(seen_.states.at("weights"));
  std::vector<std::span<const float>> statistics;
  for (const WorkerNews& news : news_) statistics.emplace_back(news.statistics);
  flat_.load_mean_statistics(statistics);
}

void Chief::begin_evaluation() {
  evaluating_ = Evaluating{.place = book_.here(), .from_ns = clock_.now_ns()};
  evaluating_->result = std::async(std::launch::async, [this] { return evaluator_(flat_.model()); });
}

bool Chief::evaluation_is_done() const {
  return evaluating_->result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void Chief::end_evaluation() {
  Evaluating of = *std::exchange(evaluating_, std::nullopt);
  if (const std::optional<Evaluation> evaluation = of.result.get())
    book_.note_evaluation(*evaluation, of.place, seconds_between(of.from_ns, clock_.now_ns()));
  else
    ending_ = "interrupted";
}

void Chief::write_checkpoint() {
  take(observer_->observe({.weights = true, .states = true}));
  load_weights();
  book_.flush();
  require_finite_weights();
  write_server_checkpoint(checkpoints_, flat_.model(), seen_, state_, print_recipe(recipe_));
}

// A checkpoint of weights that are not finite would push out one that can be used, and servers never recover from them.
void Chief::require_finite_weights() {
  const std::string first = first_not_finite(flat_.model());
  if (first.empty()) return;
  throw DivergenceError(
      fmt::format("step {} (epoch {:.4g}): {} is not finite on the servers: the run diverged, and no checkpoint was "
                  "written of it; {}",
                  state_.step, book_.epoch(), first, kAgainstDivergence));
}

void Chief::show_progress() {
  book_.show_progress(state_.train_loss, state_.train_accuracy,
                      step_takes(recipe_) == StepTakes::batch ? std::max(length_.steps, state_.step) : 0);
}

// Of the workers that are there at the end, over all their steps. Nothing of it is hidden behind computing yet.
GroupCosts Chief::costs() const {
  std::vector<StepCosts> of_workers;
  for (const WorkerNews& news : news_) {
    const double seconds = 1e-3 * news.steps;
    of_workers.push_back({.steps = static_cast<int64_t>(news.steps),
                          .step_s = seconds * (news.compute_ms + news.push_ms + news.wait_ms + news.pull_ms),
                          .compute_s = seconds * news.compute_ms,
                          .communication_s = seconds * (news.push_ms + news.pull_ms),
                          .waiting_s = seconds * (news.push_ms + news.wait_ms + news.pull_ms)});
  }
  return group_costs(of_workers);
}

Summary Chief::summarise() {
  const auto batch = static_cast<int64_t>(batch_.at(book_.epoch()));
  const StepTakes takes = step_takes(recipe_);
  const int64_t mean =
      state_.step > 0 ? std::llround(static_cast<double>(state_.cursor_samples) / static_cast<double>(state_.step)) : 0;
  Summary summary = book_.summary(ending_);
  summary.engine = "grpc";
  summary.parameters = static_cast<int64_t>(flat_.count());
  summary.ranks = options_.workers;
  summary.threads = std::max<int64_t>(recipe_.train.threads, 1);
  summary.global_batch = batch;
  summary.step_samples = takes == StepTakes::batch   ? batch
                         : takes == StepTakes::share ? std::max<int64_t>(1, batch / options_.workers)
                                                     : mean;
  summary.step_samples_vary = takes == StepTakes::varies;
  summary.evaluates_meanwhile = true;
  summary.costs = costs();
  summary.weights_sha256 = weights_sha256(flat_.model());
  book_.leave(summary);
  replace_file(options_.run_folder.root / "sync.json", nlohmann::json::parse(seen_.metrics).dump(2) + "\n");
  return summary;
}

}  // namespace paceline
