// Links in the words of people: "25Gbit", "3GB/s", "5us".
#pragma once

#include <string>

#include "paceline/collectives/cost_model.h"

namespace paceline {

// Bytes per second of "25Gbit", "25Gbit/s", "25Gb/s" (bits) or "3GB", "3GB/s" (bytes); K, M, G, T are decimal. Throws
// UsageError.
double parse_bandwidth(const std::string& text);
double parse_latency(const std::string& text);  // seconds of "500ns", "3us", "0.5ms"; throws UsageError

// "25 GB/s (200 Gbit/s), 5 us a message"
std::string describe(const Link& link);

// What predictions for the cluster take for given: a line or two for people.
std::string assumptions_of(const Cluster& cluster);

}  // namespace paceline
