"""Makes the golden files: what torchvision's models answer, for paceline/models/golden_test.cc to compare with.

    python3 make_golden.py [FOLDER]        needs torch 2.11 and torchvision 0.26; FOLDER: this one

Weights, images and labels come from formulas that the test computes too (formula() here, Formula there), so the files hold
only the answers. Everything is computed in float64: the numbers are torchvision's architecture, not one processor's
rounding. For each model, one safetensors file with

    eval_logits        before any training, with the running statistics of the formula
    logits, loss       in training mode, without dropout
    gradient.NAME      elements of each parameter's gradient: numbers floor(i * size / n) for i < n = min(size, 64)
    norm.NAME          its 2-norm
    buffer.NAME        the same elements of each buffer after that training step (BN's statistics)
"""

import json
import pathlib
import struct
import sys

import numpy
import torch
import torchvision

ELEMENTS = 64
MODELS = {  # name: (samples, pixels)
    "resnet18": (4, 64),
    "resnet50": (4, 64),
    "vgg16": (2, 32),
    "alexnet": (2, 64),
}


def formula(name: str, count: int) -> numpy.ndarray:
    """Numbers in [-1, 1), multiples of 2^-23, from a hash of name and index: exact in float32 everywhere."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 & 0xFFFFFFFF
    x = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(2654435769) + numpy.uint32(seed)
    for shift, factor in ((16, 2246822507), (13, 3266489909), (16, 1)):
        x = (x ^ (x >> numpy.uint32(shift))) * numpy.uint32(factor)
    return ((x >> numpy.uint32(8)).astype(numpy.float32) - numpy.float32(2**23)) * numpy.float32(2**-23)


def weights(name: str, shape: tuple[int, ...]) -> numpy.ndarray:
    """Scaled so that activations keep their size from layer to layer, and from one residual block to the next."""
    u = formula(name, int(numpy.prod(shape, dtype=int))).reshape(shape)
    if name.endswith("num_batches_tracked"):
        return numpy.zeros(shape, numpy.int64)
    if len(shape) >= 2:
        gain = 6 if len(shape) == 4 else 3
        return u * numpy.float32(numpy.sqrt(gain / numpy.prod(shape[1:], dtype=float)))
    centre = 0
    if name.endswith(("bn2.weight", "bn3.weight")):  # ends a residual block, or stands just before its end
        centre = 0.25
    elif name.endswith((".weight", "running_var")):
        centre = 1
    return numpy.float32(centre) + u * numpy.float32(0.125)


def picked(tensor: torch.Tensor) -> numpy.ndarray:
    flat = tensor.detach().reshape(-1)
    count = min(len(flat), ELEMENTS)
    return flat[[i * len(flat) // count for i in range(count)]].numpy()


def golden(model_name: str, samples: int, pixels: int) -> dict[str, numpy.ndarray]:
    options = {"dropout": 0.0} if model_name in ("vgg16", "alexnet") else {}
    model = getattr(torchvision.models, model_name)(weights=None, **options)
    model.load_state_dict({k: torch.from_numpy(weights(k, tuple(v.shape))) for k, v in model.state_dict().items()})
    model.double()
    images = torch.from_numpy(formula("images", samples * 3 * pixels * pixels).reshape(samples, 3, pixels, pixels)).double()
    labels = torch.tensor([(i * 389 + 7) % 1000 for i in range(samples)])

    answers = {}
    with torch.no_grad():
        answers["eval_logits"] = model.eval()(images).numpy()
    logits = model.train()(images)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    answers["logits"] = logits.detach().numpy()
    answers["loss"] = loss.detach().numpy()
    for name, parameter in model.named_parameters():
        answers["gradient." + name] = picked(parameter.grad)
        answers["norm." + name] = parameter.grad.norm().numpy()
    for name, buffer in model.named_buffers():
        answers["buffer." + name] = picked(buffer.double())
    return answers


def write(path: pathlib.Path, arrays: dict[str, numpy.ndarray], metadata: dict[str, str]) -> None:
    """A safetensors file by hand, to need nothing but torchvision. Stored in float32."""
    header, data = {"__metadata__": metadata}, b""
    for name, array in sorted(arrays.items()):
        raw = array.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main() -> None:
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    for name, (samples, pixels) in MODELS.items():
        answers = golden(name, samples, pixels)
        metadata = {"torch": torch.__version__, "torchvision": torchvision.__version__, "samples": str(samples), "pixels": str(pixels)}
        write(folder / f"{name}.safetensors", answers, metadata)
        print(f"{name}: loss {answers['loss']:.4f}, logits' deviation {answers['logits'].std():.3f}, eval {answers['eval_logits'].std():.3f}")


if __name__ == "__main__":
    main()
