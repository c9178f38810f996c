import onnx, sys, random
from onnx import helper as h, TensorProto as T
n=int(sys.argv[1]); random.seed(1)
nodes=[]; names=["x"]
for i in range(n):
    k=random.choice(["Add","Mul","Tanh","Relu","Sub"])
    a=random.choice(names[-20:]); b=random.choice(names[-20:])
    out=f"v{i}"
    nodes.append(h.make_node(k,[a] if k in("Tanh","Relu") else [a,b],[out],name=f"layer{i//50}/block{i//10}/n{i}")); names.append(out)
g=h.make_graph(nodes,"g",[h.make_tensor_value_info("x",T.FLOAT,[4,8])],[h.make_tensor_value_info(names[-1],T.FLOAT,[4,8])])
onnx.save(h.make_model(g,opset_imports=[h.make_opsetid("",17)]),f"m{n}.onnx")
