// Policy: who waits for whom. It is told what happens to the workers of a run, and decides what becomes of every
// gradient and who may go on.
//
// A policy is a state machine without I/O, clock, lock or chance: the same events give the same decisions, on a server
// and in the simulator. Whoever carries the decisions out does so in their order.
//
// Versions count the steps: t is the newest, a gradient computed with version j has staleness t - j. Every gradient
// that is pushed is accumulated, applied, merged, exchanged or dropped in the answer to its push, exactly once; drops
// are counted. A worker pushes once for each time it was released.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/registry.h"

namespace paceline {

// The gradients of one version so far, g_i of b_i samples each: W = Σb_i, W2 = Σb_i², mean m = Σb_i·g_i / W.
struct GradientNoise {
  double samples = 0;          // W
  double samples_squared = 0;  // W2
  double mean_norm2 = 0;       // |m|²
  double spread = 0;           // M2 = Σ b_i·|g_i - m|²
};

struct SyncEvent {
  enum class Kind : uint8_t {
    join,   // a worker is there and wants to begin
    leave,  // it ended or died: nothing more comes of it. Gradients that it has pushed stay in use
    push,   // its gradient is there (elastic averaging: its parameters)
    noise,  // how the gradients of the newest version differ: after each accumulation, if the policy wants_noise()
    tick    // nothing but time has passed
  };
  Kind kind = Kind::tick;
  int64_t time_ns = 0;   // of any clock that does not go back
  int worker = -1;       // of join, leave, push
  uint64_t version = 0;  // push: of the parameters that the gradient was computed with. noise: of the gradients
  uint64_t samples = 0;  // push: that the gradient is the mean of, at least 1
  double rate = 0;       // push: the learning rate that the worker wants for it
  GradientNoise noise = {};
};

struct Decision {
  enum class Kind : uint8_t {
    accumulate,  // the worker's gradient joins the mean of the newest version, weighed by its samples
    apply,       // a step of this gradient alone, at `rate`: a new version
    merge,       // mc <- mc + factor·gradient, mc the momentum
    merge_mean,  // as if it had been in time: n += b; d = (b/n)(g - m_j); mc += factor·d; m_j += d, of version j
    drop,        // not used
    exchange,    // of parameters x: d = factor·(x - w); w += d; the worker goes on with x - d
    step,        // a step of the mean, at `rate`: a new version
    release      // the worker gets the newest parameters and goes on
  };
  Kind kind = Kind::drop;
  int worker = -1;       // not of step
  uint64_t version = 0;  // of the gradient; step and apply: the new version; release: the version that it gets
  uint64_t samples = 0;  // of the gradient; step: of the mean
  double rate = 0;       // of step and apply, staleness already accounted for
  double factor = 0;     // of merge, merge_mean, exchange

  bool operator==(const Decision&) const = default;
};

std::string_view name_of(Decision::Kind kind);
constexpr bool is_step(Decision::Kind kind) { return kind == Decision::Kind::step || kind == Decision::Kind::apply; }
std::string to_text(const Decision& decision);  // "merge of worker 3's gradient of version 12, factor 0.81"

// What a recipe says; each policy uses what it needs. docs/recipe.md explains the keys.
struct SyncSettings {
  int workers = 1;        // that are expected: BSP's first step waits for all of them. Later the live ones count
  double momentum = 0.9;  // gamma: of late gradients' weights

  int staleness = 3;             // ssp: steps that the fastest may be ahead of the slowest
  std::string penalty = "none";  // asp, ssp: none, linear (rate / (1 + s)), exponential (rate · exp(-penalty_decay·s))
  double penalty_decay = 0.5;
  double drop_share = 0.5;         // drop_worker: of the workers
  int k = 0;                       // k_sync: gradients for a step; 0: half of the live workers, rounded up
  std::string merge = "additive";  // k_sync, adaptive_k: additive, mean, drop, zhang
  int history = 4;                 // mean: versions whose means are kept; older gradients are dropped
  double elasticity = 0.9;         // easgd: rho = elasticity / live workers
  std::string rule = "time";       // adaptive_k: time, variance, fixed (k as in k_sync)
  int k_min = 0,
      k_max = 0;      // adaptive_k; 0: a quarter (but 2 at least) and five eighths of the live workers, rounded up
  double theta2 = 1;  // variance: a step when theta2·|m|² > S²/k
};

// Throws UsageError for what cannot be meant, with the setting's name. Policies do it when they are made.
void check_settings(const SyncSettings& settings);

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string name() const = 0;

  // Throws PeerError for an event that cannot be (a push of a worker that was not released, of a version that was never
  // given to it, without samples): nothing has changed then.
  virtual std::vector<Decision> on(const SyncEvent& event) = 0;

  virtual uint64_t version() const = 0;
  virtual bool wants_noise() const { return false; }
  // Whether no step is made before everyone's gradient is there. The order in which pushes are told decides nothing
  // then, and may be chosen: sums in one fixed order have the same bits in every run.
  virtual bool waits_for_all() const { return false; }
  // For metrics: fresh gradients that are enough for the next step, as things are; 0 where no step needs several. By
  // the variance rule a step may come sooner; what steps were really made of is in sync/sync_counts.h.
  virtual int k() const { return 0; }

  virtual int to_come() const { return 0; }      // expected workers that the first step still waits for
  virtual int live() const = 0;                  // workers that are there
  virtual std::vector<int> waiting() const = 0;  // that have pushed and were not released, ascending

  // Everything that decides what comes next, for a coordinator that starts again.
  virtual std::string save() const = 0;
  virtual void load(const std::string& state) = 0;  // REQUIRES: of a policy with the same settings
};

using PolicyFactory = std::function<std::unique_ptr<Policy>(const SyncSettings&)>;

// bsp, asp, ssp, easgd, drop_worker, k_sync, adaptive_k.
Registry<PolicyFactory> builtin_policies();

}  // namespace paceline
