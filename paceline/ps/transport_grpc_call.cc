#include "paceline/ps/transport_grpc_call.h"

#include <grpc/grpc_security_constants.h>

#include <chrono>

#include "paceline/ps/certificates.h"

namespace paceline {

ServedConnection::ServedConnection(ConnectionHost& server, grpc::ServerCompletionQueue& queue)
    : server_(server), queue_(queue), limits_(server.limits()) {
  for (size_t i = 0; i < tags_.size(); ++i) tags_[i] = {this, static_cast<Event>(i)};
}

void ServedConnection::request(grpc::AsyncGenericService& service) {
  self_ = shared_from_this();
  const std::lock_guard lock(mutex_);
  service.RequestCall(&call_->context, &call_->stream, &queue_, &queue_, begin(Event::arrived));
}

void ServedConnection::send(Message message) {
  check_outgoing(message, limits_);
  grpc::ByteBuffer buffer = to_wire(message);
  const std::lock_guard lock(mutex_);
  if (ending_) throw PeerError(fmt::format("the connection to {} is closed: {}", peer_, why_));
  if (outgoing_.bytes() > 0 && outgoing_.bytes() + buffer.Length() > limits_.queued_bytes) {
    give_up(grpc::StatusCode::RESOURCE_EXHAUSTED,
            fmt::format("{} bytes wait for a client that does not read them", outgoing_.bytes()));
    throw PeerError(fmt::format("the connection to {} is closed: {}", peer_, why_));
  }
  outgoing_.add(std::move(buffer));
  advance();
}

void ServedConnection::close(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  end(grpc::StatusCode::ABORTED, reason);
}

void ServedConnection::handle(Event event, bool ok) {
  switch (event) {
    case Event::arrived:
      if (ok) arrive();  // otherwise the server stops
      break;
    case Event::read:
      receive(ok);
      break;
    case Event::welcomed:
    case Event::written: {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      outgoing_.written();
      if (!ok) outgoing_.clear();  // the read that is under way ends, too
      advance();
      break;
    }
    case Event::finished: {
      const std::lock_guard lock(mutex_);
      if (lingering_) call_->linger.Cancel();
      break;
    }
    case Event::lingered:
      if (ok) {
        const std::lock_guard lock(mutex_);
        call_->context.TryCancel();
      }
      break;
  }
  {
    const std::lock_guard lock(mutex_);
    if (--outstanding_ > 0) return;
    call_.reset();
  }
  const std::shared_ptr<ServedConnection> self = std::move(self_);
  if (!accepted_) return;
  call_handler([&] { server_.handler().closed(self, why_); });
  server_.forget(self);
}

std::string ServedConnection::why_refused() const {
  const auto& metadata = call_->context.client_metadata();
  const auto version = metadata.find(kTransportVersionKey);
  if (call_->context.method() != kTransportMethod || version == metadata.end())
    return "this is no client of Paceline's";
  if (version->second != kTransportVersion) {
    return fmt::format("the server speaks version {} of the protocol; use the same Paceline on both sides",
                       kTransportVersion);
  }
  if (server_.proof().empty()) return "";
  const auto token = metadata.find(kTransportTokenKey);
  if (token == metadata.end()) return "it wants the run's token, and was given none";
  return same_proof({token->second.data(), token->second.size()}, server_.proof())
             ? ""
             : "the server refused this run's token; all processes of a run need the same one";
}

void ServedConnection::arrive() {
  server_.expect_another(queue_);
  peer_ = address_ = call_->context.peer();
  if (const auto identity = call_->context.auth_context(); identity && identity->IsPeerAuthenticated()) {
    for (const auto& name : identity->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME)) {
      peer_ += fmt::format(" ({})", std::string_view(name.data(), name.size()));
    }
    certified_as_ = CertifiedAs::nothing;
    for (const auto& certificate : identity->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME)) {
      certified_as_ = certificate_role({certificate.data(), certificate.size()});
    }
  }
  auto code = grpc::StatusCode::UNAUTHENTICATED;
  std::string refused = why_refused();
  if (refused.empty() && !server_.admit(shared_from_this())) {
    code = grpc::StatusCode::RESOURCE_EXHAUSTED;
    refused = fmt::format("the server has {} connections, and takes no more", server_.most_connections());
  }
  if (!refused.empty()) {
    server_.refusals().add(peer_, refused);
    const std::lock_guard lock(mutex_);
    end(code, refused);
    return;
  }
  accepted_ = true;
  {
    const std::lock_guard lock(mutex_);
    call_->context.AddInitialMetadata(kTransportVersionKey, kTransportVersion);
    writing_ = true;
    call_->stream.SendInitialMetadata(begin(Event::welcomed));
  }
  call_handler([&] { server_.handler().opened(self_); });
  const std::lock_guard lock(mutex_);
  if (!ending_) call_->stream.Read(&call_->incoming, begin(Event::read));
}

void ServedConnection::receive(bool ok) {
  Message message;
  {
    const std::lock_guard lock(mutex_);
    if (!ok) {
      give_up(grpc::StatusCode::ABORTED,
              fmt::format("the connection was lost, or brought a message of more than {} bytes", limits_.body_bytes));
      return;
    }
    if (ending_) return;  // what comes after a close is not looked at
    try {
      grpc::ByteBuffer incoming;
      incoming.Swap(&call_->incoming);
      WireMessage received = from_wire(incoming, limits_);
      if (received.goodbye) {
        give_up(grpc::StatusCode::OK, *received.goodbye);
        return;
      }
      message = std::move(received.message);
    } catch (const PeerError& failure) {
      give_up(grpc::StatusCode::RESOURCE_EXHAUSTED, failure.what());
      return;
    }
    // Before the handler is called, so that the next message comes while it works.
    call_->stream.Read(&call_->incoming, begin(Event::read));
  }
  call_handler([&] { server_.handler().received(self_, std::move(message)); });
}

void ServedConnection::call_handler(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& failure) {
    close(failure.what());
  }
}

void ServedConnection::advance() {
  if (writing_ || finishing_) return;
  if (!outgoing_.empty()) {
    grpc::WriteOptions options;
    if (outgoing_.several()) options.set_buffer_hint();  // the next follows at once
    writing_ = true;
    call_->stream.Write(outgoing_.take(), options, begin(Event::written));
  } else if (ending_) {
    finishing_ = true;
    call_->stream.Finish(status_, begin(Event::finished));
  }
}

void ServedConnection::end(grpc::StatusCode code, const std::string& reason) {
  if (ending_) return;
  ending_ = true;
  why_ = reason;
  status_ = grpc::Status(code, reason.substr(0, 1024));
  if (writing_) {
    lingering_ = true;
    call_->linger.Set(&queue_, std::chrono::system_clock::now() + std::chrono::milliseconds(kLingerMs),
                      begin(Event::lingered));
  }
  advance();
}

void ServedConnection::give_up(grpc::StatusCode code, const std::string& reason) {
  outgoing_.clear();
  end(code, reason);
  if (writing_) call_->context.TryCancel();
}

}  // namespace paceline
