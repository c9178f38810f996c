#!/usr/bin/env python3
"""A template: your own framework as an arm. Copy it, fill in load(), and run

    diptych run model.onnx --arms eager,graph,mine --arm "mine=python3 my_arm.py"

docs/arms.md tells what is asked of an arm and what is checked. This one "runs" a model by a table of functions, one for
each kind of node, on numpy arrays.
"""

import sys

import diptych_arm  # beside this file; it needs numpy alone

try:
    import numpy
    import onnx  # Debian: python3-onnx
    import onnx.numpy_helper
except ImportError as missing:
    diptych_arm.refuse(f"{missing}; apt-get install python3-numpy python3-onnx")
    sys.exit()

FUNCTIONS = {
    "Add": numpy.add,
    "Exp": numpy.exp,
    "Identity": lambda x: x,
    "MatMul": numpy.matmul,
    "Mul": numpy.multiply,
    "Neg": numpy.negative,
    "Relu": lambda x: numpy.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    "Sub": numpy.subtract,
    "Tanh": numpy.tanh,
}


def load(path, inputs):
    graph = onnx.load(path).graph
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in values]
    values.update(zip(names, inputs))
    unknown = {node.op_type for node in graph.node} - set(FUNCTIONS)
    if unknown:
        raise NotImplementedError(f"no function for {', '.join(sorted(unknown))}")
    steps = [(FUNCTIONS[node.op_type], list(node.input), node.output[0]) for node in graph.node]
    outputs = [value.name for value in graph.output]

    def run():
        now = dict(values)
        for function, arguments, result in steps:
            now[result] = function(*(now[name] for name in arguments))
        return [now[name] for name in outputs]

    return run


diptych_arm.serve(f"numpy {numpy.__version__}", load)
