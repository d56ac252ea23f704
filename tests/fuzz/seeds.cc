// Writes the inputs that fuzzing begins with, one folder for each target, with the project's own writers: a format that
// changes gets new seeds by running this again. Files of the corpus with other names stay: libFuzzer found them, or
// they are regressions.
//
// usage: fuzz_seeds CORPUS_FOLDER RECIPE_FOLDER
#include <cstdio>

#include <jpeglib.h>  // expects FILE to be known

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "paceline/codecs/codec.h"
#include "paceline/collectives/reduction_plan.h"
#include "paceline/core/file.h"
#include "paceline/core/recipe.h"
#include "paceline/ps/protocol.h"
#include "paceline/ps/sample_leases.h"
#include "paceline/rendezvous/store_protocol.h"
#include "paceline/train/run_state.h"
#include "tests/fuzz/gzip.h"

namespace paceline::fuzz {
namespace {

std::filesystem::path corpus;

void write(const std::string& target, const std::string& name, const std::string& bytes) {
  std::filesystem::create_directories(corpus / target);
  std::ofstream(corpus / target / ("seed-" + name), std::ios::binary) << bytes;
}

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::string byte(int value) { return std::string(1, static_cast<char>(value)); }
std::string two_bytes(size_t value) { return byte(static_cast<int>(value & 255)) + byte(static_cast<int>(value >> 8)); }
std::string compressed(const std::string& plain) {
  return text_of(gzip({reinterpret_cast<const uint8_t*>(plain.data()), plain.size()}));
}

// ---- rendezvous store ----
template <class Message>
void write_frame(const std::string& name, const Message& message, int limit = 1) {
  write("store", name, byte(limit) + byte(255) + encode(message));
}

void write_store() {
  const RankStatus busy = {
      1, RankStatus::State::busy, {Verb::all_reduce, DType::f32, ReduceOp::sum, -1, 1000, 12}, 1500, ""};
  const RankStatus dead = {
      2, RankStatus::State::dead, {Verb::broadcast, DType::u8, ReduceOp::sum, 0, 64, 3}, 20, "killed by signal 9"};
  const Hello hello = {
      .nonce = std::string(32, 'a'), .rank = 3, .generation = 7, .watching = true, .proof = std::string(64, 'b')};
  write_frame("challenge", Challenge{.nonce = std::string(32, 'c')}, 0);
  write_frame("hello", hello, 0);
  write_frame("welcome", Welcome{.proof = std::string(64, 'd')}, 0);
  write_frame("refusal", Refusal{.why = "another run's rank"}, 0);
  write_frame("set", Set{.request = 1, .key = "world/3", .value = "10.0.0.3:4000"});
  write_frame("stored", Stored{.request = 1});
  write_frame("get", Get{.request = 2, .key = "world/3"});
  write_frame("value", Value{.request = 2, .value = "10.0.0.3:4000"});
  write_frame("report", Report{.group = "world", .members = {0, 1, 2}, .mine = {busy}});
  write_frame("answer", Answer{.group = "world", .mine = {dead}});
  write_frame("failure", Failure{.text = "rank 2 reported: the disk is full"});
  write_frame("farewell", Farewell{});
  for (const auto kind : {StoreNews::Kind::died, StoreNews::Kind::statuses})
    write_frame("news" + std::to_string(static_cast<int>(kind)),
                to_wire(StoreNews{kind, 2, "killed", "world", {busy, dead}}));
  write("store", "several",
        byte(1) + byte(2) + encode(hello) + encode(Get{.request = 2, .key = "k"}) + encode(Farewell{}));
}

// ---- parameter server ----
void write_head(const std::string& name, const Head& head, const std::string& body = "", int codec = 0) {
  const std::string wire = to_wire(head);
  write("server", name, byte(codec) + two_bytes(wire.size()) + wire + body);
}

void write_server() {
  const PushNews news = {.sequence = 4, .version = 3, .samples = 64, .rate = 0.1};
  const SampleLease lease = {.number = 5,
                             .step = 2,
                             .cursor_samples = 128,
                             .global_count = 64,
                             .share = 1,
                             .range = {.epoch = 0, .begin = 160, .end = 192}};
  write_head("hello", HelloHead{PeerRole::worker, 1, 2, 99, 0, std::string(64, 'f'), "run"});
  write_head("hello_of_a_shard", HelloHead{PeerRole::shard, 1, 1, 99, 17, std::string(64, '0'), "run"});
  write_head("welcome", WelcomeHead{0, 2, 12});
  write_head("join", JoinHead{});
  write_head("heartbeat", HeartbeatHead{});
  write_head("leave", LeaveHead{});
  write_head("statistics", StatisticsHead{});
  write_head("go", GoHead{false, {3, 4, lease}, 9});
  write_head("over", GoHead{true, {}, 0});
  write_head("parameters", ParametersHead{3, 9, 0, 100, true});
  for (const auto kind : {Decision::Kind::accumulate, Decision::Kind::apply, Decision::Kind::merge_mean,
                          Decision::Kind::exchange, Decision::Kind::step, Decision::Kind::release})
    write_head("command" + std::to_string(static_cast<int>(kind)), CommandHead{{7, 4, {kind, 1, 3, 64, 0.1, 0.5}}});
  write_head("staged", StagedHead{1, news});
  write_head("report", ReportHead{{7, {64, 2048, 0.5, 0.25}}, {1000, 2000, 0.5}});
  write_head("norms", NormsHead{7, {{1.0, 2.0}, {3.0, 4.0}}});
  write_head("whole_norms", WholeNormsHead{7});
  write_head("forget", ForgetHead{1});
  write_head("observe", ObserveHead{true, false});
  write_head("snapshot", SnapshotHead{3, 7, 3, 0.1, "weights", 0, 10, true});
  write_head("news", NewsHead{7, 1000, 3, 0, false, R"({"gap":1,"staleness":{"0":3}})"});
  const char* codecs[] = {"fp16", "bf16", "int8", "onebit"};
  std::vector<float> values(300);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i) - 1;
  for (int i = 0; i < 4; ++i) {
    const auto codec = builtin_codecs().at(codecs[i])({});
    std::vector<float> wire(codec->most_bytes(values.size()) / sizeof(float) + 1);
    const auto bytes = std::as_writable_bytes(std::span(wire));
    const size_t used = codec->encode(values, bytes, {});
    write_head(std::string("push_") + codecs[i], PushHead{news, 0, values.size(), true},
               {reinterpret_cast<const char*>(bytes.data()), used}, i);
  }
}

// ---- files ----
std::string safetensors(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  return file + header + std::string(data_bytes, '\1');
}

void write_safetensors_files() {
  write("safetensors", "empty", safetensors("{}", 0));
  write(
      "safetensors", "types",
      safetensors(
          R"({"__metadata__":{"step":"17"},"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]},)"
          R"("c":{"dtype":"BF16","shape":[],"data_offsets":[24,26]},"d":{"dtype":"F16","shape":[0,3],"data_offsets":[26,26]},)"
          R"("e":{"dtype":"I64","shape":[1],"data_offsets":[26,34]},"f":{"dtype":"BOOL","shape":[3],"data_offsets":[34,37]}})",
          37));
}

std::string idx(std::vector<uint32_t> dimensions) {
  std::string file = byte(0) + byte(0) + byte(8) + byte(static_cast<int>(dimensions.size()));
  size_t count = 1;
  for (const uint32_t size : dimensions) {
    for (int shift = 24; shift >= 0; shift -= 8) file += byte(static_cast<int>(size >> shift & 255));
    count *= size;
  }
  for (size_t i = 0; i < count; ++i) file += byte(static_cast<int>(i % 10));
  return file;
}

void write_data_files() {
  const std::string labels = idx({5}), images = idx({5, 4, 3});
  write("idx", "plain", two_bytes(labels.size()) + labels + images);
  write("idx", "compressed", two_bytes(compressed(labels).size()) + compressed(labels) + compressed(images));
  write("gzip", "images", byte(3) + compressed(images));
  write("gzip", "labels", byte(1) + compressed(labels));
  write("gzip", "members", byte(1) + compressed(labels.substr(0, 6)) + compressed(labels.substr(6)));
  write("gzip", "plain", byte(1) + labels);
  const std::string pixels(3072, '\x40');
  write("cifar", "10", byte(0) + byte(1) + byte(7) + pixels);
  write("cifar", "100", byte(1) + byte(2) + byte(3) + byte(77) + pixels + byte(19) + byte(99) + pixels);
}

std::string jpeg(int components, bool progressive, int restart) {
  jpeg_compress_struct work = {};
  jpeg_error_mgr errors = {};
  work.err = jpeg_std_error(&errors);  // ends the program on an error
  jpeg_create_compress(&work);
  unsigned char* data = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&work, &data, &count);
  work.image_width = work.image_height = 16;
  work.input_components = components;
  work.in_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&work);
  jpeg_set_quality(&work, 50, TRUE);
  if (progressive) jpeg_simple_progression(&work);
  work.restart_interval = static_cast<unsigned>(restart);
  jpeg_start_compress(&work, TRUE);
  std::vector<uint8_t> row(16 * static_cast<size_t>(components));
  JSAMPROW rows = row.data();
  for (int y = 0; y < 16; ++y) {
    for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<uint8_t>(i * 13 + static_cast<size_t>(y) * 29);
    jpeg_write_scanlines(&work, &rows, 1);
  }
  jpeg_finish_compress(&work);
  const std::string file(reinterpret_cast<char*>(data), count);
  jpeg_destroy_compress(&work);
  std::free(data);
  return file;
}

void write_jpegs() {
  write("jpeg", "grey", jpeg(1, false, 0));
  write("jpeg", "colour", jpeg(3, false, 0));
  write("jpeg", "progressive", jpeg(3, true, 0));
  write("jpeg", "restarts", jpeg(3, false, 1));
  write("jpeg", "cmyk", jpeg(4, false, 0));
}

// ---- texts ----
void write_recipes(const std::filesystem::path& recipes) {
  for (const char* name : {"fashion_mnist", "lu_hybrid", "mikami_exp3", "fashion_mnist_server"})
    write("recipe", name, read_file(recipes / (std::string(name) + ".toml")));
  write("recipe", "empty", "");
  write("recipe", "set",
        read_file(recipes / "fashion_mnist.toml") + byte(0) + "train.epochs=2" + byte(0) + "comm.bucket_bytes=4MiB" +
            byte(0) + "batch.local=32" + byte(0) + "optimizer.name=lars" + byte(0) + "schedule.milestones=[1, 2.5]");
  write("recipe", "every_key", print_recipe(Recipe()));
}

void write_checkpoints() {
  RunState state;
  state.step = 50;
  state.cursor_samples = 1600;
  state.train_seconds = 1.5;
  write("checkpoint", "state", byte(0) + nlohmann::json(state).dump());
  ReductionPlan plan = {
      .made_for = "4 ranks, shm", .algorithms = {.grid = {2, 2}, .measured = true, .steps = {}}, .buckets = {}};
  plan.buckets = plan_buckets(std::vector<size_t>{9, 64, 1000}, 256, 512);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64})
    plan.algorithms.steps[dtype] = {{4096, "direct"}, {kAnySize, "ring"}};
  write("checkpoint", "plan", byte(1) + print_reduction_plan(plan));
  SampleLeases leases({.data_size = 100, .total_samples = 300, .global_batch = 30, .workers = 3});
  write("checkpoint", "leases_begin", byte(2) + leases.save());
  leases.lease(0);
  leases.lease(1);
  leases.lease(2);
  leases.use(1);
  leases.give_back(2);
  write("checkpoint", "leases", byte(2) + leases.save());
}

}  // namespace
}  // namespace paceline::fuzz

int main(int count, char** words) {
  using namespace paceline::fuzz;
  if (count != 3) {
    std::fprintf(stderr, "usage: fuzz_seeds CORPUS_FOLDER RECIPE_FOLDER\n");
    return 2;
  }
  corpus = words[1];
  write_store();
  write_server();
  write_safetensors_files();
  write_data_files();
  write_jpegs();
  write_recipes(words[2]);
  write_checkpoints();
}
