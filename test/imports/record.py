"""Imports each top-level module of this Python in a process of its own, and writes down
what happened: a JSON line a module, sorted by name.

    python3 -I record.py [-j N] [-t SECONDS] [-e NAME=VALUE] [MODULE...]

It is run as root of a root file system that has /proc, without a network. A line has the
module, the outcome ("ok", "error", "exit", "signal", "timeout" or "excluded", with why),
the exception's type and text and its innermost frames, the ELF files that the process has
mapped afterwards, in the order in which the loader mapped them, and the modules that are
in sys.modules.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile

try:
    from concurrent.futures import ThreadPoolExecutor
except Exception:  # a fault has broken it: one at a time
    ThreadPoolExecutor = None

# Modules that open a browser or a window, or print for people.
EXCLUDED = {
    "antigravity": "opens a browser",
    "idlelib": "is a program with windows",
    "this": "prints a poem",
    "turtledemo": "is a program with windows",
}

LIST = """
import sys, pkgutil
names = set()
for d in sys.path:
    if d:
        names.update(m.name for m in pkgutil.iter_modules([d]))
print("\\n".join(sorted(names)))
"""

# What the process does: it uses only modules that each Python has at its start, so that
# neither sys.modules nor the mapped files change. It ends without running exit handlers.
IMPORT = """
import sys, posix
def _record(e):
    frames, t = [], e.__traceback__ if e else None
    while t:
        frames.append((t.tb_frame.f_code.co_filename, t.tb_lineno))
        t = t.tb_next
    fd, maps = posix.open("/proc/self/maps", posix.O_RDONLY), b""
    while b := posix.read(fd, 65536):
        maps += b
    try:
        text = str(e)
    except Exception:
        text = "str() failed"
    r = {"type": type(e).__qualname__, "text": text, "frames": frames[1:][-8:], "maps": maps,
         "mro": [c.__qualname__ for c in type(e).__mro__], "modules": [str(m) for m in sys.modules],
         "origins": {str(n): o for n, m in list(sys.modules.items())
                     if isinstance(o := getattr(getattr(m, "__spec__", None), "origin", None), str)}}
    b = repr(r).encode("utf-8", "backslashreplace")
    fd = posix.open(posix.environ[b"RECORD"], posix.O_WRONLY)
    while b:
        b = b[posix.write(fd, b):]
    posix._exit(0)
try:
    import NAME
except BaseException as e:
    _record(e)
_record(None)
"""


def environment(args, **more):
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": path, "HOME": "/root", **dict(e.split("=", 1) for e in args.e), **more}


def bases(log):
    """Returns the addresses at which the loader mapped files, in its order, from LD_DEBUG=files."""
    order = []
    with open(log, errors="replace") as f:
        for line in f:
            if " base: " in line:
                base = int(line.split(" base: ")[1].split()[0], 16)
                if base in order:  # mapped again where a file was closed
                    order.remove(base)
                order.append(base)
    return order


def mapped(maps, log):
    """Returns the real paths of the mapped ELF files, in the loader's order."""
    start = {}
    for line in maps.decode(errors="replace").splitlines():
        parts = line.split(None, 5)
        if len(parts) == 6 and parts[5].startswith("/"):
            start.setdefault(parts[5], int(parts[0].split("-")[0], 16))
    elf = {}
    for path, at in start.items():
        try:
            with open(path, "rb") as f:
                if f.read(4) == b"\x7fELF":
                    elf[path] = at
        except OSError:
            pass
    place = {base: i for i, base in enumerate(bases(log))} if os.path.exists(log) else {}
    # The program itself and ld.so, which the kernel maps, come first.
    return sorted(elf, key=lambda p: (place.get(elf[p], -1), p))


def record(name, args):
    if name.split(".")[0] in EXCLUDED:
        return {"module": name, "outcome": "excluded", "why": EXCLUDED[name.split(".")[0]]}
    if not all(part.isidentifier() for part in name.split(".")):
        return {"module": name, "outcome": "excluded", "why": "is no name that a statement can import"}
    with tempfile.TemporaryDirectory() as d:
        out, log = os.path.join(d, "out"), os.path.join(d, "ld")
        open(out, "w").close()
        p = subprocess.Popen(
            [sys.executable, "-c", IMPORT.replace("NAME", name)], cwd="/", stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
            env=environment(args, RECORD=out, LD_DEBUG="files", LD_DEBUG_OUTPUT=log))
        try:
            _, err = p.communicate(timeout=args.t)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, 9)
            p.communicate()
            return {"module": name, "outcome": "timeout"}
        try:
            with open(out, encoding="utf-8") as f:
                r = ast.literal_eval(f.read())
        except (SyntaxError, ValueError):
            return died(name, p.returncode, err)
        return result(name, r, f"{log}.{p.pid}")


def died(name, code, err):
    """Returns the line of a process that ended before it could write one."""
    last = err.decode(errors="replace").strip().splitlines()[-1:]
    return {"module": name, "outcome": "signal" if code < 0 else "exit", "code": code, "text": last[0] if last else ""}


def result(name, r, log):
    line = {"module": name, "outcome": "ok"}
    if r["type"] != "NoneType":
        line["outcome"] = "exit" if "SystemExit" in r["mro"] else "error"
        line.update(type=r["type"], text=r["text"], frames=r["frames"])
    line.update(mapped=mapped(r["maps"], log), modules=r["modules"], origins=r["origins"])
    return line


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-j", type=int, default=2, help="how many at a time")
    parser.add_argument("-t", type=float, default=300, help="seconds for a module")
    parser.add_argument("-e", action="append", default=[], metavar="NAME=VALUE", help="a variable of the processes")
    parser.add_argument("module", nargs="*")
    args = parser.parse_args()
    names = args.module or subprocess.run(
        [sys.executable, "-c", LIST], cwd="/", env=environment(args), check=True, capture_output=True, text=True).stdout.split()
    names = ["sys", *names]  # what a process has before its import
    if ThreadPoolExecutor is None:
        write(record(n, args) for n in names)
        return
    with ThreadPoolExecutor(args.j) as pool:
        write(pool.map(lambda n: record(n, args), names))


def write(lines):
    for line in lines:
        print(json.dumps(line, sort_keys=True), flush=True)


if __name__ == "__main__":
    main()
