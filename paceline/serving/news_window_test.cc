#include "paceline/serving/news_window.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

WorkerNews news(int worker, double samples, double loss_sum, double correct = 0) {
  return {.worker = worker, .samples = samples, .loss_sum = loss_sum, .correct = correct};
}

TEST(NewsWindow, WeighsWorkersByTheirSamples) {
  NewsWindow window;
  window.see({news(0, 30, 30, 15), news(3, 10, 50, 1)});
  EXPECT_EQ(window.sums().samples, 40);
  EXPECT_EQ(window.sums().mean_loss(), 2);
  EXPECT_EQ(window.sums().accuracy(), 0.4);
  EXPECT_EQ(window.of_worker(3).mean_loss(), 5);
  EXPECT_EQ(window.of_worker(1).samples, 0);
}

TEST(NewsWindow, CountsNothingTwiceAndNothingOfTheWindowBefore) {
  NewsWindow window;
  window.see({news(0, 10, 20)});
  window.see({news(0, 10, 20)});  // nothing new
  EXPECT_EQ(window.sums().samples, 10);
  window.close();
  EXPECT_EQ(window.sums().samples, 0);
  window.see({news(0, 10, 20)});
  EXPECT_EQ(window.sums().samples, 0);
  window.see({news(0, 30, 40)});
  EXPECT_EQ(window.sums().samples, 20);
  EXPECT_EQ(window.sums().mean_loss(), 1);
}

TEST(NewsWindow, AWorkerThatWasStartedAgainCountsFromZero) {
  NewsWindow window;
  window.see({news(0, 100, 100)});
  window.close();
  window.see({news(0, 10, 30)});
  window.see({news(0, 20, 50)});
  EXPECT_EQ(window.sums().samples, 20);
  EXPECT_EQ(window.sums().mean_loss(), 2.5);
}

}  // namespace
}  // namespace paceline
