// Several ranks with CUDA devices: every operation of NCCL, the grids made of them, and gradients of several ranks
// beside those of one. Ranks may share a GPU.
//
//   paceline launch -n 2 -- nccl_checks              prints one table (rank 0); ends with 1 when anything failed
//   paceline launch -n 2 -- nccl_checks --die        rank 1 is killed while rank 0 waits for its device
//   nccl_checks --compare FILE FILE LIMIT            the largest relative difference of two safetensors files
//
// Without a GPU: "no GPU", and 0.
#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>

#include "paceline/collectives/device_all_reduce.h"
#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/comm/device_sharing.h"
#include "paceline/comm/nccl_communicator.h"
#include "paceline/gradients/batch_statistics.h"
#include "paceline/gradients/data_parallel.h"
#include "paceline/models/safetensors.h"
#include "paceline/rendezvous/world.h"

namespace paceline {
namespace {

constexpr int64_t kCounts[] = {0, 1, 7, 1000, 1'000'003};

struct Row {
  std::string check;
  int cases = 0;
  double failed = 0;  // over all ranks, in the end
  std::string figure;

  void expect(bool right) {
    ++cases;
    if (!right) ++failed;
  }
};

struct Rank {
  Group& group;
  torch::Device device;
  DeviceCommunicator& nccl;
};

TensorView view_of(const torch::Tensor& tensor, DType dtype = DType::f32) {
  const c10::impl::VirtualGuardImpl backend(tensor.device().type());
  return {.data = tensor.data_ptr(),
          .count = static_cast<size_t>(tensor.numel()),
          .dtype = dtype,
          .device = DeviceKind::cuda,
          .stream = backend.getStream(tensor.device()).native_handle()};
}

// Small whole numbers, different on every rank: sums of a few are exact in every type.
torch::Tensor numbers(int64_t count, int rank) {
  return (torch::arange(count, torch::kInt64) * 7 + 13 * rank).remainder(31);
}

torch::Tensor reduced(int64_t count, int ranks, ReduceOp op) {
  torch::Tensor result = numbers(count, 0);
  for (int rank = 1; rank < ranks; ++rank) {
    const torch::Tensor next = numbers(count, rank);
    result = op == ReduceOp::sum ? result + next : op == ReduceOp::max ? result.maximum(next) : result.minimum(next);
  }
  return result;
}

bool holds(const torch::Tensor& found, const torch::Tensor& expected) {
  return torch::equal(found.cpu().to(torch::kInt64), expected);
}

// ---- operations -----------------------------------------------------------------------------------------------------

void check_all_reduce(const Rank& rank, Row& row) {
  const std::pair<DType, torch::Dtype> types[] = {{DType::f32, torch::kFloat32},
                                                  {DType::f16, torch::kFloat16},
                                                  {DType::bf16, torch::kBFloat16},
                                                  {DType::i32, torch::kInt32},
                                                  {DType::i64, torch::kInt64}};
  for (const auto& [dtype, torch_dtype] : types)
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min})
      for (const int64_t count : kCounts) {
        const torch::Tensor data = numbers(count, rank.nccl.rank()).to(rank.device, torch_dtype);
        rank.nccl.all_reduce(view_of(data, dtype), op);
        row.expect(holds(data, reduced(count, rank.nccl.size(), op)));
      }
}

void check_parts(const Rank& rank, Row& row) {
  const int ranks = rank.nccl.size(), own = rank.nccl.rank();
  for (const int64_t count : kCounts)
    for (const bool in_place : {false, true}) {
      torch::Tensor all = numbers(count * ranks, own).to(rank.device, torch::kFloat32);
      const torch::Tensor part = all.narrow(0, own * count, count);
      const torch::Tensor mine = in_place ? part : torch::zeros_like(part);
      rank.nccl.reduce_scatter(view_of(all), view_of(mine), ReduceOp::sum);
      const torch::Tensor expected = reduced(count * ranks, ranks, ReduceOp::sum);
      row.expect(holds(mine, expected.narrow(0, own * count, count)));
      all = in_place ? all : torch::zeros_like(all);
      rank.nccl.all_gather(view_of(mine), view_of(all));
      row.expect(holds(all, expected));
    }
}

void check_broadcast(const Rank& rank, Row& row) {
  for (int root = 0; root < rank.nccl.size(); ++root)
    for (const int64_t count : kCounts) {
      const torch::Tensor data = numbers(count, rank.nccl.rank()).to(rank.device, torch::kFloat32);
      rank.nccl.broadcast(view_of(data), root);
      row.expect(holds(data, numbers(count, root)));
    }
}

void check_messages(const Rank& rank, Row& row) {
  const int ranks = rank.nccl.size(), own = rank.nccl.rank();
  if (ranks == 1) return;
  for (const int64_t count : kCounts) {
    const torch::Tensor out = numbers(count, own).to(rank.device, torch::kFloat32), in = torch::zeros_like(out);
    rank.nccl.together([&] {
      rank.nccl.send(view_of(out), (own + 1) % ranks);
      rank.nccl.receive(view_of(in), (own + ranks - 1) % ranks);
    });
    row.expect(holds(in, numbers(count, (own + ranks - 1) % ranks)));
  }
}

// In the order of the keys, which is the reverse.
void check_split(const Rank& rank, Row& row) {
  const int ranks = rank.nccl.size(), own = rank.nccl.rank();
  const auto part = rank.nccl.split(own % 2, ranks - own);
  std::vector<float> expected;
  for (int other = ranks - 1; other >= 0; --other)
    if (other % 2 == own % 2) expected.push_back(static_cast<float>(other));
  row.expect(part->size() == static_cast<int>(expected.size()));
  const torch::Tensor mine = torch::full({1}, own, torch::TensorOptions(rank.device).dtype(torch::kFloat32));
  const torch::Tensor all = torch::zeros({part->size()}, mine.options());
  part->all_gather(view_of(mine), view_of(all));
  row.expect(torch::equal(all.cpu(), torch::tensor(expected)));
}

void check_grids(const Rank& rank, Row& row) {
  const int ranks = rank.group.size();
  for (int x = 1; x <= ranks; ++x) {
    if (ranks % x != 0) continue;
    DeviceAllReduce torus(rank.group, rank.nccl, {"torus2d", {.x = x, .y = ranks / x}});
    for (const int64_t count : kCounts) {
      const torch::Tensor data = numbers(count, rank.group.rank()).to(rank.device, torch::kFloat32);
      torus.run(view_of(data), ReduceOp::sum);
      row.expect(holds(data, reduced(count, ranks, ReduceOp::sum)));
    }
  }
}

void measure(const Rank& rank, Row& row) {
  const torch::Tensor data = torch::zeros({16 << 20}, torch::TensorOptions(rank.device).dtype(torch::kFloat32));
  double seconds = 0, queueing = 0;
  constexpr int kRounds = 5;
  for (int round = -1; round < kRounds; ++round) {
    torch::cuda::synchronize(rank.device.index());
    rank.group.barrier();
    const auto begin = std::chrono::steady_clock::now();
    rank.nccl.all_reduce(view_of(data), ReduceOp::sum);
    const std::chrono::duration<double> queued = std::chrono::steady_clock::now() - begin;
    torch::cuda::synchronize(rank.device.index());
    const std::chrono::duration<double> done = std::chrono::steady_clock::now() - begin;
    if (round >= 0) seconds += done.count() / kRounds, queueing += queued.count() / kRounds;
  }
  row.expect(true);
  row.figure = fmt::format("{:.2f} ms, {:.1f} us to queue", 1e3 * seconds, 1e6 * queueing);
}

// ---- gradients ------------------------------------------------------------------------------------------------------

class Net : public torch::nn::Module {
 public:
  Net() {
    torch::manual_seed(3);
    first = register_parameter("first", torch::randn({64, 3, 3, 3}) * 0.2);
    bias = register_parameter("bias", torch::randn({64}) * 0.1);
    second = register_parameter("second", torch::randn({128, 64, 3, 3}) * 0.05);
    third = register_parameter("third", torch::randn({10, 128 * 16}) * 0.02);
    idle = register_parameter("idle", torch::randn({5}));
  }
  torch::Tensor forward(const torch::Tensor& images) {
    const torch::Tensor x = torch::conv2d(images, first, bias, 2, 1).relu();
    return torch::mm(torch::conv2d(x, second, {}, 2, 1).relu().flatten(1), third.t());
  }
  torch::Tensor first, bias, second, third, idle;
};

std::vector<NamedParameter> parameters_of(const Net& net) {
  std::vector<NamedParameter> parameters;
  for (const auto& named : net.named_parameters()) parameters.push_back({named.key(), named.value()});
  return parameters;
}

double difference(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.numel() == 0) return 0;
  const torch::Tensor x = a.detach().cpu().to(torch::kFloat64), y = b.detach().cpu().to(torch::kFloat64);
  const double scale = y.abs().max().item<double>();
  return (x - y).abs().max().item<double>() / (scale > 0 ? scale : 1);
}

constexpr int64_t kShare = 24;  // samples of a rank

torch::Tensor images_of(const Rank& rank, int step) {
  torch::manual_seed(100 + static_cast<uint64_t>(step));
  return torch::randn({kShare * rank.group.size(), 3, 16, 16}).to(rank.device);
}

// Without a word to the device between steps: what does not wait for the sums will have other gradients.
void check_reducer(const Rank& rank, Row& row, const ReducerOptions& options) {
  constexpr int kSteps = 6;
  Net alone, shared;
  alone.to(rank.device);
  shared.to(rank.device);
  Reducer reducer(parameters_of(shared), rank.group, options);
  std::vector<std::map<std::string, torch::Tensor>> sums;
  for (int step = 0; step < kSteps; ++step) {
    const torch::Tensor images = images_of(rank, step).narrow(0, kShare * rank.group.rank(), kShare);
    reducer.begin();
    shared.forward(images.narrow(0, 0, kShare / 2)).square().sum().backward();
    reducer.expect_last_pass();
    shared.forward(images.narrow(0, kShare / 2, kShare / 2)).square().sum().backward();
    double rider = 1;
    reducer.finish(std::span(&rider, 1));
    row.expect(rider == rank.group.size());
    sums.emplace_back();
    for (const auto& parameter : shared.named_parameters())
      if (parameter.value().grad().defined()) sums.back()[parameter.key()] = parameter.value().grad().clone();
  }
  double most = 0;
  for (int step = 0; step < kSteps; ++step) {
    alone.zero_grad();
    alone.forward(images_of(rank, step)).square().sum().backward();
    row.expect(sums[static_cast<size_t>(step)].size() == 4);  // all but the idle one
    for (const auto& [name, sum] : sums[static_cast<size_t>(step)])
      most = std::max(most, difference(sum, alone.named_parameters()[name].grad()));
  }
  row.expect(most < 5e-5);  // other algorithms for other batches
  row.figure = fmt::format("largest difference {:.2g}; {}", most, reducer.plan_text());
}

// Every rank has the same weights after some steps, and the same again in another run.
void check_data_parallel(const Rank& rank, Row& row) {
  std::vector<torch::Tensor> results;
  for (int run = 0; run < 2; ++run) {
    const auto shared = std::make_shared<Net>();  // DataParallel walks through its modules
    Net& net = *shared;
    net.to(rank.device);
    {
      const torch::NoGradGuard no_grad;
      net.first.add_(rank.group.rank());  // rank 0's count
    }
    DataParallel parallel(net, rank.group);
    for (int step = 0; step < 4; ++step) {
      const torch::Tensor images = images_of(rank, step).narrow(0, kShare * rank.group.rank(), kShare);
      parallel.backward(net.forward(images).square().mean(), kShare);
      const torch::NoGradGuard no_grad;
      for (const torch::Tensor& parameter : net.parameters())
        if (parameter.grad().defined()) parameter.add_(parameter.grad(), -0.001);
    }
    results.push_back(net.third.detach().cpu().contiguous());
  }
  torch::Tensor first = results[0].clone();
  rank.group.broadcast({first.data_ptr(), first.nbytes(), DType::u8}, 0);
  row.expect(torch::equal(first, results[0]));
  row.expect(difference(results[1], results[0]) < 1e-5);  // convolutions may add in another order
}

class Statistics : public torch::nn::Module {
 public:
  Statistics(int rank, const torch::Device& device) {
    mean = register_buffer("running_mean", torch::full({4}, static_cast<float>(rank)).to(device));
    variance = register_buffer("running_var", torch::ones({4}).to(device));
    count = register_buffer("num_batches_tracked", torch::full({}, 5 + rank, torch::kInt64).to(device));
  }
  torch::Tensor mean, variance, count;
};

void check_statistics(const Rank& rank, Row& row) {
  const auto there = std::make_shared<Statistics>(rank.group.rank(), rank.device);
  const auto here = std::make_shared<Statistics>(rank.group.rank(), torch::kCPU);
  Statistics &on_device = *there, &on_host = *here;
  {
    const AveragedStatistics averaged(on_device, rank.group, 1), expected(on_host, rank.group, 1);
    row.expect(torch::equal(on_device.mean.cpu(), on_host.mean));
    row.expect(torch::equal(on_device.variance.cpu(), on_host.variance));
    row.expect(on_device.count.item<int64_t>() == 5);  // rank 0's
  }
  row.expect(on_device.count.item<int64_t>() == 5 + rank.group.rank());
}

// ---- running --------------------------------------------------------------------------------------------------------

int check_all(const Rank& rank) {
  std::deque<Row> rows;
  const auto row = [&](const std::string& check) -> Row& {
    if (rank.group.rank() == 0) std::fprintf(stderr, "%s\n", check.c_str());
    return rows.emplace_back(Row{.check = check});
  };
  check_all_reduce(rank, row("all_reduce"));
  check_parts(rank, row("reduce_scatter, all_gather"));
  check_broadcast(rank, row("broadcast"));
  check_messages(rank, row("send, receive"));
  check_split(rank, row("split"));
  check_grids(rank, row("torus on every grid"));
  measure(rank, row("all_reduce of 64 MiB"));
  if (rank.group.size() > 1) {
    for (const char* algorithm : {"native", "torus2d"})
      for (const uint64_t bytes : {uint64_t{0}, uint64_t{4096}, kOneBucket}) {
        ReducerOptions options;
        options.algorithm = algorithm;
        options.bucket_bytes = bytes;
        check_reducer(rank,
                      row(fmt::format("reducer, {}, {}", algorithm,
                                      bytes == 0            ? "chosen"
                                      : bytes == kOneBucket ? "one bucket"
                                                            : "4096 bytes")),
                      options);
      }
    check_reducer(rank, row("reducer, after backward"), {.overlap = Overlap::never});
  }
  check_data_parallel(rank, row("data parallel"));
  check_statistics(rank, row("batch statistics"));

  bool failed = false;
  for (Row& each : rows) {
    sum_over_ranks(rank.group, {&each.failed, 1, DType::f64});
    failed = failed || each.failed > 0;
    if (rank.group.rank() == 0)
      fmt::print("{:<34}{:>6}{:>9}  {}\n", each.check, each.cases, each.failed > 0 ? "FAILED" : "ok", each.figure);
  }
  return failed ? 1 : 0;
}

// Rank 0 waits for its device, whose kernel waits for rank 1, which is dead.
int die(const Rank& rank) {
  const torch::Tensor data = torch::ones({1000}, torch::TensorOptions(rank.device));
  for (int i = 0; i < 3; ++i) rank.nccl.all_reduce(view_of(data), ReduceOp::sum);
  torch::cuda::synchronize(rank.device.index());
  if (rank.group.rank() == 1) raise(SIGKILL);
  try {
    rank.nccl.all_reduce(view_of(data), ReduceOp::sum);
    torch::cuda::synchronize(rank.device.index());
    rank.group.barrier();
  } catch (const PeerError& error) {
    fmt::print("rank {} was told: {}\n", rank.group.rank(), error.what());
    std::fflush(stdout);
    throw;
  }
  return 1;
}

int compare(const std::string& one, const std::string& other, double limit) {
  const NamedTensors a = read_safetensors(one).tensors, b = read_safetensors(other).tensors;
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (const auto& [name, tensor] : a)
    most = std::max(most, b.contains(name) ? difference(tensor, b.at(name)) : INFINITY);
  fmt::print("largest difference {:.3g}, limit {:.3g}\n", most, limit);
  return most <= limit ? 0 : 1;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 4 && arguments[0] == "--compare")
    return compare(arguments[1], arguments[2], std::stod(arguments[3]));
  if (!torch::cuda::is_available()) {
    fmt::print("no GPU: nothing was checked\n");
    return 0;
  }
  at::globalContext().setAllowTF32CuDNN(false);  // for gradients of parts of a batch that are those of the whole
  World world = World::connect({});
  Group& group = world.group();
  const auto devices = static_cast<int>(torch::cuda::device_count());
  const int number = device_of_rank(group.topology(), group.rank(), devices);
  const torch::Device device(torch::kCUDA, static_cast<c10::DeviceIndex>(number));
  c10::impl::VirtualGuardImpl(torch::kCUDA).setDevice(device);
  const auto nccl = make_nccl_communicator(group, number);
  if (group.rank() == 0)
    fmt::print("{} ranks, {} device{} {}\n", group.size(), devices, devices == 1 ? "" : "s", nccl->remark());
  const Rank rank = {group, device, *nccl};
  return !arguments.empty() && arguments[0] == "--die" ? die(rank) : check_all(rank);
}

}  // namespace
}  // namespace paceline

int main(int count, char** arguments) {
  try {
    return paceline::run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nccl_checks: %s\n", error.what());
    return 1;
  }
}
