// Peer mesh: one TCP connection between every two ranks of a group, for an engine that then moves bytes over it.
//
// Both ends prove that they know the run's secret before either of them uses the connection: a process that connects
// first, or that listens where a rank did, does not become a rank. What follows the proof is neither encrypted nor
// signed.
//
//   listening rank:   "paceline peer 1\n", its nonce
//   connecting rank:  its nonce, its rank, its proof
//   listening rank:   its proof
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "paceline/comm/alarm.h"
#include "paceline/comm/store.h"
#include "paceline/rendezvous/descriptor.h"
#include "paceline/rendezvous/secret.h"

namespace paceline {

struct MeshOptions {
  int rank = 0;
  int ranks = 1;
  std::string group;  // no two groups of a run have the same name
  uint64_t generation = 0;
  std::string address;  // of this host, where the other ranks reach it
  int64_t timeout_ms = 60'000;
  int64_t silence_ms = 5'000;                            // until a connection without a proof is closed
  std::function<void(const std::string& text)> refused;  // called for the first connection that is turned away
};

// Returns the connection with each rank; the place of this rank stays empty. Every rank of the group calls it; each
// rank connects with the ranks before it and is connected with by those after it.
//
// Throws PeerError: ranks that did not connect within the time-out (named), a listener without the secret, no file
// descriptor left; or what the alarm says as soon as it is raised.
std::vector<Descriptor> connect_mesh(const MeshOptions& options, const Secret& secret, Store& store,
                                     const Alarm& alarm);

}  // namespace paceline
