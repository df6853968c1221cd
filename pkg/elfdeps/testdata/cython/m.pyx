import os, json
import collections.abc
from . import _sibling
from .other import thing, another_thing_with_name
import numpy.linalg as la
cdef class A:
    """A docstring with some text, longer than the rest of the lines in here, so that it pays."""
    cdef int x
    def f(self, int a, b=None):
        import late.module_name
        return late.module_name.g(a, b, "a string constant of the function f", b"\xff\xfebytes")
def h(a, b, c):
    raise ValueError("something in the function h is wrong: %s" % (a,))
def g(xs, ys, some_keyword=None, other_keyword=1):
    for x in xs:
        yield os.path.join(x, json.dumps(ys), some_keyword, other_keyword)
