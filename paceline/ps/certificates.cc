#include "paceline/ps/certificates.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>

#include "paceline/core/check.h"
#include "paceline/core/file.h"

namespace paceline {
namespace {

template <auto free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;

std::string openssl_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  char text[256] = "no reason given";
  if (code != 0) ERR_error_string_n(code, text, sizeof(text));
  return text;
}

void require(bool done, const char* what) { CHECK_TRUE(done, "OpenSSL cannot {}: {}", what, openssl_reason()); }

Bio reader(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

template <class Write>
std::string to_pem(Write write) {
  const Bio bio(BIO_new(BIO_s_mem()));
  require(bio && write(bio.get()) == 1, "write PEM");
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(bytes)};
}

std::string pem_of(X509* certificate) {
  return to_pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

std::string pem_of(EVP_PKEY* key) {
  return to_pem(
      [&](BIO* bio) { return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

Key make_key() {
  Key key(EVP_EC_gen("P-256"));
  require(key != nullptr, "make a key");
  return key;
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  require(extension && X509_add_ext(certificate, extension.get(), -1) == 1, "add an extension");
}

// Not signed yet. An issuer of nullptr: it will be signed by itself.
Certificate make_certificate(const std::string& name, EVP_PKEY* key, X509* issuer, int days) {
  Certificate certificate(X509_new());
  require(certificate != nullptr, "make a certificate");
  X509_set_version(certificate.get(), X509_VERSION_3);
  unsigned char serial[16];
  require(RAND_bytes(serial, sizeof(serial)) == 1, "draw a serial number");
  serial[0] &= 0x7f;  // positive
  const std::unique_ptr<BIGNUM, Freed<BN_free>> number(BN_bin2bn(serial, sizeof(serial), nullptr));
  require(BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get())) != nullptr, "set a serial number");
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);  // clocks of other machines may be behind
  X509_time_adj_ex(X509_getm_notAfter(certificate.get()), days, 0, nullptr);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  require(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(name.data()),
                                     static_cast<int>(name.size()), -1, 0) == 1,
          "set a name");
  X509* const signer = issuer != nullptr ? issuer : certificate.get();
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(signer));
  add_extension(certificate.get(), signer, NID_subject_key_identifier, "hash");
  if (issuer == nullptr) {
    add_extension(certificate.get(), signer, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
    add_extension(certificate.get(), signer, NID_key_usage, "critical,keyCertSign,cRLSign");
  } else {
    add_extension(certificate.get(), signer, NID_authority_key_identifier, "keyid");
    add_extension(certificate.get(), signer, NID_basic_constraints, "critical,CA:FALSE");
    add_extension(certificate.get(), signer, NID_key_usage, "critical,digitalSignature");
  }
  return certificate;
}

void sign(X509* certificate, EVP_PKEY* key) { require(X509_sign(certificate, key, EVP_sha256()) > 0, "sign"); }

bool is_address(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 || inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

// Only what cannot mean anything else in OpenSSL's notation gets there.
std::string alternative_names(const std::vector<std::string>& hosts) {
  std::string names;
  for (const std::string& host : hosts) {
    const bool letters = !host.empty() && host.size() <= 253 && std::ranges::all_of(host, [](unsigned char c) {
      return std::isalnum(c) || c == '.' || c == '-' || c == '_' || c == '*';
    });
    if (!letters && !is_address(host)) {
      throw UsageError(fmt::format("'{}' is neither the name of a host nor a numeric address", host));
    }
    names += fmt::format("{}{}:{}", names.empty() ? "" : ",", is_address(host) ? "IP" : "DNS", host);
  }
  if (names.empty()) throw UsageError("a server's certificate needs the name or address of at least one host");
  return names;
}

[[noreturn]] void cannot_write(const std::filesystem::path& path, int code) {
  throw FileError(
      fmt::format("cannot write {}: {}{}", path.string(), std::strerror(code),
                  code == EEXIST ? "; certificates are not replaced: choose another folder, or remove it" : ""));
}

void write_new(const std::filesystem::path& path, const std::string& text, mode_t mode) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (descriptor < 0) cannot_write(path, errno);
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const int code = written < 0 ? errno : ENOSPC;
  const bool whole = written == static_cast<ssize_t>(text.size()) && ::fsync(descriptor) == 0;
  ::close(descriptor);
  if (!whole) {
    ::unlink(path.c_str());
    cannot_write(path, code);
  }
}

Certificate read_certificate(const std::string& pem, const char* what) {
  Certificate certificate(PEM_read_bio_X509(reader(pem).get(), nullptr, nullptr, nullptr));
  if (!certificate) throw FileError(fmt::format("the {} is no certificate in PEM: {}", what, openssl_reason()));
  const auto check_time = [&](const ASN1_TIME* time, bool wanted_past, const char* verb) {
    if ((X509_cmp_current_time(time) < 0) == wanted_past) return;
    const Bio text(BIO_new(BIO_s_mem()));
    ASN1_TIME_print(text.get(), time);
    char* data = nullptr;
    const long bytes = BIO_get_mem_data(text.get(), &data);
    throw FileError(fmt::format("the {} {} {}; make a new one, or look at this machine's clock", what, verb,
                                std::string_view(data, static_cast<size_t>(bytes))));
  };
  check_time(X509_get0_notBefore(certificate.get()), true, "is not valid before");
  check_time(X509_get0_notAfter(certificate.get()), false, "has expired on");
  return certificate;
}

}  // namespace

CertificateFiles certificate_files(const std::filesystem::path& folder) {
  return {folder / "authority.pem", folder / "authority.key", folder / "server.pem",
          folder / "server.key",    folder / "client.pem",    folder / "client.key"};
}

CertificateFiles make_certificates(const std::filesystem::path& folder, const CertificateRequest& request) {
  const std::string names = alternative_names(request.hosts);
  const CertificateFiles files = certificate_files(folder);

  const Key authority_key = make_key(), server_key = make_key(), client_key = make_key();
  const Certificate authority = make_certificate("Paceline authority", authority_key.get(), nullptr, request.days);
  sign(authority.get(), authority_key.get());
  const Certificate server = make_certificate("Paceline server", server_key.get(), authority.get(), request.days);
  add_extension(server.get(), authority.get(), NID_subject_alt_name, fmt::format("{},URI:{}", names, kServerRoleUri));
  add_extension(server.get(), authority.get(), NID_ext_key_usage, "serverAuth,clientAuth");  // servers talk to servers
  sign(server.get(), authority_key.get());
  const Certificate client = make_certificate("Paceline client", client_key.get(), authority.get(), request.days);
  add_extension(client.get(), authority.get(), NID_subject_alt_name, fmt::format("URI:{}", kClientRoleUri));
  add_extension(client.get(), authority.get(), NID_ext_key_usage, "clientAuth");
  sign(client.get(), authority_key.get());

  make_directories(folder);
  struct File {
    std::filesystem::path path;
    std::string text;
    mode_t mode;
  };
  const std::vector<File> all = {
      {files.authority_key, pem_of(authority_key.get()), 0600}, {files.authority, pem_of(authority.get()), 0644},
      {files.server_key, pem_of(server_key.get()), 0600},       {files.server, pem_of(server.get()), 0644},
      {files.client_key, pem_of(client_key.get()), 0600},       {files.client, pem_of(client.get()), 0644}};
  size_t written = 0;
  try {
    for (; written < all.size(); ++written) write_new(all[written].path, all[written].text, all[written].mode);
    sync_directory(folder);
  } catch (const FileError&) {
    for (size_t i = 0; i < written; ++i) ::unlink(all[i].path.c_str());
    throw;
  }
  return files;
}

CertifiedAs certificate_role(const std::string& certificate_pem) {
  const Certificate certificate(PEM_read_bio_X509(reader(certificate_pem).get(), nullptr, nullptr, nullptr));
  if (!certificate) {
    ERR_clear_error();
    return CertifiedAs::nothing;
  }
  const std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  bool server = false, client = false;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                                static_cast<size_t>(ASN1_STRING_length(uri)));
    server |= text == kServerRoleUri;
    client |= text == kClientRoleUri;
  }
  if (server == client) return CertifiedAs::nothing;
  return server ? CertifiedAs::server : CertifiedAs::client;
}

void check_certificate(const std::string& certificate_pem, const std::string& key_pem) {
  const Certificate certificate = read_certificate(certificate_pem, "certificate");
  const Key key(PEM_read_bio_PrivateKey(
      reader(key_pem).get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr));
  if (!key) throw FileError(fmt::format("the certificate's key is no private key in PEM: {}", openssl_reason()));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    throw FileError("the key does not belong to the certificate; give the two that were made together");
  }
}

void check_authority(const std::string& authority_pem) { read_certificate(authority_pem, "authority"); }

}  // namespace paceline
