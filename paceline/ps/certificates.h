// Certificates: a small authority for tests and private clusters, and a look at the certificates of others.
//
// Elliptic-curve keys (P-256). What is made is meant to be thrown away: a cluster with an authority of its own gives
// its own files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "paceline/ps/transport.h"

namespace paceline {

// Among the alternative names of a certificate, one of these says what its holder may be: a shard of a parameter
// server, or a worker and whoever looks on. An authority of one's own has to write them, too.
inline constexpr const char* kServerRoleUri = "urn:paceline:server";
inline constexpr const char* kClientRoleUri = "urn:paceline:client";

// `nothing`: it has neither of the two, or both, or is no certificate.
CertifiedAs certificate_role(const std::string& certificate_pem);

struct CertificateRequest {
  // Where servers are reached, names or numeric addresses: subjectAltName. Clients check it.
  std::vector<std::string> hosts = {"localhost", "127.0.0.1", "::1"};
  int days = 365;
};

struct CertificateFiles {
  std::filesystem::path authority;  // what the others are signed with; both sides need it
  std::filesystem::path authority_key;
  std::filesystem::path server, server_key;
  std::filesystem::path client, client_key;
};

// The names of the files in a folder, whether they are there or not.
CertificateFiles certificate_files(const std::filesystem::path& folder);

// Makes all of them, keys readable by their owner only. Throws FileError where one of them exists already, or cannot be
// written: none of the new ones is left then; UsageError for a host that is neither a name nor an address.
CertificateFiles make_certificates(const std::filesystem::path& folder, const CertificateRequest& request);

// Throw FileError for text that is no certificate in PEM, for one that is not valid today, for a key that belongs to
// another certificate.
void check_certificate(const std::string& certificate_pem, const std::string& key_pem);
void check_authority(const std::string& authority_pem);

}  // namespace paceline
