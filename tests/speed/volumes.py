#!/usr/bin/env python3
"""Models with three spatial axes, to be timed beside other frameworks:

    tests/speed/volumes.py FOLDER
    diptych run FOLDER/conv.onnx FOLDER/stem.onnx FOLDER/transpose.onnx FOLDER/norm_pool.onnx --arms eager,graph,torch-eager
"""
import pathlib
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

RANDOM = numpy.random.default_rng(1)


def weight(name, *shape):
    scale = numpy.prod(shape[1:]) ** -0.5
    return numpy_helper.from_array((RANDOM.standard_normal(shape) * scale).astype(numpy.float32), name)


def ones(name, count):
    return numpy_helper.from_array(numpy.ones(count, numpy.float32), name)


def save(folder, name, nodes, weights, shape):
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), folder / f"{name}.onnx")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    node = helper.make_node
    # A layer of a network for scans: most of the work of such networks.
    save(folder, "conv",
         [node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3, 3], pads=[1] * 6), node("Relu", ["c"], ["y"])],
         [weight("w", 32, 16, 3, 3, 3), ones("b", 32)], [1, 16, 16, 32, 32])
    # The first layer of a network for video: few channels, large and strided windows.
    save(folder, "stem",
         [node("Conv", ["x", "w", "b"], ["y"], kernel_shape=[3, 7, 7], strides=[1, 2, 2], pads=[1, 3, 3] * 2)],
         [weight("w", 64, 3, 3, 7, 7), ones("b", 64)], [1, 3, 8, 112, 112])
    # From half the resolution to the whole, as decoders do.
    save(folder, "transpose",
         [node("ConvTranspose", ["x", "w", "b"], ["y"], kernel_shape=[2, 2, 2], strides=[2, 2, 2])],
         [weight("w", 32, 16, 2, 2, 2), ones("b", 16)], [1, 32, 8, 16, 16])
    # What stands between convolutions.
    save(folder, "norm_pool",
         [node("InstanceNormalization", ["x", "s", "o"], ["n"]),
          node("MaxPool", ["n"], ["m"], kernel_shape=[2, 2, 2], strides=[2, 2, 2]),
          node("AveragePool", ["m"], ["y"], kernel_shape=[3, 3, 3], pads=[1] * 6)],
         [ones("s", 32), ones("o", 32)], [2, 32, 16, 28, 28])


if __name__ == "__main__":
    main()
