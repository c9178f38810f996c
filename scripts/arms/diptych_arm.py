"""The protocol of docs/arms.md, for arms in Python: serve() answers requests; the caller says how to load a model.

    import diptych_arm

    def load(model, inputs):        # a path, and a list of numpy arrays
        network = my_framework.open(model)
        return lambda: [network(*inputs)]   # called again and again; returns a list of arrays

    diptych_arm.serve("my framework 1.0", load)
"""

import json
import os
import resource
import sys
import time

try:
    import numpy
except ImportError:
    numpy = None  # the callers refuse, and say how to get it

PROTOCOL = 1
THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))  # as many as the other arms have
TYPES = {"f32": "float32", "f64": "float64", "f16": "float16", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
         "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool"}


def read_array(described):
    """An input: raw elements in a file, row-major, little-endian."""
    array = numpy.fromfile(described["file"], dtype=TYPES[described["dtype"]])
    return array.reshape(described["shape"])


def write_arrays(arrays, folder):
    """Writes the outputs in the same format."""
    outputs = []
    for i, array in enumerate(arrays):
        array = numpy.asarray(array)
        array = numpy.ascontiguousarray(array).reshape(array.shape)
        name = f"output_{i}.bin"
        array.tofile(os.path.join(folder, name))
        short = next(short for short, name in TYPES.items() if name == array.dtype.name)
        outputs.append({"dtype": short, "shape": list(array.shape), "file": name})
    return outputs


def time_calls(run, count):
    """Nanoseconds of `count` calls. Results are freed inside, as they are in a program."""
    start = time.perf_counter_ns()
    for _ in range(count):
        run()
    return time.perf_counter_ns() - start


def overhead():
    """Nanoseconds of a timed block of one call that does nothing."""
    return min(time_calls(lambda: None, 1) for _ in range(100))


def serve(framework, load, threads=THREADS, compile_seconds=lambda: 0.0, profile=None, counters=None, load_gradients=None,
          load_training=None):
    """Answers requests until the other side is done. `load(model, inputs)` returns a function that runs the model once
    and returns its outputs as arrays; `compile_seconds()`, called after it, returns how much of it was compiling.
    `profile(count)` returns what each node takes in a call, by so many: [{"node": its name in the model, "op": what runs
    it, "seconds": 1e-3, "runs": 1}], in the order in which they run. `counters()`, called after all runs, returns what
    else the framework has counted: {"graph_breaks": 0}; a name that ends in _seconds or _bytes says its unit.
    `load_gradients(model, inputs, by, cotangents)` is load() for gradients: its function returns those of
    sum(output * cotangent), over all floating-point outputs, by the inputs and initializers that `by` names.
    `load_training(model, inputs, by, cotangents, optimizer)` is that for training steps, by the weights that `by` names and
    an optimizer, {"name": "sgd", "lr": 1e-6, "momentum": 0.9} or {"name": "adam", "lr": 1e-6, "betas": [0.9, 0.999], "eps":
    1e-8}: what it returns has step(), which returns the floating-point outputs, then the gradients, and updates the weights, restart(), which puts these back
    as they were loaded and forgets the optimizer's history, and weights(), arrays of them."""
    # Anything else written to standard output goes to standard error, because an answer is one line.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    run = training = None

    def check():
        if training is None:
            return run(), {}
        training.restart()
        before = [numpy.array(weight, dtype="float64") for weight in training.weights()]
        outputs = training.step()
        moved = sum(numpy.abs(weight - old).sum() for weight, old in zip(training.weights(), before))
        return outputs, {"moved": float(moved / max(sum(old.size for old in before), 1))}

    def answer(request):
        nonlocal run, training
        do = request["do"]
        if do == "describe":
            described = {"protocol": PROTOCOL, "framework": framework, "threads": threads,
                         "overhead_nanoseconds": overhead()}
            if counters is not None:
                described["counters"] = True
            if load_gradients is not None:
                described["gradients"] = True
            if load_training is not None:
                described["training"] = True
            return described
        if do == "load":
            inputs = [read_array(described) for described in request["inputs"]]
            gradients = request.get("gradients")
            cotangents = [read_array(described) for described in gradients["cotangents"]] if gradients else []
            training = None
            start = time.perf_counter()
            if gradients and "optimizer" in gradients:
                training = load_training(request["model"], inputs, gradients["by"], cotangents, gradients["optimizer"])
                run = training.step
            elif gradients:
                run = load_gradients(request["model"], inputs, gradients["by"], cotangents)
            else:
                run = load(request["model"], inputs)
            seconds = time.perf_counter() - start
            return {"load_seconds": seconds - compile_seconds(), "compile_seconds": compile_seconds()}
        if do == "check":
            outputs, said = check()
            return {"outputs": write_arrays(outputs, request["folder"]), **said}
        if do in ("warm_up", "run"):
            return {"nanoseconds": max(time_calls(run, request["count"]), 1)}
        if do == "profile":
            if profile is None:
                raise NotImplementedError("this arm has no profile of its nodes")
            return {"nodes": profile(request["count"])}
        if do == "memory":
            return {"peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
        if do == "counters" and counters is not None:
            return {"counters": counters()}
        raise ValueError(f"unknown request {do}")

    for line in sys.stdin:
        try:
            request = json.loads(line)
            if request["do"] == "exit":
                return
            reply = answer(request)
        except Exception as error:  # reported to the other side, which ends only this arm
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)


def refuse(why):
    """For an arm that can't run here: answers every request with the reason."""
    for _ in sys.stdin:
        print(json.dumps({"error": why}), flush=True)
