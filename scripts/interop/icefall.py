"""The part of icefall.sh that is icefall's: its load_checkpoint, save_checkpoint, ScaledAdam and Eden on serac's checkpoints, and the other way round.

icefall.py ICEFALL ours.pt theirs.pt OUT
    loads ours.pt by icefall's load_checkpoint, does five updates (OUT/after-ours.npz holds the parameters), loads ours.pt again, does seven, saves
    theirs.pt by icefall's save_checkpoint, and does five more (OUT/after-theirs.npz)
icefall.py compare A.npz B.safetensors
"""
import importlib.util
import pathlib
import sys
import types

import numpy as np
import torch


def stub(name, **members):
    module = types.ModuleType(name)
    for key, value in members.items():
        setattr(module, key, value)
    sys.modules[name] = module


def load_file(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Tree(torch.nn.Module):
    """Modules that only hold parameters, under the names that they have in a checkpoint."""

    def __init__(self, tensors):
        super().__init__()
        for name, value in tensors.items():
            *path, last = name.split(".")
            module = self
            for part in path:
                if part not in module._modules:
                    module.add_module(part, torch.nn.Module())
                module = module._modules[part]
            module.register_parameter(last, torch.nn.Parameter(torch.zeros_like(value)))


def run(root, ours, theirs, out):
    stub("lhotse")
    stub("lhotse.utils", fix_random_seed=lambda seed: None)
    stub("lhotse.dataset")
    stub("lhotse.dataset.sampling")
    stub("lhotse.dataset.sampling.base", CutSampler=object)
    checkpoint = load_file("checkpoint", root / "icefall/checkpoint.py")
    optim = load_file("optim", root / "egs/librispeech/ASR/zipformer/optim.py")
    raw = torch.load(ours)

    def start():
        model, average = Tree(raw["model"]), Tree(raw["model"])
        optimizer = optim.ScaledAdam([{"named_params": list(model.named_parameters())}], lr=0.045, clipping_scale=2.0)
        scheduler = optim.Eden(optimizer, 7500, 3.5, warmup_batches=500, warmup_start=0.1)
        params = checkpoint.load_checkpoint(ours, model, average, optimizer=optimizer, scheduler=scheduler, strict=True)
        for key in ("batch_idx_train", "best_train_loss", "best_valid_loss", "best_train_epoch", "best_valid_epoch", "cur_epoch", "sampler"):
            assert key in params, key
        assert list(dict(model.named_parameters())) == list(raw["model"])
        return model, average, optimizer, scheduler, params

    def update(model, optimizer, scheduler, b):
        for index, parameter in enumerate(model.parameters()):
            i = np.arange(parameter.numel(), dtype=np.float64)
            values = 0.02 * np.sin(0.61 * i + (0.37 * index + 1.7 * b)) * (1 + 0.5 * np.cos(0.9 * b))
            parameter.grad = torch.from_numpy(values.astype(np.float32)).view(parameter.shape)
        scheduler.step_batch(b)
        optimizer.step()
        optimizer.zero_grad()

    def save(model, name):
        np.savez(out / name, **{key: value.detach().numpy() for key, value in model.named_parameters()})

    model, average, optimizer, scheduler, params = start()
    average_gap = max((value - raw["model_avg"][key]).abs().max().item() for key, value in average.named_parameters())
    assert average_gap == 0
    b = params["batch_idx_train"]
    print(f"icefall's load_checkpoint took {len(raw['model'])} parameters, the average, optimiser and scheduler; {len(params)} other entries, batch_idx_train {b}")
    for k in range(1, 6):
        update(model, optimizer, scheduler, b + k)
    save(model, "after-ours.npz")

    model, average, optimizer, scheduler, params = start()
    for k in range(1, 8):
        update(model, optimizer, scheduler, b + k)
    keep = {key: value for key, value in params.items() if key not in ("optimizer", "scheduler", "grad_scaler", "sampler", "serac", "model_avg")}
    keep["batch_idx_train"] = b + 7
    checkpoint.save_checkpoint(theirs, model, average, keep, optimizer=optimizer, scheduler=scheduler)
    for k in range(8, 13):
        update(model, optimizer, scheduler, b + k)
    save(model, "after-theirs.npz")


def read_safetensors(path):
    import json

    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    at = 8 + size
    return {key: np.frombuffer(data[at + e["data_offsets"][0] : at + e["data_offsets"][1]], dtype=np.float32).reshape(e["shape"]) for key, e in header.items()}


def compare(a, b):
    theirs, ours = np.load(a), read_safetensors(b)
    assert set(theirs.files) == set(ours)
    worst, name = max((float(np.max(np.abs(theirs[key] - ours[key]) / (1e-6 + np.abs(theirs[key])))), key) for key in theirs.files)
    print(f"{b.name}: {len(ours)} parameters after five updates, largest relative difference {worst:.1e} ({name})")
    return 0 if worst < 1e-4 else 1


if sys.argv[1] == "compare":
    sys.exit(compare(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])))
run(*map(pathlib.Path, sys.argv[1:5]))
