// Schedules: a learning rate as a pure function of the epoch. They have no state: a resumed run asks the same function.
//
//   const Schedule rate = with_warmup(5, 0.1, polynomial(29, 90, 2));
//
// An epoch is a real number, samples seen / data size. Before 0 a schedule is as at 0; beyond its end it stays as at
// the end. With rates >= 0 it never gives a negative rate.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace paceline {

using Schedule = std::function<double(double epoch)>;

// Linear scaling (Goyal): a batch k times the reference takes k times its rate. REQUIRES: reference_batch > 0
double scaled_rate(double rate, int64_t batch, int64_t reference_batch);

Schedule constant(double rate);

// base · factor^(milestones reached); at a milestone the new rate counts. REQUIRES: milestones increase
Schedule step(double base, std::vector<double> milestones, double factor);

// base · factor^epoch. Has no end.
Schedule exponential(double base, double factor);

// From base to end: end + (base - end)(1 - epoch / epochs)^power. REQUIRES: epochs > 0, power > 0
Schedule polynomial(double base, double epochs, double power, double end = 0);

// From base to end along half a cosine. REQUIRES: epochs > 0
Schedule cosine(double base, double epochs, double end = 0);

// The same, begun later: at epoch `start` it is where it would be at 0.
Schedule starting_at(double start, Schedule schedule);

// One schedule after the other: the first, and from each milestone on the next. Each sees the whole epoch. REQUIRES:
// milestones increase, one schedule more than milestones
Schedule in_phases(std::vector<double> milestones, std::vector<Schedule> schedules);

// Gradual warm-up (Goyal): a straight line from `from` at epoch 0 to after(epochs) at epoch `epochs`, so that the rate
// does not jump there. `after` is not shifted: it sees the whole epoch, warm-up included. REQUIRES: epochs >= 0 (0: no
// warm-up)
Schedule with_warmup(double epochs, double from, Schedule after);

// The same to a rate of its own. Where `after` is elsewhere at the end of the warm-up, the rate jumps there (Mikami B).
Schedule with_warmup(double epochs, double from, double to, Schedule after);

}  // namespace paceline
