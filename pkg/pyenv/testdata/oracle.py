# Prints what this interpreter has found, as JSON: its paths, and the specifications of
# the modules on its path, of some in each package, and of those named in the arguments.
import importlib.machinery
import importlib.util
import json
import pkgutil
import sys
import types

CHILDREN = 12  # of one package


def describe(name, spec):
    if spec is None:
        return {"kind": ""}
    loader = spec.loader
    kind = getattr(loader, "__name__", type(loader).__name__)
    kind = {
        "BuiltinImporter": "builtin", "FrozenImporter": "frozen", "ExtensionFileLoader": "extension",
        "SourceFileLoader": "source", "SourcelessFileLoader": "bytecode", "NoneType": "namespace",
        "_NamespaceLoader": "namespace", "NamespaceLoader": "namespace", "zipimporter": "source",
        "DistutilsLoader": "source",
    }[kind]
    found = {"kind": kind}
    if kind in ("extension", "source", "bytecode"):
        found["file"] = spec.origin if spec.origin != "distutils" else spec.loader.get_filename(name)
    if type(loader).__name__ == "DistutilsLoader":
        found["search"] = list(loader.create_module(spec).__path__)
    elif spec.submodule_search_locations is not None:
        found["search"] = list(spec.submodule_search_locations)
    return found


def find(name, path):
    for finder in sys.meta_path:
        spec = finder.find_spec(name, path)
        if spec is not None:
            return spec
    return None


def top(name):
    module = sys.modules.get(name)
    if module is None or name in ("__main__",):
        return find(name, None)
    spec = getattr(module, "__spec__", None)
    unrun = not hasattr(module, "__builtins__") and type(getattr(spec, "loader", None)).__name__ == "SourceFileLoader"
    if spec is None or spec.loader is None or unrun:  # a line of a .pth file made it
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = list(module.__path__)
    return spec


def main():
    out = {
        "version": list(sys.version_info[:3]), "path": sys.path[:], "prefix": sys.prefix, "exec_prefix": sys.exec_prefix,
        "base_prefix": sys.base_prefix, "base_exec_prefix": sys.base_exec_prefix, "platlibdir": getattr(sys, "platlibdir", "lib"),
        "builtins": sorted(sys.builtin_module_names), "suffixes": importlib.machinery.EXTENSION_SUFFIXES,
        "executable": sys.executable, "modules": {}, "specs": {},
    }
    if sys.version_info >= (3, 12):  # before, entry_points and packages_distributions differ
        import importlib.metadata as metadata
        points = metadata.entry_points()
        out["points"] = sorted([p.group, p.name, p.module, p.attr or "", p.dist.name] for p in points)
        out["tops"] = {k: sorted(set(v)) for k, v in metadata.packages_distributions().items() if k.isidentifier()}
    for entry in sys.path:
        out["modules"][entry] = sorted(set(m.name for m in pkgutil.iter_modules([entry])))
    names = set(m.name for m in pkgutil.iter_modules()) | set(sys.argv[1:]) | set(sys.builtin_module_names)
    for name in sorted(names):
        if "." in name or name == "__main__":
            continue
        spec = top(name)
        out["specs"][name] = describe(name, spec)
        search = out["specs"][name].get("search")
        if search is None or (spec.origin == "frozen"):
            continue
        standin = None
        if name not in sys.modules:  # namespaces below it look at its path
            sys.modules[name] = standin = types.ModuleType(name)
            standin.__path__ = search
        children = sorted(m.name for m in pkgutil.iter_modules(search))[:CHILDREN]
        for child in children + [n.partition(".")[2] for n in sys.argv[1:] if n.startswith(name + ".")]:
            out["specs"][name + "." + child] = describe(name, find(name + "." + child, search))
        if sys.modules.get(name) is standin:
            del sys.modules[name]
    print(json.dumps(out))


main()
