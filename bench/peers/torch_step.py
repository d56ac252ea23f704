"""The same training steps in Python PyTorch, as its users write them: torchvision's model, SGD, cross-entropy."""

import time

import torch
import torchvision


class SmallCnn(torch.nn.Module):
    """The twin of paceline/models/small_cnn.cc."""

    def __init__(self, classes, channels, image):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(16)
        self.conv2 = torch.nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(32)
        self.conv3 = torch.nn.Conv2d(32, 64, 3, padding=1, bias=False)
        self.bn3 = torch.nn.BatchNorm2d(64)
        self.fc = torch.nn.Linear(64 * (image // 4) ** 2, classes)

    def forward(self, x):
        x = self.bn1(torch.nn.functional.max_pool2d(self.conv1(x), 2)).relu_()
        x = self.bn2(torch.nn.functional.max_pool2d(self.conv2(x), 2)).relu_()
        x = self.bn3(self.conv3(x)).relu_()
        return self.fc(x.flatten(1))


class TorchStep:
    """Batches lie ready in memory: PyTorch is not charged for loading."""

    def __init__(self, model, batch, channels, image, threads, classes=10):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self.model = SmallCnn(classes, channels, image) if model == "small_cnn" else torchvision.models.get_model(model, num_classes=classes)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
        self.batches = [(torch.randn(batch, channels, image, image), torch.randint(classes, (batch,))) for _ in range(8)]
        self.made = 0

    def __call__(self, steps):
        start = time.perf_counter()
        for _ in range(steps):
            images, labels = self.batches[self.made % len(self.batches)]
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(images), labels)
            loss.backward()
            self.optimizer.step()
            loss.item()
            self.made += 1
        return time.perf_counter() - start
