"""Training steps of an image network in PyTorch, as its users write them; the peer of bench/resnet50.py.

usage: peers/resnet50.py --model resnet50 --batch 256 --precision f16 --mode eager|compile|reduce-overhead

Channels-last, cuDNN's benchmark mode, autocast for f16 (with GradScaler) and bf16, torch.optim.SGD with momentum and its default
implementation. f32 is PyTorch's default: TF32 in convolutions, not in matrix products. Images lie on the device in the precision that
the network computes in: nobody is charged for loading. Prints one line of JSON.
"""

import argparse
import contextlib
import json
import time

import torch
import torchvision
from torch import nn

CLASSES = 1000
BATCHES = 4
TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}


class MobileNetV1(nn.Module):
    """The twin of paceline/models/mobilenet.cc."""

    PAIRS = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1)]

    def __init__(self, num_classes):
        super().__init__()

        def block(inputs, outputs, kernel, stride, groups=1):
            convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
            return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))

        blocks, inputs = [block(3, 32, 3, 2)], 32
        for outputs, stride in self.PAIRS:
            blocks += [block(inputs, inputs, 3, stride, groups=inputs), block(inputs, outputs, 1, 1)]
            inputs = outputs
        self.features = nn.Sequential(*blocks)
        self.classifier = nn.Linear(inputs, num_classes)

    def forward(self, images):
        return self.classifier(nn.functional.adaptive_avg_pool2d(self.features(images), 1).flatten(1))


def make_model(name):
    return MobileNetV1(CLASSES) if name == "mobilenet_v1" else torchvision.models.get_model(name, num_classes=CLASSES)


class Trainer:
    def __init__(self, options):
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = True
        self.device, self.type = options.device, TYPES[options.precision]
        self.model = make_model(options.model).to(options.device, memory_format=torch.channels_last)
        if options.mode != "eager":
            self.model = torch.compile(self.model, mode="default" if options.mode == "compile" else options.mode)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-5, momentum=0.9, weight_decay=5e-5)
        self.scaler = torch.amp.GradScaler(options.device, enabled=options.precision == "f16")
        shape = (options.batch, 3, options.image, options.image)
        self.batches = [(torch.randn(shape, device=options.device).to(self.type, memory_format=torch.channels_last),
                         torch.randint(CLASSES, (options.batch,), device=options.device)) for _ in range(BATCHES)]
        self.made = 0
        self.loss = None

    def step(self):
        images, labels = self.batches[self.made % BATCHES]
        half = torch.autocast(self.device, dtype=self.type) if self.type != torch.float32 else contextlib.nullcontext()
        self.optimizer.zero_grad(set_to_none=True)
        with half:
            self.loss = nn.functional.cross_entropy(self.model(images), labels)
        self.scaler.scale(self.loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.made += 1

    def window(self, steps):
        """Seconds of so many steps; reading the loss waits for the last."""
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.loss.item()
        return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--precision", choices=TYPES, required=True)
    parser.add_argument("--mode", choices=("eager", "compile", "reduce-overhead"), default="eager")
    parser.add_argument("--image", type=int, default=224)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--window-steps", type=int, default=20)
    parser.add_argument("--warmup-seconds", type=float, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of steady state, at least")
    options = parser.parse_args()

    begun = time.perf_counter()
    trainer = Trainer(options)
    first_s = trainer.window(3)  # compiles, and tries cuDNN's algorithms
    warm = 0.0
    while warm < options.warmup_seconds:
        warm += trainer.window(options.window_steps)
    windows = []
    while sum(windows) < options.seconds or len(windows) < 3:
        windows.append(trainer.window(options.window_steps))
    images = options.batch * options.window_steps
    print(json.dumps({"images_per_second": [images / seconds for seconds in windows], "loss": trainer.loss.item(), "first_steps_s": first_s,
                      "whole_s": time.perf_counter() - begun, "torch": torch.__version__,
                      "memory_bytes": torch.cuda.max_memory_allocated() if options.device == "cuda" else 0}), flush=True)


if __name__ == "__main__":
    main()
