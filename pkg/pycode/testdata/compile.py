# Compiles the .py files below the directories of argv[2:] into argv[1], each as N.pyc, and prints their names.
import os
import py_compile
import sys

out, n = sys.argv[1], 0
for root in sys.argv[2:]:
    for d, dirs, files in os.walk(root):
        dirs[:] = sorted(x for x in dirs if x not in ("test", "tests", "lib2to3", "site-packages", "dist-packages"))
        for f in sorted(files):
            if not f.endswith(".py") or n >= 1500:
                continue
            try:
                py_compile.compile(os.path.join(d, f), os.path.join(out, "%d.pyc" % n), doraise=True)
            except Exception:
                continue
            print(os.path.join(d, f))
            n += 1
