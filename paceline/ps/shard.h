// Shard: a run of parameters on a server, and everything that is needed to update it.
//
// It carries out commands (ps/command.h) in order. Its state is a file mapped into memory and shared: when the process
// is killed, at any moment, the next one opens the file and goes on where it was, with the same bits: a command that
// was under way is finished (chunks know the number of the command that they are at, the chunk in the middle of one is
// undone first). A machine that dies loses the file; checkpoints are for that. The file belongs on /dev/shm: elsewhere
// the system writes to the disk what changes, all the time.
//
// One thread calls stage(), another execute(); different workers may be staged at the same time. What reads
// parameters is called where execute() is.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "paceline/kernels/lars.h"
#include "paceline/ps/chunk_work.h"
#include "paceline/ps/command.h"
#include "paceline/ps/server_update.h"
#include "paceline/ps/shard_file.h"
#include "paceline/ps/shard_map.h"
#include "paceline/ps/staging.h"

namespace paceline {

// Sums that shards add up and the coordinator needs, of one command.
struct ShardReport {
  uint64_t index = 0;        // of the command
  GradientNoise noise = {};  // after accumulate: this shard's parts of |m|² and M2 (0 without ServerUpdate::noise)
};

// What a shard's process has carried and done since it started.
struct ShardLoad {
  uint64_t bytes_in = 0, bytes_out = 0;  // of gradients and parameters
  double busy_s = 0;                     // with updates
};

class Shard {
 public:
  // Opens `file`, or makes it from `initial` (this shard's first weights) where there is none. Throws FileError where
  // the file is of another model, shard or update, damaged, or held by another process, or there is no room for it;
  // RecipeError for settings that cannot be.
  Shard(const std::filesystem::path& file, const ShardMap& map, int shard, const ServerUpdate& update,
        std::span<const float> initial);
  ~Shard();

  uint64_t executed() const;  // the last command's index
  uint64_t version() const;
  uint64_t count() const;  // elements

  // ---- gradients that arrive ----
  // Where a worker's push of this sequence number is written, count() elements. Calling it again for the same number
  // gives the same place with what has been written so far (a push that is sent again). A place is the worker's until
  // it is forgotten. Throws PeerError when there are more workers than places, and for a number that is finished;
  // FileError when there is no room for one more worker's gradients.
  std::span<float> stage(int worker, uint64_t sequence);
  void staged(int worker, uint64_t sequence);  // all of it is there, and stays there whatever happens to the process
  bool has_staged(int worker, uint64_t sequence) const;
  uint64_t finished(int worker) const;  // the last push that a command was about; 0: none, or the worker is forgotten
  void forget(int worker);              // its place is free

  // ---- commands ----
  // REQUIRES: command.index == executed() + 1; the gradient that it is about is staged; a new version is the next one;
  // merge_mean: its version's mean is kept; merges: the update has a momentum (momentum_state()). Nothing has changed
  // when an exception says otherwise.
  // `whole`: LARS wants the norms of whole tensors for step and apply, by the tensor's index, also of those that lie
  // on other shards or are cut: the sum, shard by shard, of what norms() of every shard gave for this command. May be
  // left out where there is one shard.
  ShardReport execute(const Command& command, std::span<const SquaredNorms> whole = {});
  // Whether the gradients that the command is about are here: the staged one, the round's for step, those of its
  // version for merge_mean. Where they are missing (a journal can tell of a push that this file does not have),
  // leave_out() takes the place of execute(): parameters stay as they are, a new version is counted.
  bool has_gradients(const Command& command) const;
  ShardReport leave_out(const Command& command);
  ShardReport last_report() const;  // of the command executed(), also after a restart

  // Of this shard's pieces of every tensor (0 of those that lie elsewhere): weights, and the gradient of the command,
  // which is the mean for step and the staged one for apply.
  std::vector<SquaredNorms> norms(const Command& command) const;

  // What workers get: the newest parameters, or w - rate·mc with look-ahead (of the last step's rate). Copies elements
  // [begin, begin + into.size()).
  void read(uint64_t begin, std::span<float> into) const;
  // After `exchange`: what that worker goes on with; there until its next push.
  void read_exchanged(int worker, uint64_t begin, std::span<float> into) const;
  std::span<const float> weights() const;  // as they are: for checkpoints and evaluation

  // Named state for checkpoints: weights, the optimizer's, momentum; each count() elements.
  struct State {
    std::string name;
    std::span<float> values;
  };
  std::vector<State> states();

  // What else a checkpoint needs. After restore(), whose caller has written states(), there are no gradients of the
  // round, no means of earlier versions, and nothing is staged.
  struct Counters {
    uint64_t executed = 0, version = 0, steps = 0;
    double rate = 0;
    bool operator==(const Counters&) const = default;
  };
  Counters counters() const;
  void restore(const Counters& counters);

 private:
  void check(const Command& command) const;
  void begin_numbers(const Command& command);
  void end_round();
  void prepare(const Command& command, std::span<const SquaredNorms> whole);
  void carry_out();
  void change_chunks(const ChunkWork& work);

  ServerUpdate update_;
  ShardMap map_;
  int shard_;
  std::vector<UpdateRun> runs_;
  ShardFile file_;
  Staging staging_;
};

}  // namespace paceline
