#include "paceline/ps/worker.h"

#include "paceline/ps/worker_session.h"

namespace paceline {

ServerWorker::ServerWorker(WorkerOptions options) : session_(std::make_unique<Session>(std::move(options))) {}
ServerWorker::~ServerWorker() = default;

std::optional<Assignment> ServerWorker::join(std::span<float> parameters) { return session_->join(parameters); }

void ServerWorker::push_ready(std::span<const float> gradient, uint64_t begin, uint64_t count) {
  session_->push_ready(gradient, begin, count);
}

std::optional<Assignment> ServerWorker::push(std::span<const float> gradient, uint64_t samples, double rate,
                                             std::span<float> parameters) {
  return session_->push(gradient, samples, rate, parameters);
}

void ServerWorker::send_statistics(std::span<const float> statistics) { session_->send_statistics(statistics); }
void ServerWorker::leave() { session_->leave(); }
ServerWorker::Costs ServerWorker::costs() const { return session_->costs(); }

}  // namespace paceline
