"""Makes optimizers.json: where PyTorch's optimizers are after 100 steps, for paceline/optim/golden_test.cc to compare with.

    python3 make_optimizers.py [FOLDER]        needs torch 2.11 and torchvision (for make_golden's formula); FOLDER: this one

A weight matrix with decay and a bias without. Weights and gradients come from formula() of make_golden.py, which the test
computes too; the rate falls linearly. Computed in float64: the numbers are PyTorch's formulas, not one processor's rounding.
"""

import json
import pathlib
import sys

import torch

from make_golden import formula

STEPS, SHAPE = 100, (12, 20)
CASES = {
    "sgd": (torch.optim.SGD, 0.05, {}),
    "sgd_momentum": (torch.optim.SGD, 0.05, {"momentum": 0.9}),
    "sgd_nesterov": (torch.optim.SGD, 0.05, {"momentum": 0.9, "nesterov": True}),
    "adam": (torch.optim.Adam, 0.01, {"betas": (0.9, 0.999), "eps": 1e-8}),
    "adamw": (torch.optim.AdamW, 0.01, {"betas": (0.9, 0.999), "eps": 1e-8}),
    "rmsprop": (torch.optim.RMSprop, 0.01, {"alpha": 0.99, "eps": 1e-8}),
    "rmsprop_momentum": (torch.optim.RMSprop, 0.01, {"alpha": 0.99, "eps": 1e-8, "momentum": 0.9}),
}


def numbers(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.from_numpy(formula(name, torch.Size(shape).numel()).reshape(shape)).double()


def run(make, rate: float, options: dict) -> list[float]:
    parameters = {"weight": numbers("weight", SHAPE).requires_grad_(), "bias": numbers("bias", SHAPE[:1]).requires_grad_()}
    groups = [{"params": [parameters["weight"]], "weight_decay": 0.01}, {"params": [parameters["bias"]], "weight_decay": 0.0}]
    optimizer = make(groups, lr=rate, **options)
    for step in range(STEPS):
        for name, parameter in parameters.items():
            parameter.grad = numbers(f"{name} gradient {step}", tuple(parameter.shape))
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 - step / (2 * STEPS))
        optimizer.step()
    return [float(f"{x:.9g}") for p in parameters.values() for x in p.detach().flatten().tolist()]


def main() -> None:
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    answers = {name: run(*case) for name, case in CASES.items()}
    (folder / "optimizers.json").write_text(json.dumps({"torch": torch.__version__, "after_100_steps": answers}) + "\n")


if __name__ == "__main__":
    main()
