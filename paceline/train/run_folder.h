// The folder that a run leaves; docs/formats.md describes each file.
#pragma once

#include <filesystem>

namespace paceline {

struct RunFolder {
  std::filesystem::path root;

  std::filesystem::path recipe() const { return root / "recipe.toml"; }
  std::filesystem::path plan() const { return root / "plan.json"; }
  std::filesystem::path metrics() const { return root / "metrics.jsonl"; }
  std::filesystem::path summary() const { return root / "summary.json"; }
  std::filesystem::path checkpoints() const { return root / "checkpoints"; }
  std::filesystem::path log() const { return root / "log.txt"; }
  std::filesystem::path chart() const { return root / "curves.svg"; }

  // Also one whose recipe.toml is gone: a checkpoint holds it, too.
  bool holds_a_run() const {
    std::error_code unknown;  // what cannot be looked at fails where it is used, with the reason
    return std::filesystem::exists(recipe(), unknown) || std::filesystem::exists(checkpoints(), unknown);
  }
};

}  // namespace paceline
