// ServedConnection: one call of gRPC's asynchronous generic service, as the server's end of a connection. Only the grpc
// transport includes this.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>

#include "paceline/ps/refusal_log.h"
#include "paceline/ps/transport_grpc.h"

namespace paceline {

class ServedConnection;

// The server as its connections need it, on the threads of its queues.
class ConnectionHost {
 public:
  virtual const TransportLimits& limits() const = 0;
  virtual const std::string& proof() const = 0;  // of the token; empty: none is asked for
  virtual ConnectionHandler& handler() = 0;
  virtual RefusalLog& refusals() = 0;
  virtual size_t most_connections() const = 0;
  virtual void expect_another(grpc::ServerCompletionQueue& queue) = 0;
  virtual bool admit(const std::shared_ptr<ServedConnection>& connection) = 0;  // false: there are as many as may be
  virtual void forget(const std::shared_ptr<ServedConnection>& connection) = 0;

 protected:
  ~ConnectionHost() = default;
};

class ServedConnection final : public Connection, public std::enable_shared_from_this<ServedConnection> {
 public:
  enum class Event : uint8_t { arrived, welcomed, read, written, finished, lingered };
  struct Tag {
    ServedConnection* connection;
    Event event;
  };

  ServedConnection(ConnectionHost& server, grpc::ServerCompletionQueue& queue);

  void send(Message message) override;
  void close(const std::string& reason) override;
  std::string peer() const override { return peer_; }
  CertifiedAs certified_as() const override { return certified_as_; }
  const std::string& address() const { return address_; }

  void request(grpc::AsyncGenericService& service);  // the next call that comes in is this one
  void handle(Event event, bool ok);                 // on the queue's thread

 private:
  // What is gRPC's: gone when the call is over, although the handler may still hold the connection.
  struct Call {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter stream{&context};
    grpc::ByteBuffer incoming;
    grpc::Alarm linger;
  };

  void* begin(Event event) {  // an operation whose end comes as this event
    ++outstanding_;
    return &tags_[static_cast<size_t>(event)];
  }
  void arrive();
  std::string why_refused() const;
  void receive(bool ok);
  void call_handler(const std::function<void()>& call);
  // With the mutex held:
  void advance();                                                  // what is written next
  void end(grpc::StatusCode code, const std::string& reason);      // after what waits has been written
  void give_up(grpc::StatusCode code, const std::string& reason);  // at once

  ConnectionHost& server_;  // outlives the call, not the connection
  grpc::ServerCompletionQueue& queue_;
  const TransportLimits limits_;
  std::array<Tag, 6> tags_;
  std::shared_ptr<ServedConnection> self_;  // while gRPC knows of it
  std::string address_, peer_;
  CertifiedAs certified_as_ = CertifiedAs::none;
  bool accepted_ = false;

  std::mutex mutex_;
  std::unique_ptr<Call> call_ = std::make_unique<Call>();
  Outgoing outgoing_;
  int outstanding_ = 0;
  bool writing_ = false, ending_ = false, finishing_ = false, lingering_ = false;
  grpc::Status status_;
  std::string why_;
};

}  // namespace paceline
