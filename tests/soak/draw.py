"""What happens in run NUMBER of a soak: drawn from (seed, number) alone, so that one run can be repeated by itself."""

import dataclasses
import random

SERVER_POLICIES = ["bsp", "asp", "ssp", "k_sync", "adaptive_k", "drop_worker", "easgd"]
RANK_POLICIES = ["allreduce", "stale_allreduce", "local_sgd"]
ENGINES = ["shm", "gloo", "mpi"]
# All-reduce and the parameter server's policies come up more often than the two that are exact relatives of all-reduce.
CELLS = ([("allreduce", engine) for engine in ENGINES] + [(policy, "server") for policy in SERVER_POLICIES] +
         [("allreduce", engine) for engine in ENGINES] + [(policy, engine) for policy in RANK_POLICIES[1:]
                                                          for engine in ENGINES[:2]])
SAMPLES, BATCH, EPOCHS = 120, 12, 20
STEPS = EPOCHS * SAMPLES // BATCH

RECIPE = f"""
[model]
name = "small_cnn"
[data]
name = "synthetic"
train_samples = {SAMPLES}
test_samples = 24
image_size = 8
[augment]
crop_padding = 1
flip = true
[batch]
global = {BATCH}
[train]
epochs = {EPOCHS}
seed = 7
threads = 1
log_every_steps = 5
[optimizer]
rate = 0.02
momentum = 0.9
[checkpoint]
every_steps = 10
"""
LEASE_SECONDS = 6  # of a worker; far longer than one is stopped
SLOWDOWN = 8  # of every rank and worker: a step of 2 ms takes 16, so that faults find a run under way ...
SECONDS = 3  # ... which then takes about so long


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: str  # kill, stop, strangers, full_disk, damage
    victim: str = ""  # of kill and stop: rank 0, worker 1, server 0, chief
    at_step: int = 0  # when the run has come so many steps further (0: from its start on) ...
    after_s: float = 0  # ... and so much later
    for_s: float = 0  # of stop and strangers
    way: str = ""  # of damage: flip, cut, empty
    everywhere: bool = False  # of damage: in every checkpoint, not only in the newest
    seed: int = 0  # of what strangers say, of which file is damaged and where

    def __str__(self):
        words = [
            self.kind, self.victim or self.way, "everywhere" if self.everywhere else "",
            f"at step {self.at_step} + {self.after_s:.2f} s" if self.kind != "damage" else "",
            f"for {self.for_s:.1f} s" if self.for_s else ""
        ]
        return " ".join(word for word in words if word)


@dataclasses.dataclass(frozen=True)
class Plan:
    number: int
    policy: str
    engine: str  # server: of the policies that have one
    ranks: int
    servers: int
    restart: bool  # launch --restart, train --restart: what dies is started again
    keep: int  # checkpoints
    legs: tuple  # of tuples of faults: one for each start of the run but the last, which nothing disturbs


def draw_fault(chance, kind, plan_victims):
    when = {"at_step": chance.choice([0, 0, *range(10, STEPS - 30, 10)]), "after_s": round(chance.uniform(0, 0.3), 3)}
    seed = chance.randrange(2**32)
    if kind == "kill":
        return Fault(kind, victim=chance.choice(plan_victims), seed=seed, **when)
    if kind == "stop":
        return Fault(kind, victim=chance.choice(plan_victims), for_s=round(chance.uniform(0.1, 1.5), 2), seed=seed,
                     **when)
    if kind == "strangers":
        return Fault(kind, for_s=round(chance.uniform(0.5, 3), 2), seed=seed, **when)
    if kind == "full_disk":
        return Fault(kind, seed=seed)
    return Fault("damage", way=chance.choice(["flip", "cut", "empty"]), everywhere=chance.random() < 0.3, seed=seed)


def draw(seed, number):
    chance = random.Random(f"{seed}/{number}")
    policy, engine = CELLS[number % len(CELLS)]
    ranks, servers = chance.choice([2, 3]), chance.choice([1, 2])
    restart = engine == "server" or engine != "mpi" and chance.random() < 0.5
    if engine == "server":
        victims = [*(f"worker {k}" for k in range(ranks)), *(f"server {k}" for k in range(servers)), "chief"]
    else:
        servers, victims = 0, [*(f"rank {k}" for k in range(ranks)), "chief"]
    legs = []
    for _ in range(chance.choice([1, 1, 2])):
        kinds = chance.choices(["kill", "stop", "strangers", "full_disk"], [5, 2, 3, 1], k=chance.choice([1, 2]))
        faults = [draw_fault(chance, kind, victims) for kind in dict.fromkeys(kinds)]
        if chance.random() < 0.5:
            faults.append(draw_fault(chance, "damage", victims))  # when the processes are gone, before they start again
        legs.append(tuple(faults))
    return Plan(number, policy, engine, ranks, servers, restart, chance.choice([1, 3]), tuple(legs))
