#include "paceline/rendezvous/store_protocol.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

Frame only_frame(const std::string& bytes) {
  FrameReader reader(kFrameBytes);
  reader.input() = bytes;
  return *reader.next();
}

RankStatus busy_status() {
  return {.rank = 3,
          .state = RankStatus::State::busy,
          .operation = {Verb::broadcast, DType::bf16, ReduceOp::max, -1, 1ULL << 40, ~0ULL},
          .for_ms = -1,
          .detail = std::string("zero \0 inside", 13),
          .chore = Chore::data,
          .chore_ms = 5,
          .since_work_ms = 6,
          .silent_ms = 7};
}

StoreNews some_news() {
  return {
      .kind = StoreNews::Kind::statuses, .rank = -7, .text = "", .group = "world/0:1", .statuses = {busy_status(), {}}};
}

std::string error_of(std::string bytes) {
  FrameReader reader(100);
  reader.input() = std::move(bytes);
  try {
    if (const auto frame = reader.next()) decode<Stored>(*frame);
  } catch (const ProtocolError& error) {
    return error.what();
  }
  return "no error";
}

TEST(StoreProtocol, WhatIsSentIsWhatArrives) {
  const StoreNews news = from_wire(decode<News>(only_frame(encode(to_wire(some_news())))));
  EXPECT_EQ(news.kind, StoreNews::Kind::statuses);
  EXPECT_EQ(news.rank, -7);
  EXPECT_EQ(news.group, "world/0:1");
  ASSERT_EQ(news.statuses.size(), 2U);
  EXPECT_EQ(news.statuses[0].rank, 3);
  EXPECT_EQ(news.statuses[0].state, RankStatus::State::busy);
  EXPECT_EQ(news.statuses[0].operation, busy_status().operation);
  EXPECT_EQ(news.statuses[0].for_ms, -1);
  EXPECT_EQ(news.statuses[0].detail, busy_status().detail);
  EXPECT_EQ(news.statuses[0].chore, Chore::data);
  EXPECT_EQ(news.statuses[0].chore_ms, 5);
  EXPECT_EQ(news.statuses[0].since_work_ms, 6);
  EXPECT_EQ(news.statuses[0].silent_ms, 7);
  EXPECT_EQ(news.statuses[1].state, RankStatus::State::unknown);

  const auto hello = decode<Hello>(only_frame(encode(Hello{"n", 5, 1ULL << 63, true, "p"})));
  EXPECT_EQ(hello.generation, 1ULL << 63);
  EXPECT_TRUE(hello.watching);
  EXPECT_EQ(hello.proof, "p");
  decode<Farewell>(only_frame(encode(Farewell{})));
}

TEST(StoreProtocol, AValuesHeadAndItsBytesAreAWholeFrame) {
  EXPECT_EQ(encode_value_head(7, 3) + "abc", encode(Value{7, "abc"}));
  EXPECT_EQ(encode_value_head(7, 0), encode(Value{7, ""}));
}

TEST(StoreProtocol, AMessageCutShortAnywhereIsAnError) {
  const Frame whole = only_frame(encode(to_wire(some_news())));
  for (size_t bytes = 0; bytes < whole.fields.size(); ++bytes)
    EXPECT_THROW(decode<News>({whole.kind, whole.fields.substr(0, bytes)}), ProtocolError) << bytes;
  EXPECT_THROW(decode<News>({whole.kind, whole.fields + "x"}), ProtocolError);
}

TEST(StoreProtocol, ValuesThatNoWriterHasAreErrors) {
  Frame frame = only_frame(encode(to_wire(some_news())));
  frame.fields[0] = 5;  // a kind of news after the last
  EXPECT_THROW(decode<News>(frame), ProtocolError);
  EXPECT_THROW(decode<Hello>(only_frame(encode(Farewell{}))), ProtocolError);
}

TEST(StoreProtocol, ProofsOfTheTwoEndsDiffer) {
  const Secret secret("s");
  const Hello hello{"nonce", 1, 2, true, {}};
  EXPECT_NE(client_proof(secret, "n", hello), server_proof(secret, "n", hello));
  const Hello other{"nonce", 1, 2, false, {}};
  EXPECT_NE(client_proof(secret, "n", hello), client_proof(secret, "n", other));
  EXPECT_NE(client_proof(secret, "n", hello), client_proof(secret, "m", hello));
}

TEST(FrameReader, CutsAStreamOfAnyPiecesIntoFrames) {
  std::string stream;
  for (uint64_t i = 0; i < 100; ++i) stream += encode(Set{i, "key", std::string(i, 'v')});
  for (const size_t piece : {1, 2, 7, 1000, 1'000'000}) {
    FrameReader reader(kFrameBytes);
    uint64_t next = 0;
    for (size_t at = 0; at < stream.size(); at += piece) {
      reader.input() += stream.substr(at, piece);
      while (const auto frame = reader.next()) {
        const auto set = decode<Set>(*frame);
        EXPECT_EQ(set.request, next);
        EXPECT_EQ(set.value.size(), next++);
      }
    }
    EXPECT_EQ(next, 100U);
  }
}

TEST(FrameReader, ChecksLengthAndKindBeforeTheRestHasCome) {
  EXPECT_EQ(error_of(std::string("\xff\xff\xff\xff\x00", 5)), "a frame of 4294967295 bytes");
  EXPECT_EQ(error_of(std::string("\x65\x00\x00\x00\x00", 5)), "a frame of 101 bytes");
  EXPECT_EQ(error_of(std::string("\x00\x00\x00\x00\x00", 5)), "a frame of 0 bytes");
  EXPECT_EQ(error_of(std::string("\x64\x00\x00\x00\x0d", 5)), "a frame of kind 13");
  EXPECT_EQ(error_of("GET / HTTP/1.1\r\n"), "a frame of 542393671 bytes");
  EXPECT_EQ(error_of(std::string("\x64\x00\x00\x00\x00", 5)), "no error");  // the rest may come
  EXPECT_EQ(error_of(""), "no error");
}

TEST(FrameReader, MakesRoomForALongFrameOnceSomeOfItHasCome) {
  const std::string frame = encode(Value{1, std::string(kMostValueBytes, 'v')});
  FrameReader reader(kFrameBytes);
  reader.input() = frame.substr(0, 5);
  EXPECT_FALSE(reader.next());
  EXPECT_LT(reader.input().capacity(), 1000U);
  reader.input() += frame.substr(5, frame.size() / 32);
  EXPECT_FALSE(reader.next());
  EXPECT_GE(reader.input().capacity(), frame.size());
  reader.input() += frame.substr(reader.input().size());
  EXPECT_EQ(reader.next()->fields.size(), frame.size() - 5);
}

}  // namespace
}  // namespace paceline
