// Stands in for engine_mpi.cc in a build with PACELINE_MPI=OFF.
#include <cstdlib>

#include "paceline/comm/engine_mpi.h"

namespace paceline {
namespace {

[[noreturn]] void refuse() {
  throw UsageError(
      "this build has no mpi engine; build with -DPACELINE_MPI=ON, or start the ranks with paceline launch");
}

}  // namespace

MpiLibrary::MpiLibrary() : initialised_here_(false) { refuse(); }
MpiLibrary::~MpiLibrary() = default;
int MpiLibrary::rank() const { refuse(); }
int MpiLibrary::size() const { refuse(); }
std::string MpiLibrary::broadcast_text(const std::string&) const { refuse(); }
void MpiLibrary::abort(int) const { std::abort(); }

std::unique_ptr<Group> make_mpi_group(GroupIdentity, std::shared_ptr<Monitor>, MpiOptions) { refuse(); }

}  // namespace paceline
