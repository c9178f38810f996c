#!/usr/bin/env python3
"""PyTorch as an arm (docs/arms.md): torch_arm.py eager|script|compile|compile-eager|compile-aot-eager

The model's nodes become the lines of a forward() in Python, as if written by hand, so that PyTorch runs what it runs
for its own users. `script` traces and freezes it. The others are torch.compile (from PyTorch 2.0 on): `compile` with
its own backend, inductor; `compile-eager` captures graphs and runs them op by op; `compile-aot-eager` also takes them
through AOTAutograd, without inductor's kernels. They say what the compiler has counted.

Needs Debian's python3-torch and python3-onnx, or the same from elsewhere: DIPTYCH_PYTHON names the interpreter.
"""

import math
import re
import sys
import time

import diptych_arm

try:
    import numpy
    import onnx
    import onnx.numpy_helper
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    diptych_arm.refuse(f"{missing}: apt-get install python3-torch python3-onnx python3-numpy, "
                       "or name another interpreter in DIPTYCH_PYTHON")
    sys.exit()

# The operators of torch functions that take the node's inputs unchanged.
PLAIN = {
    "Abs": "torch.abs", "Add": "torch.add", "And": "torch.logical_and", "Ceil": "torch.ceil", "Cos": "torch.cos",
    "Div": "divide", "Equal": "torch.eq", "Erf": "torch.erf", "Exp": "torch.exp", "Floor": "torch.floor", "Greater": "torch.gt",
    "GreaterOrEqual": "torch.ge", "HardSwish": "F.hardswish", "Less": "torch.lt", "LessOrEqual": "torch.le",
    "Log": "torch.log", "MatMul": "torch.matmul", "Max": "torch.maximum", "Min": "torch.minimum", "Mul": "torch.mul",
    "Neg": "torch.neg", "Not": "torch.logical_not", "Or": "torch.logical_or", "Pow": "torch.pow",
    "Reciprocal": "torch.reciprocal", "Relu": "torch.relu", "Round": "torch.round", "Sigmoid": "torch.sigmoid",
    "Sign": "torch.sign", "Sin": "torch.sin", "Softplus": "F.softplus", "Sqrt": "torch.sqrt", "Sub": "torch.sub",
    "Tanh": "torch.tanh", "Where": "torch.where",
}
DTYPES = {1: "torch.float32", 2: "torch.uint8", 6: "torch.int32", 7: "torch.int64", 9: "torch.bool",
          11: "torch.float64", 16: "torch.bfloat16"}


def divide(a, b):
    """ONNX divides integers towards zero."""
    return torch.div(a, b) if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


class Writer:
    """A graph as Python source."""

    def __init__(self, graph):
        self.graph = graph
        self.constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
        self.names = {}
        self.used = set()  # constants that the source reads as tensors
        self.turned = {}  # of a weight that a linear layer reads: its name there
        self.steps = []  # of each node: its name, what it calls, and the lines
        for i, node in enumerate(graph.node):
            node.name = node.name or f"{node.op_type}{i}"

    def variable(self, name):
        if name in self.constants:
            self.used.add(name)
            return f"self.c{list(self.constants).index(name)}"
        return self.names.setdefault(name, f"v{len(self.names)}")

    def list_of(self, name):
        """The integers of a constant."""
        if name not in self.constants:
            raise NotImplementedError(f"{name} has to be a constant")
        return [int(value) for value in self.constants[name].reshape(-1)]

    def write(self):
        """Writes the steps; returns the arguments and the outputs."""
        inputs = [value.name for value in self.graph.input if value.name not in self.constants]
        arguments = ", ".join(self.variable(name) for name in inputs)
        nodes = []
        for node in self.graph.node:
            if node.op_type == "Constant":
                self.constants[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
            else:
                nodes.append(node)
        self.join_linear(nodes)
        outputs = {value.name for value in self.graph.output}
        last = {name: i for i, node in enumerate(nodes) for name in node.input}
        for i, node in enumerate(nodes):
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            expression = self.expression(node, attributes)
            lines = [f"{', '.join(self.variable(name) for name in node.output)} = {expression}"]
            # Values that are no longer read are freed, like locals of handwritten code that are rebound.
            dead = {name for name in node.input if name in self.names and last[name] == i and name not in outputs}
            if dead:
                lines.append(f"del {', '.join(sorted(self.variable(name) for name in dead))}")
            called = re.match(r"(torch|F)\.\w+", expression)
            self.steps.append((node.name, called[0] if called else node.op_type, lines))
        outputs = ", ".join(self.variable(value.name) for value in self.graph.output)
        return arguments, outputs

    def source(self):
        """A function forward, and profiled, which does the same and adds the nanoseconds of each node to a list."""
        arguments, outputs = self.write()
        plain = [line for _, _, lines in self.steps for line in lines]
        timed = [line for i, (_, _, lines) in enumerate(self.steps)
                 for line in ("began = clock()", *lines, f"spent[{i}] += clock() - began")]
        return "\n".join(f"def {name}({parameters}):\n" + "".join(f"    {line}\n" for line in lines) + f"    return ({outputs},)\n"
                         for name, parameters, lines in (("forward", f"self, {arguments}", plain),
                                                         ("profiled", f"self, spent, {arguments}", timed)))

    def join_linear(self, nodes):
        """Writes MatMul by a constant, then Add of one, as a linear layer: ONNX has none for more than two axes."""
        readers = {}
        for node in nodes:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        for product in [node for node in nodes if node.op_type == "MatMul"]:
            weight = self.constants.get(product.input[1])
            users = readers.get(product.output[0], [])
            is_output = product.output[0] in {value.name for value in self.graph.output}
            if is_output or weight is None or weight.ndim != 2 or len(users) != 1 or users[0].op_type != "Add":
                continue
            total = users[0]
            bias = next((name for name in total.input if name != product.output[0]), None)
            if bias is None or getattr(self.constants.get(bias), "ndim", 0) != 1:
                continue
            turned = self.turned[product.input[1]] = f"{product.input[1]} turned"
            self.constants[turned] = numpy.ascontiguousarray(weight.T)
            joined = onnx.helper.make_node("Linear", [product.input[0], turned, bias], list(total.output),
                                           name=f"{product.name} {total.name}")
            nodes[[id(node) for node in nodes].index(id(total))] = joined
            del nodes[[id(node) for node in nodes].index(id(product))]

    def write_Linear(self, node, x, a):
        return f"F.linear({', '.join(x)})"

    def expression(self, node, a):
        op = node.op_type
        x = [self.variable(name) if name else "None" for name in node.input]
        if op in PLAIN:
            return f"{PLAIN[op]}({', '.join(x)})"
        method = getattr(self, "write_" + op, None)
        if method is None:
            raise NotImplementedError(f"no PyTorch form of {op} here")
        return method(node, x, a)

    def write_Identity(self, node, x, a):
        return x[0]

    def write_Cast(self, node, x, a):
        return f"{x[0]}.to({DTYPES[a['to']]})"

    def write_LeakyRelu(self, node, x, a):
        return f"F.leaky_relu({x[0]}, {a.get('alpha', 0.01)!r})"

    def write_Elu(self, node, x, a):
        return f"F.elu({x[0]}, {a.get('alpha', 1.0)!r})"

    def write_HardSigmoid(self, node, x, a):
        return f"torch.clamp({x[0]} * {a.get('alpha', 0.2)!r} + {a.get('beta', 0.5)!r}, 0.0, 1.0)"

    def write_Gelu(self, node, x, a):
        return f"F.gelu({x[0]}, approximate={a.get('approximate', b'none').decode()!r})"

    def write_Clip(self, node, x, a):
        bounds = [None if i >= len(node.input) or not node.input[i] else float(self.constants[node.input[i]])
                  for i in (1, 2)]
        return f"torch.clamp({x[0]}, {bounds[0]!r}, {bounds[1]!r})"

    def write_Gemm(self, node, x, a):
        if a.get("alpha", 1.0) != 1 or a.get("beta", 1.0) != 1 or a.get("transA", 0):
            raise NotImplementedError("Gemm with alpha, beta or transA")
        weight = x[1] if a.get("transB", 0) else f"{x[1]}.t()"
        return f"F.linear({x[0]}, {weight}{', ' + x[2] if len(x) > 2 else ''})"

    def write_Reshape(self, node, x, a):
        lengths = self.list_of(node.input[1])
        if 0 in lengths:
            raise NotImplementedError("Reshape that keeps an axis")
        return f"{x[0]}.reshape({lengths})"

    def write_Flatten(self, node, x, a):
        axis = a.get("axis", 1)
        return f"torch.flatten({x[0]}, {axis})" if axis == 1 else f"{x[0]}.reshape(*[math.prod(s) for s in ({x[0]}.shape[:{axis}], {x[0]}.shape[{axis}:])])"

    def write_Transpose(self, node, x, a):
        return f"{x[0]}.permute({list(a['perm'])})"

    def write_Expand(self, node, x, a):
        return f"torch.broadcast_to({x[0]}, torch.broadcast_shapes({x[0]}.shape, {self.list_of(node.input[1])}))"

    def axes_from_the_front(self, node, axes):
        """Axes are applied one by one while their number changes, so several can't be counted from the end."""
        if len(axes) > 1 and min(axes) < 0:
            raise NotImplementedError(f"{node.op_type} of several axes, some counted from the end")
        return sorted(axes)

    def write_Squeeze(self, node, x, a):
        result = x[0]
        if len(node.input) < 2:
            return f"{result}.squeeze()"
        for axis in reversed(self.axes_from_the_front(node, self.list_of(node.input[1]))):
            result = f"{result}.squeeze({axis})"
        return result

    def write_Unsqueeze(self, node, x, a):
        result = x[0]
        for axis in self.axes_from_the_front(node, self.list_of(node.input[1])):
            result = f"{result}.unsqueeze({axis})"
        return result

    def write_Slice(self, node, x, a):
        starts, ends = self.list_of(node.input[1]), self.list_of(node.input[2])
        axes = self.list_of(node.input[3]) if len(node.input) > 3 else list(range(len(starts)))
        steps = self.list_of(node.input[4]) if len(node.input) > 4 else [1] * len(starts)
        result = x[0]
        for start, end, axis, step in zip(starts, ends, axes, steps):
            if axis < 0:
                raise NotImplementedError("Slice of an axis counted from the end")
            if step == -1 and start == -1 and end < -(1 << 40):
                result = f"{result}.flip({axis})"
            elif step > 0:
                colons = "(" + "slice(None), " * axis + f"slice({start}, {end}, {step}),)"
                result = f"{result}[{colons}]"
            else:
                raise NotImplementedError("Slice with a negative step")
        return result

    def write_Split(self, node, x, a):
        axis = a.get("axis", 0)
        if "split" in a or (len(node.input) > 1 and node.input[1]):
            sizes = list(a["split"]) if "split" in a else self.list_of(node.input[1])
            return f"torch.split({x[0]}, {sizes}, {axis})"
        return f"torch.chunk({x[0]}, {len(node.output)}, {axis})"

    def write_Tile(self, node, x, a):
        return f"{x[0]}.tile({self.list_of(node.input[1])})"

    def write_Concat(self, node, x, a):
        return f"torch.cat([{', '.join(x)}], {a['axis']})"

    def write_Gather(self, node, x, a):
        axis = a.get("axis", 0)
        if axis < 0:
            raise NotImplementedError("Gather from an axis counted from the end")
        if axis == 0:
            return f"F.embedding({x[1]}, {x[0]})" if len(self.constants.get(node.input[0], numpy.empty(0)).shape) == 2 \
                else f"{x[0]}[{x[1]}]"
        return f"{x[0]}[({'slice(None), ' * axis}{x[1]},)]"

    def write_Softmax(self, node, x, a):
        return f"torch.softmax({x[0]}, {a.get('axis', -1)})"

    def write_LogSoftmax(self, node, x, a):
        return f"torch.log_softmax({x[0]}, {a.get('axis', -1)})"

    def write_LayerNormalization(self, node, x, a):
        shape = list(self.constants[node.input[1]].shape)
        return f"F.layer_norm({x[0]}, {shape}, {', '.join(x[1:])}{', None' if len(x) < 3 else ''}, {a.get('epsilon', 1e-5)!r})"

    def write_BatchNormalization(self, node, x, a):
        return f"F.batch_norm({x[0]}, {x[3]}, {x[4]}, {x[1]}, {x[2]}, False, 0.0, {a.get('epsilon', 1e-5)!r})"

    def pads(self, node, a, axes):
        if a.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
            raise NotImplementedError(f"{node.op_type} with auto_pad {a['auto_pad'].decode()}")
        return list(a.get("pads", [0] * 2 * axes))

    def write_Conv(self, node, x, a):
        axes = len(self.constants[node.input[1]].shape) - 2
        pads = self.pads(node, a, axes)
        before, after = pads[:axes], pads[axes:]
        data = x[0]
        if before != after:
            widths = [width for pair in zip(reversed(before), reversed(after)) for width in pair]
            data, before = f"F.pad({data}, {widths})", [0] * axes
        bias = x[2] if len(x) > 2 else "None"
        return (f"F.conv{axes}d({data}, {x[1]}, {bias}, {list(a.get('strides', [1] * axes))}, {before}, "
                f"{list(a.get('dilations', [1] * axes))}, {a.get('group', 1)})")

    def write_ConvTranspose(self, node, x, a):
        axes = len(self.constants[node.input[1]].shape) - 2
        pads = self.pads(node, a, axes)
        if pads[:axes] != pads[axes:] or "output_shape" in a:
            raise NotImplementedError("ConvTranspose with uneven pads or output_shape")
        bias = x[2] if len(x) > 2 else "None"
        return (f"F.conv_transpose{axes}d({x[0]}, {x[1]}, {bias}, {list(a.get('strides', [1] * axes))}, {pads[:axes]}, "
                f"{list(a.get('output_padding', [0] * axes))}, {a.get('group', 1)}, {list(a.get('dilations', [1] * axes))})")

    def write_InstanceNormalization(self, node, x, a):
        return f"F.instance_norm({x[0]}, None, None, {x[1]}, {x[2]}, True, 0.0, {a.get('epsilon', 1e-5)!r})"

    def pool(self, node, x, a, name):
        axes = len(a["kernel_shape"])
        pads = self.pads(node, a, axes)
        if pads[:axes] != pads[axes:]:
            raise NotImplementedError(f"{node.op_type} with uneven pads")
        text = f"F.{name}{axes}d({x[0]}, {list(a['kernel_shape'])}, {list(a.get('strides', [1] * axes))}, {pads[:axes]}"
        if name == "max_pool":
            return f"{text}, {list(a.get('dilations', [1] * axes))}, {bool(a.get('ceil_mode', 0))})"
        return f"{text}, {bool(a.get('ceil_mode', 0))}, {bool(a.get('count_include_pad', 0))})"

    def write_MaxPool(self, node, x, a):
        return self.pool(node, x, a, "max_pool")

    def write_AveragePool(self, node, x, a):
        return self.pool(node, x, a, "avg_pool")

    def write_GlobalAveragePool(self, node, x, a):
        return f"F.adaptive_avg_pool2d({x[0]}, 1)"

    def write_GlobalMaxPool(self, node, x, a):
        return f"F.adaptive_max_pool2d({x[0]}, 1)"

    def reduce(self, node, x, a, name):
        axes = list(a["axes"]) if "axes" in a else self.list_of(node.input[1]) if len(node.input) > 1 else None
        if axes is None:
            raise NotImplementedError(f"{node.op_type} over all axes")
        return f"torch.{name}({x[0]}, {axes}, {bool(a.get('keepdims', 1))})"

    def write_ReduceSum(self, node, x, a):
        return self.reduce(node, x, a, "sum")

    def write_ReduceMean(self, node, x, a):
        return self.reduce(node, x, a, "mean")

    def write_ReduceMax(self, node, x, a):
        return self.reduce(node, x, a, "amax")

    def write_ReduceMin(self, node, x, a):
        return self.reduce(node, x, a, "amin")

    def write_Trilu(self, node, x, a):
        diagonal = self.list_of(node.input[1])[0] if len(node.input) > 1 else 0
        return f"torch.{'triu' if a.get('upper', 1) else 'tril'}({x[0]}, {diagonal})"

    def write_ArgMax(self, node, x, a):
        return f"torch.argmax({x[0]}, {a.get('axis', 0)}, {bool(a.get('keepdims', 1))})"


def module_of(path):
    model = onnx.load(path)
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    if opset < 13:  # Softmax, Squeeze, Clip and others are defined differently there
        raise NotImplementedError(f"opset {opset}; this arm reads 13 and newer (onnx.version_converter converts)")
    writer = Writer(model.graph)
    source = writer.source()
    scope = {"torch": torch, "F": F, "math": math, "divide": divide, "clock": time.perf_counter_ns}
    exec(compile(source, path, "exec"), scope)  # generated here: names are numbered, constants are attributes
    module = type("Model", (torch.nn.Module,), {"forward": scope["forward"], "profiled": scope["profiled"]})()
    module.steps = writer.steps
    module.inputs = [value.name for value in model.graph.input if value.name not in writer.constants]
    module.weights = {}  # the attribute of each constant, and whether it is turned
    for i, (name, array) in enumerate(writer.constants.items()):
        if name in writer.used:
            module.register_buffer(f"c{i}", torch.from_numpy(numpy.array(array)))
            module.weights[name] = (f"c{i}", False)
    for name, turned in writer.turned.items():
        read_by_others = module.weights.pop(name, None)  # its gradient would be a sum of two
        if not read_by_others:
            module.weights[name] = (module.weights[turned][0], True)
    return module.eval()


BACKENDS = {"compile": "inductor", "compile-eager": "eager", "compile-aot-eager": "aot_eager"}

mode = sys.argv[1] if len(sys.argv) > 1 else "eager"
if mode not in ("eager", "script", *BACKENDS):
    diptych_arm.refuse(f"torch_arm.py has no mode {mode}: eager, script, {', '.join(BACKENDS)}")
    sys.exit()
if mode in BACKENDS and not hasattr(torch, "compile"):
    diptych_arm.refuse(f"torch.compile needs PyTorch 2, found {torch.__version__}")
    sys.exit()
compiling = 0.0
profiled = profiled_inputs = None
first_graphs = 0  # captured by the first call


def dynamo_utils():
    """torch._dynamo.utils, which is no promised interface: what isn't there isn't counted."""
    return getattr(getattr(torch, "_dynamo", None), "utils", None)


def counted(group):
    """One of Dynamo's groups of counters; none if this version has no such group."""
    found = getattr(dynamo_utils(), "counters", {}).get(group) or {}
    return {str(name): value for name, value in found.items() if isinstance(value, (int, float))}


def seconds_compiling():
    """By Dynamo's own clock, with all that it calls. None: this version doesn't say."""
    utils = dynamo_utils()
    try:
        spent = utils.calculate_time_spent()
        for phase in ("total_wall_time", "entire_frame_compile"):
            if spent.get(phase):
                return float(spent[phase])
    except (AttributeError, TypeError, ValueError):
        pass
    try:
        spent = dict(zip(*utils.compile_times(repr="csv", aggregate=True)))
        return next(float(value) for name, value in spent.items() if name.endswith("compile_inner"))
    except (AttributeError, TypeError, ValueError, StopIteration):
        return None


def counters():
    """What torch.compile has counted since this process began. What a version doesn't count is left out."""
    said = {}
    if hasattr(dynamo_utils(), "counters"):
        graphs = counted("stats").get("unique_graphs", 0)
        said["graphs"] = graphs
        said["graph_breaks"] = sum(counted("graph_break").values())
        # All calls have the same inputs: a graph after the first call is one that was captured again. Later versions
        # count these themselves, by their reasons.
        said["recompiles"] = max(sum(counted("recompiles").values()), graphs - first_graphs)
        inductor = counted("inductor")
        if any(name.startswith("fxgraph_cache_") for name in inductor):
            said["cache_hits"] = inductor.get("fxgraph_cache_hit", 0)
            said["cache_misses"] = inductor.get("fxgraph_cache_miss", 0)
        said["autograd_cache_hits"] = counted("aot_autograd").get("autograd_cache_hit")
    said["compile_seconds"] = seconds_compiling()
    return {name: value for name, value in said.items() if value is not None}


def load(path, arrays):
    global compiling, first_graphs, profiled, profiled_inputs
    torch.set_num_threads(diptych_arm.THREADS)
    torch.set_grad_enabled(False)
    inputs = tuple(torch.from_numpy(array) for array in arrays)
    model = profiled = module_of(path)
    profiled_inputs = inputs
    start = time.perf_counter()
    if mode == "script":
        model = torch.jit.freeze(torch.jit.trace(model, inputs, check_trace=False))
        for _ in range(3):  # the profiling executor specialises in its first calls
            model(*inputs)
    elif mode in BACKENDS:
        model = torch.compile(model, backend=BACKENDS[mode])
        model(*inputs)
        first_graphs = counted("stats").get("unique_graphs", 0)
    compiling = time.perf_counter() - start if mode != "eager" else 0.0
    return lambda: model(*inputs)


def load_wanted(path, arrays, by, cotangents):
    """What gradients and training have in common: the call of a model, its inputs, the tensors that `by` names, each with
    whether it is turned, and the cotangents of floating-point outputs."""
    global profiled
    torch.set_num_threads(diptych_arm.THREADS)
    profiled = None
    model = module_of(path)
    inputs = [torch.from_numpy(array) for array in arrays]
    wanted = []
    for name in by:
        if name not in model.inputs and name not in model.weights:
            raise NotImplementedError(f"{name} is no tensor of its own here")
        attribute, turned = model.weights.get(name, ("", False))
        tensor = getattr(model, attribute) if attribute else inputs[model.inputs.index(name)]
        wanted.append((tensor.requires_grad_(True), turned))
    cotangents = [torch.from_numpy(array) for array in cotangents]
    cotangents = [cotangent for cotangent in cotangents if cotangent.is_floating_point()]
    called = torch.compile(model, backend=BACKENDS[mode]) if mode in BACKENDS else model
    return lambda: [output for output in called(*inputs) if output.is_floating_point()], wanted, cotangents


def compile_by(run):
    """The first call of a compiled model, timed; nothing in eager mode."""
    global compiling, first_graphs
    start = time.perf_counter()
    if mode in BACKENDS:
        run()
        first_graphs = counted("stats").get("unique_graphs", 0)
    compiling = time.perf_counter() - start if mode in BACKENDS else 0.0


def load_gradients(path, arrays, by, cotangents):
    """As a training step does: forward with a tape, then backward."""
    outputs_of, wanted, cotangents = load_wanted(path, arrays, by, cotangents)
    weights = [tensor for tensor, _ in wanted]

    def run():
        gradients = torch.autograd.grad(outputs_of(), weights, cotangents)
        return [gradient.t() if turned else gradient for gradient, (_, turned) in zip(gradients, wanted)]

    compile_by(run)
    return run


class Training:
    """As a program writes it: zero_grad(), forward, backward(), the optimizer's step()."""

    def __init__(self, outputs_of, wanted, cotangents, make_optimizer):
        self.outputs_of, self.wanted, self.cotangents = outputs_of, wanted, cotangents
        self.tensors = [tensor for tensor, _ in wanted]
        self.loaded = [tensor.detach().clone() for tensor in self.tensors]
        self.make_optimizer = make_optimizer
        self.optimizer = make_optimizer(self.tensors)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        outputs = self.outputs_of()
        torch.autograd.backward(outputs, self.cotangents)
        self.optimizer.step()
        return [output.detach() for output in outputs] + [
            tensor.grad.t() if turned else tensor.grad for tensor, turned in self.wanted]

    def restart(self):
        with torch.no_grad():
            for tensor, loaded in zip(self.tensors, self.loaded):
                tensor.copy_(loaded)
        self.optimizer = self.make_optimizer(self.tensors)

    def weights(self):
        return [tensor.detach().numpy() for tensor in self.tensors]


OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


def load_training(path, arrays, by, cotangents, optimizer):
    options = dict(optimizer)
    kind = OPTIMIZERS.get(options.pop("name"))
    if kind is None:
        raise NotImplementedError(f"the optimizer {optimizer['name']}")
    training = Training(*load_wanted(path, arrays, by, cotangents), lambda tensors: kind(tensors, **options))
    compile_by(training.step)
    return training


def profile(count):
    """What each node takes, op by op: a clock is read before and after each line of forward(). The mean of the half of
    the calls whose durations lie in the middle: what others take of the machine makes some calls long."""
    if profiled is None:
        raise NotImplementedError("this arm has no profile of gradients")
    calls = []
    for _ in range(count + 1):
        spent = [0] * len(profiled.steps)
        profiled.profiled(spent, *profiled_inputs)
        calls.append(spent)
    calls = sorted(calls[1:], key=sum)[count // 4:count - count // 4]
    return [{"node": name, "op": called, "seconds": sum(spent[i] for spent in calls) / len(calls) * 1e-9, "runs": 1}
            for i, (name, called, _) in enumerate(profiled.steps)]


diptych_arm.serve(f"PyTorch {torch.__version__} ({mode})", load, compile_seconds=lambda: compiling,
                  profile=profile if mode == "eager" else None, counters=counters if mode in BACKENDS else None,
                  load_gradients=load_gradients if mode != "script" else None,
                  load_training=load_training if mode != "script" else None)
