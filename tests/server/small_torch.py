"""What the official SDK needs of torch for custom losses, where torch is not installed.

`install()` makes it importable as `torch`, before the SDK is. Tensors are NumPy arrays that remember how they were made, so
that `backward` can go back; `torch.fx.symbolic_trace` records the operations below. tests/trace/golden has what the real
torch makes of the same functions, and the tests compare.
"""

import builtins
import importlib.util
import keyword
import operator
import sys
import types

import numpy as np


def summed_to(gradient, shape):
    """Undoes broadcasting."""
    while gradient.ndim > len(shape):
        gradient = gradient.sum(axis=0)
    for axis, size in enumerate(shape):
        if size == 1 and gradient.shape[axis] != 1:
            gradient = gradient.sum(axis=axis, keepdims=True)
    return gradient


class Tensor:
    def __init__(self, array, parents=()):
        self._array = np.asarray(array)
        self._parents = parents  # (tensor, what takes this one's gradient to that one's)
        self.requires_grad = False
        self.grad = None

    shape = property(lambda self: self._array.shape)
    ndim = property(lambda self: self._array.ndim)
    dtype = property(lambda self: self._array.dtype)

    def numpy(self):
        return self._array

    def item(self):
        return self._array.item()

    def contiguous(self):
        return self

    def detach(self):
        return Tensor(self._array)

    def clone(self):
        return Tensor(self._array.copy(), ((self, lambda g: g),))

    def reshape(self, shape):
        return Tensor(self._array.reshape(shape), ((self, lambda g: g.reshape(self.shape)),))

    def requires_grad_(self, value):
        self.requires_grad = value
        return self

    def sum(self):
        return Tensor(self._array.sum(), ((self, lambda g: np.full(self.shape, g)),))

    def exp(self):
        out = np.exp(self._array)
        return Tensor(out, ((self, lambda g: g * out),))

    def __getitem__(self, index):
        def back(gradient):
            out = np.zeros(self.shape)
            out[index] = gradient
            return out

        return Tensor(self._array[index], ((self, back),))

    def backward(self):
        order, seen = [], set()

        def visit(tensor):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                for parent, _ in tensor._parents:
                    visit(parent)
                order.append(tensor)

        visit(self)
        gradients = {id(self): np.ones(self.shape)}
        for tensor in reversed(order):
            gradient = gradients[id(tensor)]
            if tensor.requires_grad:
                tensor.grad = Tensor(gradient.astype(np.float32))
            for parent, back in tensor._parents:
                part = summed_to(np.asarray(back(gradient)), parent.shape)
                gradients[id(parent)] = gradients.get(id(parent), 0.0) + part


def binary(name, compute, back_left, back_right):
    def forward(left, right):
        a = left if isinstance(left, Tensor) else Tensor(np.float32(left))
        b = right if isinstance(right, Tensor) else Tensor(np.float32(right))
        parents = (
            (a, lambda g: back_left(g, a._array, b._array)),
            (b, lambda g: back_right(g, a._array, b._array)),
        )
        return Tensor(compute(a._array, b._array), parents)

    setattr(Tensor, f"__{name}__", forward)
    setattr(Tensor, f"__r{name}__", lambda right, left: forward(left, right))


binary("add", np.add, lambda g, a, b: g, lambda g, a, b: g)
binary("sub", np.subtract, lambda g, a, b: g, lambda g, a, b: -g)
binary("mul", np.multiply, lambda g, a, b: g * b, lambda g, a, b: g * a)
binary("truediv", np.divide, lambda g, a, b: g / b, lambda g, a, b: -g * a / (b * b))
Tensor.__neg__ = lambda self: Tensor(-self._array, ((self, lambda g: -g),))


def exp(value):
    return value._record("call_function", exp, (value,)) if isinstance(value, Proxy) else value.exp()


exp.__module__ = "torch"


# ---- torch.fx ----


class Node:
    def __init__(self, op, name, target, args):
        self.op, self.name, self.target, self.args, self.kwargs = op, name, target, args, {}


class Graph:
    def __init__(self):
        self.nodes = []
        self._counts = {}

    def add(self, op, target, args):
        base = target if isinstance(target, str) else target.__name__
        base = base.strip("_")
        count = self._counts.get(base, 1 if hasattr(builtins, base) or keyword.iskeyword(base) else 0)
        self._counts[base] = count + 1
        self.nodes.append(Node(op, f"{base}_{count}" if count else base, target, args))
        return self.nodes[-1]


class Proxy:
    def __init__(self, graph, node):
        self._graph, self._node = graph, node

    def _record(self, op, target, args):
        return Proxy(self._graph, self._graph.add(op, target, nodes_of(args)))

    def __getitem__(self, index):
        return self._record("call_function", operator.getitem, (self, index))

    def __bool__(self):
        raise TypeError("symbolically traced variables cannot be used as inputs to control flow")


def nodes_of(value):
    if isinstance(value, Proxy):
        return value._node
    if isinstance(value, (tuple, list)):
        return type(value)(nodes_of(part) for part in value)
    if isinstance(value, dict):
        return {key: nodes_of(part) for key, part in value.items()}
    return value


def trace_operator(name):
    function = getattr(operator, name)
    setattr(Proxy, f"__{name}__", lambda a, b: a._record("call_function", function, (a, b)))
    setattr(Proxy, f"__r{name}__", lambda a, b: a._record("call_function", function, (b, a)))


for name in ("add", "sub", "mul", "truediv"):
    trace_operator(name)
Proxy.__neg__ = lambda a: a._record("call_function", operator.neg, (a,))
Proxy.sum = lambda a: a._record("call_method", "sum", (a,))
Proxy.exp = lambda a: a._record("call_method", "exp", (a,))


class GraphModule:
    def __init__(self, function, graph):
        self._function, self.graph = function, graph
        self.code = "\n".join(f"{n.name} = {n.op} {n.target} {n.args}" for n in graph.nodes)

    def __call__(self, *inputs):
        return self._function(*inputs)


def symbolic_trace(function):
    graph = Graph()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    inputs = [Proxy(graph, graph.add("placeholder", name, ())) for name in names]
    output = function(*inputs)
    graph.add("output", "output", (nodes_of(output),))
    return GraphModule(function, graph)


def module(name, **members):
    out = types.ModuleType(name)
    out.__spec__ = importlib.util.spec_from_loader(name, loader=None)
    out.__path__ = []
    vars(out).update(members)
    sys.modules[name] = out
    return out


def install():
    """Yields whether torch is this one."""
    if importlib.util.find_spec("torch"):
        return False
    # Looked for by name only: no value in these tests is of these types.
    kinds = {kind: type(kind, (), {}) for kind in ("dtype", "device", "layout", "memory_format")}
    torch = module(
        "torch",
        Tensor=Tensor,
        tensor=lambda data: Tensor(np.asarray(data, dtype=np.float32)),
        from_numpy=Tensor,
        exp=exp,
        float32=np.dtype("float32"),
        int64=np.dtype("int64"),
        bfloat16="bfloat16",
        **kinds,
    )
    torch.fx = module("torch.fx", Node=Node, symbolic_trace=symbolic_trace)
    torch.fx.node = module("torch.fx.node", _get_qualified_name=lambda f: f"{f.__module__}.{f.__name__}")
    return True
