#include "paceline/cli/certs_command.h"

#include <fmt/format.h>

#include <memory>

#include "paceline/ps/certificates.h"

namespace paceline {

void add_certs_command(CLI::App& app) {
  struct Arguments {
    std::string folder;
    CertificateRequest request;
  };
  CLI::App* command =
      app.add_subcommand("certs", "Make an authority, and certificates for servers and workers of a parameter server");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("DIR", arguments->folder, "The folder for the files; must not have any yet")->required();
  command
      ->add_option("--hosts", arguments->request.hosts,
                   "Names and addresses by which servers are reached (default: this machine's loopback)")
      ->type_name("HOST,...")
      ->delimiter(',');
  command->add_option("--days", arguments->request.days, "How long they are valid")
      ->capture_default_str()
      ->check(CLI::Range(1, 36500));
  command->footer(
      "Examples:\n"
      "  paceline certs certs --hosts a.cluster,b.cluster\n"
      "Servers and workers then get --certs certs. Machines that only work need authority, client certificate and its "
      "key, or\n"
      "the authority and the servers' token in PACELINE_SERVER_TOKEN. A server's certificate speaks for a shard, a "
      "client's does\n"
      "not. The authority's key is for making more certificates: keep it away from all of them.");
  command->callback([arguments] {
    const CertificateFiles files = make_certificates(arguments->folder, arguments->request);
    fmt::print("both sides  {}\nservers     {}\n            {}\nworkers     {}\n            {}\nkeep away   {}\n",
               files.authority.string(), files.server.string(), files.server_key.string(), files.client.string(),
               files.client_key.string(), files.authority_key.string());
  });
}

}  // namespace paceline
