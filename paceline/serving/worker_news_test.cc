#include "paceline/serving/worker_news.h"

#include <gmock/gmock.h>

namespace paceline {
namespace {

TEST(WorkerNews, ComeBackAsTheyWere) {
  const WorkerNews news = {.worker = 3,
                           .samples = 16'777'217,  // more digits than a float has
                           .steps = 4,
                           .loss_sum = 123'456'789.25,
                           .correct = 5,
                           .rate = 0.5,
                           .compute_ms = 6,
                           .push_ms = 7,
                           .wait_ms = 8,
                           .pull_ms = 9,
                           .statistics = {10, 11}};
  const WorkerNews back = WorkerNews::from_numbers(news.to_numbers());
  EXPECT_EQ(back.to_numbers(), news.to_numbers());
  EXPECT_EQ(back.worker, 3);
  EXPECT_EQ(back.samples, 16'777'217);
  EXPECT_EQ(back.steps, 4);
  EXPECT_EQ(back.loss_sum, 123'456'789.25);
  EXPECT_EQ(back.correct, 5);
  EXPECT_EQ(back.rate, 0.5f);
  EXPECT_EQ(back.compute_ms, 6);
  EXPECT_EQ(back.pull_ms, 9);
  EXPECT_THAT(back.statistics, testing::ElementsAre(10, 11));
  EXPECT_THROW(WorkerNews::from_numbers(std::vector<float>(7)), PeerError);
}

TEST(WorkerNews, AreRefusedWhenTheyAreNotFiniteOfAnotherLengthOrOfNoWorker) {
  std::vector<float> numbers = WorkerNews{.statistics = {9, 10}}.to_numbers();
  EXPECT_EQ(WorkerNews::why_no_news(numbers, 2), "");
  EXPECT_EQ(WorkerNews::why_no_news(numbers, 3), "16 numbers, not 17");
  numbers[0] = -1;
  EXPECT_EQ(WorkerNews::why_no_news(numbers, 2), "there can be no worker -1");
  numbers[9] = std::nanf("");
  EXPECT_EQ(WorkerNews::why_no_news(numbers, 2), "number 9 is nan");
  numbers[0] = -INFINITY;
  EXPECT_EQ(WorkerNews::why_no_news(numbers, 2), "number 0 is -inf");
}

}  // namespace
}  // namespace paceline
