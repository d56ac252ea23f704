"""A data-parallel training step as PyTorch's users write it: DistributedDataParallel over gloo, SGD with momentum.

usage: ddp.py --model resnet18|mlp --batch B --steps N --warmup W [--no-sync] --json FILE

One rank of several, started with torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT); each computes on one
thread. Rank 0 writes {"step_ms": [...]}, one number for each step after the warm-up. bench/data_parallel.py starts it.
"""

import argparse
import json
import pathlib
import time

import torch
import torch.distributed
from torch import nn
from torch.nn.functional import adaptive_avg_pool2d, cross_entropy, max_pool2d
from torch.nn.parallel import DistributedDataParallel

CLASSES = 10
BATCHES = 4  # made once and used in turn: nobody is charged for loading


class BasicBlock(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or inputs != width:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, images):
        x = self.bn1(self.conv1(images)).relu_()
        x = self.bn2(self.conv2(x)).add_(images if self.downsample is None else self.downsample(images))
        return x.relu_()


class ResNet18(nn.Module):
    """The twin of resnet18 in paceline/models/resnet.cc: torchvision's, whose stem quarters the image at 32 pixels too, and
    channels-last inside."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        blocks, inputs = [], 64
        for width, stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
            blocks += [BasicBlock(inputs, width, stride), BasicBlock(width, width, 1)]
            inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(512, CLASSES)

    def forward(self, images):
        x = self.bn1(self.conv1(images.contiguous(memory_format=torch.channels_last))).relu_()
        x = self.blocks(max_pool2d(x, 3, stride=2, padding=1))
        return self.fc(adaptive_avg_pool2d(x, 1).flatten(1))


def mlp():
    return nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, CLASSES))


MODELS = {"resnet18": (ResNet18, (3, 32, 32)), "mlp": (mlp, (784,))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--batch", type=int, required=True, help="samples of each rank")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--warmup", type=int, required=True, help="steps before those, not counted")
    parser.add_argument("--no-sync", action="store_true", help="the same processes, each training for itself")
    parser.add_argument("--json", type=pathlib.Path, required=True)
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    torch.manual_seed(1 + rank)
    make_model, shape = MODELS[options.model]
    model = make_model()
    if not options.no_sync:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batches = [(torch.randn(options.batch, *shape), torch.randint(CLASSES, (options.batch,))) for _ in range(BATCHES)]

    step_ms = []
    for step in range(options.warmup + options.steps):
        if step == options.warmup:
            torch.distributed.barrier()  # without synchronisation, too, each rank has the other beside it while it is timed
        start = time.perf_counter()
        samples, labels = batches[step % BATCHES]
        optimizer.zero_grad()
        cross_entropy(model(samples), labels).backward()
        optimizer.step()
        if step >= options.warmup:
            step_ms.append(1e3 * (time.perf_counter() - start))
    torch.distributed.barrier()
    if rank == 0:
        options.json.write_text(json.dumps({"step_ms": step_ms}) + "\n")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
