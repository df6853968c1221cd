# Compiles each file whose name is a line of standard input, and prints its name and the error.
# It runs with Python 2.7 and 3.
import sys, warnings

warnings.simplefilter("ignore")
for name in sys.stdin.read().split("\n"):
    with open(name, "rb") as f:
        source = f.read()
    try:
        compile(source, "x.py", "exec", 0, True)
        text = "ok"
    except SyntaxError as e:
        text = "%s: %s" % (type(e).__name__, e)
    except Exception as e:
        text = "error"
    print(name + "\t" + text.replace("\n", " "))
