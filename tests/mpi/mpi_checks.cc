// A rank of the mpi engine's checks. CMake compiles it twice: for MPI (under mpirun) and, together with the engine, by
// SimGrid's smpicxx, where all ranks live in one process.
//
// usage: mpi_checks mpirun | simulated
#include <cstdio>
#include <string>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/platforms.h"
#include "paceline/comm/engine_mpi.h"
#include "paceline/comm/test_group_checks.h"

namespace paceline {
namespace {

std::unique_ptr<Group> make_group(const MpiLibrary& library, bool simulated, int64_t timeout_ms) {
  GroupIdentity identity = {.rank = library.rank(), .engine = "mpi", .topology = Topology::one_host(library.size())};
  for (int rank = 0; rank < library.size(); ++rank) identity.world_ranks.push_back(rank);
  return make_mpi_group(identity, std::make_shared<Monitor>(timeout_ms), {.blocking_waits = simulated});
}

void check_algorithm(Group& group, const std::string& name) {
  const Cluster cluster = cluster_of(group);
  const auto algorithm = all_reduce_algorithm(name).make(group, cluster, choose_grid(group.size(), 0));
  for (const size_t count : {0, 1, 7, 1000})
    check_all_reduce(group, count, [&](TensorView data, ReduceOp op) { algorithm->run(data, op); });
}

// Rank 0 is told `text` when it receives `wanted` elements where rank 1 sends `sent`.
void check_mismatch(Group& group, size_t wanted, size_t sent, const std::string& text) {
  std::vector<float> data(std::max(wanted, sent));
  std::string error = "no error";
  try {
    if (group.rank() == 0) group.receive(view(data).first(wanted), 1).wait();
    if (group.rank() == 1) group.send(view(data).first(sent), 0).wait();
  } catch (const PeerError& caught) {
    error = caught.what();
  }
  if (group.rank() == 0) CHECK_TRUE(error.find(text) != std::string::npos, "wanted '{}' in '{}'", text, error);
}

void check_errors(const MpiLibrary& library) {
  const auto group = make_group(library, false, 100);
  if (group->size() == 1) return;
  check_mismatch(*group, 10, 3, "rank 0: receive of 40 bytes from rank 1: it sent 12 bytes");
  check_mismatch(*group, 3, 10, "rank 0: receive of 12 bytes from rank 1 failed: MPI_ERR_TRUNCATE");

  std::vector<float> data(1000);
  try {
    group->receive(view(data), (group->rank() + 1) % group->size()).wait();
    CHECK_TRUE(false, "nobody sent anything");
  } catch (const PeerError& error) {
    CHECK_EQ(error.what(), fmt::format("rank {}: receive of 4000 bytes from rank {} did not finish in 0.1 s",
                                       group->rank(), (group->rank() + 1) % group->size()));
  }
  group->monitor().alarm().raise("rank 7 was killed by signal 9");
  try {
    group->receive(view(data), (group->rank() + 1) % group->size()).wait();
    CHECK_TRUE(false, "nobody sent anything");
  } catch (const PeerError& error) {
    CHECK_EQ(error.what(), std::string("rank 7 was killed by signal 9"));
  }
}

void run(const MpiLibrary& library, bool simulated) {
  CHECK_EQ(library.broadcast_text(library.rank() == 0 ? "the word of rank 0" : ""), "the word of rank 0");
  const auto group = make_group(library, simulated, 20'000);
  for (const size_t count : {0, 1, 7, 1'000'000}) check_messages(*group, count);
  check_verbs(*group);
  check_splits(*group);
  for (const size_t count : {0, 1, 7, 10'000}) check_native_all_reduce(*group, count);
  for (const char* name : {"ring", "torus2d"}) check_algorithm(*group, name);
  if (simulated) return;
  check_order(*group);  // looks again and again, which costs simulated time
  check_errors(library);
}

}  // namespace
}  // namespace paceline

int main(int, char** argv) {
  paceline::MpiLibrary library;
  try {
    paceline::run(library, std::string(argv[1]) == "simulated");
    if (library.rank() == 0) std::printf("%d ranks: all right\n", library.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", library.rank(), error.what());
    library.abort(1);
  }
  return 0;
}
