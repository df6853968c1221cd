package pysource

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReduce: what is kept of a module, in its form.
func TestReduce(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"attributes that functions give to imported modules", `import hub
def shim():
    x = 1
    hub.cached = hub.other
    self.y = 2
def late():
    import other
    other.name = 3
shim()
`, `import hub
def shim():
 hub.cached=hub.other#4
 self.y=2
def late():
 import other
 other.name=3
shim()
`},
		{"imports and their guards", `"""Doc: import x"""
# import y
import os, \
    sys

def f(a: int = 3, *, b: "X" = None) -> None:
    """Doc."""
    unused = 1
    if a:
        import late
    return a + 1

try:
    import fast
    unicode
except (ImportError, NameError):
    fast = None
else:
    print_it = [1]
`, `import os,sys#3
def f(a=3,*,b=None):#6
 if a:#9
  import late
 return ?
try:#13
 import fast
 unicode
except(ImportError,NameError):
 fast=None
else:pass
#: print_it
`},
		{"the beginning of a long text that a function raises", `import torch
def load():
    for version in (7, 6):
        try:
            torch.ops.load_library(f"{version}.so")
            return
        except Exception:
            pass
    raise RuntimeError(
        f"""Could not load the library. Likely causes:
          1. It is not installed.
          {torch.__version__}"""
        "more")
def check():
    try:
        import fast
    except ImportError:
        raise ImportError("%s is not there, and neither is anything that could take its place" % fast)
    if fast:
        raise RuntimeError("it's kept whole where it is not longer, and plain text")
    elif check:
        raise RuntimeError("""\\x is not kept: an escape begins it, and nothing is left to read of it""")
load()
check()
`, `import torch
def load():
 for version in(7,6):
  try:
   torch.ops.load_library(f"{version}.so")
   return
  except Exception:pass
 raise RuntimeError(f"Could not load the library. Likely causes:{?}")#9
def check():#14
 try:
  import fast
 except ImportError:
  raise ImportError("%s is not there, and neither is anything that could take its place"%fast)
 if fast:
  raise RuntimeError("it's kept whole where it is not longer, and plain text")
 elif check:
  raise RuntimeError(?)
load()
check()
`},
		{"the names of libraries that a function of the file opens", `import cffi
ffi = cffi.FFI()
def _dlopen(ffi, *names):
    for name in names:
        return ffi.dlopen(name)
def other(*names): return names
pango = _dlopen(ffi, "pango-1.0-0", "pango-1.0", "libpango-1.0-0", "libpango-1.0.so.0")
none = other("pango-1.0-0", "pango-1.0", "libpango-1.0-0", "libpango-1.0.so.0")
`, `import cffi
ffi=cffi.FFI()
def _dlopen(ffi,*names):
 for name in names:
  return ffi.dlopen(name)
def other(*names):return names
pango=_dlopen(ffi,"pango-1.0-0","pango-1.0","libpango-1.0-0","libpango-1.0.so.0")
none=other(?)
`},
		{"variables that functions change in lines that are left out", `A = None
B = []
C = {}
D = []
E = 1
F = 2
G = []
def decorate(f):
    global A
    A = f
    B.append(f)
    return f
def other(m, G):
    C["a"] = 1
    m.E = 3
    G.append(1)
@decorate
def used(): pass
list(map(D.append, [1]))
if A and B and C and D and E and F and G:
    import fast
`, `A=None
B=[]
C={}
D=[]
E=1
F=2
G=[]
def decorate(f):
 return f#12
@decorate#17
def used(?):return ?
if A and B and C and D and E and F and G:#20
 import fast
#: other A* B* C* E* D*
`},
		{"names that a try binds after an import", `try:
    def early(): return 1
    import fast
    level = fast.level(1)
    class Base(fast.Thing):
        def method(self): return 1
    def after(x): return x + 1
    def told(): return 1
    if fast:
        TABLE: dict = {1: [2]}
        size, other = 1 + 1, 2
        both = 1
        both = 2 + 2
except ImportError:
    def told(): return 2
def reset():
    global after, level
    after = level = None
try:
    import slow
    class Wrapped: pass
except ImportError:
    raise
`, `try:
 import fast#3
 level=fast.level(1)
 Base=?
 if fast:#9
  TABLE=?
  both=1#12
  both=2+2
except ImportError:pass
try:#19
 import slow
except ImportError:#22
 raise
#: level early after told size other told reset Wrapped! level*
`},
		{"decorators that return the function, and whether something is found", `import importlib.util
def mark(fn):
    setattr(fn, "marked", True)
    return fn
def find(name, more=False):
    spec = importlib.util.find_spec(name)
    exists = spec is not None
    if more:
        return exists, "N/A"
    else:
        return exists, None
@mark
def available():
    return find("torch")[0]
if available():
    import torch
`, `import importlib.util
def mark(fn):
 return fn#4
def find(name,more=False):
 spec=importlib.util.find_spec(name)
 exists=spec is not None
 if more:
  return exists,"N/A"
 else:
  return exists,None
@mark
def available():
 return find("torch")[0]
if available():
 import torch
`},
		{"properties, and attributes that a method gives", `import ctypes
class Library:
    def __init__(self, name):
        self._name = name
        self._open = None
        self._table = {}

    @property
    def _lib(self):
        if self._open is None:
            self._open = ctypes.CDLL(self._name)
        return self._open

    @property
    def other(self):
        return len(self._name)

    def __getattr__(self, name):
        try:
            return self._table[name]
        except KeyError:
            f = self._table[name] = getattr(self._lib, name)
            return f

    def size(self):
        return self.other
lib = Library("libx.so")
`, `import ctypes
class Library:
 def __init__(self,name):
  self._name=name
  self._open=None
  self._table={}
 @property#8
 def _lib(self):
  if self._open is None:
   self._open=ctypes.CDLL(self._name)
  return ?
 def __getattr__(self,name):#18
  try:
   return self._table[name]
  except KeyError:
   f=self._table[name] =getattr(self._lib,name)
   return f
lib=Library("libx.so")#27
`},
		{"the value of a context that is opened", `import ctypes
class Quiet:
    def __init__(self, context):
        self._context = context
        self.count = 1

    def __enter__(self):
        return self._context.__enter__()

    def __exit__(self, *args):
        return self._context.__exit__(*args)

def place(name):
    return "/opt/" + name

def other(name):
    return name

find = place if ctypes else None

with Quiet(find("libx.so")) as p:
    ctypes.CDLL(p)
`, `import ctypes
class Quiet:
 def __init__(self,context):
  self._context=context
  self.count=1
 def __enter__(self):#7
  return self._context.__enter__()
def place(name):#13
 return"/opt/"+name
find=place if ctypes else None#19
with Quiet(find("libx.so"))as p:#21
 ctypes.CDLL(p)
#: other
`},
		{"a function that returns the name of a library", `def name(mac):
    if mac:
        return "libx.dylib"
    return "libx.so"
def other():
    return "x"
`, `def name(mac):
 if mac:
  return"libx.dylib"
 return"libx.so"
#: other
`},
		{"parts of modules that other expressions use", `import numpy as np
from typing import Union
Seed = Union[
    int,
    np.random.Generator,
    np.random.BitGenerator,
]
class A:
    x: np.polynomial.X = np.random.Generator
    if np.linalg:
        z = np.fft.fft
later = lambda: np.rec.array
perhaps = np.char.array if Seed else np.strings.array
`, `import numpy as np
from typing import Union
np.random.Generator;np.random.BitGenerator
class A:#8
 _:np.polynomial.X;x:?=np.random.Generator
 if np.linalg:
  np.fft.fft
#: Seed later perhaps
`},
		{"parts of modules that defaults use", `import numpy as np
def retry(
    func: np.rec.array = None,  # f(a, b)
    wait=np.logspace(-1, 1, 5) * np.random.rand(5),
    end=",) np.strings.x",
    key=lambda a, b: np.char.array,
):
    np.linalg.norm(wait)
    return func
def other[T: (int, str)](x: "np.rec.x" = np.fft.fft(4), *, y=np.random.rand(5)): return 1
class A:
    def m(self, x=np.linalg.norm(3)):
        return x
def stub(x=np.polynomial.X(1), y=np.ma.z(2)):
    def decorator(func):
        for t in range(3):
            print(t)
        return func
    return decorator
class B:
    @stub(1)
    def m(self): pass
`, `#!g10
import numpy as np
np.logspace;np.random.rand;_:np.rec.array
np.fft.fft#10
class A:
 np.linalg.norm
def stub(?,_=(np.polynomial.X,np.ma.z)):return ?#14
class B:#20
 @stub(1)
 def m(?):return ?
#: retry other
`},
		{"objects in the place of modules", `import sys, types
class Lazy(types.ModuleType):
    def __init__(self, name):
        super(Lazy, self).__init__(name)
        self.__doc__ = self.__class__.__doc__
class Other(types.ModuleType):
    def __init__(self, name, structure):
        self._class_to_module = {}
        for key, values in structure.items():
            self._class_to_module[values] = key
        sys.modules[name].__dict__.update(structure)
    def __getattr__(self, name):
        return self._class_to_module[name]
`, `import sys,types
class Lazy(types.ModuleType):
 def __init__(self,name):
  super(Lazy,self).__init__(name)
  self.__doc__=self.__class__.__doc__
class Other(types.ModuleType):
 def __init__(self,name,structure):
  sys.modules[name].__dict__.update(structure)#11
 def __getattr__(self,name):
  return self._class_to_module[name]
`},
		{"parts of modules that annotations use", `import numpy as np, torch
import concurrent.futures
def gone(x: np.float_, y: "np.a" = np.pi, *, z: torch.Tensor = None) -> torch.fx.Graph:
    return 1
def kept(x: np.bool_, y: np.int_ = {"a": np.inf}, w=lambda a, b: np.b) -> Optional[np.e]:
    import late
    return late
class A:
    x: np.uint
    y: np.long = 3
    z: "np.c"
    def __init__(self, e: concurrent.futures.ThreadPoolExecutor):
        a: np.d = e
        self.e = e
f = lambda k=1: np.g
table[np.e:1] = np.nan
`, `import numpy as np,torch
import concurrent.futures
np.pi;_:np.float_;_:torch.Tensor;_:torch.fx.Graph
def kept(x,y={"a":np.inf},w=lambda a,b:np.b)->(np.bool_,np.int_,np.e):#5
 import late
 return ?
class A:
 _:np.uint
 _:np.long;y:?=3
 _:concurrent.futures.ThreadPoolExecutor#12
table[np.e:1] =np.nan#16
#: gone f k
`},
		{"annotations that are not evaluated", `from __future__ import annotations
import numpy as np
class A:
    x: np.uint
    y: np.long = np.pi
def gone(x: np.float_ = np.e): return 1
`, `#!a1
from __future__ import annotations
import numpy as np
class A:
 y:?=np.pi#5
np.e
#: gone
`},
		{"functions that say whether a package is there", `import importlib.util
def _find(name):
    return importlib.util.find_spec(name) is not None, "1"
_torch_available, _torch_version = _find("torch")
_jax = importlib.util.find_spec("jax")
LIMIT = 4
def is_torch_available():
    return _torch_available
def is_jax_available():
    return _jax is not None
def is_torch_version(op, version):
    if not _torch_available:
        return False
    return compare(_torch_version, op, version)
def compare(a, op, b):
    return op(a, b)
def origin():
    return _jax.origin
def limit():
    return LIMIT
`, `import importlib.util
def _find(name):
 return importlib.util.find_spec(name)is not None,"1"
_torch_available,_torch_version=_find("torch")
_jax=importlib.util.find_spec("jax")
LIMIT=4
def is_torch_available():
 return _torch_available
def is_jax_available():
 return _jax is not None
def is_torch_version(op,version):
 if not _torch_available:
  return False
 return compare(_torch_version,op,version)
def compare(a,op,b):
 return op(a,b)
def limit():#19
 return LIMIT
#: origin
`},
		{"names that a module may refuse, and what it says of them", `import numpy as np
from typing import Union
Scalar = Union[np.uint, np.float_,
               np.random.Generator, np.float_]
def zeros(dtype=np.complex_, like: np.ndarray = None): return 1
late = lambda: np.Inf
__expired_attributes__ = {
    # and what to use
    "float_": "Use np.float64 instead.",
    "cast": ("Use np.asarray(arr, dtype=dtype) instead, "
             "or astype."),
    'seterrobj': "Use the np.errstate context manager instead, as its documentation says.",
}
__table__ = {"a": 1, "b": np.uint}
__text__ = {"a": 'Use np.asarray(arr, dtype=dtype) instead, or astype.'}
texts = {"a": "Use np.asarray(arr, dtype=dtype) instead, or astype.", "b": "Use it."}
def __getattr__(attr):
    if attr in __expired_attributes__:
        raise AttributeError(
            f"np.{attr} was removed in the NumPy 2.0 release. "
            f"{__expired_attributes__[attr]}",
            name=None)
    raise AttributeError(f"module {__name__!r} has no attribute {attr!r}")
`, `import numpy as np
from typing import Union
np.uint;np.float_;np.random.Generator
np.complex_;_:np.ndarray#5
__expired_attributes__={"float_":"Use np.float64 instead.","cast":("Use np.asarray(arr, dtype=dtype) instead, ""or astype."),'seterrobj':"Use the np.errstate context manager instead, as its documentation says.",}#7
__text__={"a":'Use np.asarray(arr, dtype=dtype) instead, or astype.'}#15
def __getattr__(attr):#17
 if attr in __expired_attributes__:
  raise AttributeError(f"np.{attr} was removed in the NumPy 2.0 release. "f"{__expired_attributes__[attr]}",name=None)
 raise AttributeError(f"module {__name__!r} has no attribute {attr!r}")#23
#: Scalar zeros late __table__ texts
`},
		{"a class in place of a module's __getattr__", `from . import api
@api.caching
class __getattr__:
    limit = 1
    @property
    def release(self):
        return 1
class Other:
    @property
    def release(self):
        return 1
`, `from.import api
@api.caching
class __getattr__:
 limit=1
 @property
 def release(self):return ?
#: Other!
`},
		{"the release, and the text of an exception", `import json
version_json = '''
{"version": "1.24.2", "date": "2023-02-05T11:25:52-0500", "dirty": false, "error": null}
'''
def get_versions():
    return json.loads(version_json)
vinfo = get_versions()
__version__ = vinfo.get("closest-tag", vinfo["version"])
other = vinfo["date"]
try:
    from . import fast
except ImportError as exc:
    msg = """Importing the C-extensions failed. This error can happen for
many reasons, often due to issues with your setup: %s
""" % (exc,)
    raise ImportError(msg)
`, `import json
version_json='''
{"version": "1.24.2", "date": "2023-02-05T11:25:52-0500", "dirty": false, "error": null}
'''
def get_versions():#5
 return json.loads(version_json)
vinfo=get_versions()
__version__=vinfo.get("closest-tag",vinfo["version"])
try:#10
 from.import fast
except ImportError as exc:
 msg="""Importing the C-extensions failed. This error can happen for
many reasons, often due to issues with your setup: %s
"""%(exc,)
 raise ImportError(msg)#16
#: other
`},
		{"what objects take that import later", `import os, sys
WINDOWS = os.name == "nt"
PY3 = sys.version_info[0] == 3
WIDTH = compute_nothing
class Named:
    def __init__(self, name):
        self.name = name
        self.other = name.upper
class Moved(Named):
    def __init__(self, name, new=None):
        super().__init__(name)
        if new is None:
            new = name
        self.mod = new
    def __get__(self, obj, tp):
        result = __import__(self.mod)
        return result
class Moves:
    __path__ = []
    width = 3
table = [Moved("aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbb"), Moved("cccccccccccccccccc", "dddddddddddddd")]
for t in table:
    setattr(Moves, t.name, t)
sys.modules["moves"] = Moves()
`, `import os,sys
WINDOWS=os.name=="nt"
PY3=sys.version_info[0] ==3
class Named:#5
 def __init__(self,name):
  self.name=name
  self.other=name.upper
class Moved(Named):
 def __init__(self,name,new=None):
  super().__init__(name)
  if new is None:
   new=name
  self.mod=new
 def __get__(self,obj,tp):
  result=__import__(self.mod)
  return result
class Moves:
 __path__=[]
table=[Moved("aaaaaaaaaaaaaaaa","bbbbbbbbbbbbbbbbbbbbbbb"),Moved("cccccccccccccccccc","dddddddddddddd")]#21
for t in table:
 setattr(Moves,t.name,t)
sys.modules["moves"] =Moves()
#: WIDTH
`},
		{"an object in the place of its module", `import sys
import types
from contextlib import contextmanager
class ContextProp:
    def __init__(self, getter, setter):
        self.getter = getter
        self.setter = setter
    def __get__(self, obj, objtype):
        return self.getter()
class PropModule(types.ModuleType):
    def __init__(self, m, name):
        super().__init__(name)
        self.m = m

    def __getattr__(self, attr):
        return self.m.__getattribute__(attr)

class GenericModule(PropModule):
    def __init__(self, m, name):
        super().__init__(m, name)
        self.m.__name__ = name
        self.m = m
    precision = ContextProp(1, 2)
sys.modules[__name__] = GenericModule(sys.modules[__name__], __name__)
from frame.backends import cuda as cuda, opt as opt
`, `import sys
import types
from contextlib import contextmanager
class ContextProp:pass
class PropModule(types.ModuleType):#10
 def __init__(self,m,name):
  super().__init__(name)
  self.m=m
 def __getattr__(self,attr):#15
  return self.m.__getattribute__(attr)
class GenericModule(PropModule):#18
 precision=ContextProp(1,2)#23
sys.modules[__name__] =GenericModule(sys.modules[__name__],__name__)
from frame.backends import cuda as cuda,opt as opt
`},
		{"names behind an f-string, and long lists in functions", `import importlib, ctypes
NAMES = {
    "cuda": ["jax_cuda13_plugin", "jax_cuda12_plugin"],
}
def get(plugin_name, submodule_name):
    if plugin_name not in NAMES:
        raise ValueError(f"Unknown plugin: {plugin_name}")
    return maybe([f".{plugin_name}"] + NAMES[plugin_name], submodule_name)
def maybe(names, submodule_name):
    for name in names:
        return importlib.import_module(f"{name}.{submodule_name}")
def preload():
    libs: list[tuple[str, str]] = [
        # NOTE: Order matters!
        ("cuda_library_00", "libcuda_00.so.*[0-9]"),
        ("cuda_library_01", "libcuda_01.so.*[0-9]"),
        ("cuda_library_02", "libcuda_02.so.*[0-9]"),
        ("cuda_library_03", "libcuda_03.so.*[0-9]"),
        ("cuda_library_04", "libcuda_04.so.*[0-9]"),
        ("cuda_library_05", "libcuda_05.so.*[0-9]"),
        ("cuda_library_06", "libcuda_06.so.*[0-9]"),
        ("cuda_library_07", "libcuda_07.so.*[0-9]"),
        ("cuda_library_08", "libcuda_08.so.*[0-9]"),
        ("cuda_library_09", "libcuda_09.so.*[0-9]"),
        ("cuda_library_10", "libcuda_10.so.*[0-9]"),
        ("cuda_library_11", "libcuda_11.so.*[0-9]"),
        ("cuda_library_12", "libcuda_12.so.*[0-9]"),
        ("cuda_library_13", "libcuda_13.so.*[0-9]"),
        ("cuda_library_14", "libcuda_14.so.*[0-9]"),
        ("cuda_library_15", "libcuda_15.so.*[0-9]"),
    ]
    for folder, name in libs:
        ctypes.CDLL(folder + name)
`, `import importlib,ctypes
NAMES={"cuda":["jax_cuda13_plugin","jax_cuda12_plugin"],}
def get(plugin_name,submodule_name):#5
 if plugin_name not in NAMES:
  raise ValueError(f"Unknown plugin: {plugin_name}")
 return maybe([f".{plugin_name}"]+NAMES[plugin_name],submodule_name)
 return ?
def maybe(names,submodule_name):#9
 for name in names:
  return importlib.import_module(f"{name}.{submodule_name}")
 return ?
def preload():#12
 libs=[("cuda_library_00","libcuda_00.so.*[0-9]"),("cuda_library_01","libcuda_01.so.*[0-9]"),("cuda_library_02","libcuda_02.so.*[0-9]"),("cuda_library_03","libcuda_03.so.*[0-9]"),("cuda_library_04","libcuda_04.so.*[0-9]"),("cuda_library_05","libcuda_05.so.*[0-9]"),("cuda_library_06","libcuda_06.so.*[0-9]"),("cuda_library_07","libcuda_07.so.*[0-9]"),("cuda_library_08","libcuda_08.so.*[0-9]"),("cuda_library_09","libcuda_09.so.*[0-9]"),("cuda_library_10","libcuda_10.so.*[0-9]"),("cuda_library_11","libcuda_11.so.*[0-9]"),("cuda_library_12","libcuda_12.so.*[0-9]"),("cuda_library_13","libcuda_13.so.*[0-9]"),("cuda_library_14","libcuda_14.so.*[0-9]"),("cuda_library_15","libcuda_15.so.*[0-9]"),]
 for folder,name in libs:#32
  ctypes.CDLL(folder+name)
 return ?
`},
		{"what a function has looked for", `import importlib.machinery, torch
from . import a
def directory(name):
    base = "lib"
    return base + name
def find(name):
    spec = importlib.machinery.PathFinder().find_spec(name, [directory(name)])
    count = 3
    return spec.origin
__all__ = list(set(a.__all__) | set(a.bbbbbbbbbbbbbbb.__all__) | {"ccccccccccccccccccccccc"})
`, `import importlib.machinery,torch
from.import a
def directory(name):
 base="lib"
 return base+name
def find(name):
 spec=importlib.machinery.PathFinder().find_spec(name,[directory(name)])
 return spec.origin#9
 return ?
__all__=list(set(a.__all__)|set(a.bbbbbbbbbbbbbbb.__all__)|{"ccccccccccccccccccccccc"})#10
`},
		{"names of a module that come from __getattr__", `import numpy as np
parts = {"linalg", "fft", "random", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
other = {"linalg", "fft", "random", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
__all__ = list(parts | set(np.__all__))
__getattr__, __dir__, _ = np.attach("a", ["bbbbbbbbbbbbbbbbbbbbbbbbb", "cccccccccccccccccccccccccccccc"])
def attach(package, names):
    def __getattr__(name):
        if name in names:
            return __import__(package + name)
    def __dir__():
        return names
    return __getattr__, __dir__, names
`, `import numpy as np
parts={"linalg","fft","random","aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
__all__=list(parts|set(np.__all__))#4
__getattr__,__dir__,_=np.attach("a",["bbbbbbbbbbbbbbbbbbbbbbbbb","cccccccccccccccccccccccccccccc"])
def attach(package,names):
 def __getattr__(name):
  if name in names:
   return __import__(package+name)
 def __dir__(?):return ?
 return __getattr__,__dir__,names#12
#: other
`},
		{"the names that an open uses", `import ctypes
from os import path
here = path.dirname(__file__)
table = {"a": 1, "bbbbbbbbbbbbbbbbbbbbbbbbbbbb": 2, "ccccccccccccccccccccccccccccccccccccccc": 3}
def load(name):
    return ctypes.CDLL(path.join(here, "lib", "a rather long name of a directory, for once", name))
def get(x): return table[x]
lib = load("libx.so")
`, `import ctypes
from os import path
here=path.dirname(__file__)
def load(name):#5
 return ctypes.CDLL(path.join(here,"lib","a rather long name of a directory, for once",name))
lib=load("libx.so")#8
#: table get
`},
		{"all bindings of a name that one is kept of", `try:
    from fast import f
    import g
except ImportError:
    f = g
    g = h
x = 1
x = table[x]
if x:
    def y(): import z
else:
    def y(): return [1]
a, b[i] = c = table
`, `try:
 from fast import f
 import g
except ImportError:
 f=g
 g=h
x=1
x=table[x]
if x:
 def y():import z
else:
 def y():return[1]
#: a c
`},
		{"calls of what a function imports", `def begin():
    from app import server
    from app.cli import run
    print("starting")
    server.init()
    code = server.unused()
    run(code)
    other.init()
`, `def begin():
 from app import server
 from app.cli import run
 server.init()#5
 code=server.unused()
 run(code)
 return ?
`},
		{"a loop over modules that a function imports", `def load(app):
    from ext import a, b
    every = [a, b]
    for e in every:
        name = e.__name__.upper()
        if not (e.on() if hasattr(e, "on") else True):
            continue
        e.init(app)
    for x in app:
        x.unused(app)
`, `def load(app):
 from ext import a,b
 every=[a,b]
 for e in every:
  if not(e.on()if hasattr(e,"on")else True):#6
   continue
  e.init(app)
 return ?
`},
		{"functions by which programs start", `import argparse
import click
def main(argv=None):
    title = "a text that matters to nobody"
    args = parse(argv)
    args.func(args)
def parse(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", default="an option that matters to nobody here")
    parser.add_argument("mode")
    return parser.parse_args(argv)
@click.command()
def convert(n):
    print(n)
    work.start(n)
def unused(n):
    work.start(n)
`, `import argparse
import click
def main(argv=None):
 args=parse(argv)#5
 args.func(args)
def parse(argv):
 parser=argparse.ArgumentParser()
 parser.add_argument("--long")
 parser.add_argument("mode")
 return parser.parse_args(argv)
@click.command()
def convert(n):
 work.start(n)#15
#: unused
`},
		{"what a server runs when it starts, and a function that makes the application", `from fastapi import FastAPI
@asynccontextmanager
async def lifespan(app):
    store.model = load("a")
    yield
def make():
    app = FastAPI()
    @app.on_event("startup")
    async def start():
        warm(app)
    return app
@asynccontextmanager
async def session(app):
    store.open("a")
    yield
`, `from fastapi import FastAPI
@asynccontextmanager
async def lifespan(app):
 store.model=load("a")
 yield
def make():
 app=FastAPI()
 @app.on_event("startup")
 async def start():
  warm(app)
 return app
#: session
`},
		{"declarations of command lines, and a group that finds its commands", `import argparse, importlib
import click
class Lazy(click.Group):
    def __init__(self, *args, lazy=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.lazy = lazy or {}
    def list_commands(self, ctx):
        return sorted(self.lazy)
    def get_command(self, ctx, name):
        return self.load(name)
    def load(self, name):
        return importlib.import_module(self.lazy[name]).cli
class Cache:
    def get_command(self, name):
        return self.things.start(name)
@click.group(cls=Lazy, help="a text that matters to nobody here", lazy={"serve": "tool.serve"})
@click.option("--level", "-l", default="a default that is a text", help="(first, second)",  # a comment, too
              type=click.Choice(["debug", "info"]), show_default=True)
def cli(level): pass
def main():
    p = argparse.ArgumentParser()
    p.add_argument("--backend", "-b",
        help="a text, of two parts; " "and the other one",
        type=str, choices=["a", "b"], default=lambda: 1, metavar="B")
    p.parse_args()
`, `import argparse,importlib
import click
class Lazy(click.Group):
 def __init__(self,*args,lazy=None,**kwargs):
  super().__init__(*args,**kwargs)
  self.lazy=lazy or{}
 def get_command(self,ctx,name):#9
  return self.load(name)
 def load(self,name):
  return importlib.import_module(self.lazy[name]).cli
@click.group(cls=Lazy,lazy={"serve":"tool.serve"})#16
@click.option("--level","-l",default="a default that is a text",type=click.Choice(["debug","info"]))
def cli(?):return ?#19
def main():
 p=argparse.ArgumentParser()
 p.add_argument("--backend","-b",type=str)
 p.parse_args()#25
#: Cache!
`},
		{"an application that a text names", `import uvicorn
def begin():
    print("starting")
    uvicorn.run(
        "pkg.main:app", host="0.0.0.0", port=8000, log_level="info", proxy_headers=True,
    )
`, `import uvicorn
def begin():
 uvicorn.run("pkg.main:app",host="0.0.0.0",port=8000,log_level="info",proxy_headers=True,)#4
 return ?
`},
		{"what is too long", `import a
a.f("a long argument of a call that matters to nobody", "and one more")
a.f("another long argument of a call that matters to nobody", "and one more")
a.f("a.module", "f", "a long argument of a call that matters to nobody")
a.f("a.module", "g", "another long argument of a call that matters to nobody")
@a.register
def g(): pass
class C(a.B):
    x: int = a.field(1)
`, `import a
a.f(?)
a.f("a.module",?)#4
@a.register#6
def g(?):return ?
class C(a.B):
 x:?=a.field(1)
`},
	} {
		got := string(Reduce([]byte(c.src)))
		if diff := cmp.Diff(reducedMark+"\n"+c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// event is a statement that runs when a module is imported, as far as it decides what is
// loaded: an import, a raise, or calls that may load something.
type event struct {
	line   int
	under  string // the headers of its blocks
	what   string // an import or raise, or the calls outside of brackets
	elided bool   // a part is left out
}

// events lists the events of a module, and the imports of its functions.
type events struct{ list []event }

func eventsOf(f *File) []event {
	e := &events{}
	e.stmts(f.Body, "")
	return e.list
}

func (e *events) add(under string, s Stmt, what string) {
	e.list = append(e.list, event{s.Line(), under, what, false})
}

// calls adds an event for expressions that call something.
func (e *events) calls(under string, s Stmt, list ...Expr) {
	c := &callList{}
	for _, x := range list {
		c.expr(x, true)
	}
	if c.runs || c.elided {
		e.list = append(e.list, event{s.Line(), under, "calls " + strings.Join(c.names, " "), c.elided})
	}
}

func (e *events) stmts(list []Stmt, under string) {
	for _, s := range list {
		e.stmt(s, under)
	}
}

func (e *events) stmt(s Stmt, under string) {
	switch s := s.(type) {
	case *Import:
		e.add(under, s, "import "+dumpAliases(s.Names))
	case *ImportFrom:
		e.add(under, s, "import "+strings.Repeat(".", s.Level)+s.Module+" "+dumpAliases(s.Names))
	case *Raise:
		e.add(under, s, "raise")
	case *ExprStmt:
		e.calls(under, s, s.Value)
	case *Assign:
		e.calls(under, s, s.Value)
	case *If:
		e.calls(under, s, s.Cond)
	case *While:
		e.calls(under, s, s.Cond)
	case *For:
		e.calls(under, s, s.Iter)
	case *With:
		for _, i := range s.Items {
			e.calls(under, s, i.Context)
		}
	case *Def:
		f := &events{}
		f.stmts(s.Body, under+" def "+s.Name)
		for _, v := range f.list {
			if strings.HasPrefix(v.what, "import") {
				e.list = append(e.list, v)
			}
		}
		return
	}
	for i, body := range blocks(s) {
		e.stmts(body, under+headerOf(s, i))
	}
}

// headerOf returns the header of a block of a statement.
func headerOf(s Stmt, i int) string {
	text := fmt.Sprintf(" %T", s)[len(" *pysource."):]
	if t, ok := s.(*Try); ok {
		for _, h := range t.Handlers {
			text += " except " + dumpExpr(h.Type)
		}
	}
	if c, ok := s.(*Class); ok {
		text += " " + c.Name
	}
	return fmt.Sprintf(" %d %s[%d]", s.Line(), text, i)
}

// callList lists the calls of an expression outside of brackets.
type callList struct {
	names  []string
	runs   bool // a call anywhere may load something
	elided bool
}

func (c *callList) expr(e Expr, outer bool) {
	switch e := e.(type) {
	case *BadExpr:
		c.elided = true
	case *Call:
		name := dotted(e.Func)
		if outer {
			c.names = append(c.names, name)
		}
		method := name[strings.LastIndexByte(name, '.')+1:]
		c.runs = c.runs || !inertCalls.words[name] && !(inertMethods.words[method] && method != name) && method != "add_argument"
		c.expr(e.Func, outer)
		for _, a := range e.Args {
			c.expr(a.Value, false)
		}
	case *Attr:
		c.expr(e.Value, outer)
	case *BinOp:
		c.expr(e.Left, outer)
		c.expr(e.Right, outer)
	case *BoolOp:
		for _, v := range e.Values {
			c.expr(v, outer)
		}
	case *Unary:
		c.expr(e.Value, outer)
	case *IfExp:
		c.expr(e.Then, outer)
		c.expr(e.Cond, outer)
		c.expr(e.Other, outer)
	case *Sequence:
		for _, v := range e.Items {
			c.expr(v, outer && e.Kind == "(")
		}
	}
}

// dotted returns a dotted name, with * for what is none.
func dotted(e Expr) string {
	switch e := e.(type) {
	case *Name:
		return e.ID
	case *Attr:
		return dotted(e.Value) + "." + e.Name
	}
	return "*"
}

// missing returns the first event of a source that its reduced text does not have. One
// with a part left out may stand for equal ones after it.
func missing(want, got []event) string {
	at := map[string]bool{}
	loose := map[string]bool{} // with a part left out
	key := func(e event) string { return fmt.Sprint(e.line, e.under) }
	for _, e := range got {
		at[key(e)+e.what] = true
		if e.elided {
			loose[key(e)] = true
			loose[e.under+e.what] = true
		}
	}
	for _, e := range want {
		if !e.elided && !at[key(e)+e.what] && !loose[key(e)] && !loose[e.under+e.what] {
			return fmt.Sprint(e)
		}
	}
	return ""
}

// decisive returns the imports and raises among events.
func decisive(list []event) []event {
	return slices.DeleteFunc(slices.Clone(list), func(e event) bool { return strings.HasPrefix(e.what, "calls") })
}

// unbound returns a name that a module binds, and that its reduced text does not.
func unbound(f, reduced *File) string {
	want, got := map[string]bool{}, map[string]bool{}
	bound(f.Body, want)
	bound(reduced.Body, got)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !got[name] {
			return name
		}
	}
	return ""
}

// bound adds the names that statements of a module bind.
func bound(list []Stmt, names map[string]bool) {
	for _, s := range list {
		switch s := s.(type) {
		case *Assign:
			if s.Value != nil && s.Op == "" {
				boundBy(names, s.Targets...)
			}
		case *For:
			boundBy(names, s.Target)
		case *With:
			for _, i := range s.Items {
				boundBy(names, i.Target)
			}
		case *Def:
			names[s.Name] = true
			continue
		case *Class:
			names[s.Name] = true
			continue
		}
		for _, b := range blocks(s) {
			bound(b, names)
		}
	}
}

func boundBy(names map[string]bool, list ...Expr) {
	for _, e := range list {
		switch e := e.(type) {
		case *Name:
			names[e.ID] = true
		case *Starred:
			boundBy(names, e.Value)
		case *Sequence:
			boundBy(names, e.Items...)
		}
	}
}

// checkLaw checks that a reduced text has the imports and raises of its source, in their
// order, with their lines and blocks, and its calls; that it ends within its bound, and says
// so if the source was cut short; that it binds the same names of the module; and that a second reduction changes nothing.
func checkLaw(t *testing.T, name string, src []byte) {
	t.Helper()
	reduced := Reduce(src)
	f, g := Parse(src), Parse(reduced)
	if len(reduced) > maxReduced || (f.Partial != "") && g.Partial == "" && len(src) > MaxSource {
		t.Errorf("%s: it has %d bytes, and is partial: %q, %q", name, len(reduced), f.Partial, g.Partial)
	}
	if again := Reduce(reduced); !bytes.Equal(again, reduced) {
		t.Errorf("%s: the reduction of the reduced text is another", name)
	}
	if f.Partial != "" || g.Partial != "" {
		return
	}
	want, got := eventsOf(f), eventsOf(g)
	if w, g := decisive(want), decisive(got); !slices.Equal(w, g) {
		t.Errorf("%s: %s", name, cmp.Diff(w, g, cmp.AllowUnexported(event{})))
	}
	if n := unbound(f, g); n != "" {
		t.Errorf("%s: the reduced text does not bind %s", name, n)
	}
	if e := missing(want, got); e != "" {
		t.Errorf("%s: the reduced text lacks %s", name, e)
	}
}

// TestReduceReal: the law holds for the Python files of this machine's Debian packages.
func TestReduceReal(t *testing.T) {
	wrong := 0
	for _, name := range sources(t, debianPython...) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !t.Run("", func(t *testing.T) { checkLaw(t, name, b) }) {
			if wrong++; wrong > 10 {
				return
			}
		}
	}
}

// TestReduceTable states that a long table is kept if it has one name after the other, and not
// if it has numbers.
func TestReduceTable(t *testing.T) {
	source := func(item string) []byte {
		return []byte("where = {\n" + strings.Repeat(item, 600) + "}\nimport importlib\ndef __getattr__(name):\n    return importlib.import_module(where[name])\n")
	}
	for item, kept := range map[string]bool{
		"    \"module\": [\"one\", \"two\"],\n":  true,
		"    0x1f: [0.2081, 0.16621, 0.5292],\n": false,
	} {
		if got := bytes.Contains(Reduce(source(item)), []byte("where={")); got != kept {
			t.Errorf("a table of %q is kept: %t", item, got)
		}
	}
}
