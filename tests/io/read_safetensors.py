#!/usr/bin/env python3
"""Reads a safetensors file with nothing but the format's description, and prints what is in it, one tensor a line, sorted
by name: "<name> <dtype> <shape> <elements>". With the argument --library first: by the safetensors package; exits with 77
where that isn't installed."""
import json
import struct
import sys

CODES = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i", "I16": "h", "I8": "b", "U64": "Q", "U32": "I",
         "U16": "H", "U8": "B", "BOOL": "?"}
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2,
         "U8": 1, "BOOL": 1}


def no_doubles(pairs):
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), "double keys"
    return dict(pairs)


def elements(dtype, data):
    if dtype == "BF16":  # the upper half of a float
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return list(struct.unpack("<%d%s" % (len(data) // SIZES[dtype], CODES[dtype]), data))


def read(path):
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    assert length <= 100_000_000 and content[8:9] == b"{"
    header = json.loads(content[8:8 + length].decode("utf-8"), object_pairs_hook=no_doubles)
    data = content[8 + length:]
    assert (8 + length) % 8 == 0, "elements are not aligned"
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(value, str) for value in metadata.values())
    reached = 0
    for entry in sorted(header.values(), key=lambda entry: entry["data_offsets"]):
        begin, end = entry["data_offsets"]
        assert begin == reached, "hole or overlap"
        count = 1
        for axis in entry["shape"]:
            count *= axis
        assert end - begin == count * SIZES[entry["dtype"]]
        assert begin % SIZES[entry["dtype"]] == 0, "tensor is not aligned"
        reached = end
    assert reached == len(data)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["dtype"], entry["shape"], elements(entry["dtype"], data[begin:end]))
    return metadata, tensors


def read_by_library(path):
    try:
        import safetensors
    except ImportError:
        sys.exit(77)
    with open(path, "rb") as file:
        entries = safetensors.deserialize(file.read())
    return {}, {name: (entry["dtype"], list(entry["shape"]), elements(entry["dtype"], bytes(entry["data"])))
                for name, entry in entries}


library = sys.argv[1] == "--library"
metadata, tensors = (read_by_library if library else read)(sys.argv[-1])
for key in sorted(metadata):
    print("metadata", key, metadata[key])
for name in sorted(tensors):
    dtype, shape, values = tensors[name]
    print(name, dtype, shape, values)
