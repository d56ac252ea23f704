#include "paceline/ps/certificates.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

unsigned mode_of(const std::filesystem::path& path) {
  struct stat status = {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 0777;
}

TEST(Certificates, AreMadeWithKeysThatOnlyTheirOwnerReads) {
  const TestFolder folder;
  const CertificateFiles files = make_certificates(folder.path() / "new" / "folder", {});
  for (const auto& key : {files.authority_key, files.server_key, files.client_key}) EXPECT_EQ(mode_of(key), 0600u);
  EXPECT_NO_THROW(check_authority(read_file(files.authority)));
  EXPECT_NO_THROW(check_certificate(read_file(files.server), read_file(files.server_key)));
  EXPECT_NO_THROW(check_certificate(read_file(files.client), read_file(files.client_key)));
  EXPECT_THROW(check_certificate(read_file(files.client), read_file(files.server_key)), FileError);
  EXPECT_THROW(check_certificate(read_file(files.client), read_file(files.client)), FileError);
  EXPECT_THROW(check_certificate("", read_file(files.client_key)), FileError);
  EXPECT_THROW(check_authority("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), FileError);
}

TEST(Certificates, SayWhatTheirHolderMayBe) {
  const TestFolder folder;
  const CertificateFiles files = make_certificates(folder.path(), {.hosts = {"node-1.cluster", "10.0.0.7"}});
  EXPECT_EQ(certificate_role(read_file(files.server)), CertifiedAs::server);
  EXPECT_EQ(certificate_role(read_file(files.client)), CertifiedAs::client);
  EXPECT_EQ(certificate_role(read_file(files.authority)), CertifiedAs::nothing);
  EXPECT_EQ(certificate_role(""), CertifiedAs::nothing);
}

TEST(Certificates, AreNotOverwritten) {
  const TestFolder folder;
  const CertificateFiles files = make_certificates(folder.path(), {});
  const std::string before = read_file(files.client);
  EXPECT_THROW(make_certificates(folder.path(), {}), FileError);
  EXPECT_EQ(read_file(files.client), before);
  for (const auto& path : {files.authority, files.authority_key, files.server, files.server_key, files.client_key}) {
    std::filesystem::remove(path);
  }
  EXPECT_THROW(make_certificates(folder.path(), {}), FileError);  // one is there: none of the others is left
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_EQ(read_file(files.client), before);
}

TEST(Certificates, AFolderThatCannotBeIsNamed) {
  const TestFolder folder;
  replace_file(folder.path() / "file", "");
  EXPECT_THROW(make_certificates(folder.path() / "file" / "in_it", {}), FileError);
}

TEST(Certificates, HostsAreNamesOrAddresses) {
  const TestFolder folder;
  EXPECT_THROW(make_certificates(folder.path(), {.hosts = {"a,DNS:evil"}}), UsageError);
  EXPECT_THROW(make_certificates(folder.path(), {.hosts = {""}}), UsageError);
  EXPECT_THROW(make_certificates(folder.path(), {.hosts = {}}), UsageError);
  EXPECT_NO_THROW(make_certificates(folder.path(), {.hosts = {"node-1.cluster", "10.0.0.7", "fd00::2"}}));
}

TEST(Certificates, AnExpiredOneIsSaidToBe) {
  const TestFolder folder;
  const CertificateFiles files = make_certificates(folder.path(), {.days = -1});
  try {
    check_authority(read_file(files.authority));
    FAIL() << "an authority of yesterday was accepted";
  } catch (const FileError& failure) {
    EXPECT_THAT(failure.what(), testing::HasSubstr("has expired on"));
  }
}

}  // namespace
}  // namespace paceline
