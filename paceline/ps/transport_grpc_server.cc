// The server's end: gRPC's asynchronous generic service. Every connection is a call (transport_grpc_call.h) that lives
// on one completion queue, every completion queue has one thread: a connection's events come one after the other.
// Connections are accepted by the front door: gRPC 1.51 takes a lack of descriptors for the end of its listener, and
// never accepts again.
#include <grpc/grpc_security_constants.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "paceline/core/check.h"
#include "paceline/core/thread_room.h"
#include "paceline/ps/endpoint.h"
#include "paceline/ps/front_door.h"
#include "paceline/ps/transport_grpc_call.h"
#include "paceline/ps/transport_grpc_handshakes.h"
#include "paceline/rendezvous/quiet_thread.h"

namespace paceline {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

class GrpcServer final : public TransportServer, private ConnectionHost {
 public:
  GrpcServer(const std::string& address, const TransportSecurity& security, const TransportLimits& limits,
             ConnectionHandler& handler, int threads, Log* log);
  ~GrpcServer() override;
  std::string address() const override { return address_; }

 private:
  const TransportLimits& limits() const override { return limits_; }
  const std::string& proof() const override { return proof_; }
  ConnectionHandler& handler() override { return handler_; }
  RefusalLog& refusals() override { return refusals_; }
  size_t most_connections() const override { return most_connections_; }
  void expect_another(grpc::ServerCompletionQueue& queue) override;
  bool admit(const std::shared_ptr<ServedConnection>& connection) override;
  void forget(const std::shared_ptr<ServedConnection>& connection) override;

  const TransportLimits limits_;
  const std::string proof_;
  ConnectionHandler& handler_;
  RefusalLog refusals_;
  std::optional<HandshakeWatch> handshakes_;  // with TLS
  std::string address_;
  grpc::AsyncGenericService service_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> threads_;
  size_t most_connections_ = 0;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<FrontDoor> door_;
  std::mutex mutex_;
  bool stopping_ = false;
  std::unordered_set<std::shared_ptr<ServedConnection>> open_;
};

grpc_ssl_client_certificate_request_type wanted_of_clients(const TransportSecurity& security) {
  if (security.authority_pem.empty()) return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
  const bool may_lack_one = security.token_suffices && !security.token.empty();
  return may_lack_one ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
                      : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
}

GrpcServer::GrpcServer(const std::string& address, const TransportSecurity& security, const TransportLimits& limits,
                       ConnectionHandler& handler, int threads, Log* log)
    : limits_(limits),
      proof_(security.token.empty() ? "" : token_proof(security.token)),
      handler_(handler),
      refusals_(log) {
  CHECK_GE(threads, 1);
  const Endpoint endpoint = parse_endpoint(address);
  std::optional<ResolvedAddress> at;
  if (endpoint.socket_path.empty()) at = resolve(endpoint).front();
  const bool local = !at || at->local;
  check_server_security(security, address, local);
  require_room_for_grpc();
  quiet_grpc();
  const StartDeadline start("gRPC", kStartMs);
  if (security.tls() && log != nullptr) handshakes_.emplace(refusals_);

  auto listener = std::make_unique<Listener>(endpoint, at);
  grpc::ServerBuilder builder;
  for (const auto& [name, value] : transport_arguments(limits, local)) builder.AddChannelArgument(name, value);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, static_cast<int>(limits.connect_timeout_ms));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, static_cast<int>(limits.connect_timeout_ms));
  builder.RegisterAsyncGenericService(&service_);
  for (int i = 0; i < threads; ++i) queues_.push_back(builder.AddCompletionQueue());

  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (security.tls()) {
    grpc::SslServerCredentialsOptions options(wanted_of_clients(security));
    options.pem_root_certs = security.authority_pem;
    options.pem_key_cert_pairs.push_back({security.key_pem, security.certificate_pem});
    credentials = grpc::SslServerCredentials(options);
  }
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  server_ = builder.BuildAndStart();
  if (!server_) {
    for (const auto& queue : queues_) shut_down(*queue);
    throw PeerError(fmt::format("cannot serve at {}: gRPC does not start", address));
  }
  address_ = endpoint.text(listener->port());

  for (const auto& queue : queues_) {
    expect_another(*queue);
    threads_.push_back(start_quiet_thread([&queue = *queue] {
      void* tag = nullptr;
      bool ok = false;
      while (queue.Next(&tag, &ok)) {
        const auto* const next = static_cast<ServedConnection::Tag*>(tag);
        next->connection->handle(next->event, ok);
      }
    }));
  }
  const DescriptorBudget budget = descriptor_budget(static_cast<size_t>(limits.connections));
  most_connections_ = budget.connections;
  const int listens = listener->socket().number();
  const auto hand_on = [this, listens](int socket) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = listens;
    connection.fd = socket;
    acceptor_->HandleNewConnection(&connection);
  };
  const std::lock_guard lock(mutex_);  // the door hands on at once, and admit() needs it
  door_ = std::make_unique<FrontDoor>(
      std::move(listener),
      FrontDoor::Options{
          .strangers = budget.strangers, .silence_ms = limits.connect_timeout_ms, .local = local, .hand_on = hand_on},
      refusals_);
}

GrpcServer::~GrpcServer() {
  {
    // Calls under way may still want to tell the door of a peer.
    std::unique_ptr<FrontDoor> door;
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    door = std::move(door_);
  }
  std::vector<std::shared_ptr<ServedConnection>> open;
  {
    const std::lock_guard lock(mutex_);
    open.assign(open_.begin(), open_.end());
  }
  for (const auto& connection : open) connection->close("the server stops");
  open.clear();
  server_->Shutdown(system_clock::now() + milliseconds(kLingerMs));  // returns when all calls are over
  for (const auto& queue : queues_) queue->Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

void GrpcServer::expect_another(grpc::ServerCompletionQueue& queue) {
  const std::lock_guard lock(mutex_);
  if (!stopping_) std::make_shared<ServedConnection>(static_cast<ConnectionHost&>(*this), queue)->request(service_);
}

bool GrpcServer::admit(const std::shared_ptr<ServedConnection>& connection) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || open_.size() >= most_connections_) return false;
  door_->knows(connection->address());
  return open_.insert(connection).second;
}

void GrpcServer::forget(const std::shared_ptr<ServedConnection>& connection) {
  const std::lock_guard lock(mutex_);
  open_.erase(connection);
}

}  // namespace

std::unique_ptr<TransportServer> serve(const std::string& address, const TransportSecurity& security,
                                       const TransportLimits& limits, ConnectionHandler& handler, int threads,
                                       Log* log) {
  return std::make_unique<GrpcServer>(address, security, limits, handler, threads, log);
}

}  // namespace paceline
