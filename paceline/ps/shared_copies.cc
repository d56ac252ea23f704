#include "paceline/ps/shared_copies.h"

namespace paceline {

SharedCopies::Copy SharedCopies::make(uint64_t count) {
  std::unique_ptr<std::vector<float>> values;
  {
    const std::lock_guard lock(spare_->mutex);
    if (!spare_->copies.empty()) {
      values = std::move(spare_->copies.back());
      spare_->copies.pop_back();
    }
  }
  if (!values) values = std::make_unique<std::vector<float>>();
  values->resize(count);
  return {values.release(), [spare = spare_](std::vector<float>* done) {
            std::unique_ptr<std::vector<float>> owned(done);
            const std::lock_guard lock(spare->mutex);
            if (spare->copies.size() < kMostSpare) spare->copies.push_back(std::move(owned));
          }};
}

}  // namespace paceline
