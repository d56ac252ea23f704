#include "paceline/sync/easgd.h"

#include <gmock/gmock.h>

#include "paceline/sync/test_orders.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using enum Decision::Kind;

TEST(EasgdPolicy, ExchangesWithAShareOfTheLiveWorkers) {
  EasgdPolicy easgd({.workers = 2, .elasticity = 0.5});
  EXPECT_THAT(easgd.on(join(0)), ElementsAre(release_of(0, 0)));
  EXPECT_THAT(easgd.on(push(0, 0)), ElementsAre(gradient(exchange, 0, 0, 8, 0.5), release_of(0, 0)));
  easgd.on(join(1));
  EXPECT_THAT(easgd.on(push(0, 0)), ElementsAre(gradient(exchange, 0, 0, 8, 0.25), release_of(0, 0)));
  EXPECT_THAT(easgd.on(leave(1)), IsEmpty());
  EXPECT_THAT(easgd.on(push(0, 0)), ElementsAre(gradient(exchange, 0, 0, 8, 0.5), release_of(0, 0)));
  EXPECT_EQ(easgd.version(), 0u);
}

TEST(EasgdPolicy, AnswersAsTheWholePastSaysInRandomOrders) {
  play_orders({.policy = "easgd",
               .vary = [](Dice& dice, SyncSettings& s) { s.elasticity = 0.1 + 0.9 * dice.uniform(); },
               .model =
                   [](SyncHistory& past, const SyncSettings& settings) {
                     const SyncEvent event = past.event();
                     if (event.kind == SyncEvent::Kind::push) {
                       const double share = settings.elasticity / static_cast<double>(past.live().size());
                       past.answer(gradient(exchange, event.worker, 0, event.samples, share));
                     }
                     for (const int id : past.waiting()) past.answer(release_of(id, 0));
                   }});
}

}  // namespace
}  // namespace paceline
