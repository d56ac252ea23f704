#include "paceline/ps/protocol.h"

#include <gmock/gmock.h>

#include <limits>

#include "paceline/core/error.h"
#include "paceline/core/random.h"
#include "paceline/ps/transport.h"

namespace paceline {
namespace {

using testing::HasSubstr;

const std::string kFingerprint = std::string(60, 'a') + "09bf";
const PushNews kPush = {.sequence = 7, .version = 12, .samples = 256, .rate = 0.1};
const SampleLease kLease = {.number = 9,
                            .step = 4,
                            .cursor_samples = 1000,
                            .global_count = 500,
                            .share = 1,
                            .range = {.epoch = 2, .begin = 100, .end = 350}};

// One of every kind, in the order of the variant.
std::vector<Head> examples() {
  const Command command = {.index = 3,
                           .sequence = 7,
                           .decision = {.kind = Decision::Kind::merge, .worker = 2, .version = 1, .factor = -0.5}};
  return {
      HelloHead{.role = PeerRole::shard,
                .id = 3,
                .incarnation = ~uint64_t{0},
                .executed = 88,
                .fingerprint = kFingerprint,
                .run = "a run",
                .history = ~uint64_t{0} - 1,
                .settings = "a.key = 1\n"},
      WelcomeHead{.shard = 1, .shards = 2, .version = 5, .history = 1},
      JoinHead{},
      HeartbeatHead{},
      LeaveHead{},
      PushHead{.push = kPush, .offset = 1024, .count = 512, .last = true},
      StatisticsHead{},
      GoHead{.assignment = {.version = 12, .sequence = 8, .lease = kLease}},
      ParametersHead{.version = 12, .index = 99, .offset = 5, .count = 6, .last = true},
      CommandHead{.command = command},
      StagedHead{.worker = 4, .push = kPush},
      ReportHead{.report = {.index = 5, .noise = {.samples = 1, .samples_squared = 2, .mean_norm2 = 3, .spread = 4}},
                 .load = {.bytes_in = 6, .bytes_out = 7, .busy_s = 0.5}},
      NormsHead{.index = 6},
      WholeNormsHead{.index = 7},
      ForgetHead{.worker = 8},
      ObserveHead{.weights = true, .states = false},
      SnapshotHead{
          .version = 2, .index = 3, .steps = 6, .rate = 0.5, .state = "weights", .offset = 4, .count = 5, .last = true},
      NewsHead{.index = 1, .used_samples = 2, .steps = 3, .first_update = 4, .over = true, .metrics = "{\"k\": 4}"},
      MissingHead{.worker = 9, .sequence = 10}};
}

template <class T>
T there_and_back(const T& head) {
  return std::get<T>(head_from(to_wire(head)));
}

std::string refusal(const Head& head) {
  try {
    head_from(to_wire(head));
  } catch (const PeerError& error) {
    return error.what();
  }
  return "";
}

TEST(Protocol, EveryKindComesBackAsItWas) {
  const std::vector<Head> heads = examples();
  ASSERT_EQ(heads.size(), std::variant_size_v<Head>);
  for (size_t kind = 0; kind < heads.size(); ++kind) {
    ASSERT_EQ(heads[kind].index(), kind);
    const std::string wire = to_wire(heads[kind]);
    const Head back = head_from(wire);
    EXPECT_EQ(back.index(), kind);
    EXPECT_EQ(to_wire(back), wire) << kind;
  }
}

TEST(Protocol, EveryFieldComesBack) {
  const auto hello = there_and_back(std::get<HelloHead>(examples()[0]));
  EXPECT_EQ(hello.role, PeerRole::shard);
  EXPECT_EQ(hello.protocol, kServerProtocol);
  EXPECT_EQ(hello.history, ~uint64_t{0} - 1);
  EXPECT_EQ(hello.settings, "a.key = 1\n");
  EXPECT_EQ(hello.id, 3);
  EXPECT_EQ(hello.incarnation, ~uint64_t{0});
  EXPECT_EQ(hello.executed, 88u);
  EXPECT_EQ(hello.fingerprint, kFingerprint);
  EXPECT_EQ(hello.run, "a run");
  const auto push = there_and_back(std::get<PushHead>(examples()[5]));
  EXPECT_EQ(push.push, kPush);
  EXPECT_EQ(push.offset, 1024u);
  EXPECT_EQ(push.count, 512u);
  EXPECT_TRUE(push.last);
  const auto go = there_and_back(std::get<GoHead>(examples()[7]));
  EXPECT_FALSE(go.over);
  EXPECT_EQ(go.assignment, (Assignment{.version = 12, .sequence = 8, .lease = kLease}));
  EXPECT_TRUE(there_and_back(GoHead{.over = true}).over);
  EXPECT_EQ(there_and_back(std::get<CommandHead>(examples()[9])).command, std::get<CommandHead>(examples()[9]).command);
  const ReportHead reported = there_and_back(std::get<ReportHead>(examples()[11]));
  EXPECT_EQ(reported.load.bytes_in, 6u);
  EXPECT_EQ(reported.load.bytes_out, 7u);
  EXPECT_EQ(reported.load.busy_s, 0.5);
  const ShardReport& report = reported.report;
  EXPECT_EQ(report.index, 5u);
  EXPECT_EQ(report.noise.samples, 1);
  EXPECT_EQ(report.noise.samples_squared, 2);
  EXPECT_EQ(report.noise.mean_norm2, 3);
  EXPECT_EQ(report.noise.spread, 4);
  const auto norms = norms_from(body_of({{.weights = 1.5, .gradient = 2}, {.weights = 0, .gradient = 1e300}}));
  ASSERT_EQ(norms.size(), 2u);
  EXPECT_EQ(norms[1].gradient, 1e300);
  EXPECT_EQ(there_and_back(std::get<MissingHead>(examples()[18])).worker, 9);
  EXPECT_EQ(there_and_back(std::get<MissingHead>(examples()[18])).sequence, 10u);
  const auto snapshot = there_and_back(std::get<SnapshotHead>(examples()[16]));
  EXPECT_EQ(snapshot.state, "weights");
  EXPECT_EQ(snapshot.count, 5u);
  const auto news = there_and_back(std::get<NewsHead>(examples()[17]));
  EXPECT_EQ(news.used_samples, 2u);
  EXPECT_EQ(news.metrics, "{\"k\": 4}");
}

TEST(Protocol, IsLittleEndianAfterTheKind) {
  const std::string wire = to_wire(StagedHead{.worker = 0x0102, .push = kPush});
  EXPECT_EQ(wire.substr(0, 6), std::string({10, 2, 1, 0, 0, 7}));
  EXPECT_EQ(wire.size(), 1u + 4 + 4 * 8);
}

TEST(Protocol, TheLargestHeadsFitIntoAMessage) {
  EXPECT_LE(to_wire(NewsHead{.metrics = std::string(32 * 1024, ' ')}).size(), kMostHeadBytes);
  const Body most = body_of(std::vector<SquaredNorms>(kMostNorms));
  EXPECT_LE(most.size(), TransportLimits{}.body_bytes);
  EXPECT_EQ(norms_from(most).size(), kMostNorms);
  EXPECT_THROW(norms_from(body_of(std::vector<SquaredNorms>(kMostNorms + 1))), PeerError);
  EXPECT_THROW(norms_from(Body(std::as_bytes(std::span("12345678", 8)), nullptr)), PeerError);
}

TEST(Protocol, WhatIsOutOfRangeIsRefused) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const auto hello = [](auto change) {
    HelloHead head = std::get<HelloHead>(examples()[0]);
    change(head);
    return refusal(head);
  };
  const auto staged = [](auto change) {
    StagedHead head = {.worker = 4, .push = kPush};
    change(head);
    return refusal(head);
  };
  const auto go = [](auto change) {
    GoHead head = std::get<GoHead>(examples()[7]);
    change(head.assignment);
    return refusal(head);
  };
  EXPECT_EQ(hello([](HelloHead&) {}), "");
  EXPECT_THAT(hello([](HelloHead& h) { h.protocol = 1; }), HasSubstr("protocol 1"));
  EXPECT_THAT(hello([](HelloHead& h) { h.role = static_cast<PeerRole>(3); }), HasSubstr("unknown kind"));
  EXPECT_THAT(hello([](HelloHead& h) { h.id = -1; }), HasSubstr("negative"));
  EXPECT_THAT(hello([](HelloHead& h) { h.fingerprint.pop_back(); }), HasSubstr("fingerprint"));
  EXPECT_THAT(hello([](HelloHead& h) { h.fingerprint[3] = 'G'; }), HasSubstr("fingerprint"));
  EXPECT_EQ(staged([](StagedHead&) {}), "");
  EXPECT_THAT(staged([](StagedHead& h) { h.worker = -1; }), HasSubstr("negative"));
  EXPECT_THAT(staged([](StagedHead& h) { h.push.sequence = 0; }), HasSubstr("out of range"));
  EXPECT_THAT(staged([](StagedHead& h) { h.push.samples = 0; }), HasSubstr("out of range"));
  EXPECT_THAT(staged([](StagedHead& h) { h.push.samples = (uint64_t{1} << 40) + 1; }), HasSubstr("out of range"));
  EXPECT_THAT(staged([](StagedHead& h) { h.push.version = ~uint64_t{0}; }), HasSubstr("out of range"));
  EXPECT_THAT(staged([](StagedHead& h) { h.push.rate = -0.1; }), HasSubstr("rate"));
  EXPECT_THAT(staged([](StagedHead& h) { h.push.rate = kInfinite; }), HasSubstr("rate"));
  EXPECT_EQ(go([](Assignment&) {}), "");
  EXPECT_THAT(go([](Assignment& a) { a.sequence = 0; }), HasSubstr("out of range"));
  EXPECT_THAT(go([](Assignment& a) { a.lease.range.end = a.lease.range.begin; }), HasSubstr("no samples"));
  EXPECT_THAT(go([](Assignment& a) { a.lease.global_count = 10; }), HasSubstr("larger than its batch"));
  EXPECT_THAT(refusal(WelcomeHead{.shard = 2, .shards = 2}), HasSubstr("shard"));
  EXPECT_THAT(refusal(PushHead{.push = kPush, .offset = ~uint64_t{0}}), HasSubstr("out of range"));
  EXPECT_THAT(refusal(CommandHead{}), HasSubstr("command"));
}

TEST(Protocol, TextsAreNotLongerThanAgreed) {
  const auto text_of = [](std::string wire, size_t at, uint32_t size) {  // claims another length, and has it
    for (int i = 0; i < 4; ++i) wire[at + static_cast<size_t>(i)] = static_cast<char>(size >> (8 * i));
    wire.append(size, 'x');
    try {
      head_from(wire);
    } catch (const PeerError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string hello = to_wire(HelloHead{.fingerprint = kFingerprint});
  EXPECT_EQ(text_of(hello, hello.size() - 4, 16 * 1024), "");
  EXPECT_THAT(text_of(hello, hello.size() - 4, 16 * 1024 + 1), HasSubstr("too long"));
  EXPECT_EQ(
      std::get<HelloHead>(head_from(to_wire(HelloHead{.fingerprint = kFingerprint, .run = std::string(200, 'r')})))
          .run.size(),
      200u);
  const std::string news = to_wire(NewsHead{.index = 1});
  EXPECT_EQ(text_of(news, news.size() - 4, 32 * 1024), "");
  EXPECT_THAT(text_of(news, news.size() - 4, 32 * 1024 + 1), HasSubstr("too long"));
  EXPECT_THROW(to_wire(HelloHead{.fingerprint = kFingerprint, .run = std::string(201, 'r')}), InternalError);
  EXPECT_THROW(to_wire(HelloHead{.fingerprint = kFingerprint, .settings = std::string(16 * 1024 + 1, 's')}),
               InternalError);
}

TEST(Protocol, EveryOtherLengthIsRefused) {
  EXPECT_THROW(head_from(""), PeerError);
  EXPECT_THROW(head_from(std::string(1, '\x7f')), PeerError);
  for (const Head& head : examples()) {
    const std::string wire = to_wire(head);
    for (size_t size = 0; size < wire.size(); ++size) EXPECT_THROW(head_from(wire.substr(0, size)), PeerError);
    EXPECT_THROW(head_from(wire + '\0'), PeerError);
  }
}

TEST(Protocol, GarbageIsRefusedOrAValidHead) {
  const std::vector<Head> heads = examples();
  const RandomKey key(20);
  uint64_t drawn = 0;
  const auto below = [&](uint64_t bound) { return key.below(drawn++, bound); };
  int valid = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string wire = to_wire(heads[below(heads.size())]);
    const uint64_t what = below(4);
    for (uint64_t changes = below(4) + 1; what != 3 && changes > 0; --changes)
      wire[below(wire.size())] = static_cast<char>(below(256));
    if (what == 1) wire.resize(below(wire.size() + 1));
    if (what == 2) wire.append(below(20), static_cast<char>(below(256)));
    if (what == 3)
      for (char& byte : wire) byte = static_cast<char>(below(256));
    try {
      const Head head = head_from(wire);
      ASSERT_EQ(to_wire(head), wire);  // it says what it said
      ++valid;
    } catch (const PeerError&) {
    }
  }
  EXPECT_GT(valid, 1000);
}

}  // namespace
}  // namespace paceline
