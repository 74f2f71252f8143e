"""Files of torch.save and what torch.load gives, as JSON. Run by checkpoints.sh, and to make test/golden/pt.

checkpoints.py write FOLDER: files of every kind, with JSON of their values
checkpoints.py read FILE: what torch.load gives, as JSON, but for entries that are NumPy arrays, which serac does not write
"""
import argparse
import collections
import json
import pathlib
import struct
import sys
import types

import numpy
import torch

Path = pathlib.PurePath


def hexed(x):
    return struct.pack(">d", x).hex()


class Encoder:
    """A value as JSON that keeps all there is to it: types, bits of floats, order, which tensors share elements."""

    def __init__(self):
        self.storages = {}

    def items(self, values):
        return [self.value(v) for v in values]

    def pairs(self, d):
        return [[self.value(k), self.value(v)] for k, v in d.items()]

    def unordered(self, values):
        return sorted(self.items(values), key=json.dumps)

    def tensor(self, t):
        pointer = t.storage().data_ptr()
        share = self.storages.setdefault(pointer, len(self.storages)) if t.storage().size() > 0 else -1
        data = t.detach().contiguous()
        raw = b"" if data.numel() == 0 else bytes(data.flatten().view(torch.uint8).tolist()) if data.element_size() > 1 or data.dtype != torch.bool else bytes(map(int, data.flatten().tolist()))
        return ["tensor", str(t.dtype)[6:], list(t.shape), list(t.stride()), t.storage_offset(), t.requires_grad, isinstance(t, torch.nn.Parameter), share, raw.hex()]

    def value(self, v):
        if v is None:
            return ["None"]
        if isinstance(v, numpy.generic):
            return ["numpy", str(v.dtype), self.value(v.item())]
        kind = type(v)
        if kind is bool:
            return ["bool", v]
        if kind is int:
            return ["int", str(v)]
        if kind is float:
            return ["float", hexed(v)]
        if kind is complex:
            return ["complex", hexed(v.real), hexed(v.imag)]
        if kind is str:
            return ["str", v]
        if kind in (bytes, bytearray):
            return ["bytes", v.hex()]
        if kind is list:
            return ["list", self.items(v)]
        if kind is torch.Size:
            return ["Size", self.items(v)]
        if kind is tuple:
            return ["tuple", self.items(v)]
        if kind is collections.OrderedDict:
            attributes = vars(v)
            return ["OrderedDict", self.pairs(v), self.pairs(attributes) if attributes else None]
        if kind is collections.defaultdict:
            return ["defaultdict", v.default_factory and v.default_factory.__name__, self.pairs(v)]
        if kind is dict:
            return ["dict", self.pairs(v)]
        if kind is set:
            return ["set", self.unordered(v)]
        if kind is frozenset:
            return ["frozenset", self.unordered(v)]
        if isinstance(v, Path):
            return ["path", kind.__name__, str(v)]
        if kind is argparse.Namespace:
            return ["Namespace", self.pairs(vars(v))]
        if kind is torch.dtype:
            return ["dtype", str(v)[6:]]
        if kind is torch.device:
            return ["device", str(v)]
        if isinstance(v, torch.Tensor):
            return self.tensor(v)
        if kind is numpy.ndarray:
            return ["ndarray", str(v.dtype), list(v.shape), v.tobytes().hex()]
        raise TypeError(f"no encoding for {kind}")


def values():
    shared = ["shared", 1]
    state = collections.OrderedDict(b=1, a=2)
    state._metadata = {"": {"version": 1}}
    groups = collections.defaultdict(list)
    groups["x"].append(1)
    return {
        "none": None,
        "bools": [True, False],
        "ints": [0, 1, 255, 256, 65535, 65536, -1, -(2**31), 2**31, -(2**63), 2**63, 2**200, -(2**200), -128, -129],
        "floats": [0.0, -0.0, 1.0, 0.1, 1e308, float("inf"), float("-inf"), float("nan")],
        "texts": ["", "plain", "Grüße, 世界, 🎙", "line\nfeed", "lone \ud800 surrogate", "x" * 300],
        "bytes": [b"", b"\x00\xff", bytes(range(256))],
        "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), (1, (2, (3,)))],
        "long": list(range(1100)),
        "keys": {1: "int", "a": "str", (1, 2): "tuple", None: "none", 2.5: "float"},
        "ordered": state,
        "groups": groups,
        "sets": [set(), {1, 2, "c"}, frozenset([3])],
        "complex": 1.5 - 2j,
        "shared": [shared, shared],
        "path": pathlib.PosixPath("/data/lang_bpe_500/bpe.model"),
        "relative": pathlib.PosixPath("zipformer/exp"),
        "here": pathlib.PosixPath("."),
        "namespace": argparse.Namespace(world_size=1, lr=0.045, name="x"),
        "dtype": torch.float16,
        "devices": [torch.device("cpu"), torch.device("cuda", 1)],
        "size": torch.Size([2, 3]),
        "numpy": [numpy.float64(0.5), numpy.float32(0.25), numpy.float16(2.0), numpy.int64(-7), numpy.int32(7), numpy.uint8(200), numpy.bool_(True)],
        "array": numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
        "deep": {"a": {"b": {"c": [{"d": (1, [2])}]}}},
    }


def tensors():
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(4, 6, generator=generator)
    result = {"by_dtype": {}}
    for dtype in [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128]:
        result["by_dtype"][str(dtype)] = (base * 10).to(dtype) if dtype is not torch.uint8 else (base.abs() * 10).to(dtype)
    return {
        **result,
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0),
        "empty_2d": torch.zeros(3, 0, 2),
        "transposed": base.t(),
        "row": base[1],
        "column": base[:, 2],
        "step": base[::2, 1::2],
        "expanded": torch.tensor([1.0, 2.0]).expand(3, 2),
        "channels_last": torch.randn(1, 3, 2, 2, generator=generator).contiguous(memory_format=torch.channels_last),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "requires_grad": torch.zeros(2, requires_grad=True),
        "tied": [base, base],
    }


def state_dict():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).state_dict()


def unknown():
    """Classes that only the writer has: a dict of its own, as icefall's AttributeDict, and an object with state."""
    module = types.ModuleType("recipe.things")
    sys.modules["recipe"] = types.ModuleType("recipe")
    sys.modules["recipe.things"] = module

    class AttributeDict(dict):
        pass

    class Sampler:
        def __init__(self):
            self.epoch = 3

    for cls in (AttributeDict, Sampler):
        cls.__module__ = "recipe.things"
        cls.__qualname__ = cls.__name__
        setattr(module, cls.__name__, cls)
    return {"model": {"w": torch.arange(3.0)}, "params": AttributeDict(lr=0.5), "sampler": Sampler(), "function": torch.relu}


def write(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    made = {
        "values": (values(), {}),
        "values-legacy": (values(), {"_use_new_zipfile_serialization": False}),
        "values-protocol4": (values(), {"pickle_protocol": 4}),
        "values-legacy-protocol0": (values(), {"_use_new_zipfile_serialization": False, "pickle_protocol": 0}),
        "tensors": (tensors(), {}),
        "tensors-legacy": (tensors(), {"_use_new_zipfile_serialization": False}),
        "state-dict": (state_dict(), {}),
    }
    for name, (value, options) in made.items():
        path = folder / f"{name}.pt"
        torch.save(value, path, **options)
        expected = folder / f"{name.split('-legacy')[0].split('-protocol')[0]}.json"
        encoded = json.dumps(Encoder().value(torch.load(path))) + "\n"
        if expected.exists() and expected.read_text() != encoded:
            sys.exit(f"{path}: torch.load gives other values than of {expected}")
        expected.write_text(encoded)
    torch.save(unknown(), folder / "unknown.pt")


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2])
    elif sys.argv[1] == "read":
        loaded = torch.load(sys.argv[2], **({"weights_only": False} if torch.__version__ >= "2" else {}))
        if isinstance(loaded, dict):
            for key in [k for k, v in loaded.items() if isinstance(v, numpy.ndarray)]:
                del loaded[key]
        print(json.dumps(Encoder().value(loaded)))
    else:
        sys.exit(__doc__)
