// CoordinatorLink: how a shard that lives in another process talks to its coordinator. It calls shard 0 until that is
// there, again whenever the connection breaks, and then tells again what may have been lost.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "paceline/ps/server_call.h"
#include "paceline/ps/shard_service.h"

namespace paceline {

class CoordinatorLink : public ShardUplink {
 public:
  // `over`: the coordinator said that the run is over; `failed`: it will not have us. On the link's thread.
  CoordinatorLink(const ServerOptions& options, std::function<void()> over,
                  std::function<void(std::exception_ptr)> failed);
  ~CoordinatorLink() override;

  void start(ShardService& shard);  // which stays until stop()
  void stop();

  void staged(int worker, const PushNews& push) override;
  void reported(const ShardReport& report) override;
  void norms(uint64_t index, std::vector<SquaredNorms> norms) override;
  void missing(int worker, uint64_t sequence) override;

 private:
  void run();
  void serve(ClientConnection& connection);  // until it breaks
  void send(Message message);                // or not: what is lost is told again

  const ServerOptions& options_;
  const std::function<void()> over_;
  const std::function<void(std::exception_ptr)> failed_;
  ShardService* shard_ = nullptr;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stopped_ = false;
  std::shared_ptr<ClientConnection> connection_;
  std::thread thread_;
};

}  // namespace paceline
