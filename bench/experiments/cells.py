"""The training runs behind docs/results/: cells of a table, each a recipe, what is set in it, and seeds.

LISTS names what belongs together; README.md says which row of the sources each list stands for and what it must show. A cell in several lists
is trained once: its name is its folder.

Of cells in one family only the best goes on after the first seed: the same few rates for every method, so that none loses by its rate alone.

Lists of 20 epochs: the rate after the warm-up is the same for every method: lr · N · 0.75^(epoch - T), N = batch / 256, T = 5. Per method:

sgd       gradual warm-up over T from lr = 0.1 (Goyal), momentum 0.9
lars      the same with rate · sqrt(batch / 2048) and eta = 0.02, which moves a layer by 2 % of its norm in a step at 2,048 (before momentum); the
          usual 0.001 would need rates near 20, and those are the plain rates of biases and batch normalisation
adabound  Luo's: 1e-3, closing in on 0.1 · N, no warm-up
hybrid    Lu's: AdaBound until T, then LARS with eta = 0.01 at lr · N
"""

from dataclasses import dataclass, field

EPOCHS, WARMUP, KAPPA, REFERENCE = 20, 5, 0.75, 256
SMALL = "bench/experiments/cifar10_resnet20.toml"
SMALLEST = "bench/experiments/fashion_mnist_small_cnn.toml"


@dataclass(frozen=True)
class Cell:
    name: str
    keys: dict = field(default_factory=dict)  # of the recipe, as --set takes them
    seeds: tuple = (1, 2, 3)
    recipe: str = SMALL
    family: str = ""  # cells that compete for the seeds after the first


def falling_after(warmup):
    """lr · N until `warmup`, then times KAPPA at each epoch: for methods that the recipe's own warm-up does not go with."""
    return {"schedule.name": "step", "schedule.reference_batch": REFERENCE, "schedule.factor": KAPPA,
            "schedule.milestones": list(range(warmup + 1, EPOCHS))}


def sgd(batch, rate=0.1):
    return {"batch.global": batch, "optimizer.name": "sgd", "optimizer.rate": rate, "optimizer.momentum": 0.9, "schedule.name": "exponential",
            "schedule.reference_batch": REFERENCE, "schedule.warmup_epochs": WARMUP, "schedule.warmup_from": rate,
            "schedule.decay_from": "warmup_end", "schedule.factor": KAPPA}


def lars(batch, rate=1.0):
    scaled = rate * (batch / 2048) ** 0.5
    return {**sgd(batch), "optimizer.name": "lars", "optimizer.rate": round(scaled, 6), "optimizer.eta": 0.02, "optimizer.epsilon": 1e-6,
            "schedule.reference_batch": 0, "schedule.warmup_from": 0}


def adabound(batch, final_rate=0.1):
    return {"batch.global": batch, "optimizer.name": "adabound", "optimizer.rate": 1e-3, "optimizer.final_rate": final_rate, **falling_after(WARMUP)}


def hybrid(batch, warmup=WARMUP, eta=0.01, rate=0.1):
    return {"batch.global": batch, "optimizer.name": "hybrid", "optimizer.rate": rate, "optimizer.momentum": 0.9, "optimizer.eta": eta,
            "optimizer.hybrid_epochs": warmup, **falling_after(warmup)}


METHODS = {"sgd": sgd, "lars": lars, "adabound": adabound, "hybrid": hybrid}


def standard(method, batch):
    return Cell(f"{method}-{batch}", METHODS[method](batch))


# In 20 epochs a batch of 8,192 makes 140 steps, and no method gets anywhere (53 to 64 %): here it makes 350.
LONG = 50


def long_cell(method, batch, label, warmup, keys, epochs=LONG, family="", name="large", recipe=SMALL):
    """Warm-up, then (1 - epoch/epochs)², for the hybrid from epoch 0 on unless `keys` say otherwise: so its rates were when these cells were measured, though
    Lu has them constant until the hand-over (HANDED_OVER)."""
    course = {"train.epochs": epochs, "train.eval_every_epochs": epochs / 10, "batch.global": batch, "schedule.name": "polynomial", "schedule.power": 2}
    if method != "adabound":
        course["optimizer.momentum"] = 0.9
    if method in ("sgd", "lars"):
        course |= {"schedule.warmup_epochs": warmup, "schedule.decay_from": "warmup_end"}
    if method == "hybrid":
        course |= {"optimizer.hybrid_epochs": warmup, "schedule.decay_from": "start"}
    return Cell(f"{name}-{method}-{batch}-{label}", {**course, "optimizer.name": method, **keys}, recipe=recipe, family=family)


def with_rate(value, **others):
    return {"optimizer.rate": value, **{f"optimizer.{name}": other for name, other in others.items()}}


def large_batch():
    """Two settings a method and batch, found by a wider search with one seed. (warm-up in epochs, keys); LARS moves a layer by rate · eta of its norm, and
    AdaBound's final rate is that of SGD times ten, because it averages gradients where SGD sums them."""
    settings = {
        512: {"sgd": [(5, with_rate(0.2)), (5, with_rate(0.4))],
              "lars": [(5, with_rate(0.5, eta=0.02, epsilon=1e-6)), (5, with_rate(0.5, eta=0.04, epsilon=1e-6))],
              "adabound": [(0, with_rate(1e-3, final_rate=0.5)), (0, with_rate(1e-3, final_rate=2.0))],
              "hybrid": [(5, with_rate(0.5, eta=0.02)), (5, with_rate(0.5, eta=0.04))]},
        2048: {"sgd": [(5, with_rate(0.8)), (5, with_rate(1.6))],
               "lars": [(5, with_rate(0.5, eta=0.06, epsilon=1e-6)), (5, with_rate(1.0, eta=0.06, epsilon=1e-6))],
               "adabound": [(0, with_rate(1e-3, final_rate=2.0)), (0, with_rate(1e-3, final_rate=8.0))],
               "hybrid": [(5, with_rate(1.0, eta=0.05)), (15, with_rate(1.0, eta=0.05))]},
        8192: {"sgd": [(5, with_rate(3.2)), (15, with_rate(4.5))],
               "lars": [(5, with_rate(1.0, eta=0.1, epsilon=1e-6)), (15, with_rate(1.5, eta=0.1, epsilon=1e-6))],
               "adabound": [(0, with_rate(1e-3, final_rate=8.0)), (0, with_rate(1e-3, final_rate=32.0))],
               "hybrid": [(5, with_rate(2.0, eta=0.05)), (15, with_rate(1.5, eta=0.08))]}}
    return [long_cell(method, batch, number, *setting, family=f"large-{method}-{batch}")
            for batch, methods in settings.items() for method, both in methods.items() for number, setting in enumerate(both)]


def linear_rule():
    """What SGD loses that follows the linear rule from 512: rates of large_batch's 50 epochs that are one another's by it, each with all seeds."""
    return [long_cell("sgd", batch, f"rule-{rate}", 5, with_rate(rate * batch / 512)) for rate in (0.2, 0.4) for batch in (512, 2048, 8192)]


HANDED_OVER = {"schedule.decay_from": "warmup_end"}
STABLE = {"optimizer.epsilon": 1e-6}
FALLING = {"schedule.power": 1}
LINEAR = {**STABLE, **FALLING}


def large_batch_long():
    """1,120 steps at 8,192, warm-up over 20 epochs. SGD's rates there are two of 512's by the linear rule: the best one may be another's than 512's.
    -plain-0.25: biases and batch normalisation, which move by the plain rate, a quarter as fast as with the other cells; the layers alike."""
    settings = [("sgd", 512, "0.2", 5, with_rate(0.2)), ("sgd", 512, "0.4", 5, with_rate(0.4)), ("sgd", 512, "linear-0.4", 5, {**with_rate(0.4), **FALLING}),
                ("lars", 512, "0.02", 5, {**with_rate(0.5, eta=0.02), **STABLE}), ("hybrid", 512, "0.04", 5, with_rate(0.5, eta=0.04)),
                ("sgd", 8192, "3.2", 20, with_rate(3.2)), ("sgd", 8192, "6.4", 20, with_rate(6.4)),
                ("lars", 8192, "0.06", 20, {**with_rate(1.0, eta=0.06), **STABLE}), ("lars", 8192, "0.1", 20, {**with_rate(1.0, eta=0.1), **STABLE}),
                ("lars", 8192, "linear", 20, {**with_rate(1.0, eta=0.06), **LINEAR}), ("lars", 8192, "linear-0.04", 20, {**with_rate(1.0, eta=0.04), **LINEAR}),
                ("hybrid", 8192, "0.06", 20, with_rate(1.0, eta=0.06)), ("hybrid", 8192, "0.1", 5, with_rate(1.0, eta=0.1)),
                ("lars", 8192, "linear-plain-0.25", 20, {**with_rate(0.25, eta=0.24), **LINEAR}),
                ("hybrid", 8192, "plain-0.25", 20, with_rate(0.25, eta=0.24))]
    return [long_cell(method, batch, f"long-{label}", warmup, keys, 160, "" if (method, batch) == ("sgd", 8192) else f"long-{method}-{batch}")
            for method, batch, label, warmup, keys in settings]


def large_batch_ranks():
    """large_batch_long at 8,192 as ranks of 512 (one: 256) train it: each normalises by its own samples. 512 is one such rank: large_batch_long's.
    SGD by the linear rule competes apart from SGD with a rate that was searched for."""
    settings = [("sgd", "6.4", 512, with_rate(6.4), "rule"), ("sgd", "linear-6.4", 512, {**with_rate(6.4), **FALLING}, "rule"),
                ("sgd", "3.2", 512, with_rate(3.2), "sgd"), ("sgd", "linear-3.2", 512, {**with_rate(3.2), **FALLING}, "sgd"),
                ("sgd", "1.6", 512, with_rate(1.6), "sgd"), ("sgd", "linear-1.6", 512, {**with_rate(1.6), **FALLING}, "sgd"),
                ("lars", "linear-0.06", 512, {**with_rate(1.0, eta=0.06), **LINEAR}, "lars"),
                ("lars", "linear-0.04", 512, {**with_rate(1.0, eta=0.04), **LINEAR}, "lars"),
                ("lars", "0.06", 512, {**with_rate(1.0, eta=0.06), **STABLE}, "lars"),
                ("lars", "linear-of-256", 256, {**with_rate(1.0, eta=0.06), **LINEAR}, "lars"),
                ("hybrid", "0.06", 512, with_rate(1.0, eta=0.06), "hybrid"),
                ("hybrid", "linear-0.06", 512, {**with_rate(1.0, eta=0.06), **FALLING}, "hybrid")]
    return [long_cell(method, 8192, f"ranks-{label}", 20, {**keys, "batch.micro": samples}, 160, f"ranks-{family}-8192")
            for method, label, samples, keys, family in settings]


def large_batch_300():
    """The settings that large_batch_long found, 2,100 steps at 8,192. -parts: batch normalisation sees 1,024 samples at a time, as each of 8 ranks would."""
    linear = {**with_rate(1.0, eta=0.06), **LINEAR}
    settings = [("sgd", 512, "0.4", 5, with_rate(0.4), ""), ("lars", 512, "0.02", 5, {**with_rate(0.5, eta=0.02), **STABLE}, ""),
                ("sgd", 8192, "6.4", 20, with_rate(6.4), ""), ("sgd", 8192, "3.2", 20, with_rate(3.2), ""),
                ("lars", 8192, "linear", 20, linear, "300-lars-8192"), ("lars", 8192, "parts", 20, {**linear, "batch.micro": 1024}, "300-lars-8192")]
    return [long_cell(method, batch, f"300-{label}", warmup, keys, 300, family) for method, batch, label, warmup, keys, family in settings]


def small_network():
    """512 and 8,192 (192 steps) where no GPU is needed: two settings a method and batch; SGD at 8,192 has 512's rates by the linear rule, and three others."""
    settings = [("sgd", 512, "0.2", with_rate(0.2), "sgd"), ("sgd", 512, "0.4", with_rate(0.4), "sgd"),
                ("lars", 512, "0.02", {**with_rate(0.5, eta=0.02), **STABLE}, "lars"), ("lars", 512, "0.04", {**with_rate(0.5, eta=0.04), **STABLE}, "lars"),
                ("hybrid", 512, "0.02", with_rate(0.5, eta=0.02), "hybrid"), ("hybrid", 512, "0.04", with_rate(0.5, eta=0.04), "hybrid"),
                ("sgd", 8192, "3.2", with_rate(3.2), "rule"), ("sgd", 8192, "6.4", with_rate(6.4), "rule"),
                ("sgd", 8192, "0.4", with_rate(0.4), "sgd"), ("sgd", 8192, "0.8", with_rate(0.8), "sgd"), ("sgd", 8192, "1.6", with_rate(1.6), "sgd"),
                ("lars", 8192, "0.03", {**with_rate(1.0, eta=0.03), **STABLE}, "lars"), ("lars", 8192, "0.06", {**with_rate(1.0, eta=0.06), **STABLE}, "lars"),
                ("hybrid", 8192, "0.03", with_rate(1.0, eta=0.03), "hybrid"), ("hybrid", 8192, "0.06", with_rate(1.0, eta=0.06), "hybrid")]
    return [long_cell(method, batch, label, {512: 2, 8192: 5}[batch], keys, 24, f"small-{family}-{batch}", "small", SMALLEST)
            for method, batch, label, keys, family in settings]


def small_network_cifar10():
    """The same network on CIFAR-10, in bf16 on a CPU: 512 and 2,048 in large_batch's 50 epochs. SGD at 2,048 has 512's rates by the linear rule (0.8 and
    1.6) with the warm-up that all have; others compete with each other, some (-slow) with as many steps of warm-up as 512 has. LARS and the hybrid have 0.25:
    biases and batch normalisation move by the plain rate. (-kept: the hybrid's rate stays until its hand-over, as published; -rate-1: the same share with another
    plain rate.)"""
    lars_moves = {share: {**with_rate(0.25, eta=4 * share), **STABLE} for share in (0.015, 0.03)}
    hybrid_moves = {share: with_rate(0.25, eta=4 * share) for share in (0.015, 0.03)}
    slow = {"schedule.warmup_epochs": 16}
    settings = [("sgd", 2048, "1.6", with_rate(1.6), "rule"), ("sgd", 2048, "0.8", with_rate(0.8), "rule"),
                ("lars", 2048, "0.03", lars_moves[0.03], "lars"), ("lars", 2048, "0.015", lars_moves[0.015], "lars"),
                ("sgd", 2048, "0.4", with_rate(0.4), "sgd"), ("sgd", 2048, "0.2", with_rate(0.2), "sgd"), ("sgd", 2048, "0.1", with_rate(0.1), "sgd"),
                ("sgd", 2048, "0.4-slow", {**with_rate(0.4), **slow}, "sgd"), ("sgd", 2048, "0.8-slow", {**with_rate(0.8), **slow}, "sgd"),
                ("sgd", 2048, "1.6-slow", {**with_rate(1.6), **slow}, "sgd"),
                ("sgd", 512, "0.4", with_rate(0.4), "sgd"), ("sgd", 512, "0.2", with_rate(0.2), "sgd"),
                ("hybrid", 2048, "0.03", hybrid_moves[0.03], "hybrid"), ("hybrid", 2048, "0.015", hybrid_moves[0.015], "hybrid"),
                ("lars", 512, "0.015", lars_moves[0.015], "lars"),
                ("hybrid", 2048, "0.03-kept", {**hybrid_moves[0.03], **HANDED_OVER}, "kept"),
                ("hybrid", 2048, "0.03-kept-slow", {**hybrid_moves[0.03], **HANDED_OVER, "optimizer.hybrid_epochs": 16}, "kept"),
                ("lars", 2048, "0.03-slow", {**lars_moves[0.03], **slow}, "slow"),
                ("lars", 2048, "0.06", {**with_rate(0.25, eta=0.24), **STABLE}, "apart"),
                ("lars", 2048, "0.03-rate-1", {**with_rate(1.0, eta=0.03), **STABLE}, "apart")]
    on_a_cpu = {"model.name": "small_cnn", "train.device": "cpu", "train.precision": "bf16", "train.threads": 1}
    return [long_cell(method, batch, label, {512: 4, 2048: 5}[batch], {**keys, **on_a_cpu}, LONG, f"small10-{family}-{batch}", "small10")
            for method, batch, label, keys, family in settings]


def warmup_length():
    return [Cell(f"hybrid-2048-warmup-{epochs}", hybrid(2048, warmup=epochs)) for epochs in (1, 2, 8, 10)] + [standard("hybrid", 2048)]


def precision_curve():
    in_f32, in_bf16 = ({**sgd(512), "train.precision": name} for name in ("f32", "bf16"))
    return [Cell("sgd-512-f32", in_f32), Cell("sgd-512-bf16", in_bf16), standard("sgd", 512)]


def batch_norm():
    """Table 3.4 on one device: passes of 128 samples, each with statistics of its own, stand for 16 ranks; one pass of all samples for
    statistics across the ranks."""
    changing = {"batch.milestones": list(range(1, EPOCHS)), "batch.sizes": [(1024, 4096)[epoch % 2] for epoch in range(1, EPOCHS)]}
    ranks = {"batch.micro": 128}
    last = {"batch_norm.statistics": "last_iteration"}
    return [Cell("bn-changing", {**sgd(2048), **changing}), standard("sgd", 2048), Cell("bn-independent", {**sgd(2048), **ranks}),
            Cell("bn-independent-last", {**sgd(2048), **ranks, **last}), Cell("bn-whole-last", {**sgd(2048), **last})]


def initialisation():
    return [standard("hybrid", 2048), Cell("hybrid-2048-xavier", {**hybrid(2048), "model.init": "xavier"}),
            Cell("hybrid-2048-normal", {**hybrid(2048), "model.init": "normal"}),
            Cell("hybrid-2048-gamma-1", {**hybrid(2048), "model.zero_gamma": False})]


def lars_rescue():
    return [standard("sgd", 512), standard("sgd", 8192), Cell("lars-8192-decay-all", {**lars(8192), "optimizer.decay_all": True}),
            standard("lars", 8192), Cell("lars-8192-f32", {**lars(8192), "train.precision": "f32"})]


def alexnet():
    """Which rates AlexNet bears. CIFAR-10 is too small for its stem: images are made up, 64 px."""
    images = {"data.name": "synthetic", "data.image_size": 64, "data.classes": 100, "data.train_samples": 12800, "data.test_samples": 2000,
              "augment.crop_padding": 0, "augment.flip": False, "batch.global": 256, "train.epochs": 6, "optimizer.momentum": 0.9}
    return [Cell(f"{model}-rate-{rate}", {**images, "model.name": model, "optimizer.rate": rate}, (1, 2))
            for model in ("alexnet", "alexnet_bn") for rate in (0.01, 0.03, 0.1)]


def smoothing_and_batch_control():
    """Mikami's two devices, apart and together. A third into the run the batch doubles, and the momentum keeps the noise, as in his Exp. 1."""
    plain = {**lars(2048), "schedule.name": "polynomial"}
    del plain["schedule.factor"]
    control = {"batch.milestones": [round(EPOCHS / 3, 2)], "batch.sizes": [4096], "schedule.momentum": "noise_scale", "schedule.momentum_batch": 2048}
    smooth = {"loss.label_smoothing": 0.1}
    return [Cell("mikami-plain", plain), Cell("mikami-smoothing", {**plain, **smooth}), Cell("mikami-control", {**plain, **control}),
            Cell("mikami-both", {**plain, **smooth, **control})]


def breaking_point():
    return [standard("sgd", batch) for batch in (128, 256, 512, 1024, 2048, 4096, 8192, 16384)]


def adaptive_batch():
    """AdaBatch's pair, 21 epochs for 90: the batch doubles and the rate is times 0.2, or the rate is times 0.1 alone."""
    fixed = {"batch.global": 256, "optimizer.rate": 0.1, "optimizer.momentum": 0.9, "train.epochs": 21, "schedule.name": "step",
             "schedule.milestones": [7, 14], "schedule.factor": 0.1, "schedule.warmup_epochs": 1}
    return [Cell("adabatch-fixed", fixed),
            Cell("adabatch", {**fixed, "schedule.factor": 0.2, "batch.milestones": [7, 14], "batch.sizes": [512, 1024]})]


def cifar10_94():
    return [Cell("cifar10_94", {}, (1, 2, 3, 4, 5), "recipes/cifar10_94.toml")]


# In the order in which they are worth having.
LISTS = {
    "cifar10_94": cifar10_94,
    "large_batch": large_batch,                            # Lu-F3.1; two settings of each, the best has three seeds
    "linear_rule": linear_rule,                            # plain SGD beside it
    "large_batch_long": large_batch_long,                  # the same question with steps enough
    "large_batch_ranks": large_batch_ranks,                # and with the statistics of separate ranks
    "large_batch_300": large_batch_300,                    # and with more
    "small_network": small_network,                        # and of a network that suffers from large rates
    "small_network_cifar10": small_network_cifar10,
    "lars_rescue": lars_rescue,                            # Jia-1
    "precision_curve": precision_curve,                    # Lu-F3.3
    "breaking_point": breaking_point,                      # Sax-4
    "batch_norm": batch_norm,                              # Lu-T3.4
    "initialisation": initialisation,                      # Lu-T3.5, T3.6
    "warmup_length": warmup_length,                        # Lu-F3.2
    "smoothing_and_batch_control": smoothing_and_batch_control,  # Mik-T5
    "adaptive_batch": adaptive_batch,                      # Sax-5
    "alexnet": alexnet,                                    # Jia-4
}
