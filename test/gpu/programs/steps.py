"""What the programs of this directory have in common: each step is told before it is done and after, so that one that ends
the process is known, too. At the end the program tells which files it has mapped."""
import json
import os

_out = os.fdopen(os.dup(1), "w")


def tell(**what):
    print("@" + json.dumps(what), file=_out, flush=True)


def step(name, action):
    tell(begin=name)
    try:
        action()
    except BaseException as e:  # also SystemExit: what ends a program is a failure here
        error = f"{type(e).__name__}: {e}"
        if len(error) > 700:
            error = error[:350] + " … " + error[-350:]
        tell(failed=name, error=error)
        return False
    tell(worked=name)
    return True


def mapped():
    files = set()
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split(None, 5)
            if len(fields) == 6 and ".so" in fields[5]:
                files.add(fields[5].strip().removesuffix(" (deleted)"))
    tell(mapped=sorted(files))
