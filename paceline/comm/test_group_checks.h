// For tests: what every engine's group must do, called by every rank of it. Throws (CHECK_*) where it does not; needs
// no test framework, so that it also runs under mpirun and in the simulator.
#pragma once

#include <algorithm>
#include <vector>

#include "paceline/comm/group.h"
#include "paceline/core/test_elements.h"

namespace paceline {

// Element `index` of what `rank` sends: small integers, exact in every type.
inline int pattern(int rank, size_t index) { return static_cast<int>((static_cast<size_t>(rank) * 7 + index) % 13); }

inline std::vector<float> pattern_of(int rank, size_t count) {
  std::vector<float> elements(count);
  for (size_t i = 0; i < count; ++i) elements[i] = static_cast<float>(pattern(rank, i));
  return elements;
}

inline void check_equal(const std::vector<float>& found, const std::vector<float>& wanted) {
  CHECK_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) CHECK_EQ(found[i], wanted[i]);
}

// Every rank sends to the next, and then back.
inline void check_messages(Group& group, size_t count) {
  if (group.size() == 1) return;
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  for (const auto& [to, from] : {std::pair(next, previous), std::pair(previous, next)}) {
    std::vector<float> mine = pattern_of(group.rank(), count);
    std::vector<float> theirs(count, -1);
    Work received = group.receive(view(theirs), from);
    Work sent = group.send(view(mine), to);
    sent.wait();
    received.wait();
    check_equal(theirs, pattern_of(from, count));
  }
}

// Several messages under way between the same two ranks arrive in the order of their sends, whoever is waited for
// first; done() says so without waiting.
inline void check_order(Group& group) {
  if (group.size() == 1) return;
  constexpr int kMessages = 6;
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  std::vector<std::vector<float>> mine, theirs;
  std::vector<Work> works;
  for (int i = 0; i < kMessages; ++i) {
    mine.push_back(pattern_of(group.rank() + i, 50));
    theirs.emplace_back(50, -1.0f);
  }
  for (int i = 0; i < kMessages; ++i) works.push_back(group.send(view(mine[i]), next));
  for (int i = 0; i < kMessages; ++i) works.push_back(group.receive(view(theirs[i]), previous));
  while (!works.back().done()) {
  }
  std::ranges::reverse(works);
  for (Work& work : works) work.wait();
  for (int i = 0; i < kMessages; ++i) check_equal(theirs[i], pattern_of(previous + i, 50));
}

inline void check_broadcasts(Group& group, size_t count) {
  for (int root = 0; root < group.size(); ++root) {
    std::vector<float> data = group.rank() == root ? pattern_of(root, count) : std::vector<float>(count);
    group.broadcast(view(data), root);
    check_equal(data, pattern_of(root, count));
  }
}

inline void check_all_gather(Group& group, size_t count) {
  std::vector<float> mine = pattern_of(group.rank(), count);
  std::vector<float> all(count * static_cast<size_t>(group.size()));
  std::vector<float> wanted;
  group.all_gather(view(mine), view(all));
  for (int rank = 0; rank < group.size(); ++rank)
    std::ranges::copy(pattern_of(rank, count), std::back_inserter(wanted));
  check_equal(all, wanted);
}

// Rank r sends r + s elements to rank s.
inline void check_all_to_all(Group& group) {
  std::vector<std::vector<float>> from, to;
  std::vector<TensorView> from_views, to_views;
  for (int peer = 0; peer < group.size(); ++peer) {
    from.push_back(pattern_of(group.rank() + peer, group.rank() + peer));
    to.emplace_back(group.rank() + peer, -1.0f);
  }
  for (auto& elements : from) from_views.push_back(view(elements));
  for (auto& elements : to) to_views.push_back(view(elements));
  group.all_to_all(from_views, to_views);
  for (int peer = 0; peer < group.size(); ++peer) check_equal(to[peer], from[peer]);
}

inline void check_verbs(Group& group) {
  for (const size_t count : {0, 1, 7, 1000}) {
    group.barrier();
    check_broadcasts(group, count);
    check_all_gather(group, count);
  }
  check_all_to_all(group);
  group.barrier();
}

// Rows and columns of a grid two ranks wide, and all ranks backwards: each used at once and again when all are there.
inline void check_splits(Group& group) {
  std::vector<std::unique_ptr<Group>> parts;
  const int backwards = -group.rank();
  parts.push_back(group.split(group.rank() / 2, group.rank()));
  check_verbs(*parts.back());
  CHECK_EQ(parts.back()->rank(), group.rank() % 2);
  parts.push_back(group.split(group.rank() % 2, group.rank()));
  check_verbs(*parts.back());
  parts.push_back(group.split(0, backwards));
  CHECK_EQ(parts.back()->rank(), group.size() - 1 - group.rank());
  parts.push_back(parts.front()->split(0, backwards));
  for (const auto& part : parts) check_verbs(*part);
  for (const auto& part : parts) check_messages(*part, 100);
}

inline int reduced_pattern(int ranks, size_t index, ReduceOp op) {
  int result = pattern(0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const int value = pattern(rank, index);
    result = op == ReduceOp::sum   ? result + value
             : op == ReduceOp::max ? std::max(result, value)
                                   : std::min(result, value);
  }
  return result;
}

// `all_reduce(data, op)` gives the right result for every type.
template <class AllReduceFunction>
void check_all_reduce(Group& group, size_t count, const AllReduceFunction& all_reduce) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::f16, DType::bf16}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      const Memory memory = group.allocate(count * size_of(dtype));
      const Memory wanted = allocate_private(count * size_of(dtype));
      const TensorView data = memory.view(count, dtype);
      for (size_t i = 0; i < count; ++i) {
        put(data, i, pattern(group.rank(), i));
        put(wanted.view(count, dtype), i, reduced_pattern(group.size(), i, op));
      }
      all_reduce(data, op);
      CHECK_TRUE(count == 0 || std::memcmp(data.data, wanted.data(), data.bytes()) == 0, "rank {}: wrong {} of {} {}",
                 group.rank(), name_of(op), count, name_of(dtype));
    }
  }
}

inline void check_native_all_reduce(Group& group, size_t count) {
  CHECK_TRUE(group.has_native_all_reduce(), "{} has none", group.engine());
  check_all_reduce(group, count, [&](TensorView data, ReduceOp op) {
    group.perform(Verb::all_reduce, data, op, -1, [&] { group.native_all_reduce(data, op); });
  });
}

}  // namespace paceline
