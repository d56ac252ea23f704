// The keys of a recipe about several ranks, and about what is kept. Each key is declared once; defaults are those of a
// default-constructed Recipe.
#include "paceline/core/recipe_sections.h"

namespace paceline {

// clang-format off
std::vector<DeclaredSection> communication_sections() {
  return {
    {"batch_norm", "Batch normalisation over several ranks.", {
      {.name = "statistics", .member = [](auto& r) -> auto& { return r.batch_norm.statistics; },
       .meaning = "what evaluation uses, averaged over the ranks: moving averages, or the last step's",
       .words = {"moving_average", "last_iteration"}},
      {.name = "sync", .member = [](auto& r) -> auto& { return r.batch_norm.sync; },
       .meaning = "normalise over the samples of all ranks, not of each; costs two exchanges per layer and step, and the overlap"},
      {.name = "recompute_batches", .member = [](auto& r) -> auto& { return r.batch_norm.recompute_batches; },
       .meaning = "before each evaluation compute the statistics anew over so many training batches; 0: off",
       .range = from_to(0, 1e6), .unit = "batches"},
    }},
    {"comm", "How gradients travel.", {
      {.name = "engine", .member = [](auto& r) -> auto& { return r.comm.engine; },
       .meaning = "what carries them",
       .words = {"auto", "shm", "gloo", "mpi", "shm+gloo", "shm+mpi"}},
      {.name = "algorithm", .member = [](auto& r) -> auto& { return r.comm.algorithm; },
       .meaning = "how they are summed: \"hybrid\" chooses by size, or one of those that 'paceline explain allreduce' lists"},
      {.name = "bucket_bytes", .member = [](auto& r) -> auto& { return r.comm.bucket_bytes; },
       .meaning = "gradients are sent in buckets of about this size; 0: chosen automatically",
       .range = from_to(0, 0x1p40), .unit = "bytes"},
      {.name = "overlap", .member = [](auto& r) -> auto& { return r.comm.overlap; },
       .meaning = "send buckets while backward still runs, where that pays: between hosts, or with a core that does not compute"},
      {.name = "codec", .member = [](auto& r) -> auto& { return r.comm.codec; },
       .meaning = "how they are packed: none, fp16, bf16, int8, onebit, topk, threshold"},
      {.name = "block", .member = [](auto& r) -> auto& { return r.comm.block; },
       .meaning = "elements that share a scale",
       .range = from_to(8, 1 << 20), .unit = "elements", .applies = with("comm.codec", {"int8", "onebit"})},
      {.name = "density", .member = [](auto& r) -> auto& { return r.comm.density; },
       .meaning = "the share of elements that is sent",
       .range = above_to(0, 1), .applies = with("comm.codec", {"topk"})},
      {.name = "density_warmup", .member = [](auto& r) -> auto& { return r.comm.density_warmup; },
       .meaning = "start with 25 % and send a quarter of that after each epoch, down to the density",
       .applies = with("comm.codec", {"topk"})},
      {.name = "threshold", .member = [](auto& r) -> auto& { return r.comm.threshold; },
       .meaning = "elements of at least this magnitude are sent",
       .range = above(0), .applies = with("comm.codec", {"threshold"})},
      {.name = "error_feedback", .member = [](auto& r) -> auto& { return r.comm.error_feedback; },
       .meaning = "what a lossy codec leaves out joins the next step",
       .applies = with("comm.codec", {"int8", "onebit", "topk", "threshold"})},
      {.name = "momentum_correction", .member = [](auto& r) -> auto& { return r.comm.momentum_correction; },
       .meaning = "gather the momentum before elements are left out (Deep Gradient Compression)",
       .applies = with("comm.codec", {"topk", "threshold"})},
    }},
    {"sync", "Who waits for whom.", {
      {.name = "policy", .member = [](auto& r) -> auto& { return r.sync.policy; },
       .meaning = "the synchronisation model",
       .words = {"allreduce"}},
    }},
    {"checkpoint", "What can be resumed.", {
      {.name = "every_steps", .member = [](auto& r) -> auto& { return r.checkpoint.every_steps; },
       .meaning = "how often to write one; 0: after each epoch. One is always written at the end",
       .range = from_to(0, kMostSteps), .unit = "steps"},
      {.name = "keep", .member = [](auto& r) -> auto& { return r.checkpoint.keep; },
       .meaning = "how many to keep; older ones are removed",
       .range = from_to(1, 1e6), .unit = "checkpoints"},
    }},
  };
}
// clang-format on

}  // namespace paceline
