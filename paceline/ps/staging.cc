#include "paceline/ps/staging.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/check.h"

namespace paceline {

int Staging::place_of(int worker) const {
  const std::span<StagingMark> places = file_.places();
  const auto found = std::ranges::find_if(places, [&](const StagingMark& place) { return place.worker == worker; });
  return found == places.end() ? -1 : static_cast<int>(found - places.begin());
}

std::span<float> Staging::stage(int worker, uint64_t sequence) {
  CHECK_GE(worker, 0);
  CHECK_GE(sequence, 1u);
  const std::lock_guard lock(taking_);
  int index = place_of(worker);
  if (index < 0) {
    index = place_of(-1);
    if (index < 0) {
      throw PeerError(
          fmt::format("worker {} cannot push: all {} places of this server are taken; "
                      "wait until others leave, or start the server for more workers",
                      worker, file_.places().size()));
    }
    file_.reserve_place(index);
    StagingMark& place = file_.places()[static_cast<size_t>(index)];
    place.complete = 0;
    place.sequence = 0;
    place.finished = 0;
    place.worker = worker;  // last: from here on the place is the worker's, whatever happens
  }
  StagingMark& place = file_.places()[static_cast<size_t>(index)];
  if (sequence <= place.finished) {
    throw PeerError(fmt::format("worker {} pushes number {} again, which is done already (the last was {})", worker,
                                sequence, place.finished.load()));
  }
  if (place.sequence != sequence) {
    place.complete = 0;  // before the number: the old gradient must not pass for the new one
    place.sequence = sequence;
  }
  return {file_.staged(index), file_.count()};
}

void Staging::staged(int worker, uint64_t sequence) {
  const int index = place_of(worker);
  CHECK_TRUE(index >= 0, "worker {} has no place", worker);
  StagingMark& place = file_.places()[static_cast<size_t>(index)];
  CHECK_EQ(place.sequence.load(), sequence);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  place.complete = 1;
}

bool Staging::has(int worker, uint64_t sequence) const {
  const int index = place_of(worker);
  if (index < 0) return false;
  const StagingMark& place = file_.places()[static_cast<size_t>(index)];
  return place.complete == 1 && place.sequence == sequence;
}

uint64_t Staging::finished(int worker) const {
  const int index = place_of(worker);
  return index < 0 ? 0 : file_.places()[static_cast<size_t>(index)].finished.load();
}

void Staging::forget(int worker) {
  const std::lock_guard lock(taking_);
  if (const int index = place_of(worker); index >= 0) file_.places()[static_cast<size_t>(index)].worker = -1;
}

void Staging::finish(int place, uint64_t sequence) const {
  StagingMark& mark = file_.places()[static_cast<size_t>(place)];
  // In this order: whoever pushes it again at this moment finds it staged, or finished.
  if (mark.finished < sequence) mark.finished = sequence;
  if (mark.sequence <= sequence) mark.complete = 0;
}

}  // namespace paceline
