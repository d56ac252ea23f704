#include "paceline/launch/mpirun.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What came out, in order: "3 output: text".
class MpirunOutputTest : public ::testing::Test {
 protected:
  std::vector<std::string> heard_;
  MpirunOutput output_{
      {.line =
           [this](int rank, Stream stream, std::string_view line) {
             heard_.push_back(fmt::format("{} {}: {}", rank, stream == Stream::output ? "output" : "errors", line));
           },
       .note = [this](const std::string& from,
                      std::string_view line) { heard_.push_back(fmt::format("{}: {}", from, line)); }}};
};

TEST_F(MpirunOutputTest, KnowsWhoseALineIs) {
  output_.add_line(Stream::output, "[1,3]<stdout>:hello");
  output_.add_line(Stream::errors, "[1,12]<stderr>:");
  EXPECT_THAT(heard_, ElementsAre("3 output: hello", "12 errors: "));
}

TEST_F(MpirunOutputTest, PutsPiecesOfLinesTogether) {
  output_.add_line(Stream::output, "[1,0]<stdout>:a[1,1]<stdout>:b[1,1]<stdout>:c");
  output_.add_line(Stream::output, "[1,0]<stdout>:d");
  EXPECT_THAT(heard_, ElementsAre("1 output: bc", "0 output: ad"));
}

TEST_F(MpirunOutputTest, GivesTheLastLineThatHasNoEnd) {
  output_.add_line(Stream::output, "[1,0]<stdout>:a[1,1]<stdout>:b");
  output_.finish();
  EXPECT_THAT(heard_, ElementsAre("1 output: b", "0 output: a"));
}

TEST_F(MpirunOutputTest, PassesOnWhatMpirunSaysItself) {
  output_.add_line(Stream::errors, "There are not enough slots");
  output_.add_line(Stream::errors, "mpirun: Forwarding signal 10 to job");  // but not that it does as it was told
  output_.add_line(Stream::errors, "]<stderr>: [x,1]<stdout>: [,]<stderr>:");
  EXPECT_THAT(heard_,
              ElementsAre("mpirun: There are not enough slots", "mpirun: ]<stderr>: [x,1]<stdout>: [,]<stderr>:"));
}

TEST(Mpirun, PassesVariablesByNameOnly) {
  EXPECT_THAT(
      mpirun_command({.ranks = 8, .hosts = "a:4,b:4", .rsh = "ssh -q"}, {"PACELINE_SECRET=hush"}, {"prog", "-x"}),
      ElementsAre("mpirun", "-n", "8", "--oversubscribe", "--bind-to", "none", "--tag-output", "--host", "a:4,b:4",
                  "--mca", "plm_rsh_agent", "ssh -q", "-x", "PACELINE_SECRET", "prog", "-x"));
  EXPECT_THAT(mpirun_command({.ranks = 2}, {}, {"prog"}),
              ElementsAre("mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", "--tag-output", "prog"));
}

TEST(Mpirun, RanksOfOneHostMeetInSharedMemoryAlone) {
  const auto variables = [](const std::string& hosts, const std::string& is_set) {
    return one_host_variables({.ranks = 2, .hosts = hosts}, [&](const std::string& name) {
      return name == is_set ? std::optional<std::string>("x") : std::nullopt;
    });
  };
  EXPECT_THAT(variables("", ""), ElementsAre("OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader"));
  EXPECT_THAT(variables("a:1,b:1", ""), IsEmpty());
  for (const char* const name : {"OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl", "SLURM_JOB_ID", "PBS_JOBID"})
    EXPECT_THAT(variables("", name), IsEmpty()) << name;
}

}  // namespace
}  // namespace paceline
