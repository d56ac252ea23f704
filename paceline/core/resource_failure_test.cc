#include "paceline/core/resource_failure.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace paceline {
namespace {

TEST(ResourceFailure, NamesMemoryAndThreads) {
  EXPECT_NE(resource_failure(std::bad_alloc()).value_or("").find("no more memory"), std::string::npos);
  EXPECT_NE(resource_failure(std::system_error(ENOMEM, std::generic_category())).value_or("").find("no more memory"),
            std::string::npos);
  EXPECT_NE(
      resource_failure(std::system_error(EAGAIN, std::generic_category())).value_or("").find("a thread could not"),
      std::string::npos);
  const std::runtime_error of_torch(
      "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes");
  EXPECT_NE(resource_failure(of_torch).value_or("").find("no more memory"), std::string::npos);
  EXPECT_FALSE(resource_failure(std::runtime_error("something else")));
  EXPECT_FALSE(resource_failure(std::system_error(EPIPE, std::generic_category())));
}

TEST(ResourceFailure, OfAThreadEndsTheProcessWithThatSentence) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        end_in_words_without_resources();
        std::thread([] { throw std::bad_alloc(); }).join();
      },
      testing::ExitedWithCode(5), "paceline: the machine has no more memory");
  EXPECT_DEATH(
      {
        end_in_words_without_resources();
        std::thread([] { throw std::runtime_error("something else"); }).join();
      },
      "something else");
}

}  // namespace
}  // namespace paceline
