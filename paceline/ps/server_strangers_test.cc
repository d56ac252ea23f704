// Who may not take part, and is told why; what cannot be a message ends one connection and harms nobody else.
#include <gmock/gmock.h>

#include <atomic>

#include "paceline/core/file.h"
#include "paceline/core/random.h"
#include "paceline/ps/certificates.h"
#include "paceline/ps/protocol.h"
#include "paceline/ps/server_call.h"
#include "paceline/ps/test_grpc_tsan.h"
#include "paceline/ps/test_run.h"
#include "paceline/ps/test_transport.h"

namespace paceline {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kPatienceMs = 10'000;

class StrangersTest : public testing::Test {
 protected:
  WorkerOptions worker(int id) {
    WorkerOptions options = run_.worker(id, servers_.addresses());
    options.patience_ms = 0;
    return options;
  }
  HelloHead hello(int id) const {
    return {.id = id, .incarnation = 77, .fingerprint = run_.map().fingerprint(), .run = "toy"};
  }
  // What the server says when this is sent as the first message.
  std::string answer_to(const HelloHead& hello) {
    const auto line = connect(servers_.addresses()[0], {}, {});
    line->send({to_wire(Head(hello)), {}});
    return error_of([&] { line->receive(kPatienceMs); });
  }

  const MemoryFolder folder_;
  const ToyRun run_ = {.elements = 2'000, .folder = folder_.path()};
  ToyServers servers_{run_};
};

TEST_F(StrangersTest, AreToldWhatIsWrongWithThem) {
  HelloHead wrong = hello(0);
  wrong.run = "another";
  EXPECT_THAT(answer_to(wrong), AllOf(HasSubstr("refused"), HasSubstr("the run 'toy', not 'another'")));
  wrong = hello(0);
  wrong.settings = "optimizer.rate = 0.5\n";
  EXPECT_THAT(answer_to(wrong), HasSubstr("the recipe differs: optimizer.rate (not set here, 0.5 there)"));
  wrong = hello(0);
  wrong.settings = "training samples, pixels and labels = digest 12\n";
  EXPECT_THAT(answer_to(wrong), HasSubstr("the training data differ: training samples, pixels and labels (not set"));
  wrong = hello(0);
  wrong.history = 12;
  EXPECT_THAT(answer_to(wrong), HasSubstr("has begun anew (it is at update 0 now)"));
  wrong = hello(0);
  wrong.fingerprint[0] = wrong.fingerprint[0] == '0' ? '1' : '0';
  EXPECT_THAT(answer_to(wrong), HasSubstr("the model or its shards are others"));
  EXPECT_THAT(answer_to(hello(2'000'000)), HasSubstr("there can be no worker 2000000"));
  wrong = hello(1'000);
  wrong.role = PeerRole::observer;
  EXPECT_THAT(answer_to(wrong), HasSubstr("no observer 1000"));
  wrong = hello(1);
  wrong.role = PeerRole::shard;
  EXPECT_THAT(answer_to(wrong), HasSubstr("shard 1 calls shard 0 of 1"));
  wrong = hello(0);
  wrong.protocol = kServerProtocol + 1;
  EXPECT_THAT(answer_to(wrong), HasSubstr("protocol"));

  WorkerOptions options = worker(0);
  options.patience_ms = 60'000;  // a refusal is not waited for
  options.run = "another";
  EXPECT_THAT(error_of([&] { ServerWorker refused(options); }), HasSubstr("refused"));
}

TEST_F(StrangersTest, CannotTakeTheNumberOfAWorkerThatIsThere) {
  ServerWorker first(worker(0));
  EXPECT_THAT(error_of([&] { ServerWorker second(worker(0)); }), HasSubstr("worker 0 is there already"));
  ServerWorker other(worker(1));
  std::vector<float> parameters(run_.elements), others(run_.elements);
  std::thread side([&] { EXPECT_TRUE(other.join(others)); });
  EXPECT_TRUE(first.join(parameters));  // unharmed
  side.join();
  EXPECT_EQ(parameters, run_.initial());
}

TEST_F(StrangersTest, MustSayHelloFirst) {
  const auto line = connect(servers_.addresses()[0], {}, {});
  line->send({to_wire(Head(JoinHead{})), {}});
  EXPECT_THAT(error_of([&] { line->receive(kPatienceMs); }), HasSubstr("hello first"));
}

TEST_F(StrangersTest, CannotPushWhatTheyWereNotGiven) {
  const auto line = connect(servers_.addresses()[0], {}, {});
  line->send({to_wire(Head(hello(5))), {}});
  line->receive(kPatienceMs);
  line->send({to_wire(Head(PushHead{.push = {.sequence = 1, .samples = 1}, .count = 2'000, .last = true})),
              test_message("", 8'000).body});
  EXPECT_THAT(error_of([&] { line->receive(kPatienceMs); }), HasSubstr("was given no parameters"));
}

// A worker that has joined, whose pushes are wrong in every way that a head can be right.
TEST_F(StrangersTest, WrongSegmentsAreRefused) {
  struct Case {
    std::vector<PushHead> heads;
    size_t bytes;
    std::string why;
  };
  const auto segment = [](uint64_t offset, uint64_t count, bool last) {
    return PushHead{.push = {.sequence = 1, .samples = 1, .rate = 0.1}, .offset = offset, .count = count, .last = last};
  };
  PushHead of_no_assignment = segment(0, 2'000, true);
  of_no_assignment.push.sequence = 1'000;
  const std::vector<Case> cases = {{{segment(1'999, 2, false)}, 8, "of a shard of 2000"},
                                   {{segment(0, 100, false), segment(50, 100, false)}, 400, "came twice"},
                                   {{segment(0, 100, true)}, 400, "ended with 100 of 2000"},
                                   {{segment(0, 100, false)}, 404, "has 404 bytes, not 400"},
                                   {{segment(uint64_t{1} << 52, 100, false)}, 400, "of a shard of 2000"},
                                   {{of_no_assignment}, 8'000, "but its assignment is number"}};
  ServerWorker other(worker(1));
  std::vector<float> others(run_.elements);
  std::jthread side([&] { other.join(others); });
  uint64_t incarnation = 500;
  for (const Case& wrong : cases) {
    HelloHead greeting = hello(0);
    greeting.incarnation = ++incarnation;
    std::unique_ptr<ClientConnection> line;
    std::string failure;
    do {  // as workers do that are started again: until the server has noticed the end of the one before
      line = connect(servers_.addresses()[0], {}, {});
      line->send({to_wire(Head(greeting)), {}});
      failure = error_of([&] { line->receive(kPatienceMs); });
    } while (failure.find("is there already") != std::string::npos);
    ASSERT_EQ(failure, "");
    line->send({to_wire(Head(JoinHead{})), {}});
    const Head go = head_from(line->receive(kPatienceMs).head);
    ASSERT_TRUE(std::holds_alternative<GoHead>(go));
    ASSERT_TRUE(std::holds_alternative<ParametersHead>(head_from(line->receive(kPatienceMs).head)));
    for (PushHead head : wrong.heads) {
      head.push.version = std::get<GoHead>(go).assignment.version;
      if (head.push.sequence == 1) head.push.sequence = std::get<GoHead>(go).assignment.sequence;
      line->send({to_wire(Head(head)), test_message("", wrong.bytes).body});
    }
    ASSERT_THAT(error_of([&] { line->receive(kPatienceMs); }), HasSubstr(wrong.why));
  }
}

TEST_F(StrangersTest, JoinOnceOnAConnection) {
  const auto line = connect(servers_.addresses()[0], {}, {});
  line->send({to_wire(Head(hello(0))), {}});
  line->receive(kPatienceMs);
  line->send({to_wire(Head(JoinHead{})), {}});
  line->receive(kPatienceMs);
  line->send({to_wire(Head(JoinHead{})), {}});
  EXPECT_THAT(error_of([&] {
                for (;;) line->receive(kPatienceMs);
              }),
              HasSubstr("a worker joins once on a connection"));
}

TEST(ServerStrangers, WithoutHelloAreNotWaitedFor) {
  const MemoryFolder folder;
  const ToyRun run = {.shards = 2, .elements = 2'000, .folder = folder.path()};
  for (int shard = 0; shard < 2; ++shard) {  // also one that has no coordinator
    ServerOptions options = run.server(shard, "127.0.0.1:9");
    options.limits.connect_timeout_ms = 100;
    ParameterServer server(options, run.initial(shard));
    const auto line = connect(server.address(), {}, {});
    EXPECT_THAT(error_of([&] { line->receive(kPatienceMs); }), HasSubstr("did not say hello in time"));
  }
}

TEST(ServerStrangers, ACertificateSaysWhatItsHolderMayBe) {
  const MemoryFolder folder;
  const CertificateFiles files = make_certificates(folder.path() / "certs", {});
  const std::string authority = read_file(files.authority);
  const TransportSecurity as_server = {authority, read_file(files.server), read_file(files.server_key)};
  const TransportSecurity as_client = {authority, read_file(files.client), read_file(files.client_key)};
  const ToyRun run = {.shards = 2, .elements = 2'000, .folder = folder.path()};
  const auto answer = [&](const ParameterServer& server, const TransportSecurity& security, PeerRole role) {
    const auto line = connect(server.address(), security, {});
    const HelloHead hello = {
        .role = role, .id = 1, .incarnation = 7, .fingerprint = run.map().fingerprint(), .run = "toy"};
    line->send({to_wire(Head(hello)), {}});
    return error_of([&] { line->receive(kPatienceMs); });
  };
  ServerOptions options = run.server(0);
  options.security = as_server;
  {
    ParameterServer server(options, run.initial(0));
    EXPECT_THAT(answer(server, as_client, PeerRole::shard), HasSubstr("refused: a client's certificate does not make"));
    EXPECT_THAT(answer(server, as_server, PeerRole::worker),
                HasSubstr("refused: a server's certificate is no worker's"));
    EXPECT_EQ(answer(server, as_server, PeerRole::shard), "");
    EXPECT_EQ(answer(server, as_client, PeerRole::worker), "");
    EXPECT_EQ(answer(server, as_client, PeerRole::observer), "");
  }
  options.security.token = "secret";
  options.security.token_suffices = true;
  ParameterServer server(options, run.initial(0));
  const TransportSecurity token_alone = {.authority_pem = authority, .token = "secret"};
  EXPECT_EQ(answer(server, token_alone, PeerRole::worker), "");
  EXPECT_THAT(answer(server, token_alone, PeerRole::shard), HasSubstr("a shard has to show a server's certificate"));
  EXPECT_THAT(why_not_certified({}, CertifiedAs::nothing, options.security),
              AllOf(HasSubstr("paceline certs"), HasSubstr("urn:paceline:client")));
}

TEST(ServerWorker, GivesUpWhenServersStayAwayAndSaysWhatToDo) {
  const MemoryFolder folder;
  ToyRun run;
  run.workers = 1;
  run.elements = 2'000;
  run.folder = folder.path();
  auto servers = std::make_unique<ToyServers>(run);
  const std::string address = servers->addresses()[0];
  WorkerOptions options = run.worker(0, servers->addresses());
  options.patience_ms = 100;
  ServerWorker worker(options);
  std::vector<float> parameters(run.elements);
  ASSERT_TRUE(worker.join(parameters));
  servers.reset();
  EXPECT_THAT(error_of([&] { worker.push(run.initial(), 4, 0.1, parameters); }),
              AllOf(HasSubstr("worker 0 could not talk to server 0 (" + address + ")"), HasSubstr("nobody listens"),
                    HasSubstr("start it again with its state folder")));
}

TEST(ServerWorker, StartedAgainTakesOverFromItself) {
  const MemoryFolder folder;
  ToyRun run;
  run.workers = 1;
  run.elements = 2'000;
  run.shards = 1;
  run.folder = folder.path();
  ToyServers servers(run);
  ServerObserver observer(run.worker(0, servers.addresses()));
  observer.observe({.weights = true});
  {  // a process that dies in the middle of a push: its connection closes, and it says no word
    HelloHead hello = {.incarnation = 5, .fingerprint = run.map().fingerprint(), .run = "toy"};
    const auto line = connect(servers.addresses()[0], {}, {});
    line->send({to_wire(Head(hello)), {}});
    line->receive(kPatienceMs);
    line->send({to_wire(Head(JoinHead{})), {}});
    const Head go = head_from(line->receive(kPatienceMs).head);
    line->receive(kPatienceMs);
    PushHead head = {.push = {.samples = 4}, .count = 100};
    head.push.sequence = std::get<GoHead>(go).assignment.sequence;
    line->send({to_wire(Head(head)), test_message("", 400).body});
  }
  UsedSamples used;
  work(run, run.worker(0, servers.addresses()), &used);
  used.expect_once(run.samples());
  EXPECT_THAT(observer.observe({.weights = true}).states.at("weights"),
              testing::Pointwise(testing::FloatNear(1e-5f), train_plainly(run)));
}

Head random_head(const RandomKey& key, const HelloHead& hello) {
  const PushNews push = {.sequence = 1 + key.below(1, 3), .version = key.below(2, 3), .samples = 1 + key.below(3, 9)};
  switch (key.below(0, 12)) {
    case 0:
      return hello;
    case 1:
      return JoinHead{};
    case 2:
      return PushHead{
          .push = push, .offset = key.below(4, 3'000), .count = key.below(5, 3'000), .last = key.below(6, 2) == 1};
    case 3:
      return StatisticsHead{};
    case 4:
      return GoHead{.over = true};
    case 5:
      return ParametersHead{.index = 1, .count = 10};
    case 6:
      return CommandHead{{.index = 1, .decision = {.kind = Decision::Kind::drop, .worker = 3}}};
    case 7:
      return StagedHead{.worker = 0, .push = push};
    case 8:
      return ReportHead{{.index = 1 + key.below(4, 100)}};
    case 9:
      return NormsHead{.index = 1};
    case 10:
      return ForgetHead{.worker = 0};
    default:
      return HeartbeatHead{};
  }
}

TEST(ServerStrangers, NonsenseEndsOneConnectionAndHarmsNobodyElse) {
  const MemoryFolder folder;
  ToyRun run;
  run.policy = "asp";
  run.workers = 1;
  run.elements = 2'000;
  run.steps = 400;
  run.lease_ns = 300'000'000;
  run.folder = folder.path();
  ToyServers servers(run);
  ServerObserver observer(run.worker(0, servers.addresses()));
  observer.observe({.weights = true});
  constexpr uint64_t kRounds = 300;
  std::atomic<uint64_t> rounds = 0;
  ServerWorker::Costs costs;
  std::thread trainer([&] {
    uint64_t pushes = 0;
    costs = work(run, run.worker(0, servers.addresses()), nullptr,
                 [&](ServerWorker&, const Assignment&, std::span<const float>) {  // one push for each round of nonsense
                   ++pushes;
                   for (uint64_t now = rounds; now < std::min(pushes, kRounds); now = rounds) rounds.wait(now);
                 });
  });
  const RandomKey key(2026);
  uint64_t messages = 0, closed = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const HelloHead hello = {.id = 1 + static_cast<int>(round % 50),
                             .incarnation = round + 1,
                             .fingerprint = run.map().fingerprint(),
                             .run = "toy"};
    const std::string failure = error_of([&] {
      const auto line = connect(servers.addresses()[0], {}, {});
      if (round % 4 != 0) line->send({to_wire(Head(hello)), {}});
      for (uint64_t i = 0; i < 10; ++i) {
        const RandomKey mine = key.with(round).with(i);
        std::string head = to_wire(random_head(mine, hello));
        const uint64_t kind = mine.below(100, 4);
        if (kind == 1) head[mine.below(101, head.size())] = static_cast<char>(mine.below(102, 256));
        if (kind == 2) head.resize(mine.below(103, head.size() + 20));
        if (kind == 3 && round % 2 == 0) {
          for (char& byte : head)
            byte = static_cast<char>(mine.below(104 + static_cast<uint64_t>(&byte - head.data()), 256));
        }
        ++messages;
        line->send({head, test_message("", mine.below(99, 9'000)).body});
      }
      for (;;) line->receive(kPatienceMs);
    });
    if (!failure.empty()) ++closed;
    ++rounds;
    rounds.notify_all();
  }
  EXPECT_GE(messages, 1'000u);
  EXPECT_EQ(closed, kRounds);
  trainer.join();
  EXPECT_EQ(costs.reconnects, 0u);
  const ServerSnapshot end = observer.observe({.weights = true});
  EXPECT_TRUE(end.over);
  EXPECT_EQ(end.used_samples, run.samples());
}

}  // namespace
}  // namespace paceline
