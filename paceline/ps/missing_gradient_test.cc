// A gradient that a command is about and that a shard does not have: no worker can bring that about, and a server whose
// journal tells of one goes on without it.
#include <gmock/gmock.h>

#include <optional>

#include "paceline/ps/protocol.h"
#include "paceline/ps/state_names.h"
#include "paceline/ps/test_grpc_tsan.h"
#include "paceline/ps/test_run.h"
#include "paceline/ps/test_transport.h"

namespace paceline {
namespace {

using testing::HasSubstr;

constexpr int64_t kPatienceMs = 20'000;

class MissingGradientTest : public testing::Test {
 protected:
  // A worker that says what it likes: connected to shard 0, joined, with its parameters.
  struct Joined {
    std::unique_ptr<ClientConnection> line;
    Assignment assignment;
  };
  Joined join(const std::string& address, int id) const {
    Joined worker = {connect(address, {}, {}), {}};
    const HelloHead hello = {.id = id, .incarnation = 7, .fingerprint = run_.map().fingerprint(), .run = "toy"};
    worker.line->send({to_wire(Head(hello)), {}});
    worker.line->receive(kPatienceMs);
    worker.line->send({to_wire(Head(JoinHead{})), {}});
    worker.assignment = std::get<GoHead>(head_from(worker.line->receive(kPatienceMs).head)).assignment;
    while (!std::get<ParametersHead>(head_from(worker.line->receive(kPatienceMs).head)).last) {
    }
    return worker;
  }
  PushHead push_of(const Assignment& assignment) const {
    return {.push = {.sequence = assignment.sequence,
                     .version = assignment.version,
                     .samples = assignment.lease.range.size(),
                     .rate = run_.rate},
            .count = run_.elements,
            .last = true};
  }
  Body body_of(uint64_t elements) const { return test_message("", elements * sizeof(float)).body; }
  void finish(const std::string& address, int workers) const {
    std::vector<std::jthread> threads;
    for (int id = 0; id < workers; ++id) {
      threads.emplace_back([&, id] { EXPECT_EQ(error_of([&] { work(run_, run_.worker(id, {address})); }), ""); });
    }
  }

  const MemoryFolder folder_;
  const ToyRun run_ = {.elements = 2'000, .steps = 4, .lease_ns = 60'000'000'000, .folder = folder_.path()};
};

TEST_F(MissingGradientTest, APushThatNobodyAskedForOverwritesNothing) {
  ToyServers servers(run_);
  const std::string address = servers.addresses()[0];
  Joined early = join(address, 1);
  const PushHead whole = push_of(early.assignment);
  early.line->send({to_wire(Head(whole)), body_of(run_.elements)});
  PushHead next = whole;  // its command waits for worker 0, and its place must stay as it is
  ++next.push.sequence;
  next.count = 1;
  next.last = false;
  early.line->send({to_wire(Head(next)), body_of(1)});
  EXPECT_THAT(error_of([&] { early.line->receive(kPatienceMs); }),
              HasSubstr("pushed number 2, but its assignment is number 1"));
  finish(address, 2);
  servers.wait();  // no server failed
}

// As of a worker that called again and could not know how much of it had come.
TEST_F(MissingGradientTest, APushThatIsDoneMayComeAgain) {
  ToyRun run = run_;
  run.workers = 1;
  ToyServers servers(run);
  Joined worker = join(servers.addresses()[0], 0);
  const PushHead first = push_of(worker.assignment);
  worker.line->send({to_wire(Head(first)), body_of(run.elements)});
  const Assignment next = std::get<GoHead>(head_from(worker.line->receive(kPatienceMs).head)).assignment;
  while (!std::get<ParametersHead>(head_from(worker.line->receive(kPatienceMs).head)).last) {
  }
  worker.line->send({to_wire(Head(first)), body_of(run.elements)});
  worker.line->send({to_wire(Head(push_of(next))), body_of(run.elements)});
  EXPECT_TRUE(std::holds_alternative<GoHead>(head_from(worker.line->receive(kPatienceMs).head)));
}

TEST_F(MissingGradientTest, AWorkerCannotOutweighTheOthers) {
  ToyServers servers(run_);
  Joined greedy = join(servers.addresses()[0], 1);
  PushHead push = push_of(greedy.assignment);
  push.push.samples = 1'000'000;
  greedy.line->send({to_wire(Head(push)), body_of(run_.elements)});
  EXPECT_THAT(error_of([&] { greedy.line->receive(kPatienceMs); }),
              HasSubstr("a gradient of 1000000 samples, but was given 4"));
  greedy.line.reset();
  finish(servers.addresses()[0], 2);
}

// What a shard's file lacks of what the journal tells is left out, and the run comes to its end.
TEST_F(MissingGradientTest, AServerWithAJournalThatIsNewerThanItsFileStartsAgain) {
  const std::filesystem::path file = run_.server(0).state_folder / shard_file_name(0),
                              before = folder_.path() / "before";
  {
    ToyServers servers(run_);
    Joined worker_0 = join(servers.addresses()[0], 0);
    std::filesystem::copy_file(file, before);
    Joined worker_1 = join(servers.addresses()[0], 1);
    for (const Joined* worker : {&worker_0, &worker_1}) {
      worker->line->send({to_wire(Head(push_of(worker->assignment))), body_of(run_.elements)});
    }
    EXPECT_TRUE(
        std::holds_alternative<GoHead>(head_from(worker_0.line->receive(kPatienceMs).head)));  // a step was made
  }
  std::filesystem::rename(before, file);
  ToyServers again(run_);
  finish(again.addresses()[0], 2);
  again.wait();
}

}  // namespace
}  // namespace paceline
