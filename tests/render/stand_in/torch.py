"""What the official renderers use of PyTorch, done by numpy."""

import numpy

__version__ = "2.15.0"  # they ask for 2.10
bool = "bool"
float32 = "float32"
int64 = "int64"


class Tensor:
    def __init__(self, values):
        self.values = numpy.asarray(values)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return Tensor(self.values[index])

    def __truediv__(self, number):
        return Tensor((self.values / float(number)).astype(float32))

    def tolist(self):
        return self.values.tolist()

    def sum(self):
        return self.values.sum()

    @property
    def shape(self):
        return self.values.shape

    @property
    def dtype(self):
        return str(self.values.dtype)


def tensor(values, dtype=None):
    return Tensor(numpy.asarray(getattr(values, "values", values), dtype))


def zeros(size):
    return Tensor(numpy.zeros(size, float32))


def full(shape, value):
    return Tensor(numpy.full(shape, value, float32))


def cat(tensors):
    return Tensor(numpy.concatenate([each.values for each in tensors]))


def from_numpy(values):
    return Tensor(values)
