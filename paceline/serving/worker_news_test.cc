#include "paceline/serving/worker_news.h"

#include <gmock/gmock.h>

namespace paceline {
namespace {

TEST(WorkerNews, ComeBackAsTheyWere) {
  const WorkerNews news = {.loss = 1,
                           .accuracy = 2,
                           .samples = 3,
                           .steps = 4,
                           .compute_ms = 5,
                           .push_ms = 6,
                           .wait_ms = 7,
                           .pull_ms = 8,
                           .statistics = {9, 10}};
  const WorkerNews back = WorkerNews::from_numbers(news.to_numbers());
  EXPECT_EQ(back.to_numbers(), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(back.steps, 4);
  EXPECT_EQ(back.pull_ms, 8);
  EXPECT_THROW(WorkerNews::from_numbers(std::vector<float>(7)), PeerError);
}

TEST(WorkerNews, AreRefusedWhenTheyAreNotFiniteOrOfAnotherLength) {
  std::vector<float> numbers = WorkerNews{.statistics = {9, 10}}.to_numbers();
  EXPECT_EQ(WorkerNews::why_no_news(numbers, 2), "");
  EXPECT_EQ(WorkerNews::why_no_news(numbers, 3), "10 numbers, not 11");
  numbers[9] = std::nanf("");
  EXPECT_EQ(WorkerNews::why_no_news(numbers, 2), "number 9 is nan");
  numbers[0] = -INFINITY;
  EXPECT_EQ(WorkerNews::why_no_news(numbers, 2), "number 0 is -inf");
}

}  // namespace
}  // namespace paceline
