#!/usr/bin/env python3
"""The arms of torch.compile (scripts/arms/torch_arm.py), driven by the protocol of docs/arms.md.

torch_compile_arm.py               the test, with the PyTorch that is installed
torch_compile_arm.py --record FILE writes what a conversation is, for external_arms_test.cpp

PyTorch 2 is played where it isn't installed: its `compile` calls the model as it is and moves the counters of
torch._dynamo, as its versions do. So this tests all of the arm but the compiler. A PyTorch 2 takes part with its own.
Without PyTorch or onnx: skipped (77).
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ARMS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "arms"

# torch.compile and its counters, as far as a version has them. The first call compiles; every tenth one again.
PLAYED = r"""
import collections, runpy, sys, types
import torch

if "VERSION" != "installed":
    counters = collections.defaultdict(collections.Counter)
    calls = collections.Counter()
    utils = types.SimpleNamespace(counters=counters)
    if "VERSION" == "new":
        utils.calculate_time_spent = lambda: {"entire_frame_compile": 0.25, "total_wall_time": 0.25}
    elif "VERSION" == "old":
        utils.compile_times = lambda repr, aggregate: (["OutputGraph.call_user_compiler", "_compile.<locals>.compile_inner"],
                                                       ["0.1", "0.125"])
    else:
        del utils.counters

    def compile(model, backend="inductor"):
        assert backend in ("inductor", "eager", "aot_eager"), backend

        def run(*inputs):
            calls[backend] += 1
            if "VERSION" != "other" and calls[backend] % 10 == 1:
                counters["stats"]["unique_graphs"] += 1
                if calls[backend] == 1:
                    counters["graph_break"]["a reason"] += 2
                elif "VERSION" == "new":
                    counters["recompiles"]["a guard"] += 1
                if backend == "inductor" and "VERSION" == "new":
                    counters["inductor"]["fxgraph_cache_hit"] += 1
                    counters["inductor"]["pattern_matcher_count"] += 7
                    counters["aot_autograd"]["autograd_cache_hit"] += 1
            return model(*inputs)
        return run

    torch.compile = compile
    torch._dynamo = types.SimpleNamespace(utils=utils)
    torch.__version__ = "2.x, played"
sys.argv = ["torch_arm.py", "MODE"]
sys.path.insert(0, r"ARMS")
runpy.run_path(r"ARMS/torch_arm.py", run_name="__main__")
"""


def model_in(folder):
    """y = x + 1 on two elements, and x = 0, 1."""
    import numpy
    import onnx
    from onnx import TensorProto, helper

    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    graph = helper.make_graph([helper.make_node("Add", ["x", "one"], ["y"])], "plus", [value("x")], [value("y")], [one])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    numpy.array([0, 1], "float32").tofile(folder / "input_0.bin")


class Conversation:
    """With one arm; what was said stays in `lines`."""

    def __init__(self, mode, version):
        script = PLAYED.replace("VERSION", version).replace("MODE", mode).replace("ARMS", str(ARMS))
        self.process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.lines = []

    def ask(self, request):
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, f"the arm ended at {request}"
        self.lines += ["> " + json.dumps(request), "< " + line.strip()]
        return json.loads(line)

    def end(self):
        print('{"do": "exit"}', file=self.process.stdin, flush=True)
        assert self.process.wait(60) == 0


def whole_conversation(mode, version, folder):
    arm = Conversation(mode, version)
    described = arm.ask({"do": "describe"})
    assert "error" not in described, described
    loaded = arm.ask({"do": "load", "model": str(folder / "model.onnx"), "threads": 1,
                      "inputs": [{"dtype": "f32", "shape": [2], "file": str(folder / "input_0.bin")}]})
    assert loaded["compile_seconds"] > 0 or mode == "eager", loaded
    checked = arm.ask({"do": "check", "folder": str(folder)})
    assert checked["outputs"] == [{"dtype": "f32", "shape": [2], "file": "output_0.bin"}], checked
    assert (folder / "output_0.bin").read_bytes() == b"\0\0\x80\x3f\0\0\0\x40", "x + 1"
    arm.ask({"do": "warm_up", "count": 3})
    assert arm.ask({"do": "run", "count": 15})["nanoseconds"] > 0
    arm.ask({"do": "memory"})
    # Only an arm that has announced counters is asked for them.
    counters = arm.ask({"do": "counters"}) if described.get("counters") is True else {}
    arm.end()
    return described, counters.get("counters"), arm.lines


def expect(found, wanted, what):
    assert found == wanted, f"{what}: {found}, not {wanted}"


def check_arms(folder):
    import torch

    # One call while it loads, one for the check, 18 timed: the 11th compiles again.
    common = {"graphs": 2, "graph_breaks": 2, "recompiles": 1}
    new = {**common, "compile_seconds": 0.25}
    expect(whole_conversation("compile", "new", folder)[1],
           {**new, "cache_hits": 2, "cache_misses": 0, "autograd_cache_hits": 2}, "inductor")
    for mode in ("compile-eager", "compile-aot-eager"):
        described, counters, _ = whole_conversation(mode, "new", folder)
        expect(counters, new, mode)
        expect(described["framework"], f"PyTorch 2.x, played ({mode})", "framework")
    # PyTorch 2.0 has no list of recompiles, and another clock; others may have neither.
    expect(whole_conversation("compile", "old", folder)[1], {**common, "compile_seconds": 0.125}, "an old version")
    expect(whole_conversation("compile", "other", folder)[1], {}, "a version without any")
    for mode in ("eager", "script"):  # these have nothing to count
        assert "counters" not in whole_conversation(mode, "installed", folder)[0], mode
    for mode in ("compile", "compile-eager", "compile-aot-eager"):
        if hasattr(torch, "compile"):
            counters = whole_conversation(mode, "installed", folder)[1]
            assert counters["graphs"] >= 1 and counters["graph_breaks"] == 0 and counters["recompiles"] == 0, counters
        else:
            arm = Conversation(mode, "installed")
            expect(arm.ask({"do": "describe"}), {"error": f"torch.compile needs PyTorch 2, found {torch.__version__}"}, mode)
            arm.process.stdin.close()
            arm.process.wait(60)
    arm = Conversation("compile-fast", "installed")
    assert "no mode compile-fast: eager, script, compile" in arm.ask({"do": "describe"})["error"]
    arm.process.stdin.close()
    arm.process.wait(60)


def main():
    try:
        import numpy  # noqa: F401
        import onnx  # noqa: F401
        import torch  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="diptych-torch-compile-") as name:
        folder = pathlib.Path(name)
        model_in(folder)
        if len(sys.argv) > 2 and sys.argv[1] == "--record":
            lines = whole_conversation("compile", "new", folder)[2]
            text = "\n".join(lines).replace(name, "/folder") + "\n"
            pathlib.Path(sys.argv[2]).write_text(text)
        else:
            check_arms(folder)


main()
