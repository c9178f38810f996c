#!/usr/bin/env python3
"""Models as PyTorch's users export them, against PyTorch's own results in double precision: exported_models.py DIPTYCH [NAME...]

Weights are random by a seed: nothing is fetched. Needs Debian's python3-torch and python3-onnx; vision models also
python3-torchvision. Ends with 77 where PyTorch is missing. tests/onnx_models/CMakeLists.txt runs it. Large models take most of the
time: without names only with DIPTYCH_EVERY_VALUE=1 (scripts/nightly tests).
"""

import copy
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy
    import onnx
    import onnx.numpy_helper
    import torch
except ImportError as missing:
    print(f"skipped: {missing} (Debian: python3-torch, python3-onnx)")
    sys.exit(77)

try:
    import torchvision
except ImportError:
    torchvision = None

warnings.filterwarnings("ignore")
torch.manual_seed(1)
torch.set_num_threads(1)


class Bert(torch.nn.Module):
    """The encoder of BERT, small, with a mask of what is padding."""

    def __init__(self, width=64, heads=4, layers=2, vocabulary=100, length=32):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.positions = torch.nn.Embedding(length, width)
        self.segments = torch.nn.Embedding(2, width)
        self.norm = torch.nn.LayerNorm(width, eps=1e-12)
        self.query, self.key, self.value, self.out, self.first, self.second = (
            torch.nn.ModuleList([torch.nn.Linear(a, b) for _ in range(layers)])
            for a, b in [(width, width)] * 4 + [(width, 4 * width), (4 * width, width)])
        self.after, self.last = (torch.nn.ModuleList([torch.nn.LayerNorm(width) for _ in range(layers)]) for _ in "ab")
        self.pooler = torch.nn.Linear(width, width)
        self.heads = heads

    def forward(self, ids, mask, segments):
        batch, length = ids.shape
        places = torch.arange(length).unsqueeze(0)
        x = self.norm(self.tokens(ids) + self.positions(places) + self.segments(segments))
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * -1e9
        for i in range(len(self.query)):
            def by_head(t):
                return t.view(batch, length, self.heads, -1).transpose(1, 2)
            q, k, v = by_head(self.query[i](x)), by_head(self.key[i](x)), by_head(self.value[i](x))
            scores = q @ k.transpose(-1, -2) / (q.shape[-1] ** 0.5) + bias
            seen = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, length, -1)
            x = self.after[i](x + self.out[i](seen))
            x = self.last[i](x + self.second[i](torch.nn.functional.gelu(self.first[i](x))))
        return x, torch.tanh(self.pooler(x[:, 0]))


class Gpt(torch.nn.Module):
    """A causal language model with joined projections, as GPT-2 has them."""

    def __init__(self, width=64, heads=4, layers=2, vocabulary=100, length=32):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.positions = torch.nn.Parameter(0.02 * torch.randn(length, width))
        self.joined = torch.nn.ModuleList([torch.nn.Linear(width, 3 * width) for _ in range(layers)])
        self.out = torch.nn.ModuleList([torch.nn.Linear(width, width) for _ in range(layers)])
        self.up = torch.nn.ModuleList([torch.nn.Linear(width, 4 * width) for _ in range(layers)])
        self.down = torch.nn.ModuleList([torch.nn.Linear(4 * width, width) for _ in range(layers)])
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(width) for _ in range(2 * layers + 1)])
        self.register_buffer("seen", torch.tril(torch.ones(length, length)).bool())
        self.heads = heads

    def forward(self, ids):
        batch, length = ids.shape
        x = self.tokens(ids) + self.positions[:length]
        for i in range(len(self.joined)):
            q, k, v = self.joined[i](self.norms[2 * i](x)).chunk(3, -1)
            q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
            scores = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5)
            scores = scores.masked_fill(~self.seen[:length, :length], float("-inf"))
            mixed = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, length, -1)
            x = x + self.out[i](mixed)
            x = x + self.down[i](torch.nn.functional.gelu(self.up[i](self.norms[2 * i + 1](x)), approximate="tanh"))
        return self.norms[-1](x) @ self.tokens.weight.t()


class Recurrent(torch.nn.Module):
    """A loop over time that scripting keeps as one."""

    def __init__(self):
        super().__init__()
        self.cell = torch.nn.Linear(16, 8)

    def forward(self, x):
        state = torch.zeros(x.shape[1], 8)
        for step in range(x.shape[0]):
            state = torch.tanh(self.cell(torch.cat([x[step], state], 1)))
        return state


def ids(*shape):
    return torch.randint(0, 100, shape)


def image(*shape):
    return torch.randn(*shape)


def models():
    """Name -> (module, inputs, opset, names of dynamic axes by input)."""
    length = {0: "batch", 1: "length"}
    found = {
        "bert": (Bert(), (ids(2, 16), (torch.rand(2, 16) > 0.2).long(), torch.randint(0, 2, (2, 16))), 17,
                 {"input_0": length, "input_1": length, "input_2": length}),
        "bert-opset11": (Bert(), (ids(2, 16), torch.ones(2, 16).long(), torch.zeros(2, 16).long()), 11, {}),
        "gpt": (Gpt(), (ids(2, 16),), 14, {"input_0": length}),
        "transformer": (torch.nn.TransformerEncoder(
            torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0), 2), (image(2, 8, 32),), 16, {}),
        "recurrent": (torch.jit.script(Recurrent()), (image(5, 2, 8),), 13, {}),
    }
    if torchvision is not None:
        batch = {"input_0": {0: "batch"}}
        vision = torchvision.models
        for name, size, opset, dynamic in [
                ("resnet18", 64, 9, {}), ("resnet50", 64, 13, batch), ("mobilenet_v2", 64, 12, batch),
                ("mobilenet_v3_small", 64, 14, batch), ("efficientnet_b0", 64, 13, batch),
                ("densenet121", 64, 11, batch), ("convnext_tiny", 64, 16, batch), ("squeezenet1_1", 64, 10, {}),
                ("vit_b_16", 224, 14, {}), ("swin_t", 64, 13, {})]:
            if hasattr(vision, name):
                found[name] = (getattr(vision, name)(weights=None), (image(2, 3, size, size),), opset, dynamic)
    return found


def give_signal(module, inputs):
    """Untrained models may carry next to nothing to their outputs: zeros to start from, scales of 1e-6, statistics of no
    data. Such a result would agree with anything."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith("layer_scale"):
                parameter.fill_(0.5)
            elif parameter.dim() > 1 and not parameter.any():
                parameter.normal_(0, 0.02)
        norms = [part for part in module.modules() if isinstance(part, torch.nn.BatchNorm2d)]
        for norm in norms:
            norm.momentum = 1.0  # the statistics of one batch; of a small one they would amplify every rounding
        if norms:
            module.train()
            module(image(32, *inputs[0].shape[1:]))
    module.eval()


def write_case(folder, name, module, inputs, opset, dynamic):
    case = folder / name
    data = case / "test_data_set_0"
    data.mkdir(parents=True)
    give_signal(module, inputs)
    with torch.no_grad():  # in double precision: deep models differ by 1e-4 between two ways of rounding
        outputs = copy.deepcopy(module).double()(*(x.double() if x.is_floating_point() else x for x in inputs))
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    for value in outputs:
        assert value.std() > 1e-3, f"{name} gives nearly a constant: the tolerance would forgive anything"
    input_names = [f"input_{i}" for i in range(len(inputs))]
    torch.onnx.export(module, inputs, str(case / "model.onnx"), opset_version=opset, input_names=input_names,
                      dynamic_axes=dynamic)
    # The exporter leaves out inputs that nothing reads.
    kept = [value.name for value in onnx.load(str(case / "model.onnx"), load_external_data=False).graph.input]
    for i, value in enumerate(kept):
        tensor = onnx.numpy_helper.from_array(inputs[input_names.index(value)].numpy(), value)
        (data / f"input_{i}.pb").write_bytes(tensor.SerializeToString())
    for i, value in enumerate(outputs):
        tensor = onnx.numpy_helper.from_array(value.float().numpy(), f"output_{i}")
        (data / f"output_{i}.pb").write_bytes(tensor.SerializeToString())
    return case


LARGE = {"resnet50", "densenet121", "convnext_tiny", "efficientnet_b0", "vit_b_16"}


def main():
    program, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        cases = []
        for name, (module, inputs, opset, dynamic) in models().items():
            if name not in wanted if wanted else name in LARGE and not os.environ.get("DIPTYCH_EVERY_VALUE"):
                continue
            cases.append(write_case(pathlib.Path(folder), name, module, inputs, opset, dynamic))
        done = subprocess.run([program, "onnx", "check", "--rtol", "1e-3", "--atol", "1e-4", *map(str, cases)],
                              check=False, capture_output=True, text=True)
        print(done.stdout.replace(folder + "/", ""), done.stderr, sep="")
        passed = done.stdout.splitlines()[-1].startswith(f"{2 * len(cases)} passed") if done.stdout else False
        if torchvision is None:
            print("without vision models: Debian's python3-torchvision isn't installed")
        sys.exit(0 if passed and done.returncode == 0 else 1)


main()
