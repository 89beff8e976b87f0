"""Which public methods of the SDK a script has called itself."""

import functools
import importlib
import inspect
import pkgutil
import sys

import tinker.lib.public_interfaces as interfaces

called = set()


def client_classes():
    """Every client and future of the package, whether or not this script knows of it."""
    found = {}
    for module in pkgutil.iter_modules(interfaces.__path__, interfaces.__name__ + "."):
        if module.name.endswith("_test"):
            continue
        for name, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if name.endswith(("Client", "Future")) and cls.__module__.startswith("tinker.") and not inspect.isabstract(cls):
                found[name] = cls
    return {name: cls for name, cls in found.items() if not name.startswith("_")}


def recorded(name, function, script):
    @functools.wraps(function)
    def call(*arguments, **options):
        if sys._getframe(1).f_code.co_filename == script:
            called.add(name)
        return function(*arguments, **options)

    return call


def watch(script):
    """From now on calls that `script` makes are noted; yields the names of all there are to make."""
    names = set()
    for cls_name, cls in client_classes().items():
        for name, member in inspect.getmembers_static(cls):
            full = f"{cls_name}.{name}"
            if name.startswith("_"):
                continue
            if isinstance(member, property):
                setattr(cls, name, property(recorded(full, member.fget, script)))
            elif isinstance(member, (staticmethod, classmethod)):
                setattr(cls, name, type(member)(recorded(full, member.__func__, script)))
            elif inspect.isfunction(member):
                setattr(cls, name, recorded(full, member, script))
            else:
                continue
            names.add(full)
    return names
